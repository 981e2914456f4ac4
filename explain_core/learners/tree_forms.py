"""The trees and forests of river that arrays repeat, and their parameters as numbers."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Mapping, Sequence
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


class Parameter(NamedTuple):
    """A parameter of river's class: which values compiled code knows, the place of its number, and what number a value is."""

    name: str
    known: Callable[[Any], bool]
    place: int | None = None
    number: Callable[[Any], float] = float


def _form_of(model: Any, task: Task) -> Form | None:
    for form in FORMS:
        if form.regression == (task == "regression") and type(model) is resolve_name(form.river):
            known = all(parameter.known(getattr(model, parameter.name)) for parameter in _parameters(form))
            return form if known and _is_new(model, form) else None
    return None


def _numbers_of(model: Any, form: Form) -> dict[int, float]:
    """The parameters by their places."""
    found = {
        parameter.place: parameter.number(getattr(model, parameter.name))
        for parameter in _parameters(form)
        if parameter.place is not None
    } | {at.TWO: 2.0, at.HALF: 0.5, at.LEAF_LIMIT: LEAF_LIMIT_OF_TREES}
    if form.structure == ADAPTIVE:
        found |= {at.RATE: math.exp(-1), at.COMPARES: 1.0}
    elif form.structure == FOREST and form.regression:
        found[at.LEAST] = 5  # river's trees of a forest do not get the forest's own
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


def _any(value: Any) -> bool:
    return True


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _from_0(value: Any) -> bool:
    return _number(value) and value >= 0


def _parameters(form: Form) -> list[Parameter]:
    found = [
        Parameter("grace_period", _from_0, at.GRACE),
        Parameter("delta", lambda delta: _from_0(delta) and 0.0 < delta <= 1.0, at.DELTA),
        Parameter("tau", _from_0, at.TAU),
        Parameter("max_depth", lambda most: most is None or type(most) is int, at.DEPTH_LIMIT, _depth),
        Parameter("binary_split", _any, at.BINARY),
        Parameter("merit_preprune", _any, at.PREPRUNE),
        Parameter("stop_mem_management", lambda stops: not stops or form.structure != ADAPTIVE, at.STOP),
        Parameter("nominal_attributes", lambda names: all(isinstance(name, str) for name in names or ())),
        Parameter("max_size", lambda size: size >= (500.0 if form.regression else 100.0)),  # river's default
        *(_of_target() if form.regression else _of_classes()),
    ]
    if form.structure == ADAPTIVE:
        found += [
            Parameter("bootstrap_sampling", _any, at.BOOTSTRAP),
            Parameter("drift_window_threshold", _number, at.DRIFT_WINDOW),
            Parameter("switch_significance", lambda p: type(p) is float and 0.0 < p < 2.0, at.SWITCH),
            Parameter("drift_detector", _watches),
        ]
    elif form.structure == FOREST:
        most, metrics = MOST_TREES if form.regression else math.inf, _metrics(form)
        found += [
            Parameter("n_models", lambda n: type(n) is int and 0 < n <= most),
            Parameter("max_features", lambda k: k in ("sqrt", "log2", None) or _number(k)),
            Parameter("lambda_value", lambda r: _number(r) and 0.0 < r < 700.0, at.RATE, lambda r: math.exp(-r)),
            Parameter("disable_weighted_vote", _any, at.WEIGHTED, operator.not_),
            Parameter("warning_detector", _watches_or_not, at.WARNING_ON, _watches),
            Parameter("drift_detector", _watches_or_not, at.DRIFT_ON, _watches),
            Parameter("metric", lambda metric: type(metric) in metrics),
        ]  # fmt: skip
        if form.regression:
            found += [
                Parameter(
                    "aggregation_method", _any, at.AGGREGATION, lambda how: {"mean": MEAN}.get(how, MEDIAN)
                ),
                Parameter("metric", _any, at.METRIC, lambda metric: metrics.index(type(metric))),
            ]
    return found


def _depth(most: int | None) -> int:
    return DEEPEST if most is None else min(most, DEEPEST)


