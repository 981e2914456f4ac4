"""The product game, and three routes to its Shapley values.

The game takes P(x) as a product of factors. Its players are the concept P(y|x), the hypothesis if it changes, and each factor. Two routes are
exact: the grid of all cells, and the boxes of overlaid trees. Samples of mixed distributions (``Samples``) serve for what is neither small nor a
tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explain_core.drift.arrays import Codes, Flags, Values
from explain_core.drift.conditional import CellIndex, Fitted, LabelModel, Pair
from explain_core.drift.factors import Factor, codes_of, grid_codes
from explain_core.drift.hypothesis import Hypothesis
from explain_core.drift.shapley import START, STOP, Solution, diagonal, solve_grid, solve_terms
from explain_core.drift.tree import CodeTree
from explain_core.engine.drift import play


class Grid:
    """The product game on every cell of the grid; exact."""

    route = "grid"

    def __init__(
        self, factors: Sequence[Factor], conditional: LabelModel, hypotheses: Sequence[Hypothesis]
    ) -> None:
        self._factors = factors
        codes = grid_codes(factors)
        self.size = len(codes)
        self._cells = conditional.prepare(codes)
        self._losses = [q.on_cells(codes) for q in hypotheses]

    def solve(self, fitted: Fitted, weights: Pair, errors: bool = True) -> Solution:
        chances = [fitted.at(w, self._cells) for w in (0, 1)]
        tensor = np.array([[expected(chance, loss) for loss in self._losses] for chance in chances])
        sides = [
            *[(START, STOP)] * len(self._losses),
            *(factor.marginals(weights) for factor in self._factors),
        ]
        return solve_grid(tensor, [start for start, _ in sides], [other for _, other in sides])


class Boxes:
    """The product game on the boxes in which the trees of P(y|x) and those that are the hypothesis are constant; exact."""

    route = "boxes"

    def __init__(
        self, factors: Sequence[Factor], sizes: Sequence[int], hypotheses: Sequence[Hypothesis]
    ) -> None:
        self._factors = factors
        self._sizes = sizes
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._trees = [q.tree for q in hypotheses if q.tree is not None]
        self._losses = [q.leaf_losses for q in hypotheses]
        self.size = 0

    def solve(self, fitted: Fitted, weights: Pair, errors: bool = True) -> Solution:
        return solve_terms(*self.terms(fitted, weights))

    def terms(self, fitted: Fitted, weights: Pair) -> tuple[Values, Values, Values]:
        """The game as ``solve_terms`` takes it: a term is a box."""
        if fitted.trees is None:
            raise AssertionError("boxes are of trees")
        masks, leaves = overlay([*self._trees, *fitted.trees], self._sizes)
        self.size = self.size or len(masks)
        q = len(self._trees)
        losses = [loss[leaf] for loss, leaf in zip(self._losses, leaves, strict=False)]
        vertices = np.array(
            [[expected(fitted.probabilities[w][leaves[q + w]], loss) for loss in losses] for w in (0, 1)]
        )
        vertices = np.moveaxis(vertices[:, 0] if q == 1 else vertices, -1, 0)
        shares = [self._shares(factor, masks, weights) for factor in self._factors]
        baseline, target = (
            np.array([share[w] for share in shares]).reshape(len(shares), len(masks)) for w in (0, 1)
        )
        return vertices, baseline, target

    def _shares(self, factor: Factor, masks: Flags, weights: Pair) -> Pair:
        """Mass of the factor's cells inside each box, in the baseline and in the target."""
        inside = np.ones((len(masks), len(factor.cells)), dtype=bool)
        for position, column in enumerate(factor.columns):
            inside &= masks[:, self._starts[column] + factor.cells[:, position]]
        first, second = (np.einsum("nc,c->n", inside, side) for side in factor.marginals(weights))
        return first, second


def overlay(
    trees: Sequence[CodeTree], sizes: Sequence[int], limit: int | None = None
) -> tuple[Flags, list[Codes]]:
    """The non-empty intersections of the trees' leaves: boxes × codes, and the leaf of each box per tree.

    Raises ``OverflowError`` where there are more than ``limit``.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    masks = trees[0].boxes(sizes)
    leaves: list[Codes] = [np.arange(len(masks))]
    for other in trees[1:]:
        parts, origins = [], []
        for box in other.boxes(sizes):
            alive = np.arange(len(masks))
            for start, size in zip(starts.tolist(), sizes, strict=False):
                part = box[start : start + size]
                if not part.all():
                    alive = alive[(masks[alive, start : start + size] & part).any(axis=1)]
            parts.append(masks[alive] & box)
            origins.append(alive)
            if limit is not None and sum(map(len, parts)) > limit:
                raise OverflowError
        masks = np.concatenate(parts)
        origin = np.concatenate(origins)
        leaves = [leaf[origin] for leaf in leaves]
        leaves.append(np.repeat(np.arange(len(parts)), [len(part) for part in parts]))
    return masks, leaves


def expected(chances: Values, losses: Values) -> Values:
    """Σ_y P(y)·L(y) along the last axis."""
    result: Values = np.einsum("...y,...y->...", chances, losses)
    return result


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

    def solve(self, fitted: Fitted, weights: Pair, errors: bool = True) -> Solution:
        players = len(self._losses) + len(self._factors)
        values, variances = np.zeros(players), np.zeros(players if errors else 0)
        risks = np.zeros(len(self._times))
        before, after = (fitted.at(w, self._cells) for w in (0, 1))
        play(
            self._times, self._weights, self._rows[0], self._rows[1], weights[0], weights[1], self._drawn, self._draws, self._where,
            before, after, self._losses[0], self._losses[-1], values, variances, risks,
        )  # fmt: skip
        return Solution(values, float(risks[0]), float(risks[-1]), np.sqrt(variances))

    def _mixed(self, baseline: Values, target: Values) -> Values:
        """Nodes × cells of a factor: its mixture at each node."""
        t = self._times[:, None]
        return np.asarray((1.0 - t) * baseline + t * target)


Game = Grid | Boxes | Samples
"""``solve`` gives the Shapley values for weighted rows, with their ``errors`` where they are sampled. ``size``: its cells, boxes or samples."""


def _draw(chances: Values, uniform: Values) -> Codes:
    """Positions with these chances, by inversion."""
    found: Codes = np.searchsorted(np.cumsum(chances), uniform, side="right")
    last = int(np.flatnonzero(chances)[-1])
    return np.where(found < last, found, last)
