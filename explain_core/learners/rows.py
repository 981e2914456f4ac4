"""Predictions of rows that differ from one another in few columns, in compiled code.

A row is like the one ``like`` before it, or like the first where ``like`` is 0. Where the two differ in nothing that a node on the
way or the leaf asks for, what is said of the one is said of the other: the bits are those of predicting each row by itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import compiled, inner
from explain_core.evaluation.kernels import put
from explain_core.learners import layout as at
from explain_core.learners.adaptive import vote
from explain_core.learners.arrays import f8, held, held_integers, i1, i8
from explain_core.learners.forest_regression import aggregate
from explain_core.learners.leaves import is_regression, predict_leaf, uses_bayes, weight_of
from explain_core.learners.naive_bayes import factors, normalise
from explain_core.learners.naive_bayes import priors as log_priors
from explain_core.learners.regression_leaves import asks_all
from explain_core.learners.walks import following, most_common
from explain_core.sums import total

FEW = 8
"""Columns in which rows may differ to be compared by them; rows that differ in more are predicted by themselves."""


@inner
def differing(rows: Any, like: int) -> Any:
    """The columns in which each row differs from the one that it is like, after their number; −1 for more than ``FEW``."""
    out = np.empty((len(rows), 1 + FEW), np.int64)
    for c in range(len(rows)):
        before = c - like if like > 0 else 0
        n = 0 if 0 <= before < c else -1
        for j in range(rows.shape[1] if n == 0 else 0):
            # The same bits, or both missing.
            if rows[c, j] != rows[before, j] and (
                rows[c, j] == rows[c, j] or rows[before, j] == rows[before, j]
            ):
                if n == FEW:
                    n = -1
                    break
                n += 1
                out[c, n] = j
        out[c, 0] = n
    return out


@inner
def same(differences: Any, c: int, marks: Any, stamp: int) -> Any:
    """Whether the row differs from the one that it is like in no column that was asked for."""
    if differences[c, 0] < 0:
        return False
    untouched = True
    for i in range(differences[c, 0]):
        untouched = untouched and marks[differences[c, 1 + i]] != stamp
    return untouched


@inner
def mark_leaf(table: Any, leaf: int, marks: Any, stamp: int) -> None:
    """Mark the columns that the leaf's prediction depends on."""
    leaves, observers = i8(table, at.LEAVES), i8(table, at.OBSERVERS)
    if is_regression(table):
        if asks_all(table, leaf):
            marks[:] = stamp
        return
    if uses_bayes(table, leaf):
        observer = leaves[leaf, at.FIRST]
        while observer >= 0:
            marks[observers[observer, at.FEATURE]] = stamp
            observer = observers[observer, at.NEXT_OBSERVER]


@inner
def bayes_again(
    table: Any, leaf: int, x: Any, known: bool, seen: Any, terms: Any, priors: Any, votes: Any, parts: Any, places: Any
) -> Any:  # fmt: skip
    """``leaves.bayes``, which leaves its ``terms`` at the values ``seen`` behind; ``known`` says that they are this leaf's."""
    leaves, stats, classes = i8(table, at.LEAVES), f8(table, at.STATS), i8(table, at.CLASSES)
    observers, cells, links = i8(table, at.OBSERVERS), f8(table, at.CELLS), i8(table, at.LINKS)
    two = f8(table, at.NUMBERS)[0, at.TWO]
    n = leaves[leaf, at.COUNT]
    if not known:
        whole = weight_of(leaf, n, stats, classes)
        if n == 0 or whole == 0.0:
            return 0
        log_priors(leaf, n, whole, stats, classes, places, priors)
    for i in range(n):
        votes[i] = priors[i]
    observer, k = leaves[leaf, at.FIRST], 0
    while observer >= 0:
        value = x[observers[observer, at.FEATURE]]
        if not known or not (value == seen[k] or (math.isnan(value) and math.isnan(seen[k]))):
            seen[k] = value
            factors(observers, cells, links, observer, value, two, places, terms[k], n)
        for i in range(n):
            if terms[k, i] > -math.inf:
                votes[i] += terms[k, i]
        k += 1
        observer = observers[observer, at.NEXT_OBSERVER]
    normalise(votes, n, parts)
    return n


@inner
def predict_marking(
    table: Any,
    root: int,
    x: Any,
    out: Any,
    marks: Any,
    ways: Any,
    stamp: int,
    votes: Any,
    parts: Any,
    places: Any,
) -> Any:
    """The way to a row's leaf, with marks at the columns that it and the prediction depend on: the leaf.

    Of an adaptive tree the sum over its leaves, by code, is added to ``out``; how many these are comes second.
    """
    nodes, splits, classes = i8(table, at.NODES), f8(table, at.SPLITS), i8(table, at.CLASSES)
    alternates = i8(table, at.ALTERNATES)
    adaptive = len(alternates) > 0
    node, times, reached = root, 1, 1
    while True:
        inside = nodes[node, at.KIND] != at.LEAF
        leaf_node = node
        if inside:
            leaf_node = alternates[node, 0] if adaptive else -1
        if leaf_node >= 0:
            leaf = nodes[leaf_node, at.LEAF_OF]
            mark_leaf(table, leaf, marks, stamp)
            if adaptive:
                n = vote(table, leaf_node, x, votes, parts, places)
                reached += times if inside else 0
                for _ in range(times if inside else 1):
                    for i in range(n):
                        out[classes[leaf, i]] += votes[i]
        if not inside:
            return nodes[node, at.LEAF_OF], reached
        marks[nodes[node, at.COLUMN]] = stamp
        ways[nodes[node, at.COLUMN]] = stamp
        child, times = following(nodes, splits, node, x), 1
        if child < 0:
            child, times = most_common(table, node), 2  # river's walk comes by it twice
        node = child


