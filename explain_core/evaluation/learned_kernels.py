"""iPFI and iSAGE of a learner in one compiled call: draws before its predictions, losses and smoothing after them.

Everything but the learner's own table stands in the table of a ``explain_core.evaluation.learned.Plan``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.compiling import allocating, compiled
from explain_core.kernels import (
    draw_joining,
    draw_replaced,
    empty_losses,
    finite,
    joined_delta,
    put,
    replaced_delta,
    update_smoothers,
)
from explain_core.learners.arrays import f8, held, i8, u8
from explain_core.learners.linear_kernels import outputs, predict_rows

SLOTS = (
    "state", "rows", "starts", "columns", "outside", "codes", "pairs", "counts", "order", "empty", "labels",
    "delta", "cells", "sums", "rates", "sage_delta", "sage_cells", "sage_sums", "sage_rates", "prediction",
)  # fmt: skip
(
    STATE, ROWS, STARTS, COLUMNS, OUTSIDE, CODES, PAIRS, COUNTS, ORDER, EMPTY, LABELS,
    DELTA, CELLS, SUMS, RATES, SAGE_DELTA, SAGE_CELLS, SAGE_SUMS, SAGE_RATES, PREDICTION,
) = range(len(SLOTS))  # fmt: skip
"""Slots of the table."""

PFI_DRAWS, SAGE_DRAWS, LOSSES, PLAYERS, SAGE_PLAYERS = range(5)
"""Of ``counts``: inner draws of iPFI and of iSAGE, 0 for none, and the shapes of what they smooth."""


@allocating
def replaced_copies(plan: Any, x: Any) -> Any:
    """The record, and iPFI's copies of it where that is asked for; ``state`` has drawn."""
    m, rows = i8(plan, COUNTS)[0, PFI_DRAWS], f8(plan, ROWS)
    if m == 0:
        alone = np.empty((1, len(x)))
        put(x, alone[0])
        return alone
    return draw_replaced(u8(plan, STATE)[0], x, rows, len(rows), i8(plan, STARTS)[0], i8(plan, COLUMNS)[0], m)


@allocating
def joining_copies(plan: Any, x: Any) -> Any:
    """iSAGE's copies, each but the first m like the one m before; none where it is not asked for. ``state`` has drawn."""
    m, rows, starts = i8(plan, COUNTS)[0, SAGE_DRAWS], f8(plan, ROWS), i8(plan, STARTS)[0]
    if m == 0 or len(starts) < 2:
        return np.empty((0, len(x)))
    first = 1 if f8(plan, EMPTY).shape[1] > 0 else 0
    return draw_joining(
        u8(plan, STATE)[0, 1:], x, rows, len(rows), starts, i8(plan, COLUMNS)[0], i8(plan, OUTSIDE)[0], m,
        first, i8(plan, ORDER)[0],
    )  # fmt: skip


@allocating
def in_order(out: Any, labels: Any) -> Any:
    """The columns of the labels."""
    found = np.empty((len(out), len(labels)))
    for c in range(len(out)):
        for i in range(len(labels)):
            found[c, i] = out[c, labels[i]]
    return found


@allocating
def explained(plan: Any, first: Any, second: Any, y: float) -> Any:
    """Take in what follows from the predictions for both kinds of copies, rows × classes in the order of their codes; the first is the record's.

    False, and only ``state``, ``order`` and ``prediction`` have changed, where something is not finite.
    """
    labels = i8(plan, LABELS)[0]
    return settled(plan, in_order(first, labels), in_order(second, labels), y)


@allocating
def settled(plan: Any, first: Any, second: Any, y: float) -> Any:
    """``explained``, of predictions in the order of the labels."""
    counts, codes = i8(plan, COUNTS)[0], i8(plan, CODES)[0]
    m, sage_m, n_losses, players = counts[PFI_DRAWS], counts[SAGE_DRAWS], counts[LOSSES], counts[PLAYERS]
    replaced, joined = held(first), held(second)
    base = replaced[0]
    if not finite(base):
        return False
    put(base, f8(plan, PREDICTION)[0])
    delta, sage_delta = f8(plan, DELTA), f8(plan, SAGE_DELTA)
    if m > 0 and not replaced_delta(replaced[1:], base, y, codes, m, delta):
        return False
    empty, rates, sage_rates = f8(plan, EMPTY)[0], f8(plan, RATES)[0], f8(plan, SAGE_RATES)[0]
    after, before = empty_losses(empty, sage_rates[0], base, y, codes)
    if sage_m > 0 and len(i8(plan, ORDER)[0]) > 0:
        order, pairs = i8(plan, ORDER)[0], i8(plan, PAIRS)[0]
        if not joined_delta(joined, base, before, y, codes, pairs, sage_m, order, sage_delta):
            return False
    cells = f8(plan, CELLS).reshape((-1, n_losses, players))
    sage_cells = f8(plan, SAGE_CELLS).reshape((-1, n_losses, counts[SAGE_PLAYERS]))
    return update_smoothers(
        m, delta, cells, f8(plan, SUMS), rates,
        sage_m, sage_delta, sage_cells, f8(plan, SAGE_SUMS), sage_rates, empty, after,
    )  # fmt: skip


@compiled
def explain_linear(plan: Any, table: Any, x: Any, y: float) -> Any:
    """iPFI and iSAGE of ``explain_core.learners.linear``; see ``explained``."""
    copies, joining = replaced_copies(plan, x), joining_copies(plan, x)
    n = outputs(table)
    first, second = np.empty((len(copies), n)), np.empty((len(joining), n))
    predict_rows(table, copies, first)
    predict_rows(table, joining, second)
    return explained(plan, first, second, y)
