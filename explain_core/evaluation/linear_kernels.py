"""Compiled prediction of linear models: a copy differs from the record by the contributions of a few features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.evaluation.kernels import (
    below,
    compiled,
    draw_order,
    empty_losses,
    joined_delta,
    replaced_delta,
    settle,
)

IGNORED, NUMBER, SCALED, CATEGORY = range(4)
"""What becomes of a column: nothing, its value, its standardised value, an indicator for each category."""

SIGMOID, IDENTITY, SOFTMAX = range(3)
"""What makes a prediction of the sums."""


@compiled
def slopes(kinds: Any, variances: Any, weights: Any) -> Any:
    """What a number in each column, less its mean, adds to each sum per unit, outputs × columns."""
    out = np.zeros((len(weights), len(kinds)))
    for j in range(len(kinds)):
        scale = 1.0 if kinds[j] == NUMBER else 0.0
        if kinds[j] == SCALED and variances[j] > 0.0:
            scale = 1.0 / math.sqrt(variances[j])
        for c in range(len(weights)):
            out[c, j] = weights[c, j] * scale
    return out


@compiled
def term(c: int, j: int, value: float, kinds: Any, means: Any, places: Any, weights: Any, slope: Any) -> Any:
    """What the value of a column adds to the sum of an output."""
    if math.isnan(value):
        return 0.0
    if kinds[j] == CATEGORY:
        return weights[c, places[j, int(value)]]
    return slope[c, j] * (value - means[j])


@compiled
def terms(row: Any, kinds: Any, means: Any, places: Any, weights: Any, slope: Any) -> Any:
    """What each column of a row adds to each sum, outputs × columns."""
    out = np.empty((len(weights), len(row)))
    for c in range(len(weights)):
        for j in range(len(row)):
            out[c, j] = term(c, j, row[j], kinds, means, places, weights, slope)
    return out


@compiled
def predict(raw: Any, link: int, target: Any, out: Any) -> None:
    if link == IDENTITY:
        out[0] = raw[0] * target[0] + target[1]
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
    kinds: Any, means: Any, places: Any, weights: Any, slope: Any, mine: Any, intercepts: Any, link: int, target: Any,
    base: Any, codes: Any, delta: Any, y: float,
) -> Any:  # fmt: skip
    """iPFI's Δ; False where something is not finite."""
    players = len(starts) - 1
    out = np.empty((players * m, len(base)))
    own = intercepts.copy()
    for c in range(len(own)):
        for j in range(len(x)):
            own[c] += mine[c, j]
    raw = np.empty_like(own)
    for p in range(players):
        for k in range(p * m, (p + 1) * m):
            row = below(state, n_rows)
            for c in range(len(own)):
                raw[c] = own[c]
                for i in range(starts[p], starts[p + 1]):
                    j = columns[i]
                    theirs = term(c, j, rows[row, j], kinds, means, places, weights, slope)
                    raw[c] += theirs - mine[c, j]
            predict(raw, link, target, out[k])
    return replaced_delta(out, base, y, codes, m, delta)


@compiled
def joined(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, m: int,
    kinds: Any, means: Any, places: Any, weights: Any, slope: Any, mine: Any, intercepts: Any, link: int, target: Any,
    base: Any, codes: Any, delta: Any, outside: Any, first: int, order: Any, before: Any, pairs: Any, y: float,
) -> Any:  # fmt: skip
    """iSAGE's Δ; False where something is not finite."""
    drawn = draw_order(state, n_rows, m, order)
    players = len(order)
    out = np.empty(((players - first) * m, len(base)))
    raw = np.empty_like(intercepts)
    for k in range(m):
        theirs = terms(rows[drawn[k]], kinds, means, places, weights, slope)
        for c in range(len(raw)):
            raw[c] = intercepts[c]
            for j in columns:
                raw[c] += theirs[c, j]
            for j in outside:
                raw[c] += mine[c, j]
        for size in range(first, players):
            if size > 0:
                p = order[size - 1]
                for i in range(starts[p], starts[p + 1]):
                    for c in range(len(raw)):
                        raw[c] += mine[c, columns[i]] - theirs[c, columns[i]]
            predict(raw, link, target, out[(size - first) * m + k])
    return joined_delta(out, base, before, y, codes, pairs, m, order, delta)


@compiled
def explain(
    state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, outside: Any, base: Any, codes: Any,
    m: int, delta: Any, cells: Any, sums: Any, rates: Any,
    sage_m: int, sage_delta: Any, sage_cells: Any, sage_sums: Any, sage_rates: Any, order: Any, pairs: Any, empty: Any,
    kinds: Any, means: Any, variances: Any, places: Any, weights: Any, intercepts: Any, link: int, target: Any, y: float,
) -> Any:  # fmt: skip
    """iPFI and iSAGE, those that were asked for; False, and nothing has changed but ``state``, where something is not finite."""
    slope = slopes(kinds, variances, weights)
    mine = terms(x, kinds, means, places, weights, slope)
    if m > 0 and not permuted(
        state, x, rows, n_rows, starts, columns, m,
        kinds, means, places, weights, slope, mine, intercepts, link, target, base, codes, delta, y,
    ):  # fmt: skip
        return False
    after, before = empty_losses(empty, sage_rates[0], base, y, codes)
    if sage_m > 0 and not joined(
        state[1:], x, rows, n_rows, starts, columns, sage_m,
        kinds, means, places, weights, slope, mine, intercepts, link, target, base, codes, sage_delta,
        outside, 1 if len(empty) > 0 else 0, order, before, pairs, y,
    ):  # fmt: skip
        return False
    return settle(
        m, delta, cells, sums, rates, sage_m, sage_delta, sage_cells, sage_sums, sage_rates, empty, after
    )
