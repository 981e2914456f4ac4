"""``python -m service.warm FILE``: compile what the workers of these settings need into numba's cache, beside what else starts.

It must run in the workers' environment: the machine code is for the processor that they are told to compute as.
"""

from __future__ import annotations

import sys
from pathlib import Path

from explain_core.evaluation.choice import warm
from service.models import load_model
from service.settings import load_settings

if __name__ == "__main__":
    warm(load_model(load_settings(Path(sys.argv[1])).model, seed=0))
