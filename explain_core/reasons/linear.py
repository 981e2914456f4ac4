"""Reasons of the predictions of linear learners: exact in the margin, which for numbers is the prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explain_core.engine import linear as engine
from explain_core.learners.linear import LinearLearner
from explain_core.models import Row
from explain_core.reasons.result import Reasons, Space


class LinearReasons:
    """Of logistic or linear regression: a feature's value is what it adds to the sum, less what it adds on average over the background."""

    def __init__(self, model: LinearLearner, background: Sequence[Row], space: Space) -> None:
        self.model, self.space = model, space
        self.background = list(background)

    @staticmethod
    def fits(model: LinearLearner, space: Space) -> bool:
        return model.additive and (space == "margin" or model.task == "regression")

    def replace(self, slot: int, x: Row) -> None:
        self.background[slot] = x

    def explain(self, records: Sequence[Row]) -> Reasons:
        rows = self.model.matrix([*self.background, *records])
        found = np.empty((len(rows), rows.shape[1] + 1))  # of each column, then the constant
        engine.contributions(self.model.arrays.table, rows, found)
        n = len(self.background)
        mean, own = found[:n].mean(axis=0), found[n:]
        values = (own - mean)[:, :-1, np.newaxis]
        outputs = (None,) if self.model.task == "regression" else (self.model.labels[1],)
        features, predicted = tuple(self.model.columns.names), own.sum(axis=1)[:, np.newaxis]
        baseline = mean.sum(keepdims=True)
        return Reasons(
            features, outputs, values, np.zeros_like(values), predicted, baseline, self.space, "exact"
        )
