"""What river's trees and ensembles of trees are made of, and how an ensemble's prediction follows from its trees'."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from river import ensemble, forest, tree
from river.forest.adaptive_random_forest import BaseTreeClassifier, BaseTreeRegressor

from explain_core.evaluation.tree_kernels import DIVIDED, RAW, SCALED

CLASSIFIERS = (
    tree.HoeffdingTreeClassifier,
    tree.HoeffdingAdaptiveTreeClassifier,
    tree.ExtremelyFastDecisionTreeClassifier,
    BaseTreeClassifier,
)
REGRESSORS = (tree.HoeffdingTreeRegressor, tree.HoeffdingAdaptiveTreeRegressor, BaseTreeRegressor)
ADAPTIVE = (tree.HoeffdingAdaptiveTreeClassifier, tree.HoeffdingAdaptiveTreeRegressor)


class Voting(NamedTuple):
    """A model's trees and what is done with their predictions.

    ``weights`` are those of the trees' probabilities, which are summed and then normalised as ``normalise`` says;
    ``mean`` takes the predictions of a regression, copies × trees. ``subspaces`` are the features that each tree gets, in its
    order; without it a tree gets the record.
    """

    trees: Callable[[], Sequence[Any]]
    regression: bool = False
    weights: Callable[[], Sequence[float]] | None = None
    normalise: int = RAW
    mean: Callable[[Any], Any] | None = None
    subspaces: Callable[[], Sequence[Sequence[str] | None]] | None = None


def voting(model: Any) -> Voting | None:
    """How the model follows from trees; None for a model that is not made of them."""
    kind = type(model)
    if kind in CLASSIFIERS or kind in REGRESSORS:
        return Voting(lambda: [model], kind in REGRESSORS)
    if kind is forest.ARFClassifier:
        return Voting(
            lambda: model.data,
            weights=lambda: _accuracies(model, [metric.get() for metric in model._metrics]),
            normalise=DIVIDED,
        )
    if kind is forest.ARFRegressor:
        return Voting(lambda: model.data, regression=True, mean=lambda matrix: _arf_mean(model, matrix))
    if kind in (
        ensemble.BaggingClassifier,
        ensemble.ADWINBaggingClassifier,
        ensemble.LeveragingBaggingClassifier,
    ):
        return _of_trees(model, CLASSIFIERS, Voting(lambda: model.data, normalise=DIVIDED))
    if kind in (ensemble.AdaBoostClassifier, ensemble.ADWINBoostingClassifier):
        return _of_trees(
            model,
            CLASSIFIERS,
            Voting(lambda: model.data, weights=lambda: _boosting_weights(model), normalise=SCALED),
        )
    if kind is ensemble.BaggingRegressor:
        return _of_trees(
            model,
            REGRESSORS,
            Voting(
                lambda: model.data,
                regression=True,
                mean=lambda matrix: [statistics.mean(row) for row in matrix.tolist()],
            ),
        )
    if kind is ensemble.SRPClassifier and type(model.model) in CLASSIFIERS:
        return Voting(
            lambda: [one.model for one in model.data],
            weights=lambda: _accuracies(model, [one.metric.get() for one in model.data]),
            normalise=DIVIDED,
        )
    if kind is ensemble.SRPRegressor and type(model.model) in REGRESSORS:
        return Voting(
            lambda: [one.model for one in model.data],
            regression=True,
            mean=lambda matrix: _srp_mean(model, matrix),
            subspaces=lambda: [one.features for one in model.data],
        )
    return None


def _of_trees(model: Any, kinds: tuple[type, ...], found: Voting) -> Voting | None:
    return found if all(type(one) in kinds for one in model.data) else None


def _accuracies(model: Any, values: list[float]) -> list[float]:
    if model.disable_weighted_vote:
        return [1.0] * len(values)
    return [value if value > 0.0 else 1.0 for value in values]


def _boosting_weights(model: Any) -> list[float]:
    """``AdaBoostClassifier.predict_proba_one``."""
    weights = []
    for i in range(len(model.data)):
        epsilon = model.wrong_weight[i] + 1e-16
        epsilon /= (model.correct_weight[i] + model.wrong_weight[i]) + 1e-16
        if epsilon == 0 or epsilon > 0.5:
            weights.append(1.0)
        else:
            odds = (1 - epsilon) / epsilon
            weights.append(math.log(odds) if odds != 0 else 0)
    return weights


def _arf_mean(model: Any, matrix: Any) -> Any:
    """``ARFRegressor.predict_one`` for each row of a matrix copies × trees."""
    if not model.disable_weighted_vote and model.aggregation_method != model._MEDIAN:
        weights = np.zeros(model.n_models)
        sum_weights = 0.0
        for i in range(model.n_models):
            weights[i] = model._metrics[i].get()
            sum_weights += weights[i]
        if sum_weights != 0:
            weights = sum_weights - weights
            weights /= weights.sum()
            matrix = matrix * weights
    return matrix.mean(axis=1) if model.aggregation_method == model._MEAN else np.median(matrix, axis=1)


def _srp_mean(model: Any, matrix: Any) -> Any:
    """``SRPRegressor.predict_one`` for each row of a matrix copies × trees."""
    if model.aggregation_method != model._MEAN:
        return np.median(matrix, axis=1)
    weights = np.ones(model.n_models)
    if not model.disable_weighted_vote:
        for i, one in enumerate(model.data):
            value = one.metric.get()
            weights[i] = value if value >= 0 else 0.0
        if not model.metric.bigger_is_better:
            weights = -(weights - max(weights))
        if sum(weights) == 0:
            return np.zeros(len(matrix))
    return [
        np.average(row, weights=weights) for row in matrix
    ]  # along an axis numpy adds up in another order
