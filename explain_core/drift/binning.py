"""Bins of a feature, on both windows together: the cells that distributions are tables over (DBShap, Sect. 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import NoneType
from typing import Any

import numpy as np

from explain_core.drift.arrays import Codes, Values
from explain_core.drift.windows import Column

MAX_BINS = 10
RARE = 0.01
"""A category with a smaller share of the rows of both windows is pooled with the other rare ones."""


@dataclass(frozen=True)
class FeatureBins:
    """The bins of one feature; a code is a position in ``representatives``.

    A number x has the code i with ``edges[i − 1] < x ≤ edges[i]``. A category has its position in ``categories``, the
    rare ones together the next ("other"). The last code is that of a missing value if any is missing.
    A representative is a value that occurs: the median of the bin's numbers, its most frequent category; None for
    missing. ``exact``: a code stands for one value.
    """

    feature: str
    edges: tuple[float, ...] | None
    categories: tuple[Any, ...] | None
    representatives: tuple[Any, ...]
    exact: bool

    @property
    def size(self) -> int:
        return len(self.representatives)

    def to_dict(self) -> dict[str, list[Any]]:
        """The edges or the categories, as JSON types."""
        if self.edges is not None:
            return {"edges": list(self.edges)}
        return {
            "categories": [
                category if isinstance(category, str | int) else str(category)
                for category in self.categories or ()
            ]
        }

    def codes(self, values: Sequence[Any] | Column) -> Codes:
        """The code of each value. A value that was not there when the bins were made goes to the nearest: to "other", or
        where there is none to the last code.
        """
        last = self.size - 1
        column = values if isinstance(values, Column) else Column.of(values)
        values = column.values
        if self.edges is not None:
            numbers = np.array(values, dtype=float) if column.numbers is None else column.numbers
            found = np.searchsorted(self.edges, numbers, side="left")
            return np.where(np.isnan(numbers), last, found) if NoneType in column.kinds else found
        categories = self.categories or ()
        known = {value: code for code, value in enumerate(categories)}
        other = min(len(categories), last)
        codes = [last if value is None else known.get(value, other) for value in values]
        return np.array(codes, dtype=np.int64)


def make_bins(feature: str, values: Sequence[Any] | Column, max_bins: int = MAX_BINS) -> FeatureBins:
    """Bins from the values of both windows: quantiles of numbers (at most ``max_bins``), categories of all else.

    A number that would fill a bin is one, apart from those below it.

    Raises ``ValueError`` for a number that is not finite and for a value that is no category.

    >>> make_bins("a", [1, 2, 2, None]).representatives
    (1, 2, None)
    """
    column = values if isinstance(values, Column) else Column.of(values)
    values, kinds = column.values, column.kinds - {NoneType}
    missing = (None,) if NoneType in column.kinds else ()
    if kinds and all(issubclass(kind, int | float) and kind is not bool for kind in kinds):
        numbers = _floats(feature, column)
        starts = numbers[np.concatenate([[True], numbers[1:] != numbers[:-1]])]
        if len(starts) > max_bins:
            at = -(-np.arange(1, max_bins) * len(numbers) // max_bins) - 1
            chosen = numbers[at]
            repeated = np.searchsorted(numbers, chosen[1:][chosen[1:] == chosen[:-1]], side="left")
            edges = np.unique(np.concatenate([chosen, numbers[repeated[repeated > 0] - 1]]))
            edges = edges[edges < numbers[-1]]
        else:
            edges = starts[:-1]
        bounds = [0, *np.searchsorted(numbers, edges, side="right").tolist(), len(numbers)]
        middles = [numbers[(low + high - 1) // 2].item() for low, high in pairwise(bounds)]
        if all(kind is int for kind in kinds):
            middles = [int(middle) for middle in middles]
        return FeatureBins(
            feature, tuple(edges.tolist()), None, (*middles, *missing), len(starts) == len(middles)
        )
    try:
        # Equal counts in order of appearance.
        counts = Counter(value for value in values if value is not None).most_common()
    except TypeError:
        raise ValueError(
            f"{feature}: a value is a number, a string or missing, and there is one of type "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))}; flatten it or leave the feature out"
        ) from None
    kept = [value for value, count in counts if count >= RARE * len(values)]
    rare = [value for value, _ in counts[len(kept) :]]
    return FeatureBins(feature, None, tuple(kept), (*kept, *rare[:1], *missing), len(rare) < 2)


def _floats(feature: str, column: Column) -> Values:
    """The numbers that are there, sorted."""
    found = np.array([np.inf]) if column.numbers is None else np.sort(column.numbers)
    if NoneType in column.kinds:
        found = found[: len(found) - column.values.count(None)]
    if not np.isfinite(found).all():
        raise ValueError(
            f"{feature}: a value is infinite or too large for a float; leave it out or correct it"
        )
    return found
