"""P(y|x) of both windows on the bins of x: a frequency table with back-off, or one tree per window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explain_core.drift import tree
from explain_core.drift.arrays import Codes, Flags, Values, totals
from explain_core.drift.tree import CodeTree

Pair = tuple[Values, Values]
MAX_BACK_OFF = 0.05
"""The table is used where no more of the product mass than this lies in cells that a window lacks."""


class Fitted(NamedTuple):
    """Two conditionals: ``probabilities[w]`` is cells × classes. ``trees`` where a cell is the leaf of a tree."""

    probabilities: Pair
    trees: tuple[CodeTree, CodeTree] | None

    def at(self, w: int, prepared: Codes) -> Values:
        """n × classes: P(y|x) of window w at codes that ``prepare`` has seen."""
        cells = self.trees[w].leaves(prepared) if self.trees else prepared
        return self.probabilities[w][cells]


class LabelTable:
    """Frequencies of y in each cell. A cell that a window lacks has the other's; where both lack it, the pooled P(y)."""

    def __init__(
        self, codes: tuple[Codes, Codes], y: tuple[Codes, Codes], sizes: Sequence[int], n_classes: int
    ) -> None:
        self.index = CellIndex(np.concatenate(codes), sizes)
        self._rows = tuple(self.index.find(part) for part in codes)
        self._y = y
        self._n_classes = n_classes

    def prepare(self, codes: Codes) -> Codes:
        """What ``Fitted.at`` needs of n × k codes."""
        return self.index.find(codes)

    def fit(self, weights: Pair) -> Fitted:
        """The conditionals of the rows with these weights."""
        # The last cell stands for all cells without rows.
        counts = [
            totals(rows * self._n_classes + y, weight, (self.index.size + 1) * self._n_classes).reshape(
                -1, self._n_classes
            )
            for rows, y, weight in zip(self._rows, self._y, weights, strict=True)
        ]
        whole = (counts[0] + counts[1]).sum(axis=0)
        pooled = whole / whole.sum()

        def shares(own: Values, other: Values) -> Values:
            either = np.where(own.sum(axis=1, keepdims=True) > 0.0, own, other)
            total = either.sum(axis=1, keepdims=True)
            result: Values = np.where(total > 0.0, either / np.maximum(total, 1e-300), pooled)
            return result

        return Fitted((shares(counts[0], counts[1]), shares(counts[1], counts[0])), None)

    def lacking(self) -> tuple[Flags, Flags]:
        """The cells of ``index`` that the baseline lacks, and those that the target lacks."""
        first, second = (np.bincount(rows, minlength=self.index.size) == 0 for rows in self._rows)
        return first, second


class Trees:
    """One tree per window on the bin codes, with constant leaves; ``apart`` flags the codes of each feature that have no
    place in its order: missing, and every category.

    They are grown anew for every resample: with fixed splits the standard error of the concept comes out at half of what
    it is (measured on shuffled elec2).
    """

    def __init__(
        self,
        codes: tuple[Codes, Codes],
        y: tuple[Codes, Codes],
        ranks: Sequence[Codes],
        n_classes: int,
        apart: Sequence[Flags] | None = None,
    ) -> None:
        self._codes, self._y, self._ranks, self._n_classes = codes, y, ranks, n_classes
        self._apart = apart

    def prepare(self, codes: Codes) -> Codes:
        return codes

    def fit(self, weights: Pair) -> Fitted:
        (before, first), (after, second) = (
            tree.fit(codes, y, self._n_classes, self._ranks, weight, self._apart)
            for codes, y, weight in zip(self._codes, self._y, weights, strict=True)
        )
        return Fitted((normalised(first), normalised(second)), (before, after))


LabelModel = LabelTable | Trees
"""How P(y|x) is estimated from weighted rows of the two windows."""


def normalised(counts: Values) -> Values:
    """Cells × classes: each row divided by its sum."""
    result: Values = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    return result


class CellIndex:
    """Numbers the distinct rows of codes from 0; ``size`` is the number of any other row."""

    def __init__(self, codes: Codes, sizes: Sequence[int]) -> None:
        self._steps: list[tuple[int, int, Codes | None]] = []
        key = np.zeros(len(codes), dtype=np.int64)
        room = 1
        for j, size in enumerate(sizes):
            if room * size >= 2**62:
                known, key = np.unique(key, return_inverse=True)
                self._steps.append((-1, 0, known))
                room = len(known) + 1
            self._steps.append((j, size, None))
            key = key * size + codes[:, j]
            room *= size
        self._known, first = np.unique(key, return_index=True)
        self.codes = codes[first]
        self.size = len(self._known)

    def find(self, codes: Codes) -> Codes:
        """The number of each row."""
        key = np.zeros(len(codes), dtype=np.int64)
        lost = np.zeros(len(codes), dtype=bool)
        for j, size, known in self._steps:
            if known is None:
                key = key * size + codes[:, j]
            else:
                key, missed = _positions(known, key)
                lost |= missed
        found, missed = _positions(self._known, key)
        return np.where(lost | missed, self.size, found)


def _positions(known: Codes, key: Codes) -> tuple[Codes, Flags]:
    at = np.minimum(np.searchsorted(known, key), len(known) - 1)
    return at, known[at] != key
