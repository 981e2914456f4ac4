"""The task by the words of the sidecar's settings, binary and multiclass, and by the library's own."""

import numpy as np
import pytest
from river import linear_model

import explain_core as ec

ROWS = [{"a": i % 2, "b": i % 3} for i in range(60)]
Y = [row["a"] for row in ROWS]


def model(x):
    return {0: 0.9 - 0.8 * x["a"], 1: 0.1 + 0.8 * x["a"]}


def batch(cls, **settings):
    def explained(task):
        result = cls(model, task=task, **settings).explain(ROWS, Y)
        return str(result)

    return explained


def stream(cls, **settings):
    def explained(task):
        found = cls(model, task=task, **settings)
        for x, y in zip(ROWS, Y, strict=True):
            found.explain_one(x, y)
        return str(found.explanation)

    return explained


def curve(task):
    found = ec.IncrementalPDP(model, ["a"], task=task, label=1)
    for x in ROWS:
        found.explain_one(x)
    return str(found.curves)


def shift(task):
    found = ec.ExplanationShift(model, lambda x: {0: 0.5, 1: 0.5}, task=task)
    for x in ROWS:
        found.update(x)
    return str(found.explanation)


def learner(task):
    found = ec.learner_of(linear_model.LogisticRegression(), task)
    for x, y in zip(ROWS, Y, strict=True):
        found.learn(x, y)
    return str(found.predict(ROWS[0]))


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize(
    "explained",
    [
        stream(ec.IncrementalPFI),
        stream(ec.IncrementalSAGE),
        stream(ec.IntervalPFI, window=20),
        batch(ec.PermutationImportance),
        batch(ec.SAGE),
        curve,
        shift,
        learner,
        lambda task: str(ec.wrap(model, task).task),
        lambda task: str(ec.PredictionExplainer(model, ROWS[:6], task=task).explain(ROWS[:1])),
    ],
)
def test_the_tasks_of_the_settings_are_a_classification(explained, task):
    assert explained(task) == explained("classification")


def test_a_classification_has_as_many_classes_as_the_model_or_the_labels_tell():
    rng = np.random.default_rng(1)
    rows = [{"a": float(a)} for a in rng.normal(size=300)]
    for labels, task in (
        ([a["a"] > 0 for a in rows], "binary"),
        ([i % 30 for i in range(300)], "multiclass"),
    ):
        pairs = list(zip(rows, labels, strict=True))
        told, named = (
            ec.watch(pairs, model="linear", task=of, progress=False) for of in ("classification", task)
        )
        assert told.digest == named.digest and told.task == "classification"
    with pytest.raises(ValueError, match="LinearRegression is for regression and the task is classification"):
        ec.watch(pairs, model=linear_model.LinearRegression(), task="classification", progress=False)
    with pytest.raises(ValueError, match="pass task='binary', 'multiclass' or 'regression'"):
        ec.watch(task="classification")
    with pytest.raises(ValueError, match="'ranking' is not one of binary, multiclass, regression"):
        ec.watch(pairs, task="ranking")
