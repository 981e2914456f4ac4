"""A worker for tests: the service's own, with small chunks.

``TEST_SABOTAGE`` names a protection to switch off in it; with ``TEST_LATER`` it is of the next version, in which a part of each state has another shape.
"""

import faulthandler
import os
import signal
import sys
from contextlib import nullcontext

import explain_sidecar.snapshots.snapshot
from explain_sidecar.worker import main
from tests.changes import later
from tests.crash.sabotage import SABOTAGE

SABOTAGE_VARIABLE, LATER_VARIABLE = "TEST_SABOTAGE", "TEST_LATER"

if __name__ == "__main__":
    explain_sidecar.snapshots.snapshot.CHUNK_BYTES = 2_000  # so that every snapshot has several
    faulthandler.register(signal.SIGUSR1)  # says where it hangs
    if SABOTAGE_VARIABLE in os.environ:
        SABOTAGE[os.environ[SABOTAGE_VARIABLE]]()
    with later() if LATER_VARIABLE in os.environ else nullcontext():
        code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
