"""The models that go by a name: they work on mixed features out of the box."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Literal

from river import compose, forest, linear_model, preprocessing, tree

from explain_core.learners.implicit import ImplicitRegression
from explain_core.learners.mixture import Mixture

Task = Literal["binary", "multiclass", "regression"]
Name = Literal["mixture", "linear", "tree", "forest"]

TREES = 10
"""Of a forest."""


def linear_model_of(task: Task) -> Any:
    """A river pipeline: numbers and booleans are standardised, strings one-hot encoded, missing ones left out.

    Classes are 0, 1, …; binary: logistic regression; multiclass: softmax regression; regression: linear regression by implicit steps.
    The same bytes come out under every hash seed: ``drop_zeros`` keeps sets of categories out of the encoder.
    """
    features = (compose.SelectType(numbers.Number) | preprocessing.StandardScaler()) + (
        compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)
    )
    estimators: dict[Task, Callable[[], Any]] = {
        "binary": linear_model.LogisticRegression,
        "multiclass": linear_model.SoftmaxRegression,
        "regression": lambda: ImplicitRegression(clip_gradient=1e300),
    }
    return features | estimators[task]()


def named_model(name: Name, task: Task, seed: int) -> Any:
    """The model of that name. In a regression each is a mixture, for the sake of its range of the target: of one model and no model, or of two."""
    members: dict[str, Callable[[], Any]] = {
        "linear": lambda: linear_model_of(task),
        "tree": lambda: (
            tree.HoeffdingAdaptiveTreeRegressor(leaf_prediction="mean", seed=seed)
            if task == "regression"
            else tree.HoeffdingAdaptiveTreeClassifier(seed=seed)
        ),
        "forest": lambda: (
            forest.ARFRegressor(n_models=TREES, leaf_prediction="mean", seed=seed)
            if task == "regression"
            else forest.ARFClassifier(n_models=TREES, seed=seed)
        ),
    }
    if name == "mixture" or task == "regression":
        chosen = ("linear", "forest") if name == "mixture" else (name,)
        return Mixture({member: members[member]() for member in chosen})
    return members[name]()
