"""``python -m benchmarks.later``: a worker of the next version of the sidecar, in which a part of each state has another shape."""

import sys

from explain_core.smoothing import SmootherState
from explain_sidecar.worker import main

SmootherState.VERSION = 2
SmootherState.MIGRATIONS = {1: lambda old: old}

if __name__ == "__main__":
    sys.exit(main())