def _of_classes() -> list[Parameter]:
    from river.tree.splitter import GaussianSplitter as Gaussian

    return [
        Parameter("max_share_to_split", _from_0, at.SHARE),
        Parameter("min_branch_fraction", _from_0, at.FRACTION),
        Parameter("splitter", lambda s: s is None or type(s) is Gaussian, at.N_SPLITS, lambda s: (s or Gaussian()).n_splits),
        Parameter("leaf_prediction", MANNERS.__contains__, at.MANNER, MANNERS.__getitem__),
        Parameter("leaf_prediction", _any, at.COMPARES, "nba".__eq__),
        Parameter("nb_threshold", _from_0, at.NB_THRESHOLD),
        Parameter("split_criterion", CRITERIA.__contains__, at.CRITERION, CRITERIA.__getitem__),
    ]  # fmt: skip


def _of_target() -> list[Parameter]:
    from river import optim
    from river.linear_model import LinearRegression
    from river.tree.splitter import EBSTSplitter, QOSplitter, TEBSTSplitter

    from explain_core.learners.linear_river import is_new

    def observes(splitter: Any) -> bool:
        return (
            splitter is None
            or type(splitter) is EBSTSplitter
            or (type(splitter) is TEBSTSplitter and splitter.digits in range(23))
            or (type(splitter) is QOSplitter and not splitter.allow_multiway_splits)
        )

    def fits(leaf: Any) -> bool:
        plain = type(leaf) is LinearRegression and is_new(leaf, linear_plan.IDENTITY)
        return leaf is None or (plain and leaf.intercept_init == 0)

    def scale(splitter: Any) -> float:
        splitter = splitter or TEBSTSplitter()
        return 10.0**splitter.digits if type(splitter) is TEBSTSplitter else 0.0

    def of_leaf(place: int, number: Callable[[Any], float]) -> Parameter:
        return Parameter("leaf_model", fits, place, lambda leaf: number(leaf or LinearRegression()))

    losses = {optim.losses.Absolute: linear_plan.ABSOLUTE}
    return [
        Parameter("leaf_prediction", TARGET_MANNERS.__contains__, at.MANNER, TARGET_MANNERS.__getitem__),
        Parameter("splitter", observes, at.SCALE, scale),
        Parameter("splitter", observes, at.RADIUS, lambda s: s.radius if type(s) is QOSplitter else 0.0),
        Parameter("min_samples_split", _from_0, at.LEAST),
        Parameter("model_selector_decay", _from_0, at.DECAY),
        Parameter("remove_poor_attrs", operator.not_),
        of_leaf(at.LEAF_RATE, lambda leaf: leaf.optimizer.lr.learning_rate),
        of_leaf(at.LEAF_INTERCEPT_RATE, lambda leaf: leaf.intercept_lr.learning_rate),
        of_leaf(at.LEAF_L2, lambda leaf: leaf.l2),
        of_leaf(at.LEAF_CLIP, lambda leaf: leaf.clip_gradient),
        of_leaf(at.LEAF_LOSS, lambda leaf: losses.get(type(leaf.loss), linear_plan.SQUARED)),
    ]


def _metrics(form: Form) -> tuple[type, ...]:
    """By which members of a forest may be measured."""
    from river import metrics

    return (metrics.MSE, metrics.MAE, metrics.RMSE) if form.regression else (metrics.Accuracy,)


def _is_new(model: Any, form: Form) -> bool:
    """Whether it has learnt nothing, and its parameters go together."""
    if form.structure == FOREST:
        metric = model.metric
        learnt = len(model) or (metric._mean.n if form.regression else metric.cm.n_samples)
    else:
        learnt = model._root is not None
    if form.regression:
        return not learnt and (model.leaf_prediction == "mean" or not model.nominal_attributes)
    return not learnt and not (model.remove_poor_attrs and model.leaf_prediction == "mc")


def _watches_or_not(detector: Any) -> bool:
    from river import drift

    return type(detector) is drift.NoDrift or _watches(detector)


def _watches(detector: Any) -> bool:
    """Whether a detector is an ADWIN that compiled code knows: with one bucket a row, rows are empty once two were merged, which river takes off again and again."""
    from river import drift

    return type(detector) is drift.ADWIN and detector.max_buckets > 1
