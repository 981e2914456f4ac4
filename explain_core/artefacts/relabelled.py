"""A trained model with other labels for its classes, such as their codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.losses import Prediction
from explain_core.models import Model, Row


class Relabelled(Model):
    """A classifier that gives each of ``classes`` its label in ``codes``, and predicts as the one within."""

    def __init__(self, model: Model, classes: Sequence[Any], codes: Sequence[Any]) -> None:
        super().__init__(model.wrapped, model.task)
        self.features, self.kinds, self.in_batches = model.features, model.kinds, model.in_batches
        self.classes = list(codes)
        self._model = model
        self._codes = dict(zip(classes, codes, strict=True))

    def predict(self, x: Row) -> Prediction:
        return self._coded(self._model.predict(x))

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        return [self._coded(prediction) for prediction in self._model.predict_many(rows)]

    def _coded(self, prediction: Prediction) -> Prediction:
        assert not isinstance(prediction, float)
        codes = self._codes
        return {codes[label]: p for label, p in prediction.items()}


class Coded(Model):
    """A classifier of which it is not known which labels it has: as the one within, with the codes that ``codes`` has for labels, or gets for new ones."""

    def __init__(self, model: Model, codes: dict[Any, int]) -> None:
        super().__init__(model.wrapped, model.task)
        self.features, self.kinds, self.in_batches = model.features, model.kinds, model.in_batches
        self._model, self._codes = model, codes

    def predict(self, x: Row) -> Prediction:
        return self._coded(self._model.checked_prediction(x))

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        return [self._coded(prediction) for prediction in self._model.checked_predictions(rows)]

    def _coded(self, prediction: Prediction) -> Prediction:
        assert not isinstance(prediction, float)
        codes = self._codes
        return {codes.setdefault(label, len(codes)): p for label, p in prediction.items()}


def relabelled(model: Model, classes: Sequence[Any] | None, codes: Sequence[Any] | None = None) -> Model:
    """The model with ``codes`` as the labels of its classes, by default 0, 1, …; a regression as it is.

    The result shares nothing with the model that changes.
    """
    if classes is not None and codes is None:
        codes = range(len(classes))
    if isinstance(model, TreeEnsemble):
        return model.twin(codes)
    return model if classes is None or codes is None else Relabelled(model, classes, codes)
