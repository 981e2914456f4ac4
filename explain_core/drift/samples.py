"""The third route to the product game's Shapley values: samples of mixed distributions, played in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.compiling import compiled, inner
from explain_core.drift.arrays import Codes, Values
from explain_core.drift.conditional import CellIndex, Conditional, Fitted, Pair
from explain_core.drift.factors import Factor, codes_of
from explain_core.drift.hypothesis import Hypothesis
from explain_core.drift.shapley import Solution, diagonal


class Samples:
    """The product game by cells drawn from the mixture of both windows at each node of the diagonal.

    At node t the derivative of the risk for factor i is E[g·(P_t(x_i) − P_b(x_i))/mixture(x_i)], x from the mixture and
    g the risk at x: a covariance, as the ratio has mean 0. Unbiased; each value has its standard error.
    ``solve`` with other weights gives the same samples importance weights: no new call of the model.
    """

    route = "monte carlo"

    def __init__(
        self,
        factors: Sequence[Factor],
        conditional: Conditional,
        hypotheses: Sequence[Hypothesis],
        weights: Pair,
        n: int,
        seed: int,
    ) -> None:
        self._factors = factors
        nodes = [(0.0, 0.0), *diagonal(len(hypotheses) + len(factors)), (1.0, 0.0)]
        self._times, self._weights = np.array(nodes).T
        per_node = max(2, n // len(nodes))
        rng = np.random.Generator(np.random.PCG64(seed))
        sides = [factor.marginals(weights) for factor in factors]
        mixtures = [self._mixed(*side) for side in sides]
        drawn = [[_draw(mixture[i], rng.random(per_node)) for mixture in mixtures] for i in range(len(nodes))]
        codes = codes_of(factors, [np.concatenate([draw[j] for draw in drawn]) for j in range(len(factors))])
        index = CellIndex(codes, [top + 1 for top in codes.max(axis=0).tolist()])
        self._where = index.find(codes).reshape(len(nodes), per_node)
        self.size = len(codes)
        self._losses = [q.on_cells(index.codes) for q in hypotheses]
        self._cells = conditional.prepare(index.codes)
        # Nodes × draws × factors.
        self._draws = (
            np.array(drawn, dtype=np.int64)
            .reshape(len(nodes), len(factors), per_node)
            .transpose(0, 2, 1)
            .copy()
        )
        width = max((len(factor.cells) for factor in factors), default=0)
        self._drawn = np.zeros((len(nodes), len(factors), width))
        for j, mixture in enumerate(mixtures):
            self._drawn[:, j, : mixture.shape[1]] = mixture
        self._rows = [np.array([factor.rows[w] for factor in factors], dtype=np.int64) for w in (0, 1)]

    def solve(self, fitted: Fitted, weights: Pair) -> Solution:
        values, errors, risks = self._play(fitted, weights, True)
        return Solution(values, float(risks[0]), float(risks[-1]), errors)

    def values(self, fitted: Fitted, weights: Pair) -> Values:
        return self._play(fitted, weights, False)[0]

    def _play(self, fitted: Fitted, weights: Pair, with_errors: bool) -> tuple[Values, Values, Values]:
        players = len(self._losses) + len(self._factors)
        values, variances = np.zeros(players), np.zeros(players if with_errors else 0)
        risks = np.zeros(len(self._times))
        chances = [fitted.at(w, self._cells) for w in (0, 1)]
        of_rows = (*self._rows, *weights, self._drawn, self._draws, self._where)
        losses = self._losses[0], self._losses[-1]
        _play(self._times, self._weights, *of_rows, *chances, *losses, values, variances, risks)
        return values, np.sqrt(variances), risks

    def _mixed(self, baseline: Values, target: Values) -> Values:
        """Nodes × cells of a factor: its mixture at each node."""
        t = self._times[:, None]
        return np.asarray((1.0 - t) * baseline + t * target)


@compiled
def _play(
    times: Any,
    node_weights: Any,
    baseline_rows: Any,
    target_rows: Any,
    baseline_weights: Any,
    target_weights: Any,
    drawn: Any,
    draws: Any,
    where: Any,
    before: Any,
    after: Any,
    first: Any,
    last: Any,
    values: Any,
    variances: Any,
    risks: Any,
) -> None:
    """The players' ``values``, their ``variances`` if there is room for them, and the risk at each node.

    ``drawn`` is the mixture of each factor that the draws are from, nodes × factors × cells, ``draws`` the cells, nodes × draws × factors, and
    ``where`` the place of each draw in ``before``, ``after``, ``first`` and ``last``: chances and losses, distinct draws × classes. The draws
    weigh as the mixtures of the weighted rows have them.
    """
    nodes, n, factors = draws.shape
    width, classes, own = drawn.shape[2], before.shape[1], len(values) - factors
    baseline, target = np.zeros((factors, width)), np.zeros((factors, width))
    _shares(baseline_rows, baseline_weights, baseline)
    _shares(target_rows, target_weights, target)
    importance, ratio = np.empty((factors, width)), np.empty((factors, width))
    g, weight, parts = np.empty(n), np.empty(n), np.empty((len(values), n))
    for node in range(nodes):
        t = times[node]
        for j in range(factors):
            for cell in range(width):
                mixed = (1.0 - t) * baseline[j, cell] + t * target[j, cell]
                importance[j, cell] = mixed / max(drawn[node, j, cell], 1e-300)
                ratio[j, cell] = (target[j, cell] - baseline[j, cell]) / max(mixed, 1e-300)
        risk = 0.0
        for i in range(n):
            at, scale = where[node, i], 1.0
            for j in range(factors):
                scale *= importance[j, draws[node, i, j]]
            mean = concept = hypothesis = 0.0
            for y in range(classes):
                chance = (1.0 - t) * before[at, y] + t * after[at, y]
                loss = (1.0 - t) * first[at, y] + t * last[at, y]
                mean += chance * loss
                concept += (after[at, y] - before[at, y]) * loss
                hypothesis += chance * (last[at, y] - first[at, y])
            g[i], weight[i] = mean, scale
            parts[0, i] = concept * scale
            if own == 2:
                parts[1, i] = hypothesis * scale
            risk += scale * mean
        risks[node] = risk / n
        if node_weights[node] == 0.0:
            continue
        # The mean of g is of the same samples: what that takes off the covariance is given back.
        whole = n / (n - 1.0)
        for i in range(n):
            centred = (g[i] - risks[node]) * weight[i] * whole
            for j in range(factors):
                parts[own + j, i] = centred * ratio[j, draws[node, i, j]]
        for player in range(len(values)):
            mean = spread = 0.0
            for i in range(n):
                mean += parts[player, i]
            mean /= n
            values[player] += node_weights[node] * mean
            if len(variances) > 0:
                for i in range(n):
                    spread += (parts[player, i] - mean) ** 2
                variances[player] += node_weights[node] ** 2 * (spread / (n - 1.0)) / n


@inner
def _shares(rows: Any, weights: Any, found: Any) -> None:
    """The shares of a window's weighted rows in the cells of each factor, factors × cells, into zeros."""
    whole = 0.0
    for i in range(len(weights)):
        whole += weights[i]
    for j in range(len(rows)):
        for i in range(len(weights)):
            found[j, rows[j, i]] += weights[i]
        for cell in range(found.shape[1]):
            found[j, cell] /= whole


def _draw(chances: Values, uniform: Values) -> Codes:
    """Positions with these chances, by inversion."""
    found: Codes = np.searchsorted(np.cumsum(chances), uniform, side="right")
    last = int(np.flatnonzero(chances)[-1])
    return np.where(found < last, found, last)
