"""What may be said of importances in a sentence: only what their bands bear out."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05
"""Probability that a feature of no importance is said to drive the model, over all features of an explanation."""

MARGIN = 1.5
"""Two values differ where their distance is beyond so many times the sum of both halves of their bands: many pairs are looked at."""


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

    ``cells`` has value, std and settled of each feature, as attributes or as keys.

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
    return {
        name: _Cell(
            *(
                cell[key] if isinstance(cell, Mapping) else getattr(cell, key)
                for key in ("value", "std", "settled")
            )
        )
        for name, cell in cells.items()
    }


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


def moved(values: NDArray[Any], halves: NDArray[Any]) -> Moved | None:
    """The feature that clearly moved between two points, by the largest distance relative to the bands; None where none did.

    Both are points × features; half a band is NaN where it is not settled.

    >>> values = np.array([[0.01], [0.108], [0.042]])
    >>> moved(values, np.full((3, 1), 0.01)), moved(values, np.full((3, 1), 0.04))
    (Moved(feature=0, first=0, last=1), None)
    """
    best, found = 0.0, None
    for sign in (1.0, -1.0):
        lower = np.where(np.isnan(halves), -np.inf, sign * values - MARGIN * halves)
        upper = np.where(np.isnan(halves), np.inf, sign * values + MARGIN * halves)
        lowest = np.minimum.accumulate(upper, axis=0)
        clear = lower[1:] - lowest[:-1]
        if not clear.size or not clear.max() > 0.0:
            continue
        for feature in np.flatnonzero(clear.max(axis=0) > 0.0).tolist():
            last = int(clear[:, feature].argmax()) + 1
            first = int(upper[:last, feature].argmin())
            reach = max(float(halves[first, feature] + halves[last, feature]), 1e-300)
            ratio = abs(float(values[last, feature] - values[first, feature])) / reach
            if ratio > best:
                best, found = ratio, Moved(feature, first, last)
    return found


def detectable(halves: NDArray[Any]) -> float:
    """The change of a feature, points, between its first and last settled point that would have been said; NaN where there are none."""
    settled = halves[~np.isnan(halves)]
    return float(MARGIN * (settled[0] + settled[-1])) if len(settled) > 1 else float("nan")
