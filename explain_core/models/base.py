"""The interface of every model: a record in, a prediction out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from explain_core.losses import LARGEST, Prediction, Task

Row = Mapping[str, Any]
FeatureKind = Literal["string", "number"]
Labels = Sequence[Any]


class PredictionError(ValueError):
    """A prediction that is not finite, or not of the task's shape."""


class Model:
    """A model that predicts records and, where it can, learns from them.

    ``features`` is the order of the columns where the model has columns.

    Parameters
    ----------
    model
        What is wrapped; ``wrapped`` is it.
    task
        What a prediction is: "classification", a mapping from label to probability, or "regression", a float.

    >>> class Half(Model):
    ...     def predict(self, x):
    ...         return {"up": 0.5, "down": 0.5}
    >>> Half(None, "classification").predict_many([{"a": 1.0}, {"a": 2.0}])[1]
    {'up': 0.5, 'down': 0.5}
    """

    features: Sequence[str] | None = None
    kinds: Mapping[str, FeatureKind] = {}
    """Of the features whose values the model takes as one kind alone."""
    most_classes: float = math.inf
    """How many labels it can tell apart."""
    in_batches: bool = False
    """Whether a call costs more than a row, so that several records are predicted in one."""

    def __init__(self, model: Any, task: Task) -> None:
        self.wrapped = model
        self.task = task

    @property
    def title(self) -> str:
        """What it is called where people read of it: the class of what is wrapped."""
        return type(self.wrapped).__name__

    def predict(self, x: Row) -> Prediction:
        raise NotImplementedError

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        """Predictions of several records; one call where the model has a batch method."""
        predict = self.predict
        return [predict(x) for x in rows]

    def checked_prediction(self, x: Row) -> Prediction:
        """``predict``, checked by ``check_prediction``."""
        prediction = self.predict(x)
        check_prediction(prediction, self.task)
        return prediction

    def checked_predictions(self, rows: Sequence[Row]) -> list[Prediction]:
        """``predict_many``, each prediction checked by ``check_prediction``."""
        predictions = self.predict_many(rows)
        for prediction in predictions:
            check_prediction(prediction, self.task)
        return predictions

    def relabelled(self, labels: dict[Any, Any]) -> Model:
        """The same classifier with other labels, such as their codes: those of a mapping, which gives a label that it lacks the number of its place.

        A regression has no labels. Of what changes as a model predicts, the result shares nothing with this one.
        """
        return self if self.task == "regression" else Relabelled(self, labels)

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        raise TypeError(f"model: {self.title} cannot learn one record at a time; use it as a static model")

    @property
    def takes_weight(self) -> bool:
        return False


class Relabelled(Model):
    """A classifier whose labels are others than those of the one within."""

    def __init__(self, model: Model, labels: dict[Any, Any]) -> None:
        super().__init__(model.wrapped, model.task)
        self.features, self.kinds, self.in_batches = model.features, model.kinds, model.in_batches
        self._model, self._labels = model, labels

    def predict(self, x: Row) -> Prediction:
        return self._renamed(self._model.checked_prediction(x))

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        return [self._renamed(prediction) for prediction in self._model.checked_predictions(rows)]

    def _renamed(self, prediction: Prediction) -> Prediction:
        assert not isinstance(prediction, float)
        labels = self._labels
        return {labels.setdefault(label, len(labels)): p for label, p in prediction.items()}


class BatchModel(Model):
    """A model whose ``predict_many`` costs hardly more for several records than for one."""

    in_batches = True

    def predict(self, x: Row) -> Prediction:
        return self.predict_many([x])[0]


def check_prediction(prediction: Prediction, task: Task) -> None:
    """Raise ``PredictionError`` where a prediction is not finite or not of the task's shape.

    >>> check_prediction({"up": 0.5, "down": math.nan}, "classification")
    Traceback (most recent call last):
    explain_core.models.base.PredictionError: model: predicted {'up': 0.5, 'down': nan}; probabilities must be finite numbers
    """
    if task == "regression":
        if not _in_range(prediction):
            raise PredictionError(
                f"model: predicted {prediction!r}; a regression model returns a finite number between ±{LARGEST:g}"
            )
    elif type(prediction) is not dict and not isinstance(prediction, Mapping):
        raise PredictionError(
            f"model: predicted {prediction!r}; a classifier returns a mapping from label to probability"
        )
    else:
        try:
            total = sum(prediction.values())
        except TypeError:
            total = math.nan
        if not _in_range(total):
            raise PredictionError(
                f"model: predicted {dict(prediction)!r}; probabilities must be finite numbers"
            )


def _in_range(value: Any) -> bool:
    try:
        return bool(abs(value) <= LARGEST)
    except TypeError:
        return False
