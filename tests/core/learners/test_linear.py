"""The linear learner is river's pipelines, to the last bit."""

import numbers
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from river import compose, linear_model, optim, preprocessing

from explain_core.learners.implicit import ImplicitRegression
from explain_core.learners.linear import LinearLearner, linear_learner
from explain_core.learners.named import linear_model_of
from explain_core.losses import Task
from tests.core.learners.lockstep import RECORDS, Labelled, mixed, run


def encoded(model: Any, *, zeros: bool = True, first: bool = False) -> Any:
    numbers_ = compose.SelectType(numbers.Number) | preprocessing.StandardScaler()
    strings = compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=not zeros)
    return (strings + numbers_ if first else numbers_ + strings) | model


def scaled(model: Any, **options: Any) -> Any:
    return preprocessing.StandardScaler(**options) | model


NUMBERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "logistic": ("binary", lambda: scaled(linear_model.LogisticRegression())),
    "logistic, every parameter": (
        "binary",
        lambda: scaled(
            linear_model.LogisticRegression(
                optimizer=optim.SGD(0.1),
                loss=optim.losses.Log(2.0, 0.5),
                l2=0.01,
                intercept_init=0.7,
                intercept_lr=0.3,
                clip_gradient=0.5,
            )
        ),
    ),
    "logistic without some": ("binary", lambda: compose.Discard("n4") | scaled(linear_model.LogisticRegression())),
    "linear": ("regression", lambda: scaled(linear_model.LinearRegression())),
    "linear, absolute loss, as it comes": ("regression", lambda: linear_model.LinearRegression(loss=optim.losses.Absolute())),
    "linear, mean alone": ("regression", lambda: scaled(linear_model.LinearRegression(optimizer=optim.SGD(1e-5)), with_std=False)),
    "implicit": ("regression", lambda: scaled(ImplicitRegression(l2=0.001))),
    "softmax": ("multiclass", lambda: scaled(linear_model.SoftmaxRegression())),
}  # fmt: skip
MIXED: dict[str, tuple[str, Callable[[], Any]]] = {
    "linear, binary": ("binary", lambda: linear_model_of("binary")),
    "linear, multiclass": ("multiclass", lambda: linear_model_of("multiclass")),
    "linear, regression": ("regression", lambda: linear_model_of("regression")),
    "implicit": ("regression", lambda: encoded(ImplicitRegression(optim.SGD(0.1)), zeros=False)),
    "zeros": ("binary", lambda: encoded(linear_model.LogisticRegression())),
    "zeros, l2, strings first": (
        "binary",
        lambda: encoded(linear_model.LogisticRegression(l2=0.01), first=True),
    ),
    "zeros, softmax, l2": ("multiclass", lambda: encoded(linear_model.SoftmaxRegression(l2=0.001))),
}


def kind_of(task: str) -> Task:
    return "regression" if task == "regression" else "classification"


STREAMS: dict[str, Callable[[str], Iterator[Labelled]]] = {
    "numbers": lambda task: mixed(RECORDS, 1, task=task, nominal=False, weighted=task != "multiclass"),
    "whole": lambda task: mixed(RECORDS, 2, task=task, missing=0.0),
    "missing": lambda task: mixed(RECORDS, 2, task=task, missing=0.2),
}
CASES = [
    *(("numbers", name) for name in NUMBERS),
    *((of, name) for of in ("whole", "missing") for name in MIXED),
]


@pytest.mark.parametrize(("stream", "name"), CASES)
def test_a_linear_model_is_rivers(stream: str, name: str, lockstep: Any) -> None:
    task, make = (NUMBERS if stream == "numbers" else MIXED)[name]
    list(lockstep(make, linear_learner, kind_of(task), STREAMS[stream](task)))


def test_a_changed_order_of_one_sum_is_seen() -> None:
    """The mutation check: the lockstep would not notice if it compared less than every bit."""
    learner: LinearLearner | None = None

    def swapped(model: Any, task: Task) -> LinearLearner | None:
        nonlocal learner
        learner = linear_learner(model, task)
        assert learner is not None
        learner._sequence = lambda: list(range(len(learner.columns.names)))[::-1]  # type: ignore[method-assign]
        return learner

    with pytest.raises(AssertionError, match="instead of"):
        run(NUMBERS["logistic"][1], swapped, "classification", mixed(RECORDS, 1, nominal=False))


def test_a_string_for_a_scaler_is_refused_in_words() -> None:
    learner = linear_learner(scaled(linear_model.LogisticRegression()), "classification")
    assert learner is not None
    with pytest.raises(ValueError, match="'colour' is a string, and StandardScaler takes numbers"):
        learner.predict({"colour": "red"})
