"""The third route to the product game's Shapley values: samples of mixed distributions, played in compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explain_core.drift.arrays import Codes, Values
from explain_core.drift.conditional import CellIndex, Fitted, LabelModel, Pair
from explain_core.drift.factors import Factor, codes_of
from explain_core.drift.hypothesis import Hypothesis
from explain_core.drift.shapley import Solution, diagonal
from explain_core.engine.drift import play


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
        conditional: LabelModel,
        hypotheses: Sequence[Hypothesis],
        weights: Pair,
        n: int,
        seed: int,
    ) -> None:
        self._factors = factors
        nodes = [(0.0, 0.0), *diagonal(len(hypotheses) + len(factors)), (1.0, 0.0)]
        self._times, self._weights = np.array(nodes).T.copy()
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
        before, after = (fitted.at(w, self._cells) for w in (0, 1))
        play(
            self._times, self._weights, self._rows[0], self._rows[1], weights[0], weights[1], self._drawn, self._draws, self._where,
            before, after, self._losses[0], self._losses[-1], values, variances, risks,
        )  # fmt: skip
        return values, np.sqrt(variances), risks

    def _mixed(self, baseline: Values, target: Values) -> Values:
        """Nodes × cells of a factor: its mixture at each node."""
        t = self._times[:, None]
        return np.asarray((1.0 - t) * baseline + t * target)


def _draw(chances: Values, uniform: Values) -> Codes:
    """Positions with these chances, by inversion."""
    found: Codes = np.searchsorted(np.cumsum(chances), uniform, side="right")
    last = int(np.flatnonzero(chances)[-1])
    return np.where(found < last, found, last)
