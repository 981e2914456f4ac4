"""The members of the default mixture as plain values: who explains it need not load river.

They are river's models with its defaults, which a test compares with them.
"""

from __future__ import annotations

import math
import numbers
import random
from typing import Any, Literal, NamedTuple

from explain_core.learners import layout as at
from explain_core.learners import linear_layout as linear
from explain_core.learners.columns import Columns
from explain_core.learners.linear import LinearLearner
from explain_core.learners.linear_plan import Branch, LinearPlan, Selector
from explain_core.learners.tree import TreeLearner
from explain_core.learners.tree_forms import DEEPEST, FORMS, LEAF_LIMIT_OF_TREES, MEDIAN, TreePlan
from explain_core.losses import Task

TREES = 10
"""Of a forest."""

BRANCHES = (
    Branch((Selector(frozenset({str})),), drop_zeros=True),
    Branch((Selector(frozenset({numbers.Number})),), with_std=True),
)
"""Strings are one-hot encoded, numbers and booleans standardised."""

PLANS = {
    "binary": LinearPlan("LogisticRegression", linear.SIGMOID, linear.LOG, BRANCHES),
    "multiclass": LinearPlan(
        "SoftmaxRegression", linear.SOFTMAX, linear.LOG, BRANCHES, intercept_rate=0.0, clip_gradient=0.0
    ),
    "regression": LinearPlan(
        "ImplicitRegression", linear.IDENTITY, linear.SQUARED, BRANCHES, implicit=True, clip_gradient=1e300
    ),
}

_TREE = {
    at.GRACE: 50,
    at.DELTA: 0.01,
    at.TAU: 0.05,
    at.DEPTH_LIMIT: DEEPEST,
    at.TWO: 2.0,
    at.HALF: 0.5,
    at.PREPRUNE: True,
    at.LEAF_LIMIT: LEAF_LIMIT_OF_TREES,
    at.RATE: math.exp(-6),
    at.WARNING_ON: True,
    at.DRIFT_ON: True,
}
_CLASSES = {
    at.SHARE: 0.99,
    at.FRACTION: 0.01,
    at.N_SPLITS: 10,
    at.MANNER: at.BETTER,
    at.NB_THRESHOLD: 0,
    at.CRITERION: at.INFO_GAIN,
    at.COMPARES: True,
    at.WEIGHTED: True,
}
_TARGET = {
    at.MANNER: at.TARGET_MEAN,
    at.SCALE: 10.0,
    at.LEAST: 5,
    at.DECAY: 0.95,
    at.LEAF_RATE: 0.01,
    at.LEAF_INTERCEPT_RATE: 0.01,
    at.LEAF_CLIP: 1e12,
    at.LEAF_LOSS: linear.SQUARED,
    at.AGGREGATION: MEDIAN,
}
_ADWINS = [[0.01, 32.0, 5.0, 5.0, 10.0], [0.001, 32.0, 5.0, 5.0, 10.0]]
"""For warnings and for drifts."""


class Default(NamedTuple):
    """A member that has learnt nothing; ``task`` is that of the service: binary, multiclass or regression."""

    name: Literal["linear", "forest"]
    task: Literal["binary", "multiclass", "regression"]
    seed: int = 0

    def learner(self, columns: Columns) -> LinearLearner | TreeLearner:
        regression = self.task == "regression"
        task: Task = "regression" if regression else "classification"
        if self.name == "linear":
            return LinearLearner(self, task, PLANS[self.task], columns)
        form = next(
            form
            for form in FORMS
            if form.river == f"river.forest:ARF{'Regressor' if regression else 'Classifier'}"
        )
        values: Any = _TREE | (_TARGET if regression else _CLASSES)
        plan = TreePlan(form, values, _ADWINS, (), random.Random(self.seed), TREES, "sqrt")
        return TreeLearner(self, task, plan, columns)
