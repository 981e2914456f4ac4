"""River's trees and ensembles of trees: compiled where numba is installed, else along the paths that change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from river.utils.norm import normalize_values_in_dict

from explain_core.evaluation import tree_kernels
from explain_core.evaluation.compiled import CompiledEvaluator
from explain_core.evaluation.forest import Forest
from explain_core.evaluation.kernels import (
    AVAILABLE,
    draw_joining,
    draw_replaced,
    empty_losses,
    joined_delta,
    replaced_delta,
    settle,
)
from explain_core.evaluation.paths import Copies
from explain_core.evaluation.plan import Plan
from explain_core.evaluation.table import Array
from explain_core.evaluation.votes import ADAPTIVE, voting
from explain_core.losses import Prediction
from explain_core.models import Model, Row, check_prediction

CHUNK = 1_000
"""Records that are predicted together: bounds the memory for the votes of each tree."""

FEW = 8
"""Records of which all are left to river where one has to be."""


class TreesEvaluator(CompiledEvaluator):
    """Hoeffding trees (adaptive and extremely fast ones too) and their forests, bags, boosts and random patches.

    The values are those of the model to the last bit. Missing features at a split, where river follows the most
    travelled branch, splits of other kinds than ≤, = and one branch per category, and leaf models other than river's
    linear regression are left to Python.
    """

    name = "trees"

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        found = voting(model.wrapped)
        if found is None:
            raise ValueError(f"evaluator: trees does not know {type(model.wrapped).__name__}; use generic")
        self._voting = found
        self.image = self._forest = Forest(found, self._table)
        self.constants = (2.0, found.normalise)

    def meet(self, x: Row) -> None:
        if self._forest.arrays:
            row, _ = self._table.row(x)
            if row is not None and self._forest.sync() and len(row) == self._forest.width:
                self._forest.locate(x, row)

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        done = self._compiled_predictions(rows) if AVAILABLE and rows else None
        return super().predict_many(rows) if done is None else done

    def _compiled_predictions(self, rows: Sequence[Row]) -> list[Prediction] | None:
        matrix, ordered = self._table.matrix(rows)
        forest, voting = self._forest, self._voting
        if matrix is None or not forest.sync() or forest.width != matrix.shape[1]:
            return None
        if voting.regression:
            numbers = None if forest.linear and not ordered else self._means(matrix, 1)
            return None if numbers is None else numbers[:, 0].tolist()
        labels = forest.labels
        if list(self.model.predict(rows[0])) != labels:  # type: ignore[arg-type]
            return None

        def predicted(start: int, end: int) -> list[Prediction]:
            known, shares = tree_kernels.shares(
                matrix[start:end], 1, *forest.arrays[:-1], *self.constants, len(labels)
            )
            if known:
                return [dict(zip(labels, share, strict=True)) for share in shares.tolist()]
            if end - start <= FEW:
                return self.model.predict_many(rows[start:end])
            middle = (start + end) // 2
            return predicted(start, middle) + predicted(middle, end)

        starts = range(0, len(matrix), CHUNK)
        return [one for start in starts for one in predicted(start, min(start + CHUNK, len(matrix)))]

    def predict_copies(self, copies: Iterator[Row]) -> list[Prediction]:
        """Each tree is asked only for copies that differ in what it reads on the way, or at its leaf."""
        voting, trees = self._voting, self._voting.trees()
        if voting.regression or not trees or any(type(tree) in ADAPTIVE for tree in trees):
            return super().predict_copies(copies)
        weights = [1.0] * len(trees) if voting.weights is None else voting.weights()
        asked = Copies(trees)
        answers: list[Prediction] = []
        for x in copies:
            several = asked.votes(x)
            votes = several[0]
            if voting.normalise != tree_kernels.RAW:
                votes = {}
                for found, weight in zip(several, weights, strict=True):
                    for label, p in found.items():
                        votes[label] = p * weight + votes.get(label, 0.0)
            if voting.normalise == tree_kernels.DIVIDED and (total := sum(votes.values())) > 0:
                votes = {label: p / total for label, p in votes.items()}
            elif voting.normalise == tree_kernels.SCALED:
                normalize_values_in_dict(votes)
            check_prediction(votes, self.model.task)
            answers.append(votes)
        return answers

    def _run(self, plan: Plan, x: Row, y: float) -> bool:
        forest = self._forest
        if len(self._table.buffer) != forest.width:
            return False
        if not self._voting.regression:
            forest.located(x)
            return bool(tree_kernels.explain(*plan.arguments, y))
        forest.locate(x, self._table.buffer)
        if forest.linear and not (self._ordered and self._rows[id(plan.reservoir)].ordered):
            return False  # a leaf's linear model adds up in the record's own order
        drawn, pfi, sage = plan.arguments[1:6], plan.pfi, plan.sage
        rest = (self._own, y, plan.codes)
        after, before = empty_losses(plan.empty, sage.smoother.rates[0], *rest)
        if pfi.n_samples:
            copies = draw_replaced(plan.state, *drawn, pfi.n_samples)
            predictions = self._means(copies, 0)
            if predictions is None or not replaced_delta(predictions[1:], *rest, pfi.n_samples, pfi.delta):
                return False
        if sage.n_samples:
            first = 1 if len(plan.empty) else 0
            copies = draw_joining(plan.state[1:], *drawn, plan.outside, sage.n_samples, first, plan.order)
            predictions = self._means(copies, sage.n_samples)
            if predictions is None or not joined_delta(
                predictions, self._own, before, *rest[1:], plan.pairs, sage.n_samples, plan.order, sage.delta
            ):
                return False
        return bool(settle(*plan.smoothing(), plan.empty, after))

    def _means(self, copies: Array, like: int) -> Array | None:
        """Predictions of a regression for the copies, copies × 1; for ``like`` see ``tree_kernels.differing``."""
        arrays = self._forest.arrays[:-1]
        out = np.empty((len(copies), len(self._voting.trees()), 1))
        if not tree_kernels.members(copies, like, *arrays, 2.0, True, out):
            return None
        matrix = out[:, :, 0]
        mean = self._voting.mean
        return np.ascontiguousarray(matrix if mean is None else np.reshape(mean(matrix), (-1, 1)), np.float64)
