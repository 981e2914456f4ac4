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
        found = np.zeros(len(codes), dtype=np.int64)
        if self.depth:
            _walk(codes, self.feature, self.left, self.children, self.leaf, self.depth, found)
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
    n, depth = _grow(codes, y, weights, flat, starts, lonely, DEPTH, MIN_ROWS, feature, first, left, counts)
    feature, first = feature[:n], first[:n]
    children = np.column_stack([first, np.where(first < 0, -1, first + 1)])
    ends = feature < 0
    return CodeTree(feature, left[:n], children, np.cumsum(ends) - 1, depth), counts[:n][ends]


@compiled
def _walk(codes: Any, feature: Any, left: Any, children: Any, leaf: Any, depth: int, found: Any) -> None:
    """The leaf of each row, without a branch that a processor could mistake: a leaf is its own child, whatever its code of feature 0 is."""
    n, width = left.shape
    tested, following = np.empty(n, dtype=np.int64), np.empty((n, width), dtype=np.int64)
    for node in range(n):
        tested[node] = max(feature[node], 0)
        for code in range(width):
            child = children[node, 0 if left[node, code] else 1]
            following[node, code] = child if feature[node] >= 0 else node
    for i in range(len(codes)):
        node = 0
        for _ in range(depth):
            node = following[node, codes[i, tested[node]]]
        found[i] = leaf[node]


@compiled
def _grow(
    codes: Any,
    y: Any,
    weights: Any,
    ranks: Any,
    starts: Any,
    lonely: Any,
    deepest: int,
    least: float,
    feature: Any,
    first: Any,
    left: Any,
    counts: Any,
) -> Any:
    """Grow the tree level by level; returns its nodes and its depth.

    Node i sends the codes in ``left[i]`` of ``feature[i]`` to node ``first[i]``, and the others to the next. ``counts`` are the weights of the
    classes in each node that is a leaf, ``lonely`` the flags of ``apart``, if any.
    """
    k, n_classes = codes.shape[1], counts.shape[1]
    begin, end, depth = 0, 1, 0
    rows, n = np.empty(len(codes), dtype=np.int64), 0
    cells, node = np.empty((len(codes), k), dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
    threshold, share, found = (
        np.zeros(len(feature), dtype=np.int64),
        np.zeros(len(feature)),
        np.zeros(starts[k]),
    )
    for row in range(len(codes)):
        if weights[row] != 0.0:
            rows[n] = row
            for j in range(k):
                at = starts[j] + ranks[starts[j] + codes[row, j]]
                cells[n, j] = at * n_classes + y[row]
                found[at] += weights[row]
            n += 1
    while k > 0 and depth < deepest and begin < end:
        sums = np.zeros((end - begin, starts[k], n_classes))
        flat = sums.reshape(-1, starts[k] * n_classes)
        for i in range(n):
            if node[i] >= begin:
                of_node = flat[node[i] - begin]
                weight = weights[rows[i]]
                for j in range(k):
                    of_node[cells[i, j]] += weight
        following = end
        for parent in range(begin, end):
            if _split(sums[parent - begin], starts, least, parent, feature, threshold, share):
                first[parent] = following
                following += 2
                own = feature[parent]
                for at in range(starts[own], starts[own + 1]):
                    alone = len(lonely) > 0 and lonely[at] and found[starts[own] + ranks[at]] == 0.0
                    left[parent, at - starts[own]] = (
                        share[parent] > 0.5 if alone else ranks[at] <= threshold[parent]
                    )
        if following > end:
            depth += 1
            for i in range(n):
                j = feature[node[i]]
                if node[i] >= begin and j >= 0:
                    node[i] = first[node[i]] + (0 if left[node[i], codes[rows[i], j]] else 1)
        begin, end = end, following
    for i in range(n):
        counts[node[i], y[rows[i]]] += weights[rows[i]]
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
