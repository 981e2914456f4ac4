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
    put_segment,
)
from explain_core.compiling import compiled, inner
from explain_core.evaluation.learned_kernels import (
    COLUMNS,
    COUNTS,
    EMPTY,
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
    plan: Any, table: Any, own_copies: Any, own_sums: Any, own_values: Any, own_segments: Any, own_places: Any
) -> None:
    """Sums over the trees for a record and iPFI's copies of it.

    A copy leaves the record's way at the first node that asks for what is replaced in it and answers otherwise: only from there on it
    is walked for itself.
    """
    nodes, thresholds, trees = i4(table, NODES), f8(table, THRESHOLDS), i4(table, TREES)
    leaves = f8(table, LEAVES)
    single, m = i8(table, HEAD)[0, SINGLE], i8(plan, COUNTS)[0, PFI_DRAWS]
    copies, sums, values = held(own_copies), held(own_sums), held(own_values)
    segments, places = held_integers(own_segments), held_integers(own_places)
    starts, columns = i8(plan, STARTS), i8(plan, COLUMNS)
    # By column: the first copy in which it is replaced, and the one after the last. By copy: the tree in which it left, from 1.
    places[:, :] = 0
    for p in range(starts.shape[1] - 1 if len(copies) > 1 else 0):
        for i in range(starts[0, p], starts[0, p + 1]):
            places[0, columns[0, i]] = 1 + p * m
            places[1, columns[0, i]] = 1 + (p + 1) * m
    begin(table, sums)
    for tree in range(len(trees)):
        node, n = trees[tree, ROOT], 1
        while nodes[node, COLUMN] >= 0:
            column, threshold, child = nodes[node, COLUMN], thresholds[node, 0], nodes[node, CHILD]
            j = column >> FLAG_BITS
            right = goes_right(table, column, threshold, copies[0, j])
            for c in range(places[0, j], places[1, j]):
                other = goes_right(table, column, threshold, copies[c, j])
                if other != right and places[2, c] != tree + 1:
                    places[2, c] = tree + 1
                    put_segment(segments, n, c, c + 1, 1, leaf_below(table, child + other, copies, c))
                    n += 1
            node = child + right
        put_segment(segments, 0, 0, len(copies), 1, nodes[node, CHILD])
        add(sums, trees[tree, OUTPUT], leaves, segments, n, values, single)


@inner
def joining_sums(
    plan: Any,
    table: Any,
    own_row: Any,
    own_copies: Any,
    own_sums: Any,
    own_values: Any,
    own_segments: Any,
    own_places: Any,
    own_waiting: Any,
) -> None:
    """Sums over the trees for iSAGE's copies: a drawn row that takes on the record's values, player after player.

    A node sends the first copies by the drawn row's value and, once its column has joined, the rest by the record's value. So a tree is walked
    once for an interval of steps, and the interval is split where the two values part.
    """
    nodes, thresholds, trees = i4(table, NODES), f8(table, THRESHOLDS), i4(table, TREES)
    leaves = f8(table, LEAVES)
    single, m = i8(table, HEAD)[0, SINGLE], i8(plan, COUNTS)[0, SAGE_DRAWS]
    row, copies, sums, values = held(own_row), held(own_copies), held(own_sums), held(own_values)
    segments, joins, waiting = (
        held_integers(own_segments),
        held_integers(own_places),
        held_integers(own_waiting),
    )
    starts, columns, order = i8(plan, STARTS), i8(plan, COLUMNS), i8(plan, ORDER)
    steps, since = len(copies) // m, 1 if f8(plan, EMPTY).shape[1] > 0 else 0
    joins[:, :] = 0  # the first step that has the record's value of the column
    for place in range(order.shape[1]):
        for i in range(starts[0, order[0, place]], starts[0, order[0, place] + 1]):
            joins[0, columns[0, i]] = place + 1 - since
    begin(table, sums)
    for tree in range(len(trees)):
        found = 0
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
                put_segment(segments, found, a * m + k, b * m, m, nodes[node, CHILD])
                found += 1
        add(sums, trees[tree, OUTPUT], leaves, segments, found, values, single)


@compiled
def explain(plan: Any, table: Any, x: Any, y: float) -> Any:
    """iPFI and iSAGE of an ensemble; see ``explain_core.evaluation.learned_kernels.explained``."""
    copies, joining = replaced_copies(plan, x), joining_copies(plan, x)
    n, outputs = i8(table, HEAD)[0, CLASSES], f8(table, BASE).shape[1]
    most = max(len(copies), len(joining))
    first, second = np.empty((len(copies), n)), np.empty((len(joining), n))
    values, segments = np.empty((1, most)), np.empty((most + 1, 4), np.int64)
    places, row = np.empty((3, max(len(x), most)), np.int64), x.reshape((1, len(x)))
    sums = np.empty((outputs, len(copies)))
    replaced_sums(plan, table, copies, sums, values, segments, places)
    finish(table, sums, first)
    if len(joining) > 0:
        sums, waiting = np.empty((outputs, len(joining))), np.empty((len(joining) + 1, 3), np.int64)
        joining_sums(plan, table, row, joining, sums, values, segments, places, waiting)
        finish(table, sums, second)
    return explained(plan, first, second, y)
