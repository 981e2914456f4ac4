"""Partial dependence that follows a stream: right, restorable, and honest about which way a feature moves predictions."""

import math
import random

import msgspec
import pytest

from explain_core import IncrementalPDP
from explain_core.dependence import DependenceState


def records(n, seed=0, scale=1.0):
    rng = random.Random(seed)
    return [{"a": scale * rng.random(), "b": rng.random(), "kind": rng.choice("uv")} for _ in range(n)]


def model(x):
    return 3.0 * x["a"] - x["b"] + 2.0 * (x["b"] - 0.5) * (x["kind"] == "u")


def pdp(**settings):
    return IncrementalPDP(model, ["a", "b"], **{"task": "regression", "size": 50, **settings})


def test_a_curve_is_the_mean_of_the_predictions_with_the_feature_at_each_point():
    found, given = pdp(alpha=None), records(1_050)
    for x in given:
        found.explain_one(x)
    for curve in found.curves:
        assert curve.records == 1_000
        for point, value in zip(curve.points, curve.values, strict=True):
            truth = sum(model({**x, curve.feature: point}) for x in given[50:]) / 1_000
            assert math.isclose(value, truth, rel_tol=1e-9, abs_tol=1e-9)
    assert found.curves[0].sentence().startswith("a higher a raises the prediction from ")


@pytest.mark.parametrize("cut", [1, 49, 50, 51, 149, 150, 151, 420])
def test_a_state_that_was_stored_goes_on_as_if_it_had_not_been(cut):
    whole, first, second = pdp(), pdp(), pdp()
    given = records(300) + records(300, 1, 4.0)
    for x in given:
        whole.explain_one(x)
    for x in given[:cut]:
        first.explain_one(x)
    second.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(first.state()), type=DependenceState))
    for x in given[cut:]:
        second.explain_one(x)
    assert msgspec.msgpack.encode(second.state()) == msgspec.msgpack.encode(whole.state())


def test_a_curve_follows_a_feature_that_moves():
    found = pdp()
    for x in records(300) + records(600, 1, 4.0):
        found.explain_one(x)
    curve = found.curves[0]
    assert curve.points[-1] > 3.0 and curve.records < 600 and found.curves[1].records > 700


def test_of_a_classifier_it_follows_one_class_and_leaves_out_what_is_no_number():
    found = IncrementalPDP(
        lambda x: {"no": 1.0 - (x["a"] or 0.0), "yes": x["a"] or 0.0}, ["a"], label="yes", size=20
    )
    for i, x in enumerate(records(220)):
        found.explain_one({**x, "a": None} if i % 2 else x)
    (curve,) = found.curves
    assert curve.records == 100 and curve.effect > 0.5


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"features": []}, "features"),
        ({"label": "yes"}, "label"),
        ({"points": 1}, "points"),
        ({"task": "classification"}, "label"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        IncrementalPDP(model, **{"features": ["a"], "task": "regression", **settings})
