"""Predictions of rows that differ from one another in few columns, in compiled code.

A row is like the one ``like`` before it, or like the first where ``like`` is 0. Its way through a tree is followed anew from the
first node that sends it elsewhere, and what a leaf has computed for a value of a feature is kept: the bits are those of
predicting each row by itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import allocating, compiled, inlined, inner
from explain_core.kernels import put
from explain_core.learners import layout as at
from explain_core.learners.adaptive import scale_votes
from explain_core.learners.arrays import f8, i1, i8
from explain_core.learners.forest_regression import aggregate
from explain_core.learners.leaves import is_regression, majority, uses_bayes, weight_of
from explain_core.learners.naive_bayes import factors, normalise, priors
from explain_core.learners.regression_leaves import asks_all, predict_target
from explain_core.learners.tree import DEEPEST
from explain_core.learners.walks import following, most_common
from explain_core.sums import total

KEPT = 32
"""Leaves whose computations are kept, a power of two: one for each remainder of the node's number."""

NODE, VOTES, OBSERVERS, ASKED, N_SLOT = range(5)
"""Of a kept leaf: its node, how many votes it has, how many observers they depend on, and their columns as bits; then the
observers, and their columns."""

AT, COLUMN, TIMES, BEFORE, N_STEP = range(5)
"""Of a step of a way: the node, the column that it asks for, how often river's walk comes by it, and the columns asked for before as bits."""


@inlined
def bit(column: int) -> Any:
    """A column in a set of bits; from the 65th on columns share theirs."""
    return 1 << (column & 63)


@allocating
def differing(rows: Any, like: int) -> Any:
    """The columns in which each row differs from the one that it is like, as bits; all where there is none."""
    out = np.empty(len(rows), np.int64)
    for c in range(len(rows)):
        before = c - like if like > 0 else 0
        out[c] = 0 if 0 <= before < c else -1
        for j in range(rows.shape[1] if out[c] == 0 else 0):
            # The same bits, or both missing.
            if rows[c, j] != rows[before, j] and (
                rows[c, j] == rows[c, j] or rows[before, j] == rows[before, j]
            ):
                out[c] |= bit(j)
    return out


@inlined
def next_node(table: Any, nodes: Any, splits: Any, node: int, x: Any) -> Any:
    """The node after a branch, and how often river's walk comes by it."""
    child = following(nodes, splits, node, x)
    if child >= 0:
        return child, 1
    return most_common(table, node), 2


@inlined
def parting(table: Any, nodes: Any, splits: Any, way: Any, length: int, x: Any, differences: int) -> Any:
    """The first step of a way that sends the row elsewhere; the number of its branches where none does."""
    if differences & way[length, BEFORE] == 0:
        return length
    for i in range(length):
        if differences & bit(way[i, COLUMN]) != 0:
            node, times = next_node(table, nodes, splits, way[i, AT], x)
            if node != way[i + 1, AT] or times != way[i + 1, TIMES]:
                return i
    return length


