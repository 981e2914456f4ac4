"""The factors of P(x) as a product: features, or groups of them, that are independent of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explain_core.drift.arrays import Codes, totals
from explain_core.drift.conditional import CellIndex, Pair


@dataclass(frozen=True)
class Factor:
    """A feature or a group of them: ``cells`` is its combinations of codes × columns, ``rows[w]`` the cell of each row."""

    name: str
    columns: tuple[int, ...]
    index: CellIndex
    cells: Codes
    rows: tuple[Codes, Codes]

    def marginals(self, weights: Pair) -> Pair:
        """P(cell) in the baseline and in the target."""
        first, second = (
            totals(rows, weight, len(self.cells)) / weight.sum()
            for rows, weight in zip(self.rows, weights, strict=True)
        )
        return first, second

    def shares(self) -> Pair:
        """The marginals of the unweighted rows."""
        first, second = (np.ones(len(rows)) for rows in self.rows)
        return self.marginals((first, second))

    def pinned(self) -> Factor:
        """The factor held at its most frequent cell in both windows."""
        mode = int(np.bincount(np.concatenate(self.rows)).argmax())
        first, second = (np.zeros_like(rows) for rows in self.rows)
        return Factor(self.name, self.columns, self.index, self.cells[mode : mode + 1], (first, second))


def make_factor(
    name: str, columns: tuple[int, ...], codes: tuple[Codes, Codes], sizes: Sequence[int]
) -> Factor:
    """The factor of P(x) over some columns: their cells, and each window's shares of them."""
    first, second = (part[:, list(columns)] for part in codes)
    index = CellIndex(np.concatenate([first, second]), [sizes[j] for j in columns])
    return Factor(name, columns, index, index.codes, (index.find(first), index.find(second)))


def grid_codes(factors: Sequence[Factor]) -> Codes:
    """The codes of every combination of the factors' cells, the last factor's changing fastest."""
    if not factors:
        return np.zeros((1, 0), dtype=np.int64)
    return codes_of(factors, [axis.ravel() for axis in np.indices([len(factor.cells) for factor in factors])])


def codes_of(factors: Sequence[Factor], draws: Sequence[Codes]) -> Codes:
    """Cells drawn from each factor as rows of bin codes, draws × columns."""
    width = sum(len(factor.columns) for factor in factors)
    codes = np.zeros((len(draws[0]), width), dtype=np.int64)
    for factor, draw in zip(factors, draws, strict=True):
        codes[:, list(factor.columns)] = factor.cells[draw]
    return codes
