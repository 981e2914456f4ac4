"""Exact Shapley values of a multilinear function, by Gauss–Legendre along the diagonal.

With the surrogate features s of DBShap's eq. (2) each distribution is (1 − s)·baseline + s·target, so that the risk is
multilinear in s. Its Shapley value is then the integral of its gradient along the diagonal s = (t, …, t) (Owen 1972,
Multilinear extensions of games). The gradient is a polynomial in t of degree players − 1, so ⌈players/2⌉ nodes integrate it exactly.

Sums are by ``einsum`` and never by matrix products, whose order depends on the processor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np

from explain_core.drift.arrays import Values

START, STOP = np.array([1.0, 0.0]), np.array([0.0, 1.0])
"""Baseline and target of a player with two states, as P(y|x) and the hypothesis are."""


class Solution(NamedTuple):
    """Shapley values of the players, and the risks that their sum leads from and to; ``error`` is the standard error of
    each value where it was sampled.
    """

    values: Values
    baseline: float
    target: float
    error: Values | None = None


@lru_cache
def diagonal(players: int) -> tuple[tuple[float, float], ...]:
    """Nodes in (0, 1) and weights that integrate a polynomial of degree players − 1 exactly (Gauss–Legendre).

    >>> diagonal(2)
    ((0.5, 1.0),)
    """
    n = max(1, (players + 1) // 2)
    nodes = []
    for i in range(n):
        x = math.cos(math.pi * (n - i - 0.25) / (n + 0.5))
        for _ in range(100):  # Newton's method; a handful of steps from here
            before, p = 1.0, x
            for m in range(2, n + 1):
                before, p = p, ((2 * m - 1) * x * p - (m - 1) * before) / m
            slope = n * (x * p - before) / (x * x - 1.0)
            step = p / slope
            x -= step
            if abs(step) < 1e-15:
                break
        nodes.append(((x + 1.0) / 2.0, 1.0 / ((1.0 - x * x) * slope * slope)))
    return tuple(nodes)


def solve_grid(tensor: Values, baseline: Sequence[Values], target: Sequence[Values]) -> Solution:
    """The game R(s) = Σ_cells tensor[cells] Π_j ((1 − s_j)·baseline_j + s_j·target_j)[cell_j].

    ``tensor`` has one axis a player, of the length of its two distributions. Two players with two states and the four
    risks as a tensor are DBShap's eq. (12) and (13).
    """
    flat = tensor.ravel()
    values = np.zeros(len(baseline))
    for t, weight in diagonal(len(baseline)):
        mixed = [(1.0 - t) * b + t * a for b, a in zip(baseline, target, strict=True)]
        for j, rest in enumerate(_leave_one_out(flat, mixed)):
            values[j] += weight * np.sum(rest * (target[j] - baseline[j]))
    first, last = (float(np.sum(_leave_one_out(flat, side)[0] * side[0])) for side in (baseline, target))
    return Solution(values, first, last)


def solve_terms(vertices: Values, baseline: Values, target: Values) -> Solution:
    """The game R(s) = Σ_n v_n(s) Π_j (baseline_jn + s_j (target_jn − baseline_jn)), players × terms.

    ``vertices`` is terms × 2 × … × 2: v_n at the corners of its own players' cube, which come first in the result.
    """
    own, k = vertices.ndim - 1, len(baseline)
    corners = vertices.reshape(len(vertices), -1)
    step = target - baseline
    values = np.zeros(own + k)
    for t, weight in diagonal(own + k):
        rest, whole = _products(baseline + t * step)
        state = [np.array([1.0 - t, t])] * own
        mixed = np.einsum("nc,c->n", corners, reduce(_outer, state, np.ones(1)))
        for i, part in enumerate(_leave_one_out(np.einsum("nc,n->c", corners, whole), state)):
            values[i] += weight * (part[1] - part[0])
        values[own:] += weight * np.einsum("n,jn,jn->j", mixed, rest, step)
    first, last = (
        float(np.sum(corners[:, corner] * _products(factors)[1]))
        for corner, factors in ((0, baseline), (-1, target))
    )
    return Solution(values, first, last)


def _products(factors: Values) -> tuple[Values, Values]:
    """Of players × terms: per player the product of all others, and the product of all."""
    before, after = np.ones_like(factors), np.ones_like(factors)
    if not len(factors):
        return before, np.ones(factors.shape[1])
    np.multiply.accumulate(factors[:-1], axis=0, out=before[1:])
    np.multiply.accumulate(factors[:0:-1], axis=0, out=after[-2::-1])
    return before * after, before[-1] * factors[-1]


def _outer(a: Values, b: Values) -> Values:
    return np.multiply.outer(a, b).ravel()


def _leave_one_out(flat: Values, weights: Sequence[Values]) -> list[Values]:
    """For each axis of a tensor, given flat, its contraction with the weights of every other axis, by halving."""
    if len(weights) <= 1:
        return [flat][: len(weights)]
    half = len(weights) // 2
    left, right = reduce(_outer, weights[:half]), reduce(_outer, weights[half:])
    table = flat.reshape(len(left), len(right))
    return [
        *_leave_one_out(np.einsum("lr,r->l", table, right), weights[:half]),
        *_leave_one_out(np.einsum("lr,l->r", table, left), weights[half:]),
    ]
