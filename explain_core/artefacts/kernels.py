"""Walks through an ensemble's trees, in compiled code.

The trees are the outer loop: each is walked for a record and all its copies before the next, so that it stays in the processor's
cache. Each prediction adds the trees up in their order, as the library that trained them does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import compiled, inner
from explain_core.learners.arrays import f8, held, held_integers, i4, i8, u4

SLOTS = (
    "head", "leaves", "base", "numbers", "sets", "words", "nodes", "thresholds", "trees",
    "spans", "limits", "owners", "stays", "marks", "firsts", "runs", "narrow",
)  # fmt: skip
(
    HEAD, LEAVES, BASE, NUMBERS, SETS, WORDS, NODES, THRESHOLDS, TREES,
    SPANS, LIMITS, OWNERS, STAYS, MARKS, FIRSTS, RUNS, NARROW,
) = range(len(SLOTS))  # fmt: skip
"""Slots of the table. ``nodes`` and ``thresholds`` are the same memory, 16 bytes a node: it is half of a walk's time to fetch them.

They and ``trees`` are for walks; the slots after them for ``explain_core.artefacts.shallow``. An ensemble has those of one kind alone.
"""

COLUMN, CHILD = 2, 3
"""Of a node as four 32-bit integers, after the threshold: the feature and flags, and the left child, which the right one follows.

A leaf has −1 for the first and its row of ``leaves`` for the second. ``x ≤ threshold`` goes left.
"""

FLAG_BITS = 4
"""Below the feature in ``COLUMN``."""

DEFAULT_LEFT, CATEGORICAL, NAN_IS_ZERO, ZERO_IS_MISSING = 1, 2, 4, 8
"""Flags: where a missing value goes; whether the threshold is the row of ``sets`` whose categories go left; what is missing."""

ROOT, OUTPUT = range(2)
"""Of a tree: its first node, and the first of the outputs that its leaves add to."""

BEGIN, END, STRIDE, LEAF = range(4)
"""Of a segment of rows; see ``add``."""

LINK, SINGLE, CLASSES, INTERVAL = range(4)
"""Of the head: the link function, whether sums are those of 32-bit floats, the numbers of a prediction, and a shallow ensemble's
``interval``."""

LINKS = (
    "identity",
    "sigmoid",
    "softmax",
    "each_sigmoid",
    "exp",
    "mean",
    "share",
    "step",
    "square",
    "log1p_exp",
    "complement",
)
(
    IDENTITY, SIGMOID, SOFTMAX, EACH_SIGMOID, EXP, MEAN, SHARE, STEP, SQUARE, LOG1P_EXP, COMPLEMENT
) = range(len(LINKS))  # fmt: skip
"""From sums over trees to predictions. ``mean`` is divided by the one number, ``share`` then by the sum over classes; the number of
a sigmoid is its steepness; ``complement`` is the probability of the second of two classes."""

ZERO = float(np.float32(1e-35))
"""The largest number that LightGBM takes for zero."""


@inner
def goes_right_by_flags(table: Any, column: int, threshold: float, value: float) -> Any:
    """``goes_right`` of missing values, categories, and zeros that may be missing: rare, and long."""
    if value != value:
        if column & NAN_IS_ZERO == 0:
            return np.int64(column & DEFAULT_LEFT == 0)
        value = 0.0
    if column & CATEGORICAL != 0:
        sets, words, row = i4(table, SETS), u4(table, WORDS), int(threshold)
        if not -1.0 < value < 32.0 * sets[row, 1]:
            return np.int64(1)
        code = int(value)
        return np.int64((words[0, sets[row, 0] + code // 32] >> np.uint32(code % 32)) & np.uint32(1) == 0)
    if column & ZERO_IS_MISSING != 0 and abs(value) <= ZERO:
        return np.int64(column & DEFAULT_LEFT == 0)
    return np.int64(value > threshold)


@inner
def goes_right(table: Any, column: int, threshold: float, value: float) -> Any:
    """1 where a value goes to the right child, 0 where to the left. Short, so that it stands in the loops that call it."""
    if column & (CATEGORICAL | ZERO_IS_MISSING) == 0 and value == value:
        return np.int64(value > threshold)
    return goes_right_by_flags(table, column, threshold, value)


@inner
def leaf_below(table: Any, node: int, rows: Any, c: int) -> Any:
    """The row of ``leaves`` that a row comes to from a node."""
    nodes, thresholds = i4(table, NODES), f8(table, THRESHOLDS)
    column = nodes[node, COLUMN]
    while column >= 0:
        right = goes_right(table, column, thresholds[node, 0], rows[c, column >> FLAG_BITS])
        node = nodes[node, CHILD] + right
        column = nodes[node, COLUMN]
    return nodes[node, CHILD]


@inner
def rounded(value: float, single: int) -> Any:
    """A number as wide as the library's."""
    return float(np.float32(value)) if single != 0 else value


