"""The learners of regression trees are river's trees, to the last bit and node by node."""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import linear_model, optim, tree
from river.datasets import synth
from river.stats import Var
from river.tree.splitter import EBSTSplitter, QOSplitter, TEBSTSplitter

from explain_core.learners.regression_leaves import rounded
from explain_core.learners.trees import tree_learner
from tests.learners.lockstep import RECORDS, Labelled, mixed, run
from tests.learners.tree_state import TargetReader, of_river


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


STREAMS: dict[str, Callable[[int], Iterator[Labelled]]] = {
    "friedman": lambda n: named(synth.Friedman(seed=42), n),
    "drifting": lambda n: named(
        synth.FriedmanDrift("gra", position=(n // 3, n // 2), transition_window=n // 9, seed=42), n
    ),
    "planes": lambda n: named(synth.Planes2D(seed=42), n),
    "mv, numbers": lambda n: (
        ({name: v for name, v in x.items() if not isinstance(v, str)}, y, w)
        for x, y, w in named(synth.Mv(seed=42), n)
    ),
    "tied": tied,
    "rising": rising,
    "missing, late": lambda n: mixed(n, 5, task="regression", nominal=False, missing=0.3),
    "weighted": lambda n: mixed(n, 2, task="regression", nominal=False, weighted=True),
}
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
MODELS_OF_LINES: list[Callable[[], Any]] = [lambda: tree.HoeffdingTreeRegressor(leaf_prediction="model")]
CASES = [
    *[("eager", stream) for stream in STREAMS],
    *[(parameters, stream) for parameters in TREES if parameters != "eager" for stream in ("tied", "planes")],
    *[(parameters, stream) for parameters in MEANS for stream in NOMINAL],
]


@pytest.mark.parametrize(("parameters", "stream"), CASES)
def test_a_hoeffding_tree_regressor_is_rivers(parameters: str, stream: str) -> None:
    learner, river = run(
        lambda: tree.HoeffdingTreeRegressor(**(TREES | MEANS)[parameters]),
        tree_learner,
        "regression",
        (STREAMS | NOMINAL)[stream](RECORDS),
    )
    assert TargetReader(learner).tree(0) == of_river(river.wrapped._root)
    assert river.wrapped.n_leaves > 2 or parameters == "default"


@given(st.floats(allow_nan=False), st.integers(0, 22))
def test_numbers_are_rounded_as_python_does(x: float, digits: int) -> None:
    assert rounded(x, 10.0**digits) == round(x, digits)


@given(st.integers(-(10**15), 10**15), st.integers(0, 6))
def test_ties_are_rounded_as_python_does(n: int, digits: int) -> None:
    for x in (n / 2.0, n / 10.0**digits + 0.5 / 10.0**digits, n / 16.0, n / 32.0):
        assert rounded(x, 10.0**digits) == round(x, digits)


@pytest.mark.parametrize(
    "parameters",
    [
        {"leaf_model": linear_model.PARegressor()},
        {"leaf_model": linear_model.LinearRegression(optim.Adam())},
        {"leaf_model": linear_model.LinearRegression(intercept_init=1.0)},
        {"nominal_attributes": ["a"]},
        {"splitter": QOSplitter(allow_multiway_splits=True)},
        {"splitter": TEBSTSplitter(digits=-1)},
        {"remove_poor_attrs": True},
        {"max_size": 100.0},
        {"min_samples_split": "5"},
    ],
    ids=str,
)
def test_other_parameters_are_left_to_river(parameters: dict[str, Any]) -> None:
    assert tree_learner(tree.HoeffdingTreeRegressor(**parameters), "regression") is None


def test_a_string_that_a_linear_regression_would_get_is_refused_and_nothing_else() -> None:
    learner = tree_learner(tree.HoeffdingTreeRegressor(), "regression")
    assert learner is not None
    learner.learn({"a": 1.0}, 2.0)
    with pytest.raises(ValueError, match=r"feature 'b' is a string.*leaf_prediction"):
        learner.learn({"a": 1.0, "b": "red"}, 2.0)
    learner.learn({"a": 2.0}, 3.0)
    assert learner.predict({"a": 1.5}) > 0.0


@pytest.mark.parametrize("make", MODELS_OF_LINES, ids=["tree"])
def test_the_order_of_one_sum_is_noticed(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(model: Any, x: dict[str, Any]) -> Any:
        return predict(model, dict(reversed(x.items())))

    predict = linear_model.LinearRegression.predict_one
    monkeypatch.setattr(linear_model.LinearRegression, "predict_one", backwards)
    with pytest.raises(AssertionError, match="record"):
        run(make, tree_learner, "regression", STREAMS["friedman"](300))


def test_the_order_of_the_factors_of_a_variance_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(var: Var, x: float, w: float = 1.0) -> None:
        before = var.mean._mean
        var.mean.update(x, w)
        var._S += w * (x - var.mean._mean) * (x - before)

    monkeypatch.setattr(Var, "update", backwards)
    learner, river = run(
        lambda: tree.HoeffdingTreeRegressor(leaf_prediction="mean"),
        tree_learner,
        "regression",
        STREAMS["weighted"](150),
    )
    assert TargetReader(learner).tree(0) != of_river(river.wrapped._root)
