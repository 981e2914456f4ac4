"""A small decision tree on bin codes, with constant leaves: every leaf is a box of codes. It grows in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explain_core.compiling import allocating, compiled
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
    k = codes.shape[1]
    sizes = [len(rank) for rank in ranks]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    feature = np.full(2 ** (DEPTH + 1) - 1, -1)
    first, threshold, share = np.full_like(feature, -1), np.zeros_like(feature), np.zeros(len(feature))
    node, found = np.zeros(len(codes), dtype=np.int64), np.zeros(int(starts[-1]))
    n, depth = 1, 0
    if k:
        flat = np.concatenate(list(ranks))
        tree = (feature, first, threshold, share)
        n, depth = _grow(codes, y, weights, flat, starts, n_classes, DEPTH, MIN_ROWS, node, found, *tree)
    one_sided = [
        flags & (found[starts[j] + ranks[j]] == 0.0)
        for j, flags in enumerate(apart if apart is not None and any(flags.any() for flags in apart) else ())
    ]
    feature, first = feature[:n], first[:n]
    left = np.zeros((n, max(sizes, default=1)), dtype=bool)
    for i in np.flatnonzero(feature >= 0).tolist():
        j = int(feature[i])
        left[i, : sizes[j]] = ranks[j] <= threshold[i]
        if one_sided:
            left[i, : sizes[j]][one_sided[j]] = share[i] > 0.5
    children = np.column_stack([first, np.where(first < 0, -1, first + 1)])
    grown = CodeTree(feature, left, children, np.cumsum(feature < 0) - 1, depth)
    counts = totals(grown.leaf[node] * n_classes + y, weights, grown.n_leaves * n_classes)
    return grown, counts.reshape(-1, n_classes)


@compiled
def _grow(
    codes: Any,
    y: Any,
    weights: Any,
    ranks: Any,
    starts: Any,
    n_classes: int,
    deepest: int,
    least: float,
    node: Any,
    found: Any,
    feature: Any,
    first: Any,
    threshold: Any,
    share: Any,
) -> Any:
    """Grow the tree level by level; returns its nodes and its depth.

    Node i sends the ranks of ``feature[i]`` up to ``threshold[i]`` to node ``first[i]``, ``share[i]`` of its weight, and the others to the next.
    ``node`` is that of each row at the end, ``found`` the weight of each rank of each feature.
    """
    n, k = codes.shape
    begin, end, depth = 0, 1, 0
    cells = np.empty((n, k), dtype=np.int64)
    for i in range(n):
        for j in range(k):
            cells[i, j] = (starts[j] + ranks[starts[j] + codes[i, j]]) * n_classes + y[i]
    while depth < deepest and begin < end:
        sums = np.zeros((end - begin, starts[k], n_classes))
        flat = sums.reshape(-1, starts[k] * n_classes)
        for i in range(n):
            if node[i] >= begin:
                of_node = flat[node[i] - begin]
                for j in range(k):
                    of_node[cells[i, j]] += weights[i]
        if depth == 0:
            for at in range(starts[k]):
                found[at] = sums[0, at].sum()
        following = end
        for parent in range(begin, end):
            if _split(sums[parent - begin], starts, least, parent, feature, threshold, share):
                first[parent] = following
                following += 2
        if following > end:
            depth += 1
            for i in range(n):
                j = feature[node[i]]
                if node[i] >= begin and j >= 0:
                    rank = ranks[starts[j] + codes[i, j]]
                    node[i] = first[node[i]] + (1 if rank > threshold[node[i]] else 0)
        begin, end = end, following
    return end, depth


@allocating
def _split(sums: Any, starts: Any, least: float, node: int, feature: Any, threshold: Any, share: Any) -> Any:
    """Whether a node is split, given the weights of its ranks and classes: where that decreases its weighted impurity most."""
    n_classes = sums.shape[1]
    whole, left = np.zeros(n_classes), np.empty(n_classes)
    for at in range(starts[0], starts[1]):
        for c in range(n_classes):
            whole[c] += sums[at, c]
    n = squares = 0.0
    for c in range(n_classes):
        n += whole[c]
        squares += whole[c] * whole[c]
    before = squares / n
    best = 1e-9 * n
    for j in range(len(starts) - 1):
        left[:] = 0.0
        for at in range(starts[j], starts[j + 1] - 1):
            n_left = n_right = on_left = on_right = 0.0
            for c in range(n_classes):
                left[c] += sums[at, c]
                right = whole[c] - left[c]
                n_left += left[c]
                n_right += right
                on_left += left[c] * left[c]
                on_right += right * right
            if n_left < least or n_right < least:
                continue
            gain = on_left / n_left + on_right / n_right - before
            if gain > best:
                best = gain
                feature[node], threshold[node], share[node] = j, at - starts[j], n_left / n
    return feature[node] >= 0
