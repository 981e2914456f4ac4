"""``HoeffdingAdaptiveTreeRegressor`` in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.learners.adaptive import AdaptiveTreeLearner, adapts
from explain_core.learners.arrays import Array
from explain_core.learners.regression import RegressionLearner, regression_repeatable


class AdaptiveRegressionLearner(RegressionLearner, AdaptiveTreeLearner):
    """``river.tree.HoeffdingAdaptiveTreeRegressor`` in arrays; a node's errors are a running variance of its absolute errors."""

    kind = "hoeffding_adaptive_tree_regressor"

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        from river.tree import HoeffdingAdaptiveTreeRegressor

        return (
            type(model) is HoeffdingAdaptiveTreeRegressor and regression_repeatable(model) and adapts(model)
        )

    def _empty(self, model: Any) -> dict[str, Array]:
        return super()._empty(model) | {"errors": np.zeros((0, 3))}
