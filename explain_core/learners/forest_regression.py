"""``ARFRegressor`` in compiled code, and in arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import allocating, compiled, inner
from explain_core.learners import layout as at
from explain_core.learners.arrays import Array, f8, held, i8, u4
from explain_core.learners.forest import ForestLearner, draws, watch
from explain_core.learners.hoeffding import learn_tree, predict_tree
from explain_core.learners.layout import short
from explain_core.learners.mersenne import poisson
from explain_core.learners.regression import RegressionLearner, regression_repeatable, target_numbers
from explain_core.learners.regression_leaves import updated
from explain_core.learners.regression_splits import variance

MEAN, MEDIAN = range(2)
"""What becomes of the trees' predictions."""
SQUARED, ABSOLUTE, ROOT = range(3)
"""Metrics of a tree: mean squared error, mean absolute error, root mean squared error."""
ERROR, SEEN = range(2)
"""Of ``accuracy``: a tree's mean error, and the number of its predictions."""
MOST_TREES = 128
"""Of more, numpy adds by halves."""


@allocating
def summed(values: Any) -> Any:
    """``numpy.sum`` of at most 128 numbers: eight sums side by side."""
    n = len(values)
    if n < 8:
        result = 0.0
        for i in range(n):
            result += values[i]
        return result
    sums, whole = np.zeros(8), n - n % 8
    for i in range(whole):
        sums[i % 8] += values[i]
    result = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for i in range(whole, n):
        result += values[i]
    return result


@allocating
def aggregate(table: Any, values: Any) -> Any:
    """``ARFRegressor.predict_one`` of what its trees predict."""
    numbers, accuracy, n = f8(table, at.NUMBERS), f8(table, at.ACCURACY), len(values)
    if numbers[0, at.AGGREGATION] == MEDIAN:
        ordered = np.sort(values)
        middle = ordered[n // 2] if n % 2 == 1 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2.0
        return ordered[n - 1] if math.isnan(ordered[n - 1]) else middle
    if numbers[0, at.WEIGHTED] == 0.0:
        return summed(values) / n
    weights, whole = np.empty(n), 0.0
    for i in range(n):
        weights[i] = accuracy[i, ERROR]
        if numbers[0, at.METRIC] == ROOT:
            weights[i] = math.pow(weights[i], numbers[0, at.HALF])
        whole += weights[i]
    if whole == 0.0:
        return summed(values) / n
    for i in range(n):
        weights[i] = whole - weights[i]
    whole = summed(weights)
    for i in range(n):
        weights[i] = values[i] * (weights[i] / whole)
    return summed(weights) / n


@inner
def number(table: Any, member: int, x: Any, votes: Any, parts: Any, places: Any) -> Any:
    """What a member's tree predicts."""
    root = i8(table, at.TREES)[i8(table, at.MEMBERS)[member, at.FOREGROUND], at.ROOT]
    predict_tree(table, root, x, votes, parts, places)
    return votes[0] if root >= 0 else 0.0


@inner
def rate(table: Any, member: int, error: float) -> None:
    """Update a member's metric."""
    numbers, accuracy = f8(table, at.NUMBERS), f8(table, at.ACCURACY)
    value = abs(error) if numbers[0, at.METRIC] == ABSOLUTE else math.pow(error, numbers[0, at.TWO])
    accuracy[member, SEEN] += 1.0
    accuracy[member, ERROR] += (1.0 / accuracy[member, SEEN]) * (value - accuracy[member, ERROR])


@inner
def normalised(table: Any, member: int, error: float) -> Any:
    """``_drift_detector_input``: the place of an error among those between three deviations below and above 0."""
    norms = f8(table, at.NORMS)
    n, mean, squares = updated(norms[member, 0], norms[member, 1], norms[member, 2], error, 1.0)
    norms[member, 0] = n
    norms[member, 1] = mean
    norms[member, 2] = squares
    spread = math.sqrt(variance(n, squares))
    if n == 1.0 or not spread > 0.0:
        return 0.5
    return (error + 3.0 * spread) / (6.0 * spread)


@compiled
def learn(table: Any, x: Any, y: float, w: float) -> Any:
    """``ARFRegressor.learn_one``; see ``forest.learn``."""
    head, members, numbers = i8(table, at.HEAD), i8(table, at.MEMBERS), f8(table, at.NUMBERS)
    if short(table, head, 2 * len(members)):
        return -2 * len(members)
    watched = numbers[0, at.WARNING_ON] != 0.0 or numbers[0, at.DRIFT_ON] != 0.0
    votes, parts, places = np.empty(1), np.empty(1), np.empty(1, np.int64)
    for member in range(len(members)):
        error = y - number(table, member, x, votes, parts, places)
        rate(table, member, error)
        k = float(poisson(numbers[0, at.RATE], u4(table, at.GENERATOR), head))
        if k > 0.0:
            background = members[member, at.BACKGROUND]
            if background >= 0:
                learn_tree(table, background, x, y, k, 1, False, votes, parts, places)
            learn_tree(table, members[member, at.FOREGROUND], x, y, k, 1, True, votes, parts, places)
            if watched:
                watch(table, head, member, normalised(table, member, error))
    return 0


@compiled
def predict(table: Any, rows: Any, out: Any) -> None:
    """``predict_one`` of encoded rows, rows × 1."""
    n = len(i8(table, at.MEMBERS))
    values, votes, parts, places = np.empty(n), np.empty(1), np.empty(1), np.empty(1, np.int64)
    own, found = held(rows), held(out)
    for row in range(len(own)):
        for member in range(n):
            values[member] = number(table, member, own[row], votes, parts, places)
        found[row, 0] = aggregate(table, values)


class ForestRegressionLearner(RegressionLearner, ForestLearner):
    """``river.forest.ARFRegressor`` in arrays."""

    kind = "adaptive_random_forest_regressor"
    _learn = staticmethod(learn)
    _predict = staticmethod(predict)

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        from river import forest, metrics

        metric: Any = getattr(model, "metric", None)
        return (
            type(model) is forest.ARFRegressor
            and regression_repeatable(model)
            and draws(model)
            and model.n_models <= MOST_TREES
            and type(metric) in (metrics.MSE, metrics.MAE, metrics.RMSE)
            and metric._mean.n == 0.0
        )

    @staticmethod
    def own_numbers(model: Any) -> dict[int, float]:
        from river import metrics

        return {
            **target_numbers(model),
            at.LEAST: 5,  # river's trees of a forest do not get the forest's own
            at.AGGREGATION: MEAN if model.aggregation_method == "mean" else MEDIAN,
            at.METRIC: (metrics.MSE, metrics.MAE, metrics.RMSE).index(type(model.metric)),
        }

    def _empty(self, model: Any) -> dict[str, Array]:
        return super()._empty(model) | {"norms": np.zeros((model.n_models, 3))}
