"""The models that go by a name as plain values: who explains one need not load river.

They are river's models with its defaults, which a test compares with them.
"""

from __future__ import annotations

import math
import numbers
import random
from typing import Literal, NamedTuple

from explain_core.learners import layout as at
from explain_core.learners import linear_plan as linear
from explain_core.learners.linear_plan import Branch, LinearPlan, Selector
from explain_core.learners.tree_forms import DEEPEST, FORMS, LEAF_LIMIT_OF_TREES, MEDIAN, TreePlan

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

_TREES: dict[int, float] = {
    at.TAU: 0.05,
    at.DEPTH_LIMIT: DEEPEST,
    at.TWO: 2.0,
    at.HALF: 0.5,
    at.PREPRUNE: True,
    at.LEAF_LIMIT: LEAF_LIMIT_OF_TREES,
}
_CLASSES: dict[int, float] = _TREES | {
    at.SHARE: 0.99,
    at.FRACTION: 0.01,
    at.N_SPLITS: 10,
    at.MANNER: at.BETTER,
    at.CRITERION: at.INFO_GAIN,
    at.COMPARES: True,
}
_TARGET: dict[int, float] = _TREES | {
    at.MANNER: at.TARGET_MEAN,
    at.SCALE: 10.0,
    at.LEAST: 5,
    at.DECAY: 0.95,
    at.LEAF_RATE: 0.01,
    at.LEAF_INTERCEPT_RATE: 0.01,
    at.LEAF_CLIP: 1e12,
    at.LEAF_LOSS: linear.SQUARED,
}
_ADAPTIVE: dict[int, float] = {
    at.GRACE: 200,
    at.DELTA: 1e-7,
    at.RATE: math.exp(-1),
    at.BOOTSTRAP: True,
    at.DRIFT_WINDOW: 300,
    at.SWITCH: 0.05,
    at.COMPARES: True,
}
_FOREST: dict[int, float] = {
    at.GRACE: 50,
    at.DELTA: 0.01,
    at.RATE: math.exp(-6),
    at.WARNING_ON: True,
    at.DRIFT_ON: True,
}

PARAMETERS = {
    "HoeffdingAdaptiveTreeClassifier": _CLASSES | _ADAPTIVE,
    "HoeffdingAdaptiveTreeRegressor": _TARGET | _ADAPTIVE,
    "ARFClassifier": _CLASSES | _FOREST | {at.WEIGHTED: True},
    "ARFRegressor": _TARGET | _FOREST | {at.AGGREGATION: MEDIAN},
}
"""By river's classes."""


def _adwin(delta: float) -> list[float]:
    return [delta, 32.0, 5.0, 5.0, 10.0]


class Default(NamedTuple):
    """A model that has learnt nothing; ``task`` is that of the service: binary, multiclass or regression."""

    name: Literal["linear", "tree", "forest"]
    task: Literal["binary", "multiclass", "regression"]
    seed: int = 0

    @property
    def title(self) -> str:
        """River's class."""
        if self.name == "linear":
            return PLANS[self.task].name
        kind = "Regressor" if self.task == "regression" else "Classifier"
        return f"{'HoeffdingAdaptiveTree' if self.name == 'tree' else 'ARF'}{kind}"

    @property
    def plan(self) -> LinearPlan | TreePlan:
        if self.name == "linear":
            return PLANS[self.task]
        forest = self.name == "forest"
        # Of a forest for warnings and for drifts.
        detectors = [_adwin(0.01), _adwin(0.001)] if forest else [_adwin(0.002)]
        return TreePlan(
            next(form for form in FORMS if form.river.endswith(f":{self.title}")),
            PARAMETERS[self.title],
            detectors,
            generator=random.Random(self.seed),
            members=TREES if forest else 0,
            max_features="sqrt" if forest else None,
        )
