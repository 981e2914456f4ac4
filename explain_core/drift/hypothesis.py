"""The hypothesis whose risk changes: a model, or a tree on the bin codes; and its loss for every class of truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explain_core.drift import tree
from explain_core.drift.arrays import Codes, Values
from explain_core.drift.binned import FeatureBins
from explain_core.drift.conditional import normalised
from explain_core.drift.predictions import Classes, Predictions, PredictionTable, losses_by_class
from explain_core.drift.windows import Column, Window
from explain_core.learners.base import Learner
from explain_core.losses import Loss, Prediction
from explain_core.models import Model


class ModelHypothesis:
    """A model: it is no ``tree`` on codes, with no ``leaf_losses``. On a cell it predicts the record of the bins' representatives, and of the values ``held`` of features without bins."""

    def __init__(
        self,
        model: Model,
        loss: Loss,
        classes: Classes,
        bins: Sequence[FeatureBins],
        held: Mapping[str, Any] | None = None,
    ) -> None:
        self.tree = None
        self.leaf_losses: Values = np.zeros((0, len(classes.truths)))
        self._labels: dict[Any, None] = {}
        self._model, self._loss, self._classes, self._bins = model, loss, classes, bins
        self._held = held or {}

    def on_rows(self, window: Window) -> Predictions:
        """Predictions at the window's rows."""
        columns = {name: column.cells for name, column in window.columns.items()}
        return self._together(columns, len(window)) or self._predict(window.rows())

    def on_cells(self, codes: Codes) -> Values:
        """Losses of cells with each class as the truth, n × classes; a cell stands for its representative."""
        n = len(codes)
        cells = [(bin_.feature, bin_.representatives, codes[:, j]) for j, bin_ in enumerate(self._bins)]
        cells += [(name, (value,), np.zeros(n, dtype=np.int64)) for name, value in self._held.items()]
        columns = {name: Column.of(values).at(at) for name, values, at in cells}
        found = self._together(columns, n)
        if found is None:
            given = {name: [values[code] for code in at.tolist()] for name, values, at in cells}
            rows = Window("cells", tuple(given), [None] * n, given=given).rows()
            return losses_by_class(self._loss, self._predict(rows), self._classes)
        return losses_by_class(self._loss, found, self._classes)

    def warnings(self) -> list[str]:
        """Properties of its predictions that bear on the result."""
        if not self._labels or any(label in self._labels for label in self._classes.truths):
            return []
        predicted, true = (
            ", ".join(map(repr, list(some)[:10])) for some in (self._labels, self._classes.truths)
        )
        return [f"hypothesis: it predicts {predicted}, and the labels are {true}; are they the same?"]

    def _together(self, columns: Mapping[str, Any], n: int) -> PredictionTable | None:
        """Predictions of n rows in one call of a learner; None where it takes them one by one."""
        model = self._model
        if not isinstance(model, Learner):
            return None
        rows = model.columns.matrix(columns, n)
        values = None if rows is None else model.predict_rows(rows)
        if values is None:
            return None
        found = PredictionTable(None if model.task == "regression" else list(model.order or ()), values)
        if not found.sound:
            return None
        if n:
            self._labels.update(dict.fromkeys(found.labels or ()))
        return found

    def _predict(self, rows: Sequence[Mapping[str, Any]]) -> list[Prediction]:
        predictions = self._model.checked_predictions(rows)
        known = self._labels.keys()
        for prediction in predictions:
            if isinstance(prediction, Mapping) and prediction.keys() != known:
                self._labels.update(dict.fromkeys(prediction))
        return predictions


class TreeHypothesis:
    """A tree on the bin codes, fitted on rows that are not explained: the hypothesis must be out of sample.

    Where it sees features that are not played, whose values are ``held`` on cells, it is for the games a model as any other; else they know the
    ``tree`` with its ``leaf_losses``, leaves × classes.
    """

    def __init__(
        self,
        codes: Codes,
        y: Codes,
        ranks: Sequence[Codes],
        loss: Loss,
        classes: Classes,
        bins: Sequence[FeatureBins],
        held: Mapping[str, Any] | None = None,
    ) -> None:
        self._bins, self._held = bins, held or {}
        self._tree, counts = tree.fit(codes, y, len(classes.truths), ranks, np.ones(len(y)))
        self.tree = None if any(bin_.feature in self._held for bin_ in bins) else self._tree
        shares = normalised(counts)
        if loss.task == "regression":
            means = np.sum(shares * np.array(classes.truths), axis=1)
            self._predictions: list[Prediction] = means.tolist()
        else:
            self._predictions = [dict(zip(classes.truths, row, strict=True)) for row in shares.tolist()]
        self._loss = loss
        self.leaf_losses = losses_by_class(loss, self._predictions, classes)

    def on_rows(self, window: Window) -> Predictions:
        codes = (
            np.column_stack([bin_.codes(window.columns[bin_.feature]) for bin_ in self._bins])
            if self._bins
            else np.zeros((len(window), 0), dtype=np.int64)
        )
        return [self._predictions[leaf] for leaf in self._tree.leaves(codes).tolist()]

    def on_cells(self, codes: Codes) -> Values:
        played = iter(codes.T)
        seen = [
            np.repeat(bin_.codes(Column.of([self._held[bin_.feature]])), len(codes))
            if bin_.feature in self._held
            else next(played)
            for bin_ in self._bins
        ]
        return self.leaf_losses[self._tree.leaves(np.column_stack(seen) if seen else codes)]

    def warnings(self) -> list[str]:
        return []


Hypothesis = ModelHypothesis | TreeHypothesis
