"""Importance for the prediction, which needs no label: right, the same in compiled code and in Python, and apart from all that needs labels."""

import math
import pickle
import random

import msgspec
import numpy as np
import pytest
from river import linear_model, tree

from explain_core import (
    Alarming,
    Explainer,
    IncrementalPFI,
    IncrementalSAGE,
    Options,
    StreamExplainer,
    learner_of,
)
from explain_core.foreign import dumps
from explain_core.importance.group import EstimatorGroup
from explain_core.losses import LABEL_FREE, get, moved
from explain_core.models import wrap
from explain_core.stream.options import Windowing

FREE = [
    Explainer(kind="ipfi", name="moves", losses=["prediction"], rows=20),
    Explainer(kind="isage", name="shares", losses=["prediction"], rows=20),
]
ALL = [Explainer(rows=20), Explainer(kind="isage", rows=20), *FREE]
TASKS = ("classification", "regression")


def records(n, seed=0):
    rng = random.Random(seed)
    for _ in range(n):
        x = {
            "a": rng.gauss(0, 1),
            "b": rng.gauss(0, 1),
            "noise": rng.gauss(0, 1),
            "kind": rng.choice((0.0, 1.0, 2.0)),
        }
        yield x, 2.0 * x["a"] + x["b"]


def labelled(n, task, seed=0):
    return [(x, y if task == "regression" else "uvw"[(y > 0) + (y > 2)]) for x, y in records(n, seed)]


def stream(task, explainers=ALL, **options):
    model = learner_of(
        tree.HoeffdingTreeClassifier() if task == "classification" else linear_model.LinearRegression(), task
    )
    return StreamExplainer(model, Options(explainers=explainers, **options), seed=3)


def linear(x):
    return 2.0 * x["a"] + x["b"]


@pytest.mark.parametrize("static", [None, 0.002])
def test_of_a_linear_model_they_are_what_theory_says(static):
    """iSAGE shares the variance, Σ β²; iPFI is E (f(x) − f(x'))² = 2 β²: of independent features with variance 1."""
    settings = {"task": "regression", "losses": "prediction", "alpha": static, "seed": 1}
    both = EstimatorGroup([IncrementalPFI(linear, **settings), IncrementalSAGE(linear, **settings)])
    for x, _ in records(2_500):
        both.explain_one(x, None)
    for estimator, times in zip(both.estimators, (2.0, 1.0), strict=True):
        found = estimator.explanation.importance("prediction")
        for name, truth in {"a": 4.0, "b": 1.0, "noise": 0.0, "kind": 0.0}.items():
            cell = found[name]
            assert math.isclose(cell.value, times * truth, abs_tol=4.0 * cell.std + 1e-12), (
                estimator.name,
                name,
            )


def test_of_probabilities_it_is_half_the_squares_of_all_classes():
    own, other = {"u": 0.5, "v": 0.5}, {"u": 0.25, "w": 0.75}
    assert moved(own, other) == moved(other, own) == 0.5 * (0.25**2 + 0.5**2 + 0.75**2)
    assert moved(own, own) == 0.0 and moved(2.0, 5.0) == 9.0


@pytest.mark.parametrize("task", TASKS)
def test_records_without_a_label_teach_the_model_nothing_and_are_explained_where_none_is_needed(task):
    plain, mixed = stream(task), stream(task)
    strangers = iter(list(records(900, seed=9)))
    for i, (x, y) in enumerate(labelled(600, task)):
        for explainer in (plain, mixed):
            explainer.update(x, y)
        for _ in range(i % 3):
            mixed.update_unlabelled(next(strangers)[0])
    own, other = (explainer.slots[""].state(dumps).explained for explainer in (plain, mixed))
    assert msgspec.msgpack.encode(own.model) == msgspec.msgpack.encode(other.model)
    assert own.performance == other.performance and own.records == other.records == 600
    assert own.reservoirs != other.reservoirs  # rows of all records
    n = {name: explanation.n for name, explanation in mixed.explanation.items()}
    assert n == {"ipfi": 589, "isage": 589, "moves": 1_180, "shares": 1_180}
    assert mixed.newest.explained.unlabelled == 600 and mixed.records == 600


def test_a_change_of_the_inputs_raises_an_alarm_without_any_label():
    """It says which feature moves the predictions now, and asks nothing about the risk."""
    watched = Alarming(subjects=("importance",), warm_up=200, baseline=500)
    explainer = StreamExplainer(
        learner_of(linear_model.LinearRegression(), "regression"),
        Options(explainers=FREE, alarms=watched, drift=Windowing(on_alarm=True, window=200)),
        fresh=lambda: learner_of(linear_model.LinearRegression(), "regression"),
    )
    events = []
    for x, y in records(1_500):
        events += explainer.update(x, y)
    assert events == []
    for x, _ in records(2_500, seed=5):
        events += explainer.update_unlabelled({**x, "a": 3.0 * x["a"]})
    about = {event.subject for event in events}
    assert {"a"} <= {subject.feature for subject in about} and "noise" not in {s.feature for s in about}
    assert all(event.label_free and event.subject.loss == "prediction" for event in events)
    for x, y in records(1_000, seed=6):
        assert all(hasattr(event, "subject") for event in explainer.update(x, y))


def test_what_is_not_a_loss_is_nowhere_among_the_losses():
    explainer = stream("regression")
    for x, y in labelled(100, "regression"):
        explainer.update(x, y)
    explained = explainer.newest.explained
    assert [loss.name for loss in explained.performance.losses] == ["squared"]
    assert explained.drivers("moves", "prediction") is None and ("moves", "prediction") not in explained.named
    assert pickle.loads(pickle.dumps(LABEL_FREE["prediction"])) is LABEL_FREE["prediction"]
    for refused in (
        lambda: get("prediction"),
        lambda: IncrementalPFI(linear, task="regression", losses=["squared", "prediction"]),
        lambda: IncrementalPFI(linear, task="regression", losses="prediction", kind="ratio"),
        lambda: stream("regression", [Explainer(losses=["prediction"], by="kind")]),
        lambda: StreamExplainer(
            wrap(linear, "regression"), Options(drift=Windowing(loss="prediction")), static=True
        ),
    ):
        with pytest.raises(ValueError, match=r"prediction|segments"):
            refused()


def test_an_estimator_without_labels_looks_at_none():
    given = [IncrementalPFI(linear, task="regression", losses="prediction", size=10) for _ in range(2)]
    for x, y in records(60):
        given[0].explain_one(x, y)
        given[1].explain_one(x, None)
    assert np.array_equal(given[0].explanation.values, given[1].explanation.values)
