"""The models that work on mixed features out of the box."""

from __future__ import annotations

import numbers
from typing import Any, Literal

from river import compose, linear_model, preprocessing

Task = Literal["binary", "multiclass", "regression"]

_ESTIMATORS: dict[Task, Any] = {
    "binary": linear_model.LogisticRegression,
    "multiclass": linear_model.SoftmaxRegression,
    "regression": lambda: preprocessing.TargetStandardScaler(linear_model.LinearRegression()),
}


def default_model(task: Task) -> Any:
    """A river pipeline: numbers and booleans are standardised, strings one-hot encoded, missing ones left out.

    Classes are 0, 1, …; binary: logistic regression; multiclass: softmax regression; regression: linear regression on
    the standardised target. The same bytes come out under every hash seed: ``drop_zeros`` keeps sets of categories out
    of the encoder.
    """
    features = (compose.SelectType(numbers.Number) | preprocessing.StandardScaler()) + (
        compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)
    )
    return features | _ESTIMATORS[task]()
