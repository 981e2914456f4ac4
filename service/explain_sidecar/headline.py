"""What may be said of importances in a sentence: only what their bands bear out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

LEVEL = 0.05
"""Probability that a feature of no importance is said to drive the model, over all features of an explanation."""

Z = NormalDist().inv_cdf(0.975)
"""Half a band of 95 % in standard errors."""

MARGIN = 1.5
"""Two values differ where their distance is beyond so many times the sum of both halves of their bands: many pairs are looked at."""

Points = Sequence[float | None]
"""A number at each of several points; None where it is unknown."""


class Moved(NamedTuple):
    """A feature, and the points between which it moved, by their places."""

    feature: int
    first: int
    last: int


class _Cell(NamedTuple):
    value: float | None
    std: float | None
    settled: bool


def drivers(cells: Mapping[str, Any]) -> list[str]:
    """The features that drive the model, the most important first: their band, as wide as the number of features asks, is above 0.

    ``cells`` has value, std, settled and the band (low, high) of each feature, as attributes or as keys.

    >>> cell = {"value": 0.03, "std": 0.01, "settled": True}
    >>> drivers({"a": cell}), drivers({name: cell for name in "abcdefghijklmnopqrst"}), drivers({"a": cell | {"settled": False}})
    (['a'], [], [])
    """
    known = _known(cells)
    width = NormalDist().inv_cdf(1.0 - LEVEL / 2.0 / max(len(known), 1))
    found = [
        name
        for name, (value, std, settled) in known.items()
        if settled and value is not None and std is not None and value > width * std
    ]
    return sorted(found, key=lambda name: -(known[name].value or 0.0))


def _known(cells: Mapping[str, Any]) -> dict[str, _Cell]:
    return {name: _cell(cell) for name, cell in cells.items()}


def _cell(cell: Any) -> _Cell:
    """Its error is that of the band, which knows of what the standard error does not: few informative records.

    The band counts as one of 95 %, whatever ``confidence`` and ``band`` of the explainer are: a wider one makes sentences more cautious,
    a narrower one leaves the standard error as it is.
    """
    value, std, settled, low, high = (
        cell.get(key) if isinstance(cell, Mapping) else getattr(cell, key, None)
        for key in ("value", "std", "settled", "low", "high")
    )
    if std is not None and low is not None and high is not None:
        std = max(std, (high - low) / 2.0 / Z)
    return _Cell(value, std, bool(settled))


def differing(cells: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Of differences of importance, the features that matter more, and those that matter less, by ``drivers``.

    >>> cell = {"value": -0.03, "std": 0.01, "settled": True}
    >>> differing({"a": cell, "b": cell | {"value": 0.001}})
    ([], ['a'])
    """
    less = {
        name: _Cell(None if value is None else -value, std, settled)
        for name, (value, std, settled) in _known(cells).items()
    }
    return drivers(cells), drivers(less)


def moved(courses: Sequence[Sequence[Points]]) -> Moved | None:
    """The feature that clearly moved between two points, by the largest distance relative to the bands; None where none did.

    ``courses`` has of each feature the values, and half of each one's band, which is None where it is not settled.

    >>> course = [0.01, 0.108, 0.042]
    >>> moved([[course, [0.01] * 3]]), moved([[course, [0.04] * 3]])
    (Moved(feature=0, first=0, last=1), None)
    """
    best, found = 0.0, None
    for sign in (1.0, -1.0):
        for feature, (values, halves) in enumerate(courses):
            span = _clearest(values, halves, sign)
            if span is None:
                continue
            first, last = ((values[point] or 0.0, halves[point] or 0.0) for point in span)
            ratio = abs(last[0] - first[0]) / max(first[1] + last[1], 1e-300)
            if ratio > best:
                best, found = ratio, Moved(feature, *span)
    return found


def _clearest(values: Points, halves: Points, sign: float) -> tuple[int, int] | None:
    """The two points between which the bands are farthest apart, the later one above (``sign`` 1) or below; None where all overlap."""
    lowest, lowest_at, clear, found = math.inf, 0, 0.0, None
    for point, (value, half) in enumerate(zip(values, halves, strict=True)):
        if value is None or half is None:
            continue
        if sign * value - MARGIN * half - lowest > clear:
            clear, found = sign * value - MARGIN * half - lowest, (lowest_at, point)
        if sign * value + MARGIN * half < lowest:
            lowest, lowest_at = sign * value + MARGIN * half, point
    return found


def detectable(halves: Points) -> float:
    """The change of a feature between its first and last settled point that would have been said; NaN where there are none."""
    settled = [half for half in halves if half is not None]
    return MARGIN * (settled[0] + settled[-1]) if len(settled) > 1 else math.nan
