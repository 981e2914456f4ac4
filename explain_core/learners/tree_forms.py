"""The trees and forests of river that arrays repeat, and their parameters as numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, NamedTuple

from explain_core.learners import layout as at
from explain_core.learners import linear_plan
from explain_core.losses import Task

LEAF_LIMIT_OF_TREES = 10_000
"""Leaves from which on a tree splits no more.

River weighs its objects against ``max_size``, which arrays cannot repeat: a model with a smaller ``max_size`` than river's default
is left to river.
"""

DEEPEST = 980
"""Depth from which on a leaf splits no more, that of river's under CPython's usual limit of recursion."""

MOST_TREES = 128
"""Of a regression forest: of more, numpy adds by halves."""

MANNERS = {"mc": at.MAJORITY, "nb": at.BAYES, "nba": at.BETTER}
TARGET_MANNERS = {"mean": at.TARGET_MEAN, "model": at.TARGET_MODEL, "adaptive": at.TARGET_ADAPTIVE}
CRITERIA = {"info_gain": at.INFO_GAIN, "gini": at.GINI, "hellinger": at.HELLINGER}

MEAN, MEDIAN = range(2)
"""What becomes of the predictions of a regression forest's trees."""

PLAIN, ADAPTIVE, FOREST = range(3)
"""One tree; one that replaces its branches; members with a tree each, and one in their background."""


class Form(NamedTuple):
    """A model of river: its name in snapshots, its class, whether it predicts a number, and what it is made of."""

    kind: str
    river: str
    regression: bool
    structure: int


FORMS = (
    Form("hoeffding_tree_classifier", "river.tree:HoeffdingTreeClassifier", False, PLAIN),
    Form("hoeffding_adaptive_tree_classifier", "river.tree:HoeffdingAdaptiveTreeClassifier", False, ADAPTIVE),
    Form("adaptive_random_forest_classifier", "river.forest:ARFClassifier", False, FOREST),
    Form("hoeffding_tree_regressor", "river.tree:HoeffdingTreeRegressor", True, PLAIN),
    Form("hoeffding_adaptive_tree_regressor", "river.tree:HoeffdingAdaptiveTreeRegressor", True, ADAPTIVE),
    Form("adaptive_random_forest_regressor", "river.forest:ARFRegressor", True, FOREST),
)


class TreePlan(NamedTuple):
    """A tree or forest that has learnt nothing: its form, its parameters by their places in ``layout``, and what else it is made of.

    ``nominal``: the features that are categories whatever their values. ``generator``: what it draws from. ``max_features``: of a forest's leaf.
    """

    form: Form
    numbers: Mapping[int, float]
    detectors: list[list[float]]
    nominal: Sequence[str] = ()
    generator: random.Random | None = None
    members: int = 0
    max_features: str | float | None = None


def plan_of(model: Any, task: Task) -> TreePlan | None:
    """That of a model of river that has learnt nothing; None where its class or its parameters are none that compiled code knows."""
    form = _form_of(model, task)
    if form is None:
        return None
    forest = form.structure == FOREST
    return TreePlan(
        form,
        _numbers_of(model, form),
        _detectors_of(model, form),
        model.nominal_attributes or (),
        None if form.structure == PLAIN else model._rng,
        model.n_models if forest else 0,
        model.max_features if forest else None,
    )


def _form_of(model: Any, task: Task) -> Form | None:
    for form in FORMS:
        if form.regression == (task == "regression") and type(model) is resolve_name(form.river):
            repeatable = _regression_repeatable(model) if form.regression else _repeatable(model)
            if form.structure == FOREST:
                repeatable = repeatable and _draws(model, form)
            else:
                repeatable = repeatable and model._root is None
            return form if repeatable and (form.structure != ADAPTIVE or _adapts(model)) else None
    return None


def _numbers_of(model: Any, form: Form) -> dict[int, float]:
    """The parameters by their places."""
    found = {
        at.GRACE: model.grace_period,
        at.DELTA: model.delta,
        at.TAU: model.tau,
        at.DEPTH_LIMIT: DEEPEST if model.max_depth is None else min(model.max_depth, DEEPEST),
        at.TWO: 2.0,
        at.HALF: 0.5,
        at.BINARY: model.binary_split,
        at.PREPRUNE: model.merit_preprune,
        at.STOP: model.stop_mem_management,
        at.LEAF_LIMIT: LEAF_LIMIT_OF_TREES,
        **(_target_numbers(model) if form.regression else _class_numbers(model)),
    }
    if form.structure == ADAPTIVE:
        found |= {
            at.RATE: math.exp(-1),
            at.BOOTSTRAP: model.bootstrap_sampling,
            at.DRIFT_WINDOW: model.drift_window_threshold,
            at.SWITCH: model.switch_significance,
            at.COMPARES: 1.0,
        }
    elif form.structure == FOREST:
        found |= {
            at.RATE: math.exp(-model.lambda_value),
            at.WEIGHTED: not model.disable_weighted_vote,
            at.WARNING_ON: _watches(model.warning_detector),
            at.DRIFT_ON: _watches(model.drift_detector),
        }
        if form.regression:
            found |= {
                at.LEAST: 5,  # river's trees of a forest do not get the forest's own
                at.AGGREGATION: MEAN if model.aggregation_method == "mean" else MEDIAN,
                at.METRIC: _metrics(form).index(type(model.metric)),
            }
    return found


