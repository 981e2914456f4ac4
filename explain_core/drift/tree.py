"""A small decision tree on bin codes, with constant leaves: every leaf is a box of codes. It grows in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explain_core.drift.arrays import Codes, Flags, Values, totals
from explain_core.engine import drift as engine

DEPTH = 5
MIN_ROWS = 50


@dataclass(frozen=True)
class CodeTree:
    """A binary tree over n × k codes. Node i tests feature ``feature[i]`` (−1: a leaf), and ``left[i, code]`` says which
    codes go to ``children[i, 0]``. ``leaf[i]`` numbers the leaves.
    """

    feature: Codes
    left: Flags
    children: Codes
    leaf: Codes
    depth: int

    @property
    def n_leaves(self) -> int:
        return int((self.feature < 0).sum())

    def leaves(self, codes: Codes) -> Codes:
        """The leaf of each row of codes."""
        found = np.zeros(len(codes), dtype=np.int64)
        if self.depth:
            engine.walk(codes, self.feature, self.left, self.children, self.leaf, self.depth, found)
        return found

    def boxes(self, sizes: Sequence[int]) -> Flags:
        """Leaves × (codes of all features, one after another): which codes lead to the leaf."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        inside = np.ones((len(self.feature), int(starts[-1])), dtype=bool)
        for node in np.flatnonzero(self.feature >= 0).tolist():  # a parent comes before its children
            feature = int(self.feature[node])
            own = slice(starts[feature], starts[feature + 1])
            left = self.left[node, : sizes[feature]]
            for child, goes in zip(self.children[node].tolist(), (left, ~left), strict=True):
                inside[child] = inside[node]
                inside[child, own] &= goes
        ends = self.feature < 0
        found = np.empty((self.n_leaves, inside.shape[1]), dtype=bool)
        found[self.leaf[ends]] = inside[ends]
        return found


def rank_by_score(codes: Codes, score: Values, size: int) -> Codes:
    """The rank of each code of a category by the mean score of its rows; a code without rows ranks as the overall mean.

    On ranks the best split of a category into two sets is a threshold (Breiman et al. 1984, Thm 4.5: two classes or a
    number).
    """
    counts = np.bincount(codes, minlength=size)
    sums = totals(codes, score, size)
    rate = np.where(counts > 0, sums / np.maximum(counts, 1), score.mean() if len(score) else 0.0)
    rank = np.empty(size, dtype=np.int64)
    rank[np.argsort(rate, kind="stable")] = np.arange(size)
    return rank


def fit(
    codes: Codes,
    y: Codes,
    n_classes: int,
    ranks: Sequence[Codes],
    weights: Values,
    apart: Sequence[Flags] | None = None,
) -> tuple[CodeTree, Values]:
    """Grow a tree by gini impurity on n × k codes and n classes; returns it with the weight of each class in each leaf.

    ``ranks`` order the codes of each feature. The tree is at most ``DEPTH`` deep and a split leaves rows of weight
    ``MIN_ROWS`` on both sides; of equal splits the first feature and the lowest rank wins. A code without rows that is
    flagged in ``apart``, as it lies between no others, goes with the heavier side of each split of its feature.
    """
    sizes = [len(rank) for rank in ranks]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    flat = np.concatenate([*ranks, starts[:0]])
    lonely = np.concatenate([*(apart if apart is not None else ()), np.zeros(0, dtype=bool)])
    feature = np.full(2 ** (DEPTH + 1) - 1, -1)
    first, counts = np.full_like(feature, -1), np.zeros((len(feature), n_classes))
    left = np.zeros((len(feature), max(sizes, default=1)), dtype=bool)
    n, depth = engine.grow(
        codes, y, weights, flat, starts, lonely, DEPTH, MIN_ROWS, feature, first, left, counts
    )
    feature, first = feature[:n], first[:n]
    children = np.column_stack([first, np.where(first < 0, -1, first + 1)])
    ends = feature < 0
    return CodeTree(feature, left[:n], children, np.cumsum(ends) - 1, depth), counts[:n][ends]