@inner
def predict_tree_rows(
    table: Any,
    root: int,
    rows: Any,
    like: int,
    differences: Any,
    stamps: Any,
    stamp: int,
    doubles: Any,
    out: Any,
) -> None:
    """A tree's probabilities of each row, rows × codes; ``stamps`` are below ``stamp``; the rest is written on."""
    order, classes = i8(table, at.ORDER), i8(table, at.CLASSES)
    marks, ways, unused, places = stamps[0], stamps[1], stamps[2], stamps[3]
    votes, parts, priors, seen, terms = doubles[0], doubles[1], doubles[2], doubles[3], doubles[4:]
    n, adaptive, regression = order.shape[1], len(i8(table, at.ALTERNATES)) > 0, is_regression(table)
    home, last = -1, -1
    for first in range(max(like, 1)):
        for c in range(first, len(rows), max(like, 1)):
            if same(differences, c, marks, stamp):
                put(out[c - like if like > 0 else 0], out[c])
                continue
            out[c, :] = 0.0
            leaf, reached = home, 1
            if adaptive or not same(differences, c, ways, stamp):
                if like > 0 or c == 0:
                    stamp += 1
                    leaf, reached = predict_marking(
                        table, root, rows[c], out[c], marks, ways, stamp, votes, parts, places
                    )
                    home = leaf
                else:
                    leaf, reached = predict_marking(
                        table, root, rows[c], out[c], unused, unused, stamp, votes, parts, places
                    )
            if not adaptive:
                if not regression and uses_bayes(table, leaf):
                    m = bayes_again(
                        table, leaf, rows[c], leaf == last, seen, terms, priors, votes, parts, places
                    )
                    last = leaf if m > 0 else -1
                else:
                    m = predict_leaf(table, leaf, rows[c], votes, parts, places)
                    last = -1
                for i in range(m):
                    out[c, classes[leaf, i]] += votes[i]
                continue
            if regression:
                out[c, 0] /= reached
                continue
            for i in range(n):
                votes[i] = out[c, order[0, i]]
            scale = total(votes, n)
            if scale != 0.0 and not math.isnan(scale):
                scale = 1.0 / scale
                for i in range(n):
                    out[c, order[0, i]] *= scale


@inner
def outputs(table: Any) -> Any:
    """Numbers of a prediction."""
    return i8(table, at.HEAD)[0, at.N_CLASSES]


@inner
def tree_rows(table: Any, rows: Any, like: int, out: Any) -> None:
    """What any of the tree learners predicts for each row: probabilities, rows × codes, or numbers, rows × 1."""
    wide = max(rows.shape[1], out.shape[1])
    member_rows(
        table, held(rows), like, held(out), differing(held(rows), like), np.zeros((4, wide), np.int64),
        np.empty((4 + rows.shape[1], wide)), np.empty((len(rows), out.shape[1])),
    )  # fmt: skip


@inner
def member_rows(
    table: Any,
    rows: Any,
    like: int,
    out: Any,
    own_differences: Any,
    own_stamps: Any,
    own_doubles: Any,
    own_votes: Any,
) -> None:
    """``tree_rows``, with what it writes on."""
    members, trees = i8(table, at.MEMBERS), i8(table, at.TREES)
    differences, stamps = held_integers(own_differences), held_integers(own_stamps)
    doubles, votes = held(own_doubles), held(own_votes)
    out[:, :] = 0.0
    if len(members) == 0:
        if trees[0, at.ROOT] >= 0:
            predict_tree_rows(table, trees[0, at.ROOT], rows, like, differences, stamps, 0, doubles, out)
        return
    if is_regression(table):
        predicted = np.zeros((len(rows), len(members)))
        for member in range(len(members)):
            root = trees[members[member, at.FOREGROUND], at.ROOT]
            if root >= 0:
                stamp = member * (len(rows) + 1)
                predict_tree_rows(table, root, rows, like, differences, stamps, stamp, doubles, votes)
                for c in range(len(rows)):
                    predicted[c, member] = votes[c, 0]
        for c in range(len(rows)):
            out[c, 0] = aggregate(table, predicted[c])
        return
    accuracy, numbers, order = f8(table, at.ACCURACY), f8(table, at.NUMBERS), i8(table, at.ORDER)
    seen, n = i1(table, at.SEEN), 0
    entered, codes = np.zeros(out.shape[1], np.int64), np.empty(out.shape[1], np.int64)
    for member in range(len(members)):
        tree = members[member, at.FOREGROUND]
        for i in range(order.shape[1]):
            if seen[tree, order[0, i]] == 1 and entered[order[0, i]] == 0:
                entered[order[0, i]] = 1
                codes[n] = order[0, i]
                n += 1
        if trees[tree, at.ROOT] < 0:
            continue
        predict_tree_rows(
            table,
            trees[tree, at.ROOT],
            rows,
            like,
            differences,
            stamps,
            member * (len(rows) + 1),
            doubles,
            votes,
        )
        share = (
            accuracy[member, at.CORRECT] / accuracy[member, at.ALL]
            if accuracy[member, at.ALL] != 0.0
            else 0.0
        )
        weight = share if share > 0.0 and numbers[0, at.WEIGHTED] != 0.0 else 1.0
        for c in range(len(rows)):
            for i in range(n):
                out[c, codes[i]] += votes[c, codes[i]] * weight
    values = np.empty(n)
    for c in range(len(rows)):
        for i in range(n):
            values[i] = out[c, codes[i]]
        whole = total(values, n)
        if whole > 0.0:
            for i in range(n):
                out[c, codes[i]] /= whole


@compiled
def predict_rows(table: Any, rows: Any, like: int, out: Any) -> None:
    """``tree_rows``, for Python."""
    tree_rows(table, rows, like, out)
