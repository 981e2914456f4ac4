"""With ``challenger.shift_every`` explanations say which features the challenger uses otherwise than the model, without any label."""

import random

import orjson
import pytest

from explain_client.fold import FoldDriver
from explain_client.messages import Explanation
from tests.folds import fold, messages, new_state


def of(*signs):
    def predict(x):
        p = min(
            max(0.5 + sum(sign * x.get(name, 0.0) for sign, name in zip(signs, "abc", strict=False)), 0.0),
            1.0,
        )
        return {0: 1.0 - p, 1: p}

    return predict


def model():
    return of(0.1, 0.1)


def other():
    """That uses b the other way round."""
    return of(0.1, -0.1)


HERE = "tests.service.test_explanation_shift"
ASKED = {
    "model.factory": f"{HERE}:model",
    "model.static": True,
    "challenger.static": True,
    "challenger.shift_every": 2,
    "record.unlabelled": "predict",
    "emit.every": 400,
}


def given(n, labelled=1.0, seed=1):
    rng = random.Random(seed)
    for _ in range(n):
        value = {name: rng.gauss(0.0, 1.0) for name in "abc"}
        value["label"] = rng.random() < 0.5
        if rng.random() > labelled:
            del value["label"]
        yield value


@pytest.mark.parametrize("labelled", [1.0, 0.3])
def test_the_feature_that_is_used_otherwise_is_named_with_and_without_labels(labelled):
    driver = FoldDriver({**ASKED, "challenger.factory": f"{HERE}:other", "emit.every": 200})
    driver.send(given(1_400, labelled))
    shift = driver.explanations[-1].challenger.explanation_shift
    assert {name for name, of in shift.features.items() if of.found} == {"b"}
    assert shift.features["a"].share < 1e-3  # where the probabilities are cut
    assert 400 < shift.records <= 700
    assert shift.sentence.startswith("the challenger uses b differently from the model, by ")


def test_equal_models_use_nothing_otherwise():
    driver = FoldDriver({**ASKED, "challenger.factory": f"{HERE}:model"})
    driver.send(given(1_000))
    shift = driver.explanations[-1].challenger.explanation_shift
    assert not any(of.found or of.share for of in shift.features.values()) and shift.records > 300
    assert shift.sentence.startswith("no difference seen in how the model and the challenger use features")


def test_without_the_setting_messages_say_nothing_of_it():
    state = new_state(challenger={"name": "linear"}, emit={"every": 20})
    found = messages(fold(state, list(given(100))))
    assert found and all(one["challenger"]["explanation_shift"] is None for one in found)


def test_a_challenger_of_an_earlier_message_says_nothing_of_it():
    state = new_state(challenger={"name": "linear"}, emit={"every": 20})
    (first, *_) = messages(fold(state, list(given(100))))
    del first["challenger"]["explanation_shift"]
    assert Explanation.from_json(orjson.dumps(first, default=str)).challenger.explanation_shift is None
