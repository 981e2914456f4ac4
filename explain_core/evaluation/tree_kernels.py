"""Compiled prediction of river's trees from their flat image, see ``explain_core.evaluation.forest.Forest``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.evaluation.kernels import (
    compiled,
    draw_joining,
    draw_replaced,
    empty_losses,
    joined_delta,
    replaced_delta,
    settle,
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

LEAF = np.dtype(
    [
        ("kind", "i4"),
        ("classes", "i4"),
        ("features", "i4"),
        ("error", "f8"),
        ("manner", "i4"),  # see ``explain_core.evaluation.river_trees``
        ("adaptive", "i4"),
        ("threshold", "f8"),  # weight from which a leaf of naive Bayes is one
        ("weight", "f8"),  # that it had learnt when it was read
        ("address", "i8"),  # of river's leaf
        ("splitters", "i8"),  # their address when the moments were read
        (
            "attempt",
            "f8",
        ),  # weight at which it tried to split last, and may have got other splitters at the same address
    ]
)
NOTHING, MAJORITY, BAYES, MEAN, LINEAR, UNKNOWN = range(6)
"""Kinds of leaves."""

TREE = np.dtype(
    [
        ("root", "i4"),
        ("adaptive", "i4"),
        ("classes", "i4"),
        ("weight", "f8"),  # of its votes
        ("learnt", "f8"),  # weight that it had learnt when it was read
        ("period", "f8"),  # after as much it weighs itself, and may put leaves to sleep or wake them
        ("address", "i8"),  # of river's tree, 0 where each record may change more of it than one leaf
    ]
)

RAW, DIVIDED, SCALED = range(3)
"""What becomes of the votes: nothing, v / Σ where Σ > 0, v · (1 / Σ) unless Σ is 0."""

FEW = 4
"""Columns in which a row may differ from another of which the way is known; in more it is walked anew."""

PATH = 16
"""One more than the leaves that a record reaches in a tree at the most: those of alternate trees, and the last one."""

SILENT, GAUSSIAN, NOMINAL = 0.0, 1.0, -1.0
"""What a leaf's moments of a feature and a class begin with. After it stand, of a Gaussian, mean, −2 variance and half of the
variance's logarithm; of what is no number start and size of a table of log-probabilities."""

HALF_LOG_TAU = 0.5 * math.log(math.tau)


@compiled
def differing(rows: Any, like: int) -> Any:
    """The columns in which each row differs from the one that it is like, rows × (1 + FEW); their number first, −1 for more.

    A row is like the one ``like`` before it, or like the first where ``like`` is 0.
    """
    out = np.empty((len(rows), 1 + FEW), np.int64)
    for c in range(len(rows)):
        before = c - like if like > 0 else 0
        n = 0 if 0 <= before < c else -1
        for j in range(rows.shape[1] if n == 0 else 0):
            if rows[c, j] != rows[before, j]:
                if n == FEW:
                    n = -1
                    break
                n += 1
                out[c, n] = j
        out[c, 0] = n
    return out


@compiled
def walk(
    root: int, rows: Any, like: int, differences: Any, nodes: Any, children: Any, leaves: Any, features: Any,
    marks: Any, stamp: int, paths: Any, lengths: Any,
) -> bool:  # fmt: skip
    """The leaves that each row reaches, alternates first, and their number, −1 where only river knows the way.

    A row that differs from the one that it is like in nothing that a node on the way asks for, or a leaf, has length 0: what
    is said of the other is said of it. Whether no length is −1. All rows in one call: a call costs some 10 ns for each array.
    ``marks`` are of as many columns; no stamp from ``stamp`` on may be among them.
    """
    known = True
    for first in range(max(like, 1)):
        for c in range(first, len(rows), max(like, 1)):
            same = differences[c, 0] >= 0
            for i in range(differences[c, 0]):
                same = same and marks[differences[c, 1 + i]] != stamp
            if same:
                lengths[c] = 0
                continue
            marking = like > 0 or c == 0
            if marking:
                stamp += 1
            n, at = 0, root
            while nodes[at].kind != END:
                node = nodes[at]
                value = rows[c, node.feature]
                if math.isnan(value) or (node.alternate >= 0 and n == PATH - 2):
                    n = -1
                    break
                if marking:
                    marks[node.feature] = stamp
                if node.alternate >= 0:
                    paths[c, n] = node.alternate
                    n += 1
                if node.kind == THRESHOLD:
                    at = node.left if value <= node.threshold else node.right
                elif node.kind == EQUAL:
                    at = node.left if value == node.threshold else node.right
                else:
                    child = int(value)
                    if child >= node.right or children[node.left + child] < 0:
                        n = -1
                        break
                    at = children[node.left + child]
            if n >= 0:
                paths[c, n] = nodes[at].left
                n += 1
            lengths[c] = n
            known = known and n >= 0
            if marking:
                for step in range(n):
                    leaf = paths[c, step]
                    for i in range(leaves[leaf].features):
                        marks[features[leaf, i]] = stamp
    return known


