"""Compiled prediction of linear models: a copy differs from the record by the contributions of a few features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.evaluation.kernels import below, compiled, draw_order, joined_delta, replaced_delta

IGNORED, NUMBER, SCALED, CATEGORY = range(4)
"""What becomes of a column: nothing, its value, its standardised value, an indicator for each category."""

SIGMOID, IDENTITY, SOFTMAX = range(3)
"""What makes a prediction of the sums."""


@compiled
def add(columns: Any, row: Any, sign: float, kinds: Any, means: Any, deviations: Any, places: Any, weights: Any, raw: Any) -> None:  # fmt: skip
    """Add the contributions of some columns of a row to the sums ``raw``, one for each output."""
    for j in columns:
        value, kind, place = row[j], kinds[j], j
        if kind == IGNORED or math.isnan(value):
            continue
        if kind == SCALED:
            value = (value - means[j]) / deviations[j] if deviations[j] > 0.0 else 0.0
        elif kind == CATEGORY:
            place, value = places[j, int(value)], 1.0
        for c in range(len(raw)):
            raw[c] += sign * weights[c, place] * value


@compiled
def predict(raw: Any, link: int, scale: float, shift: float, out: Any) -> None:
    if link == IDENTITY:
        out[0] = raw[0] * scale + shift
    elif link == SIGMOID:
        p = 0.0 if raw[0] < -30.0 else 1.0 if raw[0] > 30.0 else 1.0 / (1.0 + math.exp(-raw[0]))
        out[0] = 1.0 - p
        out[1] = p
    else:
        highest = raw[0]
        for c in range(len(raw)):
            highest = max(highest, raw[c])
        whole = 0.0
        for c in range(len(raw)):
            out[c] = math.exp(raw[c] - highest)
            whole += out[c]
        for c in range(len(raw)):
            out[c] /= whole


@compiled
def permuted(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, m: int,
    kinds: Any, means: Any, deviations: Any, places: Any, weights: Any, intercepts: Any, link: int, scale: float,
    shift: float, base: Any, y: float, codes: Any, delta: Any,
) -> Any:  # fmt: skip
    """iPFI's Δ; False where something is not finite."""
    players = len(starts) - 1
    out = np.empty((players * m, len(base)))
    own = intercepts.copy()
    add(np.arange(len(x)), x, 1.0, kinds, means, deviations, places, weights, own)
    raw = np.empty_like(own)
    for p in range(players):
        mine = columns[starts[p] : starts[p + 1]]
        for k in range(p * m, (p + 1) * m):
            row = rows[below(state, n_rows)]
            raw[:] = own
            add(mine, x, -1.0, kinds, means, deviations, places, weights, raw)
            add(mine, row, 1.0, kinds, means, deviations, places, weights, raw)
            predict(raw, link, scale, shift, out[k])
    return replaced_delta(out, base, y, codes, m, delta)


@compiled
def joined(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, m: int, outside: Any, first: int,
    kinds: Any, means: Any, deviations: Any, places: Any, weights: Any, intercepts: Any, link: int, scale: float,
    shift: float, base: Any, before: Any, y: float, codes: Any, pairs: Any, delta: Any,
) -> Any:  # fmt: skip
    """iSAGE's Δ; False where something is not finite."""
    order = np.empty(len(starts) - 1, np.int64)
    drawn = draw_order(state, n_rows, m, order)
    players = len(order)
    out = np.empty(((players - first) * m, len(base)))
    for k in range(m):
        row = rows[drawn[k]]
        raw = intercepts.copy()
        add(columns, row, 1.0, kinds, means, deviations, places, weights, raw)
        add(outside, x, 1.0, kinds, means, deviations, places, weights, raw)
        for size in range(first, players):
            if size > 0:
                mine = columns[starts[order[size - 1]] : starts[order[size - 1] + 1]]
                add(mine, row, -1.0, kinds, means, deviations, places, weights, raw)
                add(mine, x, 1.0, kinds, means, deviations, places, weights, raw)
            predict(raw, link, scale, shift, out[(size - first) * m + k])
    return joined_delta(out, base, before, y, codes, pairs, m, order, delta)
