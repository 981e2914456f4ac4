"""A learner behind river's interface: the bits of the learner, and all that river asks of a model."""

import pickle
from itertools import islice

import pytest
from river import datasets, evaluate, metrics
from river.base import Classifier

from explain_core import learner_of
from explain_core.learners.as_river import as_river
from explain_core.learners.named import named_model

NAMES = ["mixture", "linear", "tree", "forest"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_it_predicts_and_learns_as_the_learner_also_from_a_pickle(name, task):
    regression = task == "regression"
    kind = "regression" if regression else "classification"
    rows = list(islice((datasets.TrumpApproval if regression else datasets.Phishing)(), 300))
    learner = learner_of(named_model(name, task, 1), kind)
    labels = [] if regression else [False, True]
    model = as_river(learner_of(named_model(name, task, 1), kind), labels)
    for i, (x, y) in enumerate(rows):
        if i == 150:
            model = pickle.loads(pickle.dumps(model))
        found = model.predict_one(x) if regression else model.predict_proba_one(x)
        assert found == learner.predict(x)
        model.learn_one(x, y)
        learner.learn(x, y if regression else int(y))
    metric = metrics.MAE() if regression else metrics.Accuracy()
    new = evaluate.progressive_val_score(rows, model.clone(), metric).get()
    assert new == evaluate.progressive_val_score(rows, as_river(learner_of(named_model(name, task, 1), kind)), metric.clone()).get()  # fmt: skip


def test_labels_are_those_that_were_learnt():
    model = as_river(learner_of(named_model("tree", "multiclass", 1), "classification"), ["a"])
    assert isinstance(model, Classifier) and model._multiclass
    for i in range(300):
        model.learn_one({"x": 9.0 * (i % 2)}, "ab"[i % 2])
    assert [model.predict_one({"x": x}) for x in (0.0, 9.0)] == ["a", "b"]
    assert list(model.predict_proba_one({"x": 0.0})) == model.labels == ["a", "b"]
