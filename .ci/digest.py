"""Print digests of what the installed sidecar says of a river data set: the same on every Python.

That of the linear model is the same on x86-64 and aarch64 too. Trees call the C library's ``erf``, whose last bit differs between the two.
"""

import json
import sys
from itertools import islice

from river.datasets import Phishing

from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

for model in ("linear", "mixture"):
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap_servers": "none:1"},
            "record": {"label": "class"},
            "model": {"name": model},
        }
    )
    state = PartitionState(settings, 0)
    for offset, (x, y) in enumerate(islice(Phishing(), 1_000)):
        state.step(InputRecord(offset, 0, None, json.dumps({**x, "class": int(y)}).encode()))
    sys.stdout.write(f"{model} {state.fold_digest.hex()}\n")
