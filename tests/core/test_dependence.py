"""Partial dependence that follows a stream: right, restorable, and honest about which way a feature moves predictions."""

import math
import random

import pytest

from explain_core import IncrementalPDP
from explain_core.reservoirs import GeometricReservoir


def records(n, seed=0, scale=1.0):
    rng = random.Random(seed)
    return [{"a": scale * rng.random(), "b": rng.random(), "kind": rng.choice("uv")} for _ in range(n)]


def model(x):
    return 3.0 * x["a"] - x["b"] + 2.0 * (x["b"] - 0.5) * (x["kind"] == "u")


def pdp(**settings):
    return IncrementalPDP(model, ["a", "b"], **{"task": "regression", "reservoir": 50, **settings})


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


def test_of_a_classifier_it_follows_one_class_and_leaves_out_what_is_no_number():
    found = IncrementalPDP(
        lambda x: {"no": 1.0 - (x["a"] or 0.0), "yes": x["a"] or 0.0}, ["a"], label="yes", reservoir=20
    )
    for i, x in enumerate(records(220)):
        found.explain_one({**x, "a": None} if i % 2 else x)
    (curve,) = found.curves
    assert curve.records == 100 and curve.effect > 0.5


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"features": ["a", "a"]}, "features"),
        ({"label": "yes"}, "label"),
        ({"points": 1}, "points"),
        ({"task": "classification"}, "label"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        IncrementalPDP(model, **{"features": ["a"], "task": "regression", **settings})


def test_chance_moves_no_curve_not_even_of_heavy_tails():
    rng = random.Random(5)
    found = IncrementalPDP(lambda x: x["a"], ["a"], task="regression")
    for _ in range(6_100):
        found.explain_one({"a": math.sinh(1.2 * rng.gauss(0, 1)) / 1.5})
    assert found.curves[0].records == 6_000


@pytest.mark.parametrize(("scale", "shift"), [(2.5, 0.0), (0.25, 0.0), (1.0, 2.0), (1.0, -2.0)])
def test_a_curve_begins_anew_where_its_feature_is_elsewhere(scale, shift):
    rng = random.Random(6)
    found = IncrementalPDP(lambda x: x["a"], ["a"], task="regression", reservoir=50)
    for i in range(1_200):
        x = rng.gauss(0, 1)
        found.explain_one({"a": x if i < 600 else scale * x + shift})
    assert found.curves[0].records < 600


def test_it_follows_what_it_is_told_and_a_reservoir_of_others():
    rows, given = GeometricReservoir(20, 1), records(120)
    found = IncrementalPDP(model, [], task="regression", reservoir=rows)
    for i, x in enumerate(given):
        found.follow(["a"] if i < 80 else ["b", "a"] if i < 100 else ["b"])
        found.explain_one(x)
        assert len(rows.rows) == min(i, 20)
        rows.add(x)
    assert found.state().reservoir is None
    assert [(curve.feature, curve.records) for curve in found.curves] == [("b", 40)]
