"""One view of any model: a record in, a prediction out.

river works on dictionaries one at a time, scikit-learn on arrays, a plain callable on whatever it takes; estimators
and the fold see ``Model`` alone.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from explain_core.losses import Prediction, Task

Row = Mapping[str, Any]


class Model:
    """A model that predicts records and, where it can, learns from them.

    ``task`` says what a prediction is: a mapping from label to probability, or a float.
    """

    def __init__(self, model: Any, task: Task) -> None:
        self.wrapped = model
        self.task = task

    def predict(self, x: Row) -> Prediction:
        raise NotImplementedError

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        """Predictions of several records; one call where the model has a batch method."""
        predict = self.predict
        return [predict(x) for x in rows]

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        raise TypeError(
            f"model: {type(self.wrapped).__name__} cannot learn one record at a time; use it as a static model"
        )

    @property
    def takes_weight(self) -> bool:
        return False


class RiverClassifier(Model):
    """A river classifier, or a pipeline that ends in one."""

    def predict(self, x: Row) -> Prediction:
        return self.wrapped.predict_proba_one(x)  # type: ignore[no-any-return]

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        if weight == 1.0:
            self.wrapped.learn_one(x, y)
        else:
            self.wrapped.learn_one(x, y, w=weight)

    @property
    def takes_weight(self) -> bool:
        return "w" in inspect.signature(_last_step(self.wrapped).learn_one).parameters


class RiverLabeller(RiverClassifier):
    """A river classifier without probabilities: the label it names has probability 1."""

    def predict(self, x: Row) -> Prediction:
        label = self.wrapped.predict_one(x)
        return {} if label is None else {label: 1.0}


class RiverRegressor(RiverClassifier):
    """A river regressor, or a pipeline that ends in one; before it has learnt anything it predicts 0."""

    def predict(self, x: Row) -> Prediction:
        value = self.wrapped.predict_one(x)
        return 0.0 if value is None else float(value)


class ArrayModel(Model):
    """scikit-learn and its like: ``predict_proba`` or ``predict`` on a matrix with one column a feature.

    ``features`` is the order of the columns (by default the model's ``feature_names_in_``); a feature that is absent is NaN.
    """

    def __init__(self, model: Any, task: Task, features: Sequence[str] | None = None) -> None:
        super().__init__(model, task)
        names = getattr(model, "feature_names_in_", None) if features is None else features
        if names is None:
            raise ValueError(
                f"features: {type(model).__name__} does not name its columns; pass features=[…] in their order"
            )
        self.features = [str(name) for name in names]

    def predict(self, x: Row) -> Prediction:
        return self.predict_many([x])[0]

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        import numpy as np

        if not rows:
            return []
        features = self.features
        table = [[row.get(name, math.nan) for name in features] for row in rows]
        numeric = all(isinstance(cell, int | float) for line in table for cell in line)
        matrix: Any = np.array(table, dtype=float if numeric else object)
        if hasattr(self.wrapped, "feature_names_in_"):
            import pandas as pd

            matrix = pd.DataFrame(matrix, columns=features)
        if self.task == "regression":
            return [float(value) for value in np.ravel(self.wrapped.predict(matrix))]
        if hasattr(self.wrapped, "predict_proba"):
            labels = self.wrapped.classes_.tolist()
            return [
                dict(zip(labels, line, strict=True)) for line in self.wrapped.predict_proba(matrix).tolist()
            ]
        return [{label: 1.0} for label in np.ravel(self.wrapped.predict(matrix)).tolist()]


class CallableModel(Model):
    """A function from a record to a prediction."""

    def predict(self, x: Row) -> Prediction:
        return self.wrapped(x)  # type: ignore[no-any-return]


def wrap(model: Any, task: Task, features: Sequence[str] | None = None) -> Model:
    """The ``Model`` around a river model, a model on arrays, a callable, or a ``Model`` itself.

    Raises ``ValueError`` where the object is none of these or does not fit ``task``.

    >>> wrap(lambda x: 2.0 * x["a"], "regression").predict({"a": 3.0})
    6.0
    """
    if isinstance(model, Model):
        return model
    if hasattr(model, "predict_one"):
        return _wrap_river(model, task)
    if hasattr(model, "predict") or hasattr(model, "predict_proba"):
        return ArrayModel(model, task, features)
    if callable(model):
        return CallableModel(model, task)
    raise ValueError(
        f"model: {type(model).__name__} has neither predict_one, predict nor predict_proba and cannot be called"
    )


def check_prediction(prediction: Prediction, task: Task) -> None:
    """Raise ``ValueError`` where a prediction is not finite or not of the task's shape."""
    if task == "regression":
        if isinstance(prediction, Mapping) or not math.isfinite(prediction):
            raise ValueError(f"model: predicted {prediction!r}; a regression model returns a finite number")
    elif not isinstance(prediction, Mapping):
        raise ValueError(
            f"model: predicted {prediction!r}; a classifier returns a mapping from label to probability"
        )
    else:
        total = 0.0
        for value in prediction.values():
            total += value
        if not math.isfinite(total):
            raise ValueError(f"model: predicted {dict(prediction)!r}; probabilities must be finite")


def _wrap_river(model: Any, task: Task) -> Model:
    from river import base

    last = _last_step(model)
    for kind, cls in (("classification", base.Classifier), ("regression", base.Regressor)):
        if isinstance(last, cls) and kind != task:
            raise ValueError(f"model: {type(last).__name__} is for {kind} and the task is {task}")
    if task == "regression":
        return RiverRegressor(model, task)
    # The base class declares predict_proba_one and raises for classifiers that have no probabilities.
    has_none = getattr(type(last), "predict_proba_one", None) in (None, base.Classifier.predict_proba_one)
    return (RiverLabeller if has_none else RiverClassifier)(model, task)


def _last_step(model: Any) -> Any:
    """What decides in a river pipeline: its final step, at any depth."""
    steps = getattr(model, "steps", None)
    return _last_step(list(steps.values())[-1]) if isinstance(steps, dict) and steps else model
