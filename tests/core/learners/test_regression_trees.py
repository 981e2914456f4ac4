"""The learners of regression trees are river's trees, to the last bit and node by node."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, forest, linear_model, metrics, optim, tree
from river.datasets import synth
from river.stats import Var
from river.tree.splitter import EBSTSplitter, QOSplitter, TEBSTSplitter

from explain_core.engine.trees import rounded
from explain_core.learners.tree import tree_learner
from tests.core.learners.lockstep import Labelled, mixed, records, run
from tests.core.learners.tree_state import TargetReader, assert_same, of_river


def named(stream: Any, n: int) -> Iterator[Labelled]:
    return (({f"x{name}": value for name, value in x.items()}, y, 1.0) for x, y in islice(stream, n))


def tied(n: int) -> Iterator[Labelled]:
    """Features that are copies of each other, a constant, and targets of few values."""
    rng = random.Random(5)
    for x, y, w in named(synth.Friedman(seed=1), n):
        a, b = x["x0"], round(x["x1"], 1)
        yield {"a": a, "b": a, "c": 1.0, "d": b, "e": b, "f": rng.randrange(3)}, round(y / 5.0), w


def rising(n: int) -> Iterator[Labelled]:
    """A clock, which makes a search tree a chain, and large numbers."""
    rng = random.Random(6)
    for i in range(n):
        hour = i // 7 % 24
        y = 50.0 * (hour > 12) + rng.gauss(0.0, 3.0)
        yield {"at": 0.37 * i, "hour": hour, "large": rng.gauss(0.0, 1e15), "flag": hour > 6}, y, 1.0


def turning(n: int) -> Iterator[Labelled]:
    """Records whose meaning turns round now and then."""
    for i, (x, y, w) in enumerate(named(synth.Friedman(seed=7), n)):
        yield x, y if i // 200 % 2 else 30.0 - y, w


STREAMS: dict[str, Callable[[int], Iterator[Labelled]]] = {
    "friedman": lambda n: named(synth.Friedman(seed=42), n),
    "drifting": lambda n: named(synth.FriedmanDrift("gra", position=(n // 3, n // 2), transition_window=n // 9, seed=42), n),
    "planes": lambda n: named(synth.Planes2D(seed=42), n),
    "mv, numbers": lambda n: (({name: v for name, v in x.items() if not isinstance(v, str)}, y, w) for x, y, w in named(synth.Mv(seed=42), n)),
    "tied": tied,
    "rising": rising,
    "missing, late": lambda n: mixed(n, 5, task="regression", nominal=False, missing=0.3),
    "weighted": lambda n: mixed(n, 2, task="regression", nominal=False, weighted=True),
    "turning": turning,
}  # fmt: skip
NOMINAL: dict[str, Callable[[int], Iterator[Labelled]]] = {
    "mv": lambda n: named(synth.Mv(seed=42), n),
    "mixed": lambda n: mixed(n, 1, task="regression", weighted=True),
    "nominal, much missing": lambda n: mixed(n, 4, task="regression", numeric=False, missing=0.4),
}
EAGER: dict[str, Any] = {"grace_period": 25, "delta": 0.05, "tau": 0.2}
TREES: dict[str, dict[str, Any]] = {
    "default": {},
    "eager": EAGER,
    "model": {**EAGER, "leaf_prediction": "model", "max_depth": 3},
    "other model": {
        **EAGER,
        "model_selector_decay": 0.5,
        "leaf_model": linear_model.LinearRegression(
            optim.SGD(0.001), loss=optim.losses.Absolute(), l2=0.01, intercept_lr=0.1, clip_gradient=3.0
        ),
    },
    "every point": {**EAGER, "splitter": EBSTSplitter(), "min_samples_split": 1},
    "digits": {**EAGER, "splitter": TEBSTSplitter(digits=3), "merit_preprune": False},
    "slots": {**EAGER, "splitter": QOSplitter(radius=0.3), "min_samples_split": 10},
    "stops": {**EAGER, "max_depth": 2, "stop_mem_management": True, "leaf_prediction": "mean"},
}
MEANS: dict[str, dict[str, Any]] = {
    "mean": {**EAGER, "leaf_prediction": "mean"},
    "mean, binary": {**EAGER, "leaf_prediction": "mean", "binary_split": True, "merit_preprune": False},
    "mean, named": {**EAGER, "leaf_prediction": "mean", "nominal_attributes": ["count", "flag", "x1", "two"]},
}
RESTLESS: dict[str, Any] = {
    **EAGER,
    "seed": 3,
    "drift_window_threshold": 20,
    "drift_detector": drift.ADWIN(0.9, clock=1),
    "switch_significance": 0.9,
}
ADAPTIVE: dict[str, dict[str, Any]] = {
    "default": {"seed": 1},
    "restless": RESTLESS,
    "restless, models": {**RESTLESS, "leaf_prediction": "model", "max_depth": 3, "bootstrap_sampling": False},
    "restless, means": {**RESTLESS, "leaf_prediction": "mean", "switch_significance": 1.5},
}
FORESTS: dict[str, dict[str, Any]] = {
    "default": {},
    "means": {"n_models": 3, "leaf_prediction": "mean", "aggregation_method": "mean", "binary_split": True},
    "weighted, quick to drift": {
        "n_models": 9,
        "aggregation_method": "mean",
        "disable_weighted_vote": False,
        "max_features": 0.7,
        "drift_detector": drift.ADWIN(0.5, clock=4, max_buckets=3, min_window_length=3, grace_period=20),
        "warning_detector": drift.ADWIN(0.9, clock=4),
    },
    "weighted by root, no warnings": {
        "n_models": 3,
        "metric": metrics.RMSE(),
        "aggregation_method": "mean",
        "disable_weighted_vote": False,
        "warning_detector": drift.NoDrift(),
        "drift_detector": drift.ADWIN(0.1),
        "min_samples_split": 50,
    },
    "by absolute error, no drifts": {
        "n_models": 19,
        "lambda_value": 1,
        "metric": metrics.MAE(),
        "aggregation_method": "mean",
        "disable_weighted_vote": False,
        "warning_detector": drift.ADWIN(0.2),
        "drift_detector": drift.NoDrift(),
    },
    "no detectors": {"n_models": 4, "max_features": None, "warning_detector": drift.NoDrift(), "drift_detector": drift.NoDrift()},
}  # fmt: skip
KINDS: dict[str, tuple[Any, dict[str, dict[str, Any]]]] = {
    "tree": (tree.HoeffdingTreeRegressor, TREES | MEANS),
    "adaptive tree": (tree.HoeffdingAdaptiveTreeRegressor, ADAPTIVE),
    "forest": (partial(forest.ARFRegressor, seed=7), FORESTS),
}
QUICK = "weighted, quick to drift"
CASES = {
    "tree": [("eager", stream) for stream in STREAMS]
    + [(name, stream) for name in TREES if name != "eager" for stream in ("tied", "planes")]
    + [(name, stream) for name in MEANS for stream in NOMINAL],
    "adaptive tree": [(name, stream) for name in ADAPTIVE for stream in ("turning", "drifting")]
    + [("restless", stream) for stream in ("missing, late", "weighted", "tied")]
    + [("restless, means", stream) for stream in NOMINAL],
    "forest": [(name, "drifting") for name in FORESTS if name != QUICK]
    + [("default", "missing, late"), ("default", "rising"), (QUICK, "turning"), (QUICK, "tied")]
    + [("means", stream) for stream in NOMINAL],
}


@pytest.mark.parametrize(
    ("kind", "parameters", "stream"), [(kind, *case) for kind in CASES for case in CASES[kind]]
)
def test_a_tree_or_forest_of_numbers_is_rivers(
    kind: str, parameters: str, stream: str, lockstep: Any
) -> None:
    make, known = KINDS[kind]
    stream_of: Any = (STREAMS | NOMINAL)[stream](records(kind, known[parameters]))
    if kind == "forest":
        stream_of = ((x, y, 1.0) for x, y, _ in stream_of)  # river's forests know no weight
    share = 0.5 if parameters in ("restless", QUICK) and stream == "turning" else 0.3
    case = lambda: make(**known[parameters]), tree_learner, "regression", stream_of
    for learner, river in lockstep(*case, share=share):
        happened = assert_same(learner, river.wrapped)
        assert kind != "tree" or river.wrapped.n_leaves > 2 or parameters == "default"
        assert share < 0.5 or min(happened) > 0


@given(st.floats(allow_nan=False), st.integers(0, 22))
def test_numbers_are_rounded_as_python_does(x: float, digits: int) -> None:
    assert rounded(x, 10.0**digits) == round(x, digits)


@given(st.integers(-(10**15), 10**15), st.integers(0, 6))
def test_ties_are_rounded_as_python_does(n: int, digits: int) -> None:
    for x in (n / 2.0, n / 10.0**digits + 0.5 / 10.0**digits, n / 16.0, n / 32.0):
        assert rounded(x, 10.0**digits) == round(x, digits)


def test_a_string_that_a_linear_regression_would_get_is_refused_and_nothing_else() -> None:
    learner = tree_learner(tree.HoeffdingTreeRegressor(), "regression")
    assert learner is not None
    learner.learn({"a": 1.0}, 2.0)
    with pytest.raises(ValueError, match=r"feature 'b' is a string.*leaf_prediction"):
        learner.learn({"a": 1.0, "b": "red"}, 2.0)
    learner.learn({"a": 2.0}, 3.0)
    assert learner.predict({"a": 1.5}) > 0.0


def test_the_order_of_the_factors_of_a_variance_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(var: Var, x: float, w: float = 1.0) -> None:
        before = var.mean._mean
        var.mean.update(x, w)
        var._S += w * (x - var.mean._mean) * (x - before)

    monkeypatch.setattr(Var, "update", backwards)
    learner, river, _ = run(
        lambda: tree.HoeffdingTreeRegressor(leaf_prediction="mean"),
        tree_learner,
        "regression",
        STREAMS["weighted"](150),
    )
    assert TargetReader(learner).tree(0) != of_river(river.wrapped._root)