@compiled
def gaussian(n: float, mean: float, squares: float, out: Any) -> None:
    """The moments that follow from count, mean and sum of squares."""
    out[0] = SILENT
    if n > 1.0:
        variance = squares / (n - 1.0)
        if variance > 0.0:
            out[0] = GAUSSIAN
            out[1] = mean
            out[2] = -2.0 * variance
            out[3] = 0.5 * math.log(variance)


@compiled
def bayes(
    index: int, leaf: Any, rows: Any, c: int, stats: Any, classes: Any, features: Any, moments: Any, tables: Any, two: float,
    known: bool, seen: Any, terms: Any, priors: Any, parts: Any, votes: Any,
) -> None:  # fmt: skip
    """``do_naive_bayes_prediction``; with ``known`` all that is written is that of the same leaf at the values ``seen``."""
    same = known
    for i in range(leaf.features):
        value = rows[c, features[index, i]]
        if known and (value == seen[i] or (math.isnan(value) and math.isnan(seen[i]))):
            continue
        seen[i] = value
        same = False
        for k in range(leaf.classes):
            of = classes[index, k]
            sort, first, second = moments[index, of, i, 0], moments[index, of, i, 1], moments[index, of, i, 2]
            terms[k, i] = -math.inf
            if math.isnan(value):
                continue
            if sort == NOMINAL:
                code = int(value)
                terms[k, i] = tables[int(first) + code] if code < second else 0.0
            elif sort == GAUSSIAN:
                # CPython's ** is the C library's pow, whose square differs from v · v in the last bit now and then.
                terms[k, i] = math.pow(value - first, two) / second - HALF_LOG_TAU - moments[index, of, i, 3]
    if same:
        return
    if not known:
        weight = total(stats[index], leaf.classes)
        for k in range(leaf.classes):
            priors[k] = math.log(stats[index, k] / weight) if stats[index, k] > 0.0 else 0.0
    highest = -math.inf
    for k in range(leaf.classes):
        vote = priors[k]
        if stats[index, k] > 0.0:
            for i in range(leaf.features):
                if terms[k, i] > -math.inf:
                    vote += terms[k, i]
        votes[1, k] = vote
        if vote > highest:
            highest = vote
    for k in range(leaf.classes):
        parts[k] = math.exp(votes[1, k] - highest)
    whole = highest + math.log(total(parts, leaf.classes))
    for k in range(leaf.classes):
        votes[1, k] = math.exp(votes[1, k] - whole)


@compiled
def members(
    copies: Any, like: int, nodes: Any, children: Any, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any,
    tables: Any, trees: Any, orders: Any, two: float, regression: bool, out: Any,
) -> bool:  # fmt: skip
    """Predictions of each tree for each copy, copies × trees × classes; False where one needs river itself.

    For ``like`` see ``differing``; it does not change what is found.
    """
    n = len(copies)
    size = out.shape[2]
    seen, terms = np.empty(features.shape[1]), np.empty((size, features.shape[1]))
    priors, parts, ordered = np.empty(size), np.empty(size), np.empty(size)
    votes = np.empty((2, size))  # of a leaf of the majority, and of naive Bayes
    paths, lengths = np.empty((n, PATH), np.int64), np.empty(n, np.int64)
    differences, marks = differing(copies, like), np.full(copies.shape[1], -1, np.int64)
    out[:] = 0.0
    for t in range(len(trees)):
        tree = trees[t]
        last = majority = -1
        if tree.root < 0:
            continue
        if not walk(
            tree.root, copies, like, differences, nodes, children, leaves, features, marks, t * (n + 1), paths, lengths
        ):  # fmt: skip
            return False
        for c in range(n):
            if lengths[c] == 0:
                out[c, t] = out[c - like if like > 0 else 0, t]
                continue
            for step in range(lengths[c]):
                index = paths[c, step]
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
                            column = features[index, i]
                            if not math.isnan(copies[c, column]):
                                value += moments[index, 0, i, 0] * copies[c, column]
                        value += stats[index, 0]
                    out[c, t, 0] += value
                    continue
                if leaf.kind == BAYES:
                    row = 1
                    bayes(
                        index, leaf, copies, c, stats, classes, features, moments, tables, two,
                        index == last, seen, terms, priors, parts, votes,
                    )  # fmt: skip
                    last = index
                else:
                    row = 0
                    if majority != index:
                        factor = total(stats[index], leaf.classes)
                        scale = 1.0 / factor if factor != 0.0 else 1.0
                        for k in range(leaf.classes):
                            votes[0, k] = stats[index, k] * scale
                        majority = index
                if tree.adaptive:
                    factor = total(votes[row], leaf.classes) * leaf.error * leaf.error
                    scale = 1.0 / factor if factor != 0.0 and not math.isnan(factor) else 1.0
                    for k in range(leaf.classes):
                        out[c, t, classes[index, k]] += votes[row, k] * scale
                else:
                    for k in range(leaf.classes):
                        out[c, t, classes[index, k]] = votes[row, k]
            if tree.adaptive:
                if regression:
                    out[c, t, 0] /= lengths[c]
                else:
                    for k in range(tree.classes):
                        ordered[k] = out[c, t, orders[t, k]]
                    factor = total(ordered, tree.classes)
                    if factor != 0.0 and not math.isnan(factor):
                        scale = 1.0 / factor
                        for k in range(size):
                            out[c, t, k] *= scale
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
def shares(
    copies: Any, like: int, nodes: Any, children: Any, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any,
    tables: Any, trees: Any, orders: Any, two: float, normalise: int, size: int,
) -> Any:  # fmt: skip
    """The ensemble's probabilities, copies × ``size`` classes, and whether they are right: none of them needs river itself."""
    votes = np.empty((len(copies), len(trees), size))
    known = members(
        copies, like, nodes, children, leaves, stats, classes, features, moments, tables, trees, orders, two, False, votes
    )  # fmt: skip
    return known, combine(votes, trees, normalise)


