"""Bins of each feature on both windows together, the cells that distributions are tables over (DBShap, Sect. 5), and both windows on their bins: what the
tables, trees and games are made from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from explain_core.drift.arrays import Codes, Values
from explain_core.drift.conditional import LabelTable, Trees
from explain_core.drift.factors import Factor, make_factor
from explain_core.drift.predictions import Classes, classes_of
from explain_core.drift.tree import rank_by_score
from explain_core.drift.windows import Column, Window
from explain_core.factorisations import Groups
from explain_core.losses import Loss
from explain_core.players import Players

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

    def codes(self, column: Column) -> Codes:
        """The code of each value. A value that was not there when the bins were made goes to the nearest: to "other", or
        where there is none to the last code.
        """
        last = self.size - 1
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


def make_bins(feature: str, column: Column, max_bins: int = MAX_BINS) -> FeatureBins:
    """Bins from the values of both windows: quantiles of numbers (at most ``max_bins``), categories of all else.

    A number that would fill a bin is one, apart from those below it.

    Raises ``ValueError`` for a number that is not finite and for a value that is no category.

    >>> make_bins("a", Column.of([1, 2, 2, None])).representatives
    (1, 2, None)
    """
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


class Binned(NamedTuple):
    """Two windows; ``columns`` are the pooled values of the features that may be a cause, ``codes[w]`` the codes of the rows of
    window w × these.
    """

    windows: tuple[Window, Window]
    columns: dict[str, Column]
    classes: Classes
    bins: tuple[FeatureBins, ...]
    codes: tuple[Codes, Codes]

    @property
    def sizes(self) -> list[int]:
        """Codes of each feature."""
        return [bin_.size for bin_ in self.bins]

    def of_rows(self, *rows: Codes) -> Binned:
        """The same bins with these rows of the baseline and of the target alone."""
        if all(len(chosen) == len(window) for chosen, window in zip(rows, self.windows, strict=True)):
            return self
        first, second = (
            window.take(chosen.tolist()) for window, chosen in zip(self.windows, rows, strict=True)
        )
        y, codes = ((of[0][rows[0]], of[1][rows[1]]) for of in (self.classes.codes, self.codes))
        return Binned(
            (first, second),
            _pooled((first, second), self.columns),
            self.classes._replace(codes=y),
            self.bins,
            codes,
        )

    def with_bins(self, max_bins: int) -> Binned:
        """The same rows with other bins, at most so many of a number."""
        bins, codes = _binned(self.windows, self.columns, max_bins)
        return self._replace(bins=bins, codes=codes)

    def ranks(self) -> list[Codes]:
        """The order of each feature's codes for a tree.

        Numbers keep their order, with missing last. Categories are in the order of the pooled mean truth; in a classification, of the share
        of the most frequent class.
        """
        y = np.concatenate(self.classes.codes)
        truths = self.classes.truths
        most = np.bincount(y).argmax()
        score: Values = (
            np.array(truths, dtype=float)[y] if self.classes.numeric else (y == most).astype(float)
        )
        codes = np.concatenate(self.codes)
        return [
            np.arange(bin_.size) if bin_.edges is not None else rank_by_score(codes[:, j], score, bin_.size)
            for j, bin_ in enumerate(self.bins)
        ]

    def table(self) -> LabelTable:
        return LabelTable(self.codes, self.classes.codes, self.sizes, len(self.classes.truths))

    def trees(self) -> Trees:
        apart = [
            np.array([bin_.edges is None or value is None for value in bin_.representatives])
            for bin_ in self.bins
        ]
        return Trees(self.codes, self.classes.codes, self.ranks(), len(self.classes.truths), apart)

    def factors(self, groups: Groups) -> list[Factor]:
        """The factors of P(x): the groups, and every feature that is in none."""
        at = {bin_.feature: j for j, bin_ in enumerate(self.bins)}
        return [
            make_factor(str(player.name), tuple(at[name] for name in player.features), self.codes, self.sizes)
            for player in Players(list(at), groups)
        ]

    def warnings(self) -> list[str]:
        """Properties of the data that bear on the result."""
        found = []
        constant = [bin_.feature for bin_ in self.bins if bin_.size == 1 and bin_.exact]
        if constant:
            found.append(f"features: {listed(constant)} constant, cannot be a cause")
        rare = [bin_.feature for bin_ in self.bins if bin_.categories == () and not bin_.exact]
        if rare:
            found.append(
                f"features: {listed(rare)} made of values that less than {RARE:.0%} of the rows have each; "
                "they are not told apart, so what they do counts as concept"
            )
        rows = min(map(len, self.windows))
        if len(self.bins) > rows:
            found.append(f"features: {len(self.bins)} of them and a window of {rows} rows; expect noise")
        if self.classes.numeric:
            return found
        if len(self.classes.truths) == 1:
            found.append(f"label: every row has {self.classes.truths[0]!r}")
        first, second = (set(window.y) for window in self.windows)
        for window, missing in zip(self.windows, (second, first), strict=True):
            own = [truth for truth in self.classes.truths if truth in set(window.y) - missing]
            if own:
                found.append(f"label: only {window.name} has {', '.join(map(repr, own[:10]))}")
        return found


def make_binned(
    windows: tuple[Window, Window], loss: Loss, max_bins: int, ignore: Collection[str] = ()
) -> Binned:
    """Bins on the quantiles and categories of both windows together, and the codes of their rows; without the features to ignore."""
    columns = _pooled(windows, [name for name in windows[0].columns if name not in ignore])
    bins, codes = _binned(windows, columns, max_bins)
    return Binned(windows, columns, classes_of(windows, loss), bins, codes)


def _binned(
    windows: tuple[Window, Window], columns: dict[str, Column], max_bins: int
) -> tuple[tuple[FeatureBins, ...], tuple[Codes, Codes]]:
    """Bins of each column, and the codes of the rows of both windows."""
    n = len(windows[0])
    bins = tuple(make_bins(name, column, max_bins) for name, column in columns.items())
    codes = np.empty((n + len(windows[1]), len(bins)), dtype=np.int64)
    for j, (bin_, column) in enumerate(zip(bins, columns.values(), strict=True)):
        codes[:, j] = bin_.codes(column)
    return bins, (codes[:n], codes[n:])


def held(windows: tuple[Window, Window], names: Iterable[str]) -> dict[str, Any]:
    """A value of each of these features that the windows have: the median of its numbers, its most frequent category, else None."""
    found: dict[str, Any] = {}
    for name, column in _pooled(windows, [name for name in windows[0].columns if name in names]).items():
        found[name] = None
        with suppress(ValueError):
            found[name] = make_bins(name, column, 1).representatives[0]
    return found


def _pooled(windows: tuple[Window, Window], names: Iterable[str]) -> dict[str, Column]:
    first, second = (window.columns for window in windows)
    return {name: first[name].followed_by(second[name]) for name in names}


def listed(names: Sequence[str]) -> str:
    """The names in a sentence, with the verb; at most ten of them.

    >>> listed(["a"]), listed(["a", "b"])
    ('a is', 'a, b are')
    """
    shown = ", ".join(map(str, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"
