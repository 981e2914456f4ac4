"""Both windows on their bins: what the tables, trees and games are made from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from explain_core.drift.arrays import Codes, Values
from explain_core.drift.binning import FeatureBins, make_bins
from explain_core.drift.conditional import LabelTable, Trees
from explain_core.drift.factors import Factor, make_factor
from explain_core.drift.predictions import Classes, classes_of
from explain_core.drift.tree import rank_by_score
from explain_core.drift.windows import Column, Window
from explain_core.factorisations import Groups
from explain_core.losses import Loss
from explain_core.players import Players


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
        constant = [bin_.feature for bin_ in self.bins if bin_.size == 1]
        if constant:
            found.append(f"features: {listed(constant)} constant, cannot be a cause")
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
