"""Leaves of shallow trees by sets of bits instead of walks, in compiled code: QuickScorer (Lucchese et al., SIGIR 2015).

A tree of up to 64 leaves is a word whose bits are the leaves that are left, the leftmost leaf the lowest. A node that sends a record to the
right rules out the leaves below its left child. The first leaf that is left once all columns are known is the record's. The order of
the nodes does not matter: each column is dealt with for all trees at once, with no branch for the processor to guess.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.artefacts.kernels import (
    BASE,
    FIRSTS,
    HEAD,
    INTERVAL,
    LEAVES,
    LIMITS,
    MARKS,
    NARROW,
    OWNERS,
    RUNS,
    SINGLE,
    SPANS,
    STAYS,
    finish,
    goes_right_by_flags,
)
from explain_core.compiling import AVAILABLE, compiled, inlined, inner
from explain_core.kernels import put
from explain_core.learners.arrays import f4, f8, held, held_integers, i8, u4, u8

ALL = -1
"""The word of a tree with all its leaves."""

BEGIN, FLAGGED, END, MARK = range(4)
"""Of the nodes of a column: the first, sorted by threshold; the first whose flags decide; the one after the last. And its first row of
``marks``: the words once the first of its nodes have sent to the right, as many as the head's ``INTERVAL``, then twice as many, and so on."""

OWNER, COLUMN = range(2)
"""Of a node: its tree, and its feature and flags as ``kernels.COLUMN`` has them."""

OUTPUT = 1
"""Of a run of trees between ``BEGIN`` and ``END``: the first output that they add to."""

TOGETHER = 4
"""Rows whose leaves are added up in one loop: a sum has to wait for its last addition, others use the time."""


if AVAILABLE:
    from numba.core import types  # type: ignore[import-untyped, unused-ignore]
    from numba.extending import intrinsic  # type: ignore[import-untyped, unused-ignore]

    def _lowest(typing: Any, word: Any) -> Any:
        """The place of the lowest bit that is set, as numba has it compiled."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

        return types.uint64(types.int64), generate  # type: ignore[no-untyped-call, unused-ignore]

    lowest: Any = intrinsic(_lowest)


@inlined
def fill(target: Any, word: int) -> None:
    """``target[:] = word``."""
    for tree in range(len(target)):
        target[tree] = word


@inlined
def common(target: Any, other: Any) -> None:
    """``target &= other``."""
    for tree in range(len(target)):
        target[tree] &= other[tree]


@inlined
def rule_out(left: Any, owners: Any, stays: Any, begin: Any, end: Any) -> None:
    """Rule out what the nodes from ``begin`` to ``end`` do when they send to the right."""
    for k in range(
        np.uint64(begin), np.uint64(end)
    ):  # unsigned: an index below 0 would have to be looked for
        left[owners[k, OWNER]] &= stays[0, k]


@inner
def narrow(table: Any, left: Any, column: int, value: float) -> None:
    """Rule out the leaves that a column's value does, in the words of all trees."""
    spans, limits, owners, stays = i8(table, SPANS), f8(table, LIMITS), u4(table, OWNERS), i8(table, STAYS)
    if column >= len(spans):  # the model does not know it
        return
    begin, flagged, interval = spans[column, BEGIN], spans[column, FLAGGED], i8(table, HEAD)[0, INTERVAL]
    if value == value:
        stop, n = begin, flagged - begin  # the first node whose threshold is not below the value
        while n > 1:
            half = n >> 1
            stop += half * np.int64(limits[0, stop + half - 1] < value)
            n -= half
        if n == 1:
            stop += np.int64(limits[0, stop] < value)
        reached = (stop - begin) // interval
        if reached > 0:
            common(left, i8(table, MARKS)[spans[column, MARK] + reached - 1])
        rule_out(left, owners, stays, begin + reached * interval, stop)
    else:
        flagged = begin
    for k in range(flagged, spans[column, END]):
        if goes_right_by_flags(table, np.int64(owners[k, COLUMN]), limits[0, k], value) != 0:
            left[owners[k, OWNER]] &= stays[0, k]


@inlined
def leaf_totals(words: Any, first: int, firsts: Any, leaves: Any, begin: Any, end: Any, start: float) -> Any:
    """The sums of a run of trees for the ``TOGETHER`` rows of words from ``first`` on, in the trees' order, as wide as ``start``."""
    one, two, three, four = words[first], words[first + 1], words[first + 2], words[first + 3]
    a, b, c, d = start, start, start, start
    for tree in range(np.uint64(begin), np.uint64(end)):
        leaf = firsts[0, tree]
        a += leaves[leaf + lowest(one[tree])]
        b += leaves[leaf + lowest(two[tree])]
        c += leaves[leaf + lowest(three[tree])]
        d += leaves[leaf + lowest(four[tree])]
    return a, b, c, d


@inner
def word_sums(table: Any, own_words: Any, own_sums: Any) -> None:
    """Sums over the trees, outputs × rows, for as many rows of words as there are sums; there are ``TOGETHER`` words or more."""
    words, sums = held_integers(own_words), held(own_sums)
    runs, firsts, base = i8(table, RUNS), u8(table, FIRSTS), f8(table, BASE)
    single, leaves, narrow_leaves = i8(table, HEAD)[0, SINGLE], f8(table, LEAVES), f4(table, NARROW)
    n, width = sums.shape[1], max(len(leaves), len(narrow_leaves))
    for i in range(base.shape[1]):
        for c in range(n):
            sums[i, c] = base[0, i]
    for c in range(n, TOGETHER):
        fill(words[c], ALL)
    for block in range((n + TOGETHER - 1) // TOGETHER):
        first = max(min(block * TOGETHER, n - TOGETHER), 0)
        for run in range(len(runs)):
            begin, end = runs[run, BEGIN], runs[run, END]
            for i in range(width):
                o = runs[run, OUTPUT] + i
                if single != 0:
                    a, b, c, d = leaf_totals(
                        words, first, firsts, narrow_leaves[i], begin, end, np.float32(base[0, o])
                    )
                    totals = (float(a), float(b), float(c), float(d))
                else:
                    totals = leaf_totals(words, first, firsts, leaves[i], begin, end, base[0, o])
                for r in range(min(n, TOGETHER)):
                    sums[o, first + r] = totals[r]


@compiled
def predict_shallow(table: Any, rows: Any, out: Any) -> None:
    """Predictions of the rows into ``out``, rows × numbers of a prediction."""
    words = np.empty((TOGETHER, i8(table, FIRSTS).shape[1]), np.int64)
    sums, predictions = np.empty((f8(table, BASE).shape[1], TOGETHER)), np.empty((TOGETHER, out.shape[1]))
    left = held_integers(words)
    for first in range(0, len(rows), TOGETHER):
        n = min(TOGETHER, len(rows) - first)
        for r in range(TOGETHER):  # also the words without a row: the leaves of all are looked up
            fill(left[r], ALL)
        for r in range(n):
            for column in range(len(i8(table, SPANS))):
                narrow(table, left[r], column, rows[first + r, column])
        word_sums(table, words, sums)
        finish(table, sums, predictions)
        for r in range(n):
            put(predictions[r], out[first + r])
