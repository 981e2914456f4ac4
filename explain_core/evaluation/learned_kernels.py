"""iPFI and iSAGE of a learner in one compiled call: draws before its predictions, losses and smoothing after them.

Everything but the learner's own table stands in the table of a ``explain_core.evaluation.learned.Plan``.
"""

from __future__ import annotations

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
)
from explain_core.learners.arrays import f8, i8, u8
from explain_core.learners.linear_kernels import outputs, predict_rows

SLOTS = (
    "state", "rows", "starts", "members", "outside", "codes", "pairs", "counts", "order", "empty", "labels",
    "delta", "cells", "sums", "rates", "sage_delta", "sage_cells", "sage_sums", "sage_rates",
)  # fmt: skip
(
    STATE, ROWS, STARTS, MEMBERS, OUTSIDE, CODES, PAIRS, COUNTS, ORDER, EMPTY, LABELS,
    DELTA, CELLS, SUMS, RATES, SAGE_DELTA, SAGE_CELLS, SAGE_SUMS, SAGE_RATES,
) = range(len(SLOTS))  # fmt: skip
"""Slots of the table."""

PFI_DRAWS, SAGE_DRAWS, LOSSES, PLAYERS, SAGE_PLAYERS = range(5)
"""Of ``counts``: inner draws of iPFI and of iSAGE, 0 for none, and the shapes of what they smooth."""


@compiled
def copies_of(plan: Any, x: Any) -> Any:
    """The record, iPFI's copies of it and iSAGE's, and for each row the earlier one that it is most like (itself for the record).

    ``state`` has drawn.
    """
    counts, state, rows = i8(plan, COUNTS)[0], u8(plan, STATE)[0], f8(plan, ROWS)
    starts, members, outside = i8(plan, STARTS)[0], i8(plan, MEMBERS)[0], i8(plan, OUTSIDE)[0]
    m, sage_m = counts[PFI_DRAWS], counts[SAGE_DRAWS]
    players = len(starts) - 1
    if m > 0:
        first = draw_replaced(state, x, rows, len(rows), starts, members, m)
    else:
        first = x.reshape(1, len(x)).copy()
    like = np.zeros(len(first), np.int64)
    if sage_m == 0 or players == 0:
        return first, like
    start = 1 if f8(plan, EMPTY).shape[1] > 0 else 0
    second = draw_joining(
        state[1:], x, rows, len(rows), starts, members, outside, sage_m, start, i8(plan, ORDER)[0]
    )
    copies = np.empty((len(first) + len(second), len(x)))
    copies[: len(first)] = first
    copies[len(first) :] = second
    likes = np.empty(len(copies), np.int64)
    likes[: len(first)] = like
    for c in range(len(first), len(copies)):
        likes[c] = c - sage_m if c - sage_m >= len(first) else c
    return copies, likes


@compiled
def explained(plan: Any, out: Any, y: float) -> Any:
    """Take in what follows from the predictions of the copies, rows × classes in the order of their codes.

    False, and only ``state`` and ``order`` have changed, where something is not finite.
    """
    counts, codes, labels = i8(plan, COUNTS)[0], i8(plan, CODES)[0], i8(plan, LABELS)[0]
    m, sage_m, n_losses, players = counts[PFI_DRAWS], counts[SAGE_DRAWS], counts[LOSSES], counts[PLAYERS]
    predictions = np.empty((len(out), len(labels)))
    for c in range(len(out)):
        for i in range(len(labels)):
            predictions[c, i] = out[c, labels[i]]
    base, n_first = predictions[0], 1 + m * (i8(plan, STARTS).shape[1] - 1)
    delta, sage_delta = f8(plan, DELTA), f8(plan, SAGE_DELTA)
    if m > 0 and not replaced_delta(predictions[1:n_first], base, y, codes, m, delta):
        return False
    empty, rates, sage_rates = f8(plan, EMPTY)[0], f8(plan, RATES)[0], f8(plan, SAGE_RATES)[0]
    after, before = empty_losses(empty, sage_rates[0], base, y, codes)
    if sage_m > 0 and len(i8(plan, ORDER)[0]) > 0:
        order, pairs = i8(plan, ORDER)[0], i8(plan, PAIRS)[0]
        if not joined_delta(predictions[n_first:], base, before, y, codes, pairs, sage_m, order, sage_delta):
            return False
    cells = f8(plan, CELLS).reshape((4, n_losses, players))
    sage_cells = f8(plan, SAGE_CELLS).reshape((4, n_losses, counts[SAGE_PLAYERS]))
    return settle(
        m, delta, cells, f8(plan, SUMS)[0], rates,
        sage_m, sage_delta, sage_cells, f8(plan, SAGE_SUMS)[0], sage_rates, empty, after,
    )  # fmt: skip


@compiled
def explain_linear(plan: Any, table: Any, x: Any, y: float) -> Any:
    """iPFI and iSAGE of ``explain_core.learners.linear``; see ``explained``."""
    copies, _ = copies_of(plan, x)
    out = np.empty((len(copies), outputs(table)))
    predict_rows(table, copies, out)
    return explained(plan, out, y)