def _detectors_of(model: Any, form: Form) -> list[list[float]]:
    """The parameters of the ADWINs of an adaptive tree, or of a forest: for warnings and for drifts, zeros where there is none."""
    if form.structure == PLAIN:
        return []
    used = [model.drift_detector]
    if form.structure == FOREST:
        used.insert(0, model.warning_detector)
    names = ("delta", "clock", "max_buckets", "min_window_length", "grace_period")
    return [
        [getattr(detector, name) for name in names] if _watches(detector) else [0.0] * at.N_DETECTOR
        for detector in used
    ]


def _class_numbers(model: Any) -> dict[int, float]:
    from river.tree.splitter import GaussianSplitter

    return {
        at.SHARE: model.max_share_to_split,
        at.FRACTION: model.min_branch_fraction,
        at.N_SPLITS: (model.splitter or GaussianSplitter()).n_splits,
        at.MANNER: MANNERS[model.leaf_prediction],
        at.NB_THRESHOLD: model.nb_threshold,
        at.COMPARES: model.leaf_prediction == "nba",
        at.CRITERION: CRITERIA[model.split_criterion],
    }


def _target_numbers(model: Any) -> dict[int, float]:
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
        at.LEAF_LOSS: linear_plan.ABSOLUTE if absolute else linear_plan.SQUARED,
    }


def _metrics(form: Form) -> tuple[type, ...]:
    """By which members of a forest may be measured."""
    from river import metrics

    return (metrics.MSE, metrics.MAE, metrics.RMSE) if form.regression else (metrics.Accuracy,)


def _repeatable(model: Any) -> bool:
    """Whether the parameters of a classification tree, or of those of a forest, are among those that compiled code knows."""
    from river.tree.splitter import GaussianSplitter

    return (
        model.leaf_prediction in MANNERS
        and model.split_criterion in CRITERIA
        and (model.splitter is None or type(model.splitter) is GaussianSplitter)
        and not (model.remove_poor_attrs and model.leaf_prediction == "mc")
        and _from_0(model.nb_threshold, model.max_share_to_split, model.min_branch_fraction)
        and _tree_repeatable(model, 100.0)
    )


def _regression_repeatable(model: Any) -> bool:
    """The same of a regression tree."""
    from river.linear_model import LinearRegression
    from river.tree.splitter import EBSTSplitter, QOSplitter, TEBSTSplitter

    from explain_core.learners.linear_river import is_new

    leaf, splitter = model.leaf_model, model.splitter
    return (
        model.leaf_prediction in TARGET_MANNERS
        and (model.leaf_prediction == "mean" or not model.nominal_attributes)
        and (
            leaf is None
            or (
                type(leaf) is LinearRegression
                and is_new(leaf, linear_plan.IDENTITY)
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
        and _from_0(model.min_samples_split, model.model_selector_decay)
        and _tree_repeatable(model, 500.0)
    )


def _tree_repeatable(model: Any, default_size: float) -> bool:
    """The same of the parameters that all trees have."""
    nominal = model.nominal_attributes
    return (
        (nominal is None or all(isinstance(name, str) for name in nominal))
        and model.max_size >= default_size
        and (model.max_depth is None or type(model.max_depth) is int)
        and _from_0(model.grace_period, model.delta, model.tau)
        and 0.0 < model.delta <= 1.0
    )


def _from_0(*values: Any) -> bool:
    """Whether all are numbers, and none is negative."""
    return all(type(value) in (int, float) and value >= 0 for value in values)


def _adapts(model: Any) -> bool:
    """The same of what an adaptive tree alone has."""
    return (
        not model.stop_mem_management
        and _watches(model.drift_detector)
        and type(model.drift_window_threshold) in (int, float)
        and type(model.switch_significance) is float
        and 0.0 < model.switch_significance < 2.0
    )


def _draws(model: Any, form: Form) -> bool:
    """The same of what a forest alone has, and whether it has learnt nothing."""
    from river import drift

    metric: Any = model.metric
    if type(metric) not in _metrics(form):
        return False
    measured = (
        (metric._mean.n != 0.0 or model.n_models > MOST_TREES) if form.regression else metric.cm.n_samples
    )
    return (
        not measured
        and len(model) == 0
        and type(model.n_models) is int
        and model.n_models > 0
        and type(model.lambda_value) in (int, float)
        and 0.0 < model.lambda_value < 700.0
        and (model.max_features in ("sqrt", "log2", None) or type(model.max_features) in (int, float))
        and all(
            type(detector) is drift.NoDrift or _watches(detector)
            for detector in (model.drift_detector, model.warning_detector)
        )
    )


def _watches(detector: Any) -> bool:
    """Whether a detector is an ADWIN that compiled code knows: with one bucket a row, rows are empty once two were merged, which river takes off again and again."""
    from river import drift

    return type(detector) is drift.ADWIN and detector.max_buckets > 1
