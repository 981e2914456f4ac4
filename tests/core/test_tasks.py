"""The task by the words of the sidecar's settings, binary and multiclass, and by the library's own."""

import numpy as np
import pytest
from river import linear_model, naive_bayes

import explain_core as ec

ROWS = [{"a": i % 2, "b": i % 3} for i in range(60)]
Y = [row["a"] for row in ROWS]


def model(x):
    return {0: 0.9 - 0.8 * x["a"], 1: 0.1 + 0.8 * x["a"]}


def told(made, step):
    for x, y in zip(ROWS, Y, strict=True):
        step(made, x, y)
    return made


def by_halves(x):
    return {0: 0.5, 1: 0.5}


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize(
    "explained",
    [
        lambda task: told(ec.IncrementalPFI(model, task=task), ec.IncrementalPFI.explain_one).explanation,
        lambda task: told(ec.IncrementalSAGE(model, task=task), ec.IncrementalSAGE.explain_one).explanation,
        lambda task: told(ec.IntervalPFI(model, task=task, window=20), ec.IntervalPFI.explain_one).explanation,
        lambda task: ec.PermutationImportance(model, task=task).explain(ROWS, Y),
        lambda task: ec.SAGE(model, task=task).explain(ROWS, Y),
        lambda task: told(ec.IncrementalPDP(model, ["a"], task=task, label=1), lambda curve, x, y: curve.explain_one(x)).curves,
        lambda task: told(ec.ExplanationShift(model, by_halves, task=task), lambda shift, x, y: shift.update(x)).explanation,
        lambda task: told(ec.learner_of(linear_model.LogisticRegression(), task), lambda learner, x, y: learner.learn(x, y)).predict(ROWS[0]),
        lambda task: ec.wrap(model, task).task,
        lambda task: ec.PredictionExplainer(model, ROWS[:6], task=task).explain(ROWS[:1]),
    ],
)  # fmt: skip
def test_the_tasks_of_the_settings_are_a_classification(explained, task):
    assert str(explained(task)) == str(explained("classification"))


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
    of_classes = ec.watch(pairs, model=naive_bayes.GaussianNB(), progress=False)  # 30, which would be numbers
    assert (of_classes.task, of_classes.explainer.task) == ("classification", "classification")
    with pytest.raises(ValueError, match="LinearRegression is for regression and the task is classification"):
        ec.watch(pairs, model=linear_model.LinearRegression(), task="classification", progress=False)
    with pytest.raises(ValueError, match="pass task='binary', 'multiclass' or 'regression'"):
        ec.watch(task="classification")
    with pytest.raises(ValueError, match="'ranking' is not one of binary, multiclass, regression"):
        ec.watch(pairs, task="ranking")
