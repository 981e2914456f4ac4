"""Compiled prediction of river's trees from their flat image, see ``explain_core.evaluation.forest.Forest``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.evaluation.kernels import (
    compiled,
    draw_joining,
    draw_replaced,
    joined_delta,
    replaced_delta,
    total,
)

NODE = np.dtype(
    [
        ("kind", "i4"),
        ("feature", "i4"),
        ("left", "i4"),  # the leaf's index in a leaf, the start of the children in a multiway split
        ("right", "i4"),  # the number of children in a multiway split
        ("alternate", "i4"),  # leaf of the alternate tree, or −1
        ("threshold", "f8"),
    ]
)
THRESHOLD, EQUAL, MULTIWAY, END = range(4)
"""Kinds of nodes."""

LEAF = np.dtype([("kind", "i4"), ("classes", "i4"), ("features", "i4"), ("error", "f8")])
NOTHING, MAJORITY, BAYES, MEAN, LINEAR, UNKNOWN = range(6)
"""Kinds of leaves."""

TREE = np.dtype([("root", "i4"), ("adaptive", "i4"), ("classes", "i4"), ("weight", "f8")])

RAW, DIVIDED, SCALED = range(3)
"""What becomes of the votes: nothing, v / Σ where Σ > 0, v · (1 / Σ) unless Σ is 0."""

PATH = 16
"""Leaves that a record reaches in a tree at the most: the last one, and those of alternate trees before it."""

NOMINAL = -1.0
"""In place of a count: the moments are start and size of a table of log-probabilities."""

_HALF_LOG_TAU = 0.5 * math.log(math.tau)


@compiled
def reach(root: int, x: Any, nodes: Any, children: Any, path: Any) -> int:
    """The leaves that x reaches, alternates first; their number, or −1 where only river knows the way."""
    n = 0
    node = nodes[root]
    while node.kind != END:
        if node.alternate >= 0:
            if n == PATH - 1:
                return -1
            path[n] = node.alternate
            n += 1
        value = x[node.feature]
        if math.isnan(value):
            return -1
        if node.kind == THRESHOLD:
            node = nodes[node.left if value <= node.threshold else node.right]
        elif node.kind == EQUAL:
            node = nodes[node.left if value == node.threshold else node.right]
        else:
            child = int(value)
            if child >= node.right or children[node.left + child] < 0:
                return -1
            node = nodes[children[node.left + child]]
    path[n] = node.left
    return n + 1


@compiled
def log_density(value: float, moments: Any, tables: Any, two: float) -> Any:
    """``GaussianSplitter.cond_log_proba`` from count, mean and sum of squares; −∞ where the feature has no say."""
    n = moments[0]
    if n == NOMINAL:
        code = int(value)
        return tables[int(moments[1]) + code] if code < moments[2] else 0.0
    if n > 1.0:
        variance = moments[2] / (n - 1.0)
        if variance > 0.0:
            # CPython's ** is the C library's pow, whose square differs from v · v in the last bit now and then.
            return (
                math.pow(value - moments[1], two) / (-2.0 * variance)
                - _HALF_LOG_TAU
                - 0.5 * math.log(variance)
            )
    return -math.inf


@compiled
def bayes(
    index: int, leaf: Any, x: Any, stats: Any, classes: Any, features: Any, moments: Any, tables: Any, two: float,
    known: bool, seen: Any, terms: Any, votes: Any,
) -> None:  # fmt: skip
    """``do_naive_bayes_prediction``; with ``known`` the ``terms`` are those of the same leaf at the values ``seen``."""
    for i in range(leaf.features):
        value = x[features[index, i]]
        if known and (value == seen[i] or (math.isnan(value) and math.isnan(seen[i]))):
            continue
        seen[i] = value
        for k in range(leaf.classes):
            terms[k, i] = (
                -math.inf
                if math.isnan(value)
                else log_density(value, moments[index, classes[index, k], i], tables, two)
            )
    weight = total(stats[index], leaf.classes)
    highest = -math.inf
    for k in range(leaf.classes):
        vote = 0.0
        if stats[index, k] > 0.0:
            vote = math.log(stats[index, k] / weight)
            for i in range(leaf.features):
                if terms[k, i] > -math.inf:
                    vote += terms[k, i]
        votes[k] = vote
        if vote > highest:
            highest = vote
    parts = np.empty(leaf.classes)
    for k in range(leaf.classes):
        parts[k] = math.exp(votes[k] - highest)
    whole = highest + math.log(total(parts, leaf.classes))
    for k in range(leaf.classes):
        votes[k] = math.exp(votes[k] - whole)


@compiled
def members(
    copies: Any, nodes: Any, children: Any, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any,
    tables: Any, trees: Any, orders: Any, two: float, regression: bool, out: Any,
) -> bool:  # fmt: skip
    """Predictions of each tree for each copy, copies × trees × classes; False where one needs river itself."""
    n = len(copies)
    size = out.shape[2]
    seen, terms = np.empty(features.shape[1]), np.empty((size, features.shape[1]))
    votes, ordered = np.empty(size), np.empty(size)
    path = np.empty(PATH, np.int64)
    for t in range(len(trees)):
        tree = trees[t]
        last = -1
        for c in range(n):
            mine = out[c, t]
            mine[:] = 0.0
            if tree.root < 0:
                continue
            x = copies[c]
            length = reach(tree.root, x, nodes, children, path)
            if length < 0:
                return False
            for step in range(length):
                index = path[step]
                leaf = leaves[index]
                if leaf.kind == UNKNOWN:
                    return False
                if leaf.kind == NOTHING:
                    continue
                if regression:
                    value = stats[index, 0]
                    if leaf.kind == LINEAR:
                        value = 0.0
                        for i in range(leaf.features):
                            weight = moments[index, 0, i, 0]
                            if not math.isnan(x[i]) and weight != 0.0:
                                value += weight * x[i]
                        value += stats[index, 0]
                    mine[0] += value
                    continue
                if leaf.kind == BAYES:
                    bayes(
                        index,
                        leaf,
                        x,
                        stats,
                        classes,
                        features,
                        moments,
                        tables,
                        two,
                        index == last,
                        seen,
                        terms,
                        votes,
                    )
                    last = index
                else:
                    factor = total(stats[index], leaf.classes)
                    scale = 1.0 / factor if factor != 0.0 else 1.0
                    for k in range(leaf.classes):
                        votes[k] = stats[index, k] * scale
                if tree.adaptive:
                    factor = total(votes, leaf.classes) * leaf.error * leaf.error
                    scale = 1.0 / factor if factor != 0.0 and not math.isnan(factor) else 1.0
                    for k in range(leaf.classes):
                        mine[classes[index, k]] += votes[k] * scale
                else:
                    for k in range(leaf.classes):
                        mine[classes[index, k]] = votes[k]
            if tree.adaptive:
                if regression:
                    mine[0] /= length
                else:
                    for k in range(tree.classes):
                        ordered[k] = mine[orders[t, k]]
                    factor = total(ordered, tree.classes)
                    if factor != 0.0 and not math.isnan(factor):
                        scale = 1.0 / factor
                        for k in range(size):
                            mine[k] *= scale
    return True


@compiled
def combine(votes: Any, trees: Any, normalise: int) -> Any:
    """The ensemble's probabilities, copies × classes, from those of its trees."""
    n, size = votes.shape[0], votes.shape[2]
    out = np.zeros((n, size))
    for c in range(n):
        for t in range(len(trees)):
            weight = trees[t].weight
            for k in range(size):
                out[c, k] += votes[c, t, k] * weight
        if normalise != RAW:
            mass = total(out[c], size)
            if normalise == DIVIDED and mass > 0.0:
                for k in range(size):
                    out[c, k] /= mass
            elif normalise == SCALED and mass != 0.0 and not math.isnan(mass):
                scale = 1.0 / mass
                for k in range(size):
                    out[c, k] *= scale
    return out


