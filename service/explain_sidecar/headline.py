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

MARGIN = 1.8
"""Two values differ where their distance is beyond so many times the sum of both halves of their bands: many pairs are looked at."""

Points = Sequence[float | None]
"""A number at each of several points; None where it is unknown."""


def made_of(weights: Mapping[str, float]) -> str:
    """The members that have nine tenths of a mixture's weight, the largest first; empty without weights.

    >>> made_of({"none": 0.01, "linear": 0.06, "forest": 0.93}), made_of({"none": 0.2, "linear": 0.5, "forest": 0.3})
    ('the forest .93', 'linear .50, the forest .30, no model .20')
    """
    said, whole = [], 0.0
    for name, weight in sorted(weights.items(), key=lambda item: -item[1]):
        if whole < 0.9:
            figure = f"{weight:.2f}".lstrip("0") if weight < 0.995 else "1"
            said.append(
                f"{ {'none': 'no model', 'forest': 'the forest', 'tree': 'the tree'}.get(name, name) } {figure}"
            )
            whole += weight
    return ", ".join(said)


class Moved(NamedTuple):
    """A feature, and the points between which it moved, by their places."""

    feature: int
    first: int
    last: int


def differing(cells: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Of differences of importance, the features that matter more, and those that matter less, the largest difference first.

    A difference is said where a band that is as wide as the number of features asks does not hold 0.

    >>> cell = {"value": -0.03, "low": -0.05, "high": -0.01}
    >>> differing({"a": cell, "b": cell | {"value": 0.001, "low": -0.01}}), differing({name: cell for name in "abcdefghijklmnopqrst"})
    (([], ['a']), ([], []))
    """
    factor = NormalDist().inv_cdf(1.0 - LEVEL / 2.0 / max(len(cells), 1)) / Z
    more, less = {}, {}
    for name, cell in cells.items():
        value, low, high = cell["value"], cell["low"], cell["high"]
        if value is None or low is None or high is None:
            continue
        if value > factor * (value - low):
            more[name] = value
        elif -value > factor * (high - value):
            less[name] = -value
    return sorted(more, key=lambda name: -more[name]), sorted(less, key=lambda name: -less[name])


def moved(courses: Sequence[Sequence[Points]]) -> Moved | None:
    """The feature that clearly moved between two points, by the largest distance relative to the bands; None where none did.

    ``courses`` has of each feature the values, and half of each one's band, which is None where there is none.

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
    """The change of a feature between its first and last point with a band that would have been said; NaN where there are none."""
    known = [half for half in halves if half is not None]
    return MARGIN * (known[0] + known[-1]) if len(known) > 1 else math.nan
