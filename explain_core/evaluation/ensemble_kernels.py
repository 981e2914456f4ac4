"""iPFI and iSAGE of a trained ensemble in one compiled call, tree by tree instead of copy by copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.artefacts.kernels import (
    BASE,
    CHILD,
    CLASSES,
    COLUMN,
    FLAG_BITS,
    HEAD,
    LEAVES,
    NODES,
    OUTPUT,
    ROOT,
    SINGLE,
    THRESHOLDS,
    TREES,
    add,
    begin,
    finish,
    goes_right,
    leaf_below,
)
from explain_core.compiling import compiled, inner
from explain_core.evaluation.learned_kernels import (
    COUNTS,
    EMPTY,
    MEMBERS,
    ORDER,
    PFI_DRAWS,
    SAGE_DRAWS,
    STARTS,
    explained,
    joining_copies,
    replaced_copies,
)
from explain_core.learners.arrays import f8, held, held_integers, i4, i8


@inner
def replaced_sums(
    plan: Any, table: Any, own_copies: Any, own_sums: Any, own_reached: Any, own_places: Any
) -> None:
    """Sums over the trees for a record and iPFI's copies of it.

    A copy leaves the record's way at the first node that asks for what is replaced in it and answers otherwise: only from there on it
    is walked for itself.
    """
    nodes, thresholds, trees = i4(table, NODES), f8(table, THRESHOLDS), i4(table, TREES)
    leaves = f8(table, LEAVES)
    single, m = i8(table, HEAD)[0, SINGLE], i8(plan, COUNTS)[0, PFI_DRAWS]
    copies, sums, reached, places = (
        held(own_copies),
        held(own_sums),
        held_integers(own_reached),
        held_integers(own_places),
    )
    starts, members = i8(plan, STARTS), i8(plan, MEMBERS)
    places[:, :] = 0  # the first copy in which a column is replaced, and the one after the last
    for p in range(starts.shape[1] - 1 if len(copies) > 1 else 0):
        for i in range(starts[0, p], starts[0, p + 1]):
            places[0, members[0, i]] = 1 + p * m
            places[1, members[0, i]] = 1 + (p + 1) * m
    begin(table, sums)
    for tree in range(len(trees)):
        for c in range(len(copies)):
            reached[0, c] = -1
        node = trees[tree, ROOT]
        while nodes[node, COLUMN] >= 0:
            column, threshold, child = nodes[node, COLUMN], thresholds[node, 0], nodes[node, CHILD]
            j = column >> FLAG_BITS
            right = goes_right(table, column, threshold, copies[0, j])
            for c in range(places[0, j], places[1, j]):
                other = goes_right(table, column, threshold, copies[c, j])
                if other != right and reached[0, c] < 0:
                    reached[0, c] = leaf_below(table, child + other, copies, c)
            node = child + right
        for c in range(len(copies)):
            if reached[0, c] < 0:
                reached[0, c] = nodes[node, CHILD]
        add(sums, trees[tree, OUTPUT], leaves, reached, single)


@inner
def joining_sums(
    plan: Any,
    table: Any,
    own_row: Any,
    own_copies: Any,
    own_sums: Any,
    own_reached: Any,
    own_places: Any,
    own_waiting: Any,
) -> None:
    """Sums over the trees for iSAGE's copies: a drawn row that takes on the record's values, player after player.

    A node sends the first of them by the drawn row's value and, once its column has joined, the rest by the record's: a tree is walked
    once for an interval of steps, which is split where the two part.
    """
    nodes, thresholds, trees = i4(table, NODES), f8(table, THRESHOLDS), i4(table, TREES)
    leaves = f8(table, LEAVES)
    single, m = i8(table, HEAD)[0, SINGLE], i8(plan, COUNTS)[0, SAGE_DRAWS]
    row, copies, sums = held(own_row), held(own_copies), held(own_sums)
    reached, joins, waiting = (
        held_integers(own_reached),
        held_integers(own_places),
        held_integers(own_waiting),
    )
    starts, members, order = i8(plan, STARTS), i8(plan, MEMBERS), i8(plan, ORDER)
    steps, since = len(copies) // m, 1 if f8(plan, EMPTY).shape[1] > 0 else 0
    joins[:, :] = 0  # the first step that has the record's value of the column
    for place in range(order.shape[1]):
        for i in range(starts[0, order[0, place]], starts[0, order[0, place] + 1]):
            joins[0, members[0, i]] = place + 1 - since
    begin(table, sums)
    for tree in range(len(trees)):
        for k in range(m):
            waiting[0, 0], waiting[0, 1], waiting[0, 2], n = trees[tree, ROOT], 0, steps, 1
            while n > 0:
                n -= 1
                node, a, b = waiting[n, 0], waiting[n, 1], waiting[n, 2]
                while nodes[node, COLUMN] >= 0:
                    column, threshold, child = nodes[node, COLUMN], thresholds[node, 0], nodes[node, CHILD]
                    j = column >> FLAG_BITS
                    step = joins[0, j]
                    after = goes_right(table, column, threshold, row[0, j])
                    before = goes_right(table, column, threshold, copies[k, j])
                    if before != after and a < step < b:
                        waiting[n, 0], waiting[n, 1], waiting[n, 2] = child + after, step, b
                        n += 1
                        b = step
                    node = child + (after if step <= a else before)
                for step in range(a, b):
                    reached[0, step * m + k] = nodes[node, CHILD]
        add(sums, trees[tree, OUTPUT], leaves, reached, single)


@compiled
def explain_ensemble(plan: Any, table: Any, x: Any, y: float) -> Any:
    """iPFI and iSAGE of an ensemble; see ``explain_core.evaluation.learned_kernels.explained``."""
    copies, joining = replaced_copies(plan, x), joining_copies(plan, x)
    n, outputs = i8(table, HEAD)[0, CLASSES], f8(table, BASE).shape[1]
    first, second, places = (
        np.empty((len(copies), n)),
        np.empty((len(joining), n)),
        np.empty((2, len(x)), np.int64),
    )
    sums, row = np.empty((outputs, len(copies))), x.reshape((1, len(x)))
    replaced_sums(plan, table, copies, sums, np.empty((1, len(copies)), np.int64), places)
    finish(table, sums, first)
    if len(joining) > 0:
        sums, reached = np.empty((outputs, len(joining))), np.empty((1, len(joining)), np.int64)
        waiting = np.empty((len(joining) + 1, 3), np.int64)
        joining_sums(plan, table, row, joining, sums, reached, places, waiting)
        finish(table, sums, second)
    return explained(plan, first, second, y)
