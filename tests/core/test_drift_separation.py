"""What tells two windows apart that have next to nothing alike, is named; what it says without that."""

import re

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest

from explain_core import plots
from explain_core.drift import RiskChange, Separation, dbshap

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def days(n, per_day, seed=9):
    """n rows of each window, in order of time; the label turns between the windows."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(2 * n):
        day = i / per_day
        x = {
            "a": rng.normal(),
            "weekday": DAYS[int(day) % 7],
            "hour": int(24 * day) % 24,
        }
        found.append((x, int((x["a"] > 0.0) != (i >= n))))
    return found[:n], found[n:]


def sign(x):
    return {int(x["a"] > 0.0): 1.0}


@pytest.mark.parametrize(("n", "per_day"), [(400, 400), (2_000, 700)], ids=["alone", "with the hour"])
def test_what_tells_the_windows_apart_is_named_and_without_it_the_change_is_attributed(n, per_day):
    baseline, target = days(n, per_day)
    change = dbshap(baseline, target, hypothesis=sign, bootstrap=2)
    assert change.verdict == "not attributable"
    assert change.separation == Separation(("weekday",), attributable=True)
    words = "; weekday tells them apart; to attribute the change without it, pass ignore=('weekday',)"
    assert change.sentence().endswith(words)
    assert change.sentence(remedy=lambda names: f"take {names[0]} out").endswith(
        "without it, take weekday out"
    )
    without = dbshap(baseline, target, hypothesis=sign, ignore=change.separation.features, bootstrap=2)
    assert [cause.name for cause in without.causes] == ["concept"] and without.separation is None
    assert [cause.name for cause in without.product.inputs] == ["a", "hour"]
    assert without.warnings[0] == "features: weekday is ignored, and no part of the inputs"
    assert RiskChange.from_json(change.to_json()) == change


def test_what_tells_many_rows_apart_is_named_where_the_change_is_attributed_too():
    windows = [
        [({name: x[name] for name in ("a", "weekday")}, y) for x, y in part] for part in days(1_000, 700)
    ]
    change = dbshap(*windows, hypothesis=sign, factorisation="joint")
    assert change.verdict == "attributed"
    assert change.separation == Separation(("weekday",), attributable=True)
    assert re.search(
        r"; weekday is wed in 60% of the rows \(before: 0%\) \(.* of the risk\); "
        r"\d+% of .* unlike the other window and count as inputs$",
        change.sentence(),
    )


def test_of_features_that_only_tell_apart_together_one_is_left_out_after_the_other():
    rng = np.random.default_rng(1)
    windows = [
        [({f"x{j}": v for j, v in enumerate(x)}, i % 2) for i, x in enumerate(rng.normal(w, 1.0, (1_000, 3)))]
        for w in (0.0, 3.0)
    ]
    found = dbshap(*windows, hypothesis=lambda _: {0: 1.0}, factorisation="joint").separation
    assert found.attributable and 1 <= len(found.features) < 3
    without = dbshap(*windows, hypothesis=lambda _: {0: 1.0}, factorisation="joint", ignore=found.features)
    assert without.verdict != "not attributable"


def test_more_features_than_it_is_worth_to_ignore_are_named_in_part():
    baseline, target = ([({f"x{j}": w for j in range(9)}, i % 2) for i in range(100)] for w in (0, 1))
    change = dbshap(baseline, target, hypothesis=lambda _: {0: 1.0}, factorisation="joint")
    assert change.separation == Separation(tuple(f"x{j}" for j in range(9)), attributable=False)
    assert change.sentence().endswith("; x0, x1, x2, x3, x4 and 4 more tell them apart, among others")
    baseline, target = ([({"x" * 300: w}, i % 2) for i in range(100)] for w in (0, 1))
    change = dbshap(baseline, target, hypothesis=lambda _: {0: 1.0}, factorisation="joint")
    assert change.sentence().endswith(f"; {'x' * 100}… tells them apart")


def test_no_steps_are_drawn_of_a_change_that_is_not_attributable():
    matplotlib.use("Agg")
    axes = plots.waterfall(dbshap(*days(400, 400), hypothesis=sign, bootstrap=2))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["baseline risk", "target risk"]
    assert (len(axes.patches), axes.get_title()) == (2, "not attributable")
    matplotlib.pyplot.close("all")
