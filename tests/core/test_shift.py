"""Two models on the same records: the features that they use otherwise are named, and no other one."""

import math
import random
import re

import pytest

from explain_core import ExplanationShift


def fed(own, other, n=1_200, **settings):
    rng = random.Random(4)
    shift = ExplanationShift(own, other, **{"task": "regression", "size": 20, **settings})
    for _ in range(n):
        shift.update({name: rng.gauss(0.0, 1.0) for name in "abc"})
    return shift


def own(x):
    return 2.0 * x["a"] + x["b"]


def p_of(score):
    def predict(x):
        p = 1.0 / (1.0 + math.exp(-score(x)))
        return {"no": 1.0 - p, "yes": p}

    return predict


def test_equal_models_never_differ():
    shift = fed(own, lambda x: x["b"] + 2.0 * x["a"])
    assert not any(found.found for found in shift.features)
    assert shift.sentence().startswith("no difference seen in how the model and the challenger use features")


@pytest.mark.parametrize(
    ("settings", "of"),
    [({}, lambda score: score), ({"task": "classification"}, p_of)],
    ids=["numbers", "probabilities"],
)
def test_a_sign_that_is_turned_is_found_although_no_importance_changed(settings, of):
    shift = fed(of(own), of(lambda x: 2.0 * x["a"] - x["b"]), **settings)
    assert next(found.feature for found in shift.features) == "b"
    assert next(found for found in shift.features if found.feature == "b").found
    assert not next(found for found in shift.features if found.feature == "c").found
    assert shift.sentence().startswith("the challenger uses b ")
    assert " differently from the model, by " in shift.sentence()


def test_its_share_is_that_of_the_variance():
    """g = 0.5 a: 0.25 of a variance of 5."""
    shift = fed(own, lambda x: 2.5 * x["a"] + x["b"], n=4_000)
    first = shift.features[0]
    assert first.feature == "a" and first.found and first.records == 3_980
    assert math.isclose(first.share, 0.05, rel_tol=0.15)


def test_what_is_below_the_tolerance_is_no_difference():
    other = lambda x: own(x) + 0.1 * x["a"]  # noqa: E731
    assert not any(found.found for found in fed(own, other, tolerance=0.01).features)
    assert fed(own, other, tolerance=0.0005).features[0].found


def test_records_that_resemble_their_neighbours_do_not_make_the_variance_small():
    """g = 0.05 a is 0.25 % of the variance, in whatever order the records come."""
    shift = ExplanationShift(lambda x: x["a"], lambda x: 1.05 * x["a"], task="regression")
    rng, a = random.Random(1), 0.0
    for _ in range(4_000):
        a = 0.98 * a + math.sqrt(1.0 - 0.98**2) * rng.gauss(0.0, 1.0)
        shift.update({"a": a})
    (found,) = shift.features
    assert not found.found and 0.001 < found.share < 0.004


def test_a_tolerance_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"tolerance: 0.0 is outside \(0, 1\)"):
        ExplanationShift(own, own, task="regression", tolerance=0.0)


def test_the_sentence_names_five_features_with_a_share_of_the_model_s_variance_for_each():
    other = lambda x: sum(x[name] for name in "abcdefg")  # noqa: E731
    shift = ExplanationShift(lambda x: 2.0 * x["a"], other, task="regression")
    rng = random.Random(1)
    for _ in range(1_000):
        shift.update({name: rng.gauss(0.0, 1.0) for name in "abcdefg"})
    said = shift.sentence("v1", "v2")
    assert re.fullmatch(r"v2 uses \w, \w, \w, \w, \w and 2 more differently from v1, by \d+ %, \d+ %, \d+ %, \d+ % and \d+ % of the variance of v1's predictions: mean of 900 records", said)  # fmt: skip