@compiled
def locate(x: Any, nodes: Any, children: Any, trees: Any, at: Any) -> None:
    """The leaves of x in each tree into ``at``, trees × PATH, ended by −1; none where only river knows the way."""
    for t in range(len(trees)):
        n = reach(trees[t].root, x, nodes, children, at[t]) if trees[t].root >= 0 else 0
        at[t, max(n, 0) :] = -1


@compiled
def permuted(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, m: int,
    nodes: Any, children: Any, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any, tables: Any,
    trees: Any, orders: Any, two: float, normalise: int, base: Any, y: float, codes: Any, delta: Any,
) -> Any:  # fmt: skip
    """iPFI's Δ of a classifier; False where something is not finite or needs river itself."""
    copies = draw_replaced(state, x, rows, n_rows, starts, columns, m)
    votes = np.empty((len(copies), len(trees), len(base)))
    if not members(
        copies,
        nodes,
        children,
        leaves,
        stats,
        classes,
        features,
        moments,
        tables,
        trees,
        orders,
        two,
        False,
        votes,
    ):
        return False
    return replaced_delta(combine(votes, trees, normalise), base, y, codes, m, delta)


@compiled
def joined(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, m: int, outside: Any, first: int,
    nodes: Any, children: Any, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any, tables: Any,
    trees: Any, orders: Any, two: float, normalise: int, base: Any, before: Any, y: float, codes: Any, pairs: Any,
    delta: Any,
) -> Any:  # fmt: skip
    """iSAGE's Δ of a classifier; False where something is not finite or needs river itself."""
    order = np.empty(len(starts) - 1, np.int64)
    copies = draw_joining(state, x, rows, n_rows, starts, columns, outside, m, first, order)
    votes = np.empty((len(copies), len(trees), len(base)))
    if not members(
        copies,
        nodes,
        children,
        leaves,
        stats,
        classes,
        features,
        moments,
        tables,
        trees,
        orders,
        two,
        False,
        votes,
    ):
        return False
    return joined_delta(combine(votes, trees, normalise), base, before, y, codes, pairs, m, order, delta)
