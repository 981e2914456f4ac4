"""The models that go by a name: they work on mixed features out of the box."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Literal

from explain_core.learners.defaults import TREES, Default
from explain_core.learners.mixture import Mixture

Task = Literal["binary", "multiclass", "regression"]
Name = Literal["mixture", "linear", "tree", "forest"]


def linear_model_of(task: Task) -> Any:
    """A river pipeline: numbers and booleans are standardised, strings one-hot encoded, missing ones left out.

    Classes are 0, 1, …; binary: logistic regression; multiclass: softmax regression; regression: linear regression by implicit steps.
    The same bytes come out under every hash seed: ``drop_zeros`` keeps sets of categories out of the encoder.
    """
    from river import compose, linear_model, preprocessing

    from explain_core.learners.implicit import ImplicitRegression

    features = (compose.SelectType(numbers.Number) | preprocessing.StandardScaler()) + (
        compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)
    )
    estimators: dict[Task, Callable[[], Any]] = {
        "binary": linear_model.LogisticRegression,
        "multiclass": linear_model.SoftmaxRegression,
        "regression": lambda: ImplicitRegression(clip_gradient=1e300),
    }
    return features | estimators[task]()


def named_model(name: Name, task: Task, seed: int) -> Default | Mixture:
    """The model of that name, for ``learner_of``. In a regression each is a mixture, for the sake of its range of the target: of one model and no model, or of two."""
    if name == "mixture":
        return Mixture({"linear": Default("linear", task), "forest": Default("forest", task, seed)})
    made = Default(name, task, seed)
    return Mixture({name: made}) if task == "regression" else made


def river_of(model: Default) -> Any:
    """The model of river that it stands for."""
    from river import forest, tree

    of_target = {"leaf_prediction": "mean"} if model.task == "regression" else {}
    if model.name == "linear":
        return linear_model_of(model.task)
    if model.name == "tree":
        return getattr(tree, model.title)(seed=model.seed, **of_target)
    return getattr(forest, model.title)(n_models=TREES, seed=model.seed, **of_target)
