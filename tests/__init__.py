"""Tests. A worker does not import from the working directory: what the tests start finds the tests' own models by PYTHONPATH."""

import os
from pathlib import Path

_ROOT = str(Path(__file__).parents[1])
_before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if _ROOT not in _before:
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_ROOT, *_before]))
