"""A small decision tree on bin codes, with constant leaves: every leaf is a box of codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explain_core.drift.arrays import Codes, Flags, Values, totals

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
        node = np.zeros(len(codes), dtype=np.int64)
        if not self.depth:
            return self.leaf[node]
        # A leaf is its own child, whatever its code of feature 0 is.
        feature = np.maximum(self.feature, 0)
        own = np.arange(len(self.feature))[:, None]
        follows = np.where(self.feature[:, None] < 0, own, self.children)
        table = np.where(self.left, follows[:, :1], follows[:, 1:]).ravel()
        width = self.left.shape[1]
        starts = np.arange(len(codes)) * codes.shape[1]
        flat = codes.ravel()
        for _ in range(self.depth):
            code = flat.take(feature.take(node) + starts)
            node = table.take(node * width + code)
        return self.leaf.take(node)

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
    n, k = codes.shape
    sizes = [len(rank) for rank in ranks]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    total = int(starts[-1])
    ranked = np.column_stack([rank[codes[:, j]] for j, rank in enumerate(ranks)]) if k else codes
    cells = (ranked + starts[:-1]) * n_classes + y[:, None]
    splits = _Splits(starts)

    one_sided = [np.zeros(size, dtype=bool) for size in sizes]
    for j, flags in enumerate(apart or ()):
        one_sided[j] = flags & (np.bincount(codes[:, j], minlength=sizes[j]) == 0)

    feature, children = [-1], [[-1, -1]]
    left = [np.zeros(max(sizes, default=1), dtype=bool)]
    node = np.zeros(n, dtype=np.int64)
    level, depth = [0], 0
    while k and depth < DEPTH and level:
        here = np.full(len(feature), -1)
        here[level] = np.arange(len(level))
        rows = np.flatnonzero(here[node] >= 0)
        index = here[node[rows], None] * (total * n_classes) + cells[rows]
        histogram = totals(index.ravel(), np.repeat(weights[rows], k), len(level) * total * n_classes)
        best, gains, lefts = splits.best(histogram.reshape(len(level), total, n_classes))
        following: list[int] = []
        found = zip(level, best.tolist(), gains.tolist(), lefts.tolist(), strict=True)
        for parent, split, gain, on_left in found:
            if gain <= 0.0:
                continue
            chosen = int(splits.owner[split])
            feature[parent] = chosen
            left[parent][: sizes[chosen]] = ranks[chosen] <= split - starts[chosen]
            left[parent][: sizes[chosen]][one_sided[chosen]] = on_left > 0.5
            children[parent] = [len(feature), len(feature) + 1]
            following += children[parent]
            feature += [-1, -1]
            children += [[-1, -1], [-1, -1]]
            left += [np.zeros_like(left[0]), np.zeros_like(left[0])]
        if following:
            features, sides, below = np.array(feature), np.array(left), np.array(children)
            moving = rows[features[node[rows]] >= 0]
            at = node[moving]
            node[moving] = below[at, np.where(sides[at, codes[moving, features[at]]], 0, 1)]
            depth += 1
        level = following
    final = np.array(feature)
    grown = CodeTree(final, np.array(left), np.array(children), np.cumsum(final < 0) - 1, depth)
    counts = totals(grown.leaf[node] * n_classes + y, weights, grown.n_leaves * n_classes)
    return grown, counts.reshape(-1, n_classes)


class _Splits:
    """Thresholds on the ranks of all features, one after another: position p sends the ranks up to p to the left."""

    def __init__(self, starts: Codes) -> None:
        self._starts = starts
        self.owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        self._inner = np.ones(int(starts[-1]), dtype=bool)
        self._inner[starts[1:] - 1] = False

    def best(self, histogram: Values) -> tuple[Codes, Values, Values]:
        """Of nodes × ranks × classes, per node the best position, its decrease of weighted impurity, 0 for none, and the
        share of the weight that goes left.
        """
        running = np.cumsum(histogram, axis=1)
        before = np.concatenate([np.zeros_like(running[:, :1]), running], axis=1)[:, self._starts[:-1]]
        left = running - before[:, self.owner]
        whole = left[:, self._starts[1] - 1]
        right = whole[:, None] - left
        n_left, n_right, n = left.sum(axis=2), right.sum(axis=2), whole.sum(axis=1)
        fits = (n_left >= MIN_ROWS) & (n_right >= MIN_ROWS) & self._inner
        with np.errstate(divide="ignore", invalid="ignore"):
            purity = (left**2).sum(axis=2) / n_left + (right**2).sum(axis=2) / n_right
            gain = np.where(fits, purity - ((whole**2).sum(axis=1) / n)[:, None], 0.0)
        best = gain.argmax(axis=1)
        at = np.arange(len(best)), best
        found = gain[at]
        return best, np.where(found > 1e-9 * n.ravel(), found, 0.0), n_left[at] / n.ravel()
