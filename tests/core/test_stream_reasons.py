"""Predictions of a stream with their reasons, and records without a label: what they tell, and what they leave alone."""

import numpy as np
import pytest
from river import forest, linear_model, preprocessing

from explain_core import (
    Explainer,
    Options,
    PredictionExplainer,
    Reasoning,
    StreamExplainer,
    learner_of,
    load_model,
    wrap,
)
from explain_core.stream.reasoner import background_digest
from tests.core.artefacts import trained

RECORDS = trained.records(trained.TABLE)[:90]
SMALL = [Explainer(rows=15), Explainer(kind="isage", rows=15, n_samples=2)]


def product(x):
    return x.get("age", 1.0) * x.get("debt", 0.0)


MODELS = {
    "forest": lambda path: learner_of(forest.ARFClassifier(3, seed=1), "classification"),
    "linear": lambda path: learner_of(preprocessing.StandardScaler() | linear_model.LinearRegression(), "regression"),
    "logistic, margin": lambda path: learner_of(preprocessing.StandardScaler() | linear_model.LogisticRegression(), "classification"),
    "xgboost": lambda path: load_model(trained.xgboost(path)[0]),
    "any": lambda path: wrap(product, "regression"),
    "any, sampled": lambda path: wrap(product, "regression"),
}  # fmt: skip
OPTIONS = {"logistic, margin": Reasoning(space="margin"), "any, sampled": Reasoning(most=1)}


def labelled(name):
    numbers = name in ("linear", "logistic, margin")
    for x, y in zip(RECORDS, trained.TWO.tolist(), strict=False):
        yield {key: value for key, value in x.items() if not numbers or key != "colour"}, y


def stream(name, path, reasoning=True):
    chosen = OPTIONS.get(name, Reasoning()) if reasoning else None
    static = name.startswith(("any", "xgboost"))
    return StreamExplainer(MODELS[name](path), Options(explainers=SMALL, reasoning=chosen), 7, static=static)


@pytest.mark.parametrize("name", MODELS)
def test_reasons_are_those_against_the_reservoir_of_the_moment(name, tmp_path):
    explainer, methods = stream(name, tmp_path), set()
    for i, (x, y) in enumerate(labelled(name)):
        told = explainer.predict(x)
        rows = explainer.newest.explained.reservoirs["geometric", 15].rows
        assert told.background == (min(i, 15), background_digest(rows)) and told.records == i
        assert told.prediction == explainer.newest.explained.model.predict(x)
        if told.reasons is not None:
            chosen = OPTIONS.get(name, Reasoning())
            expected = PredictionExplainer(
                explainer.newest.explained.model, rows, space=chosen.space, most=chosen.most, seed=7
            ).explain([x])
            assert np.array_equal(told.reasons.values, expected.values)
            assert np.array_equal(told.reasons.baseline, expected.baseline)
            methods.add(told.reasons.method)
        explainer.update(x, y)
    assert methods <= {"exact", {"xgboost": "rescaled", "any, sampled": "sampled"}.get(name)} and methods


def test_blocks_between_records_without_labels_have_the_bits_of_one_record_after_another():
    def made():
        return StreamExplainer(
            learner_of(forest.ARFClassifier(3, seed=1), "classification"), Options(explainers=SMALL)
        )

    alone, together = made(), made()
    pairs = list(labelled("forest"))
    for first in range(0, len(pairs), 18):
        for x, y in pairs[first : first + 18]:
            alone.update(x, y)
        together.update_many(pairs[first : first + 18])
        for explainer in (alone, together):
            explainer.update_unlabelled({**pairs[first][0], "late": first, "colour": f"new {first}"})
        state = together.state()
        assert (together.digest, state) == (alone.digest, alone.state())
        together = made()
        together.restore(state)
    assert together.unlabelled == 5


def test_what_cannot_be_explained_is_refused_at_the_start():
    forests = learner_of(forest.ARFClassifier(3, seed=1), "classification")
    with pytest.raises(ValueError, match="space: margin"):
        StreamExplainer(forests, Options(explainers=SMALL, reasoning=Reasoning(space="margin")))
    with pytest.raises(ValueError, match=r"background: a reservoir of 20,000 rows; .* at most 10,000"):
        StreamExplainer(forests, Options(explainers=[Explainer(rows=20_000)], reasoning=Reasoning()))
    with pytest.raises(ValueError, match=r"reasoning: .* there is none"):
        StreamExplainer(forests, Options(explainers=[], reasoning=Reasoning()))