@inlined
def predict_kept(
    table: Any, node: int, x: Any, slot: int, kept: Any, places: Any, votes: Any, known: Any, seen: Any, terms: Any, parts: Any
) -> None:  # fmt: skip
    """The votes of a node that is a leaf into those of its slot, by what is kept there: ``leaves.predict_leaf``."""
    room = seen.shape[1]
    own = kept[slot, NODE] == node
    if own:
        k = 0
        while k < kept[slot, OBSERVERS]:
            value = x[kept[slot, N_SLOT + room + k]]
            if value != seen[slot, k] and (value == value or seen[slot, k] == seen[slot, k]):
                break
            k += 1
        if k == kept[slot, OBSERVERS]:
            return
    leaf = i8(table, at.NODES)[node, at.LEAF_OF]
    leaves, stats, classes = i8(table, at.LEAVES), f8(table, at.STATS), i8(table, at.CLASSES)
    kept[slot, NODE] = node
    if is_regression(table):
        votes[slot, 0] = predict_target(table, leaf, x)
        kept[slot, VOTES], kept[slot, OBSERVERS], kept[slot, ASKED] = 1, 0, 0
        if asks_all(table, leaf):
            kept[slot, NODE], kept[slot, ASKED] = -1, -1
        return
    n = leaves[leaf, at.COUNT]
    if not uses_bayes(table, leaf):
        majority(leaf, n, stats, classes, votes[slot])
        kept[slot, VOTES], kept[slot, OBSERVERS], kept[slot, ASKED] = n, 0, 0
    else:
        observers, cells, links = i8(table, at.OBSERVERS), f8(table, at.CELLS), i8(table, at.LINKS)
        two, k = f8(table, at.NUMBERS)[0, at.TWO], 0
        if not own:
            kept[slot, VOTES], kept[slot, OBSERVERS], kept[slot, ASKED] = 0, 0, 0
            whole = weight_of(leaf, n, stats, classes)
            if n == 0 or whole == 0.0:
                return
            priors(leaf, n, whole, stats, classes, places[slot], known[slot])
            observer = leaves[leaf, at.FIRST]
            while observer >= 0:
                kept[slot, N_SLOT + k] = observer
                kept[slot, N_SLOT + room + k] = observers[observer, at.FEATURE]
                kept[slot, ASKED] |= bit(observers[observer, at.FEATURE])
                k += 1
                observer = observers[observer, at.NEXT_OBSERVER]
            kept[slot, VOTES], kept[slot, OBSERVERS] = n, k
        put(known[slot, :n], votes[slot])
        for k in range(kept[slot, OBSERVERS]):
            value, row = x[kept[slot, N_SLOT + room + k]], slot * room + k
            if not own or (value != seen[slot, k] and (value == value or seen[slot, k] == seen[slot, k])):
                seen[slot, k] = value
                factors(
                    observers, cells, links, kept[slot, N_SLOT + k], value, two, places[slot], terms[row], n
                )
            for i in range(n):
                if terms[row, i] > -math.inf:
                    votes[slot, i] += terms[row, i]
        normalise(votes[slot], n, parts)
    if len(i8(table, at.ALTERNATES)) > 0:
        scale_votes(table, node, n, votes[slot])


@inner
def predict_tree_rows(
    table: Any, root: int, rows: Any, like: int, differences: Any, ways: Any, kept: Any, places: Any, votes: Any, known: Any,
    seen: Any, terms: Any, parts: Any, out: Any,
) -> None:  # fmt: skip
    """A tree's probabilities of each row, rows × codes; of an adaptive tree the sum over its leaves, made a share of 1."""
    nodes, splits, classes = i8(table, at.NODES), f8(table, at.SPLITS), i8(table, at.CLASSES)
    order, alternates = i8(table, at.ORDER), i8(table, at.ALTERNATES)
    n, adaptive, regression = order.shape[1], len(alternates) > 0, is_regression(table)
    # The way of the row that others are like, and the columns that its prediction depends on; the rest of the way of one that is
    # like the first row, and parts.
    way, rest = ways[: DEEPEST + 2], ways[DEEPEST + 2 :]
    way[0, AT], way[0, TIMES], way[0, BEFORE], length = root, 1, 0, 0
    for first in range(max(like, 1)):
        asked = -1
        for c in range(first, len(rows), max(like, 1)):
            if differences[c] & asked == 0:
                put(out[c - like if like > 0 else 0], out[c])
                continue
            x = rows[c]
            start = parting(table, nodes, splits, way, length, x, differences[c])
            own, i, node = like > 0 or c == 0, start, way[start, AT]
            branches = way if own else rest
            while nodes[node, at.KIND] != at.LEAF:
                branches[i, COLUMN] = nodes[node, at.COLUMN]
                i += 1
                branches[i, BEFORE] = branches[i - 1, BEFORE] | bit(nodes[node, at.COLUMN])
                node, branches[i, TIMES] = next_node(table, nodes, splits, node, x)
                branches[i, AT] = node
            if own:
                length, asked = i, way[i, BEFORE]
            out[c, :] = 0.0
            reached = 1
            for k in range(0 if adaptive else i, i + 1):
                times = 1
                node = branches[k, AT] if k > start else way[k, AT]
                if k < i:
                    times = branches[k, TIMES] if k > start else way[k, TIMES]
                    node = alternates[node, 0]
                    if node < 0:
                        continue
                    reached += times
                slot = node & (KEPT - 1)
                predict_kept(table, node, x, slot, kept, places, votes, known, seen, terms, parts)
                if own:
                    asked |= kept[slot, ASKED]
                leaf = nodes[node, at.LEAF_OF]
                for _ in range(times):
                    for j in range(kept[slot, VOTES]):
                        out[c, classes[leaf, j]] += votes[slot, j]
            if not adaptive:
                continue
            if regression:
                out[c, 0] /= reached
                continue
            for j in range(n):
                parts[j] = out[c, order[0, j]]
            scale = total(parts, n)
            if scale != 0.0 and not math.isnan(scale):
                scale = 1.0 / scale
                for j in range(n):
                    out[c, order[0, j]] *= scale


