"""Reasons of the predictions of linear learners: exact in the margin, which for numbers is the prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explain_core.engine import linear as engine
from explain_core.learners.linear import LinearLearner
from explain_core.models import Row
from explain_core.reasons.result import Array, Reasons, Space


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
        self.model.columns.add(name for x in (*self.background, *records) for name in x)
        background, own = self._contributions(self.background), self._contributions(records)
        mean = background.mean(axis=0)
        values = (own - mean)[:, :-1, np.newaxis]
        outputs = (None,) if self.model.task == "regression" else (self.model.labels[1],)
        features, predicted = tuple(self.model.columns.names), own.sum(axis=1)[:, np.newaxis]
        baseline = mean.sum(keepdims=True)
        return Reasons(
            features, outputs, values, np.zeros_like(values), predicted, baseline, self.space, "exact"
        )

    def _contributions(self, records: Sequence[Row]) -> Array:
        """Records × columns, then the constant."""
        width = len(self.model.columns.names)
        rows, out = np.empty((len(records), width)), np.empty((len(records), width + 1))
        for i, x in enumerate(records):
            rows[i] = self.model.encoded(x)
        if len(records):
            engine.contributions(self.model.arrays.table, rows, out)
        return out
