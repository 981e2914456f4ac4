"""Sums that are the same under every Python."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce


def total(values: Iterable[float]) -> float:
    """The sum from left to right, as compiled code has it: since Python 3.12 ``sum`` carries the rounding error of floats along.

    >>> total([0.1] * 10), total([])
    (0.9999999999999999, 0.0)
    """
    return reduce(operator.add, values, 0.0)