@allocating
def tree_rows(table: Any, rows: Any, like: int, out: Any) -> None:
    """What any of the tree learners predicts for each row: probabilities, rows × codes, or numbers, rows × 1."""
    columns, size = rows.shape[1], out.shape[1]
    differences, ways = differing(rows, like), np.empty((2 * (DEEPEST + 2), N_STEP), np.int64)
    kept, places = np.empty((KEPT, N_SLOT + 2 * columns), np.int64), np.empty((KEPT, size), np.int64)
    votes, known, seen = np.empty((KEPT, size)), np.empty((KEPT, size)), np.empty((KEPT, columns))
    terms, parts, vote = np.empty((KEPT * columns, size)), np.empty(size), np.empty((len(rows), size))
    kept[:, NODE] = -1
    members, trees = i8(table, at.MEMBERS), i8(table, at.TREES)
    out[:, :] = 0.0
    regression = is_regression(table)
    if len(members) == 0:
        if trees[0, at.ROOT] >= 0:
            predict_tree_rows(
                table, trees[0, at.ROOT], rows, like, differences, ways, kept, places, votes, known, seen, terms, parts, out
            )  # fmt: skip
        return
    predicted = np.zeros((len(rows) if regression else 0, len(members)))
    accuracy, numbers, order = f8(table, at.ACCURACY), f8(table, at.NUMBERS), i8(table, at.ORDER)
    met, n = i1(table, at.SEEN), 0
    entered, codes = np.zeros(out.shape[1], np.int64), np.empty(out.shape[1], np.int64)
    for member in range(len(members)):
        tree = members[member, at.FOREGROUND]
        for i in range(0 if regression else order.shape[1]):
            if met[tree, order[0, i]] == 1 and entered[order[0, i]] == 0:
                entered[order[0, i]] = 1
                codes[n] = order[0, i]
                n += 1
        if trees[tree, at.ROOT] < 0:
            continue
        predict_tree_rows(
            table, trees[tree, at.ROOT], rows, like, differences, ways, kept, places, votes, known, seen, terms, parts, vote
        )  # fmt: skip
        if regression:
            for c in range(len(rows)):
                predicted[c, member] = vote[c, 0]
            continue
        share = (
            accuracy[member, at.CORRECT] / accuracy[member, at.ALL]
            if accuracy[member, at.ALL] != 0.0
            else 0.0
        )
        weight = share if share > 0.0 and numbers[0, at.WEIGHTED] != 0.0 else 1.0
        for c in range(len(rows)):
            for i in range(n):
                out[c, codes[i]] += vote[c, codes[i]] * weight
    if regression:
        for c in range(len(rows)):
            out[c, 0] = aggregate(table, predicted[c])
        return
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