@inner
def add(sums: Any, first: int, leaves: Any, segments: Any, n: int, values: Any, single: int) -> None:
    """Add a tree to the sums, outputs × rows.

    A segment (begin, end, step, leaf) says that the rows of this range have reached a leaf; a later one overrides those before.
    """
    for i in range(leaves.shape[1]):
        for k in range(n):
            value = leaves[segments[k, LEAF], i]
            for c in range(segments[k, BEGIN], segments[k, END], segments[k, STRIDE]):
                values[0, c] = value
        if single != 0:  # two loops, so that each becomes vector instructions
            for c in range(sums.shape[1]):
                sums[first + i, c] = float(np.float32(sums[first + i, c] + values[0, c]))
        else:
            for c in range(sums.shape[1]):
                sums[first + i, c] += values[0, c]


@inner
def put_segment(segments: Any, n: int, begin: int, end: int, step: int, leaf: int) -> None:
    """Write a segment; see ``add``."""
    segments[n, BEGIN], segments[n, END], segments[n, STRIDE], segments[n, LEAF] = begin, end, step, leaf


@inner
def begin(table: Any, sums: Any) -> None:
    """Sums over no tree yet."""
    base = f8(table, BASE)
    for i in range(base.shape[1]):
        for c in range(sums.shape[1]):
            sums[i, c] = base[0, i]


@inner
def finish(table: Any, sums: Any, out: Any) -> None:
    """From sums over the trees to predictions, rows × numbers."""
    link, single, number = i8(table, HEAD)[0, LINK], i8(table, HEAD)[0, SINGLE], f8(table, NUMBERS)[0, 0]
    outputs = f8(table, BASE).shape[1]
    for c in range(len(out)):
        row = out[c]
        for i in range(outputs):
            row[i] = sums[i, c]
        if link == SIGMOID:
            p = rounded(1.0 / rounded(1.0 + rounded(math.exp(-number * row[0]), single), single), single)
            if len(row) == 2:
                row[0] = rounded(1.0 - p, single)
                row[1] = p
            else:
                row[0] = p
        elif link == COMPLEMENT:
            row[1] = row[0]
            row[0] = rounded(1.0 - row[1], single)
        elif link == STEP:
            row[1] = 1.0 if row[0] > 0.0 else 0.0
            row[0] = 1.0 - row[1]
        elif link == SOFTMAX:
            most = row[0]
            for i in range(1, outputs):
                most = max(most, row[i])
            whole = 0.0
            for i in range(outputs):
                row[i] = rounded(math.exp(rounded(row[i] - most, single)), single)
                whole += row[i]
            for i in range(outputs):
                row[i] = rounded(row[i] / rounded(whole, single), single)
        elif link == SHARE:
            whole = 0.0
            for i in range(outputs):
                whole += row[i]
            for i in range(outputs):
                row[i] /= whole
        else:
            for i in range(outputs):
                if link == EACH_SIGMOID:
                    row[i] = 1.0 / (1.0 + math.exp(-number * row[i]))
                elif link == EXP:
                    row[i] = rounded(math.exp(row[i]), single)
                elif link == MEAN:
                    row[i] /= number
                elif link == SQUARE:
                    row[i] = math.copysign(row[i] * row[i], row[i])
                elif link == LOG1P_EXP:
                    row[i] = math.log1p(math.exp(row[i]))


@inner
def row_sums(table: Any, own_rows: Any, own_sums: Any, own_values: Any, own_segments: Any) -> None:
    """Sums over the trees for each of the rows."""
    trees, leaves = i4(table, TREES), f8(table, LEAVES)
    single, rows, sums = i8(table, HEAD)[0, SINGLE], held(own_rows), held(own_sums)
    values, segments = held(own_values), held_integers(own_segments)
    begin(table, sums)
    for tree in range(len(trees)):
        for c in range(len(rows)):
            put_segment(segments, c, c, c + 1, 1, leaf_below(table, trees[tree, ROOT], rows, c))
        add(sums, trees[tree, OUTPUT], leaves, segments, len(rows), values, single)


@compiled
def predict_rows(table: Any, rows: Any, out: Any) -> None:
    """Predictions of the rows into ``out``, rows × numbers of a prediction."""
    sums = np.empty((f8(table, BASE).shape[1], len(rows)))
    row_sums(table, rows, sums, np.empty((1, len(rows))), np.empty((len(rows), 4), np.int64))
    finish(table, sums, out)