@compiled
def locate(x: Any, nodes: Any, children: Any, leaves: Any, features: Any, trees: Any, at: Any) -> None:
    """The leaves of x in each tree into ``at``, trees × PATH, ended by −1; none where only river knows the way."""
    rows, lengths = x.reshape(1, len(x)), np.empty(1, np.int64)
    differences, marks = differing(rows, 1), np.empty(len(x), np.int64)
    for t in range(len(trees)):
        lengths[0] = 0
        if trees[t].root >= 0:
            walk(
                trees[t].root, rows, 1, differences, nodes, children, leaves, features, marks, 0, at[t : t + 1], lengths
            )  # fmt: skip
        at[t, max(lengths[0], 0) :] = -1


@compiled
def permuted(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, m: int,
    nodes: Any, children: Any, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any, tables: Any,
    trees: Any, orders: Any, two: float, normalise: int, base: Any, codes: Any, delta: Any, y: float,
) -> Any:  # fmt: skip
    """iPFI's Δ of a classifier; False where something is not finite or needs river itself."""
    copies = draw_replaced(state, x, rows, n_rows, starts, columns, m)
    known, predictions = shares(
        copies, 0, nodes, children, leaves, stats, classes, features, moments, tables, trees, orders, two, normalise, len(base)
    )  # fmt: skip
    return known and replaced_delta(predictions[1:], base, y, codes, m, delta)


@compiled
def joined(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, m: int,
    nodes: Any, children: Any, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any, tables: Any,
    trees: Any, orders: Any, two: float, normalise: int, base: Any, codes: Any, delta: Any,
    outside: Any, first: int, order: Any, before: Any, pairs: Any, y: float,
) -> Any:  # fmt: skip
    """iSAGE's Δ of a classifier; False where something is not finite or needs river itself."""
    copies = draw_joining(state, x, rows, n_rows, starts, columns, outside, m, first, order)
    known, predictions = shares(
        copies, m, nodes, children, leaves, stats, classes, features, moments, tables, trees, orders, two, normalise, len(base)
    )  # fmt: skip
    return known and joined_delta(predictions, base, before, y, codes, pairs, m, order, delta)


@compiled
def explain(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, outside: Any, base: Any, codes: Any,
    m: int, delta: Any, cells: Any, sums: Any, rates: Any,
    sage_m: int, sage_delta: Any, sage_cells: Any, sage_sums: Any, sage_rates: Any, order: Any, pairs: Any, empty: Any,
    nodes: Any, children: Any, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any, tables: Any,
    trees: Any, orders: Any, at: Any, two: float, normalise: int, y: float,
) -> Any:  # fmt: skip
    """iPFI and iSAGE of a classifier, those that were asked for, and where the record is; False where it needs river itself."""
    locate(x, nodes, children, leaves, features, trees, at)
    if m > 0 and not permuted(
        state, x, rows, n_rows, starts, columns, m, nodes, children, leaves, stats, classes, features, moments,
        tables, trees, orders, two, normalise, base, codes, delta, y,
    ):  # fmt: skip
        return False
    after, before = empty_losses(empty, sage_rates[0], base, y, codes)
    if sage_m > 0 and not joined(
        state[1:], x, rows, n_rows, starts, columns, sage_m, nodes, children, leaves, stats, classes, features,
        moments, tables, trees, orders, two, normalise, base, codes, sage_delta,
        outside, 1 if len(empty) > 0 else 0, order, before, pairs, y,
    ):  # fmt: skip
        return False
    return settle(
        m, delta, cells, sums, rates, sage_m, sage_delta, sage_cells, sage_sums, sage_rates, empty, after
    )
