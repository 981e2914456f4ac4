"""Models on matrices with one column a feature: scikit-learn and its like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.losses import Prediction, Task
from explain_core.models.base import BatchModel, Labels, PredictionError, Row

_ROUNDING = 1e-6
"""How far a probability may be below 0 or above 1, as 32-bit floats may be."""


class ArrayModel(BatchModel):
    """scikit-learn and its like: ``predict_proba`` or ``predict`` on a matrix with one column a feature.

    ``features`` is the order of the columns (by default the model's ``feature_names_in_``) and ``classes`` that of the
    probabilities (by default its ``classes_``). A model that was fitted with names gets a data frame. A feature that
    a record lacks is NaN.

    >>> class Sign:
    ...     classes_ = np.array(["down", "up"])
    ...     def predict_proba(self, X):
    ...         return np.column_stack([X[:, 0] < 0, X[:, 0] >= 0]).astype(float)
    >>> ArrayModel(Sign(), "classification", features=["a"]).predict_many([{"a": 3.0}, {"a": -1.0}])
    [{'down': 0.0, 'up': 1.0}, {'down': 1.0, 'up': 0.0}]
    """

    features: Sequence[str]

    def __init__(
        self, model: Any, task: Task, features: Sequence[str] | None = None, classes: Labels | None = None
    ) -> None:
        super().__init__(model, task)
        tags = getattr(model, "__sklearn_tags__", None)
        kind = tags().estimator_type if tags else None
        if kind in ("classifier", "regressor") and kind != {"regression": "regressor"}.get(
            task, "classifier"
        ):
            raise ValueError(f"model: {type(model).__name__} is a {kind} and the task is {task}")
        self.features = _columns(model, features)
        self.classes = _classes(model, task, classes)

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        if not rows:
            return []
        columns = [[row.get(name, math.nan) for row in rows] for name in self.features]
        table: Any
        if hasattr(self.wrapped, "feature_names_in_"):
            import pandas as pd

            table = pd.DataFrame(dict(zip(self.features, columns, strict=True)))
        else:
            numeric = all(isinstance(cell, int | float) for column in columns for cell in column)
            table = np.array(columns, dtype=float if numeric else object).T
        if self.task == "regression":
            return numbers(self.wrapped.predict(table))
        if self.classes is not None:
            return probabilities(self.wrapped.predict_proba(table), self.classes)
        return [{label: 1.0} for label in np.ravel(self.wrapped.predict(table)).tolist()]


def _columns(model: Any, features: Sequence[str] | None) -> list[str]:
    own = getattr(model, "feature_names_in_", features)
    kind = type(model).__name__
    if own is None:
        raise ValueError(f"features: {kind} does not name its columns; pass features=[…] in their order")
    names = [str(name) for name in own]
    if features is not None and set(map(str, features)) != set(names):
        raise ValueError(
            f"features: {kind} was fitted with the columns {', '.join(names)}; pass these or none"
        )
    if len(set(names)) != len(names):
        raise ValueError(f"features: {', '.join(names)}; one of the columns is there twice")
    width = getattr(model, "n_features_in_", len(names))
    if len(names) != width:
        raise ValueError(f"features: {len(names)} names for the {width} columns that {kind} was fitted with")
    return names


def _classes(model: Any, task: Task, classes: Labels | None) -> list[Any] | None:
    """The labels of the columns of ``predict_proba``; None where the model has no probabilities."""
    if task == "regression" or not hasattr(model, "predict_proba"):
        return None
    known = getattr(model, "classes_", None) if classes is None else classes
    if known is None:
        raise ValueError(
            f"classes: {type(model).__name__} does not name the columns of predict_proba; pass classes=[…] in their order"
        )
    return known.tolist() if isinstance(known, np.ndarray) else list(known)


def numbers(output: Any) -> list[Prediction]:
    values = np.ravel(output)
    if values.size != len(output):
        raise PredictionError(
            f"model: predicted an array of shape {np.shape(output)} for {len(output)} records; a regression has one number for each"
        )
    if values.dtype.kind not in "fiu":
        raise PredictionError(
            f"model: predicted {values[:1].tolist()[0]!r} and the task is regression; use classification"
        )
    return [float(value) for value in values]


def probabilities(matrix: Any, classes: Sequence[Any]) -> list[Prediction]:
    if np.ndim(matrix) != 2 or np.shape(matrix)[1] != len(classes):
        raise PredictionError(
            f"classes: {len(classes)} labels for probabilities of shape {np.shape(matrix)}; name each column's class"
        )
    least, most = np.min(matrix, initial=0.0), np.max(matrix, initial=0.0)
    if least < -_ROUNDING or most > 1.0 + _ROUNDING:
        raise PredictionError(
            f"model: predicted {least if least < 0.0 else most:g}, which is no probability; use the task regression, or a model that predicts probabilities"
        )
    return [dict(zip(classes, line, strict=True)) for line in np.asarray(matrix).tolist()]
