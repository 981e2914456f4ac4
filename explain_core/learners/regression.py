"""What learners of regression trees share, and ``HoeffdingTreeRegressor`` in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.learners import layout as at
from explain_core.learners import linear_layout
from explain_core.learners.arrays import Array
from explain_core.learners.hoeffding import HoeffdingTreeLearner
from explain_core.learners.tree import TreeLearner, numbers_from_0, tree_repeatable
from explain_core.losses import Prediction
from explain_core.models import Row
from explain_core.state import Block, check

TARGET_MANNERS = {"mean": at.TARGET_MEAN, "model": at.TARGET_MODEL, "adaptive": at.TARGET_ADAPTIVE}


def target_numbers(model: Any) -> dict[int, float]:
    """The parameters that only regression trees have."""
    from river import optim
    from river.linear_model import LinearRegression
    from river.tree.splitter import QOSplitter, TEBSTSplitter

    leaf = model.leaf_model or LinearRegression()
    splitter = model.splitter or TEBSTSplitter()
    absolute = type(leaf.loss) is optim.losses.Absolute
    return {
        at.MANNER: TARGET_MANNERS[model.leaf_prediction],
        at.SCALE: 10.0**splitter.digits if type(splitter) is TEBSTSplitter else 0.0,
        at.RADIUS: splitter.radius if type(splitter) is QOSplitter else 0.0,
        at.LEAST: model.min_samples_split,
        at.DECAY: model.model_selector_decay,
        at.LEAF_RATE: leaf.optimizer.lr.learning_rate,
        at.LEAF_INTERCEPT_RATE: leaf.intercept_lr.learning_rate,
        at.LEAF_L2: leaf.l2,
        at.LEAF_CLIP: leaf.clip_gradient,
        at.LEAF_LOSS: linear_layout.ABSOLUTE if absolute else linear_layout.SQUARED,
    }


def regression_repeatable(model: Any) -> bool:
    """Whether the parameters of a regression tree, or of those of a forest, are among those that compiled code knows."""
    from river.linear_model import LinearRegression
    from river.tree.splitter import EBSTSplitter, QOSplitter, TEBSTSplitter

    from explain_core.learners.linear_plan import is_new

    leaf, splitter = model.leaf_model, model.splitter
    return (
        model.leaf_prediction in TARGET_MANNERS
        and (model.leaf_prediction == "mean" or not model.nominal_attributes)
        and (
            leaf is None
            or (
                type(leaf) is LinearRegression
                and is_new(leaf, linear_layout.IDENTITY)
                and leaf.intercept_init == 0
            )
        )
        and (
            splitter is None
            or type(splitter) is EBSTSplitter
            or (type(splitter) is TEBSTSplitter and splitter.digits in range(23))
            or (type(splitter) is QOSplitter and not splitter.allow_multiway_splits)
        )
        and not model.remove_poor_attrs
        and numbers_from_0(model.min_samples_split, model.model_selector_decay)
        and tree_repeatable(model, 500.0)
    )


class RegressionLearner(TreeLearner):
    """A tree learner that predicts a number: in its arrays there is one class, whose weight is that of the targets."""

    own_numbers = staticmethod(target_numbers)

    def _empty(self, model: Any) -> dict[str, Array]:
        found = super()._empty(model)
        slots = found["numbers"][0, at.RADIUS] > 0.0
        found.update(
            weights=np.zeros((0, 6)),
            stats=np.zeros((0, 1)),
            classes=np.zeros((0, 2), np.int64),
            cells=np.zeros((0, 5 if slots else 4)),
            seen=np.zeros((self.trees, 1), np.int8),
        )
        return found

    def _lay_out(self) -> None:
        arrays, width = self.arrays, len(self.columns.names)
        if self.has_models:
            models = np.zeros((len(arrays["leaves"]), width))
            models[:, : arrays["models"].shape[1]] = arrays["models"] if arrays["models"].size else 0.0
            arrays["models"] = models
        arrays["order"] = np.zeros((1, 1), np.int64)
        arrays["head"][0, at.N_CLASSES] = 1
        super()._lay_out()

    def encoded(self, x: Row) -> NDArray[np.float64]:
        row = super().encoded(x)
        if self.columns.codes and self.has_models:
            for name, value in x.items():
                if name in self.columns.codes and value is not None and value == value:
                    raise ValueError(
                        f"model: feature {name!r} is a string, and the linear regressions in the leaves take numbers; "
                        "encode it, leave it out, or set leaf_prediction to mean"
                    )
        return row

    def predict(self, x: Row) -> Prediction:
        self.encoded(x)
        return float(self.predict_codes(self.columns.rows)[0, 0])

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return None if self.columns.codes and self.has_models else super().predict_rows(rows)

    def _target(self, y: Any) -> float:
        return float(y)

    @property
    def has_models(self) -> bool:
        return bool(self.arrays["numbers"][0, at.MANNER] != at.TARGET_MEAN)

    @property
    def n_classes(self) -> int:
        return 1

    def _adopt(self, blocks: dict[str, Block]) -> None:
        check(self.labels == [], f"{self.kind}: classes in a regression")
        super()._adopt(blocks)


class HoeffdingRegressionLearner(RegressionLearner, HoeffdingTreeLearner):
    """``river.tree.HoeffdingTreeRegressor`` in arrays.

    >>> from river import tree
    >>> learner = HoeffdingRegressionLearner(tree.HoeffdingTreeRegressor(leaf_prediction="mean"), "regression")
    >>> for i in range(10):
    ...     learner.learn({"a": float(i)}, 2.0 * i)
    >>> learner.predict({"a": 3.0})
    9.0
    """

    kind = "hoeffding_tree_regressor"

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        from river.tree import HoeffdingTreeRegressor

        return type(model) is HoeffdingTreeRegressor and model._root is None and regression_repeatable(model)
