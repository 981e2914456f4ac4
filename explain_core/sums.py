"""Sums with the bits of Python's own."""

from __future__ import annotations

import math
import sys
from typing import Any

from explain_core.compiling import inlined

COMPENSATED = sys.version_info >= (3, 12)
"""Since Python 3.12 ``sum`` of floats carries the rounding error along."""


@inlined
def total(values: Any, n: int) -> float:
    """``sum`` of the first n values."""
    result = 0.0
    if not COMPENSATED:
        for i in range(n):
            result += values[i]
        return result
    lost = 0.0
    for i in range(n):
        value = values[i]
        t = result + value
        lost += (result - t) + value if abs(result) >= abs(value) else (value - t) + result
        result = t
    return result + lost if lost != 0.0 and math.isfinite(lost) else result
