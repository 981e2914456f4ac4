"""The environment in which every worker and every command computes. It imports nothing: numpy reads it once, when it is imported itself."""

from __future__ import annotations

import os

PINNED = {
    # Sets and dicts of strings in user code iterate in the same order in every process.
    "PYTHONHASHSEED": "0",
    # numpy's exp and log differ in the last bit between instruction sets, and the pods of a deployment may run on several.
    "NPY_DISABLE_CPU_FEATURES": "X86_V4",
    # One core for each interpreter: parallel reductions would add in another order.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""Environment of every worker, so that a replay gives the same bytes on the same class of CPU."""


def worker_environment() -> dict[str, str]:
    return {**os.environ, **PINNED}
