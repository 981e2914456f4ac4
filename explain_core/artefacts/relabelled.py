"""A trained model whose labels are the codes of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.losses import Prediction
from explain_core.models import Model, Row


class Relabelled(Model):
    """A classifier that names the class at each place of ``classes`` by that place, and predicts as the one within."""

    def __init__(self, model: Model, classes: Sequence[Any]) -> None:
        super().__init__(model.wrapped, model.task)
        self.features, self.in_batches = model.features, model.in_batches
        self._model = model
        self._codes = {label: code for code, label in enumerate(classes)}

    def hold(self, x: Row) -> None:
        self._model.hold(x)

    def predict(self, x: Row) -> Prediction:
        return self._coded(self._model.predict(x))

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        return [self._coded(prediction) for prediction in self._model.predict_many(rows)]

    def _coded(self, prediction: Prediction) -> Prediction:
        assert not isinstance(prediction, float)
        codes = self._codes
        return {codes[label]: p for label, p in prediction.items()}


def relabelled(model: Model, classes: Sequence[Any] | None) -> Model:
    """The model with the codes 0, 1, … of its classes as labels, and nothing shared with it that changes; a regression as it is."""
    if isinstance(model, TreeEnsemble):
        return model.twin(None if classes is None else range(len(classes)))
    return model if classes is None else Relabelled(model, classes)
