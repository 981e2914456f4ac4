"""``ARFRegressor`` in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.learners import layout as at
from explain_core.learners.arrays import Array
from explain_core.learners.forest import ForestLearner, draws
from explain_core.learners.regression import RegressionLearner, regression_repeatable, target_numbers

MEAN, MEDIAN = range(2)
"""What becomes of the trees' predictions."""
MOST_TREES = 128
"""Of more, numpy adds by halves."""


class ForestRegressionLearner(RegressionLearner, ForestLearner):
    """``river.forest.ARFRegressor`` in arrays."""

    kind = "adaptive_random_forest_regressor"

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
