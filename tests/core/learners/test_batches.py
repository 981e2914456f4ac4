"""Predictions of many records at once are those of single records, to the last bit."""

from typing import Any

import numpy as np
import pytest
from river import forest, linear_model, preprocessing, tree

from explain_core.drift.windows import Column
from explain_core.learners.choice import learner_of
from tests.core.learners.lockstep import mixed

MODELS: dict[str, tuple[Any, str]] = {
    "logistic": (lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(), "binary"),
    "softmax": (lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(), "multiclass"),
    "linear": (lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(), "regression"),
    "tree": (lambda: tree.HoeffdingTreeClassifier(grace_period=50), "multiclass"),
    "adaptive tree": (lambda: tree.HoeffdingAdaptiveTreeClassifier(grace_period=50, seed=1), "binary"),
    "regression tree": (lambda: tree.HoeffdingTreeRegressor(grace_period=50), "regression"),
    "adaptive regression tree": (
        lambda: tree.HoeffdingAdaptiveTreeRegressor(grace_period=50, seed=1),
        "regression",
    ),
    "regression forest": (lambda: forest.ARFRegressor(n_models=3, seed=1), "regression"),
}


@pytest.mark.parametrize("name", MODELS)
def test_records_together_are_predicted_as_one_by_one(name: str) -> None:
    make, task = MODELS[name]
    nominal = name in ("tree", "adaptive tree")
    stream = list(mixed(600, 3, task=task, nominal=nominal))
    learner = learner_of(make(), "regression" if task == "regression" else "classification")
    assert learner is not None
    for x, y, _ in stream[:500]:
        learner.learn(x, y)
    known = [
        {key: value for key, value in x.items() if key in learner.columns.index} for x, _, _ in stream[500:]
    ]
    known = [
        x
        for x in known
        if learner.columns.codes.get("many", {}).keys() >= {x.get("many", "c0")} or not nominal
    ]
    columns = {key: Column.of([x.get(key) for x in known]).cells for key in learner.columns.names}
    rows = learner.columns.matrix(columns, len(known))
    assert rows is not None and len(rows) > 50
    found = learner.predict_rows(rows)
    assert found is not None
    single = [learner.predict(x) for x in known]
    if task == "regression":
        assert found[:, 0].tolist() == single
    else:
        assert [dict(zip(learner.order or (), row, strict=True)) for row in found.tolist()] == single
        assert all(list(x) == list(learner.order or ()) for x in single if isinstance(x, dict))
    assert len(np.unique(found[:, 0])) > 1


def test_a_record_that_only_alone_can_be_encoded_is_not_in_a_batch() -> None:
    learner = learner_of(tree.HoeffdingTreeClassifier(), "classification")
    assert learner is not None
    learner.learn({"a": 1.0, "s": "red"}, 0)
    for wrong in (
        {"a": ["red"]},
        {"s": np.array([1.0])},
        {"s": ["blue"]},
        {"new": np.array([1.0])},
        {"a": [10**400]},
    ):
        assert learner.columns.matrix(wrong, 1) is None
    rows = learner.columns.matrix({"new": [None], "s": ["red"]}, 1)
    assert rows is not None and np.isnan(rows[0, 0]) and rows[0, 1] == 0.0
