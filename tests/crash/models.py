"""The models of the campaign: each partition draws one of all families of river that learn from a stream."""

import numbers
from collections.abc import Callable
from typing import Any, Literal

from river import (
    compose,
    ensemble,
    forest,
    linear_model,
    naive_bayes,
    neighbors,
    preprocessing,
    tree,
)

from explain_core.learners.named import linear_model_of, named_model

Task = Literal["multiclass", "regression"]

QUICK = {"grace_period": 40, "delta": 0.05}
"""Trees that split within a few hundred records."""


def _numbers(model: Any) -> Any:
    return compose.SelectType(numbers.Number) | model


def _classifier() -> Any:
    return tree.HoeffdingTreeClassifier(**QUICK)


def _regressor() -> Any:
    return tree.HoeffdingTreeRegressor(
        **QUICK, leaf_prediction="mean"
    )  # its leaves' other models take numbers alone


def _near(kind: Any) -> Any:
    return kind(n_neighbors=3, engine=neighbors.LazySearch(window_size=30))


_CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "default": lambda seed: named_model("mixture", "multiclass", seed),
    "linear": lambda seed: linear_model_of("multiclass"),
    "hoeffding": lambda seed: _classifier(),
    "hoeffding, one against the rest": lambda seed: tree.HoeffdingTreeClassifier(**QUICK, binary_split=True, leaf_prediction="mc"),
    "adaptive": lambda seed: tree.HoeffdingAdaptiveTreeClassifier(**QUICK, seed=seed),
    "extremely fast": lambda seed: tree.ExtremelyFastDecisionTreeClassifier(**QUICK, min_samples_reevaluate=50),
    "arf": lambda seed: forest.ARFClassifier(n_models=3, seed=seed, **QUICK),
    "amf": lambda seed: _numbers(forest.AMFClassifier(n_estimators=2, seed=seed)),
    "patches": lambda seed: ensemble.SRPClassifier(_classifier(), n_models=3, seed=seed),
    "bagging": lambda seed: ensemble.BaggingClassifier(_classifier(), n_models=3, seed=seed),
    "adwin bagging": lambda seed: ensemble.ADWINBaggingClassifier(_classifier(), n_models=3, seed=seed),
    "leveraging bagging": lambda seed: ensemble.LeveragingBaggingClassifier(_classifier(), n_models=3, seed=seed),
    "boosting": lambda seed: ensemble.ADWINBoostingClassifier(_classifier(), n_models=3, seed=seed),
    "adaboost": lambda seed: ensemble.AdaBoostClassifier(_classifier(), n_models=3, seed=seed),
    "stacking": lambda seed: ensemble.StackingClassifier([linear_model_of("multiclass"), _classifier()], linear_model.SoftmaxRegression(), include_features=False),
    "naive Bayes": lambda seed: _numbers(naive_bayes.GaussianNB()),
    "Bernoulli": lambda seed: _numbers(naive_bayes.BernoulliNB()),
    "neighbours": lambda seed: _numbers(_near(neighbors.KNNClassifier)),
}  # fmt: skip

_REGRESSORS: dict[str, Callable[[int], Any]] = {
    "default": lambda seed: named_model("mixture", "regression", seed),
    "linear": lambda seed: linear_model_of("regression"),
    "hoeffding": lambda seed: _regressor(),
    "hoeffding with models": lambda seed: _numbers(tree.HoeffdingTreeRegressor(**QUICK)),
    "adaptive": lambda seed: tree.HoeffdingAdaptiveTreeRegressor(**QUICK, leaf_prediction="mean", seed=seed),
    "gradient": lambda seed: tree.SGTRegressor(delta=0.05, grace_period=40, lambda_value=0.1),
    "arf": lambda seed: forest.ARFRegressor(n_models=3, leaf_prediction="mean", seed=seed, **QUICK),
    "oxt": lambda seed: forest.OXTRegressor(n_models=3, leaf_prediction="mean", seed=seed),
    "amf": lambda seed: _numbers(forest.AMFRegressor(n_estimators=2, seed=seed)),
    "patches": lambda seed: ensemble.SRPRegressor(_regressor(), n_models=3, seed=seed),
    "bagging": lambda seed: ensemble.BaggingRegressor(_regressor(), n_models=3, seed=seed),
    "passive": lambda seed: _numbers(preprocessing.StandardScaler() | linear_model.PARegressor()),
    "neighbours": lambda seed: _numbers(_near(neighbors.KNNRegressor)),
}  # fmt: skip

FAMILIES: dict[Task, dict[str, Callable[[int], Any]]] = {
    "multiclass": _CLASSIFIERS,
    "regression": _REGRESSORS,
}


def drawn(seed: int, task: Task) -> Any:
    """The model of a partition, which its seed decides."""
    return FAMILIES[task][name_of(seed, task)](seed)


def name_of(seed: int, task: Task) -> str:
    names = list(FAMILIES[task])
    return names[seed % len(names)]


def named(name: str, task: Task, seed: int) -> Any:
    """The model of that name."""
    return FAMILIES[task][name](seed)
