"""DBShap says why a risk changed, and says so where it cannot."""

import dataclasses
import json
import math

import matplotlib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest

from explain_core import plots
from explain_core.drift import RiskChange, dbshap
from explain_core.drift.change import Cause, Difference
from explain_core.models import wrap

CUBE = [{"a": i >> 2 & 1, "b": i >> 1 & 1, "c": i & 1} for i in range(8)]
"""Uniform on {0, 1}³."""
MIXED = [x for x in CUBE for _ in range(11 if len(set(x.values())) == 1 else 13)]
"""0.13 on each mixed cell, 0.11 on 000 and 111."""


def conjunction(x):
    return min(x.values())


def disjunction(x):
    return max(x.values())


def labelled(rows, concept):
    return [(x, concept(x)) for x in rows]


def predict(x):
    return {conjunction(x): 1.0}


@pytest.mark.parametrize(
    ("baseline", "target", "risks", "real", "virtual"),
    [
        (labelled(CUBE, conjunction), labelled(CUBE, disjunction), (0.0, 0.75), 0.75, 0.0),
        (labelled(CUBE, disjunction), labelled(MIXED, disjunction), (0.75, 0.78), 0.0, 0.03),
        (labelled(CUBE, conjunction), labelled(MIXED, disjunction), (0.0, 0.78), 0.765, 0.015),
    ],
    ids=["real drift", "virtual drift", "both"],
)
def test_the_examples_of_the_paper_come_out_exactly(baseline, target, risks, real, virtual):
    change = dbshap(baseline, target, hypothesis=predict, bootstrap=0)
    assert (change.baseline.empirical, change.target.empirical) == pytest.approx(risks, abs=1e-12)
    assert change.joint.concept.value == pytest.approx(real, abs=1e-12)
    assert [cause.value for cause in change.joint.inputs] == pytest.approx([virtual], abs=1e-12)
    # The marginals are all one half: no single feature changes, and what does is their dependence.
    assert [cause.value for cause in change.product.inputs] == pytest.approx([0.0] * 3, abs=1e-12)
    assert change.dependence == pytest.approx(virtual, abs=1e-12)
    assert change.joint.route == "cells"
    assert change.conditional == "table"
    assert change.back_off == 0.0


@pytest.fixture(scope="module")
def moved():
    """Two windows in which the concept and one input change; the other input does nothing."""
    rng = np.random.default_rng(1)

    def window(n, mean, threshold):
        x, noise = rng.normal(mean, 1.0, n), rng.normal(size=n)
        colour = rng.choice(["red", "green"], size=n)
        y = np.where(x > threshold, "up", "down")
        return pd.DataFrame({"x": x, "noise": noise, "colour": colour, "y": y})

    return window(2_000, 0.0, 0.0), window(2_000, 0.8, 0.6)


def rule(x):
    return {"up": 1.0} if x["x"] > 0.0 else {"down": 1.0}


@pytest.fixture(scope="module")
def explained(moved):
    return dbshap(*moved, label="y", hypothesis=rule, bootstrap=40, seed=5)


def test_what_changed_is_named_and_what_did_not_is_not(explained):
    assert explained.verdict == "attributed"
    assert [cause.name for cause in explained.causes] == ["concept"]
    assert explained.joint.concept.value == pytest.approx(0.22, abs=0.06)
    assert not any(cause.stands_out for cause in explained.product.inputs if cause.name != "x")


def test_a_shift_of_an_input_is_named_with_the_feature():
    rng = np.random.default_rng(2)
    baseline, target = (
        [({"x": x, "other": z}, int(x > 1.0)) for x, z in zip(rng.normal(mean, 1, 2_000), rng.normal(size=2_000), strict=True)]
        for mean in (-1.0, 1.0)
    )  # fmt: skip
    change = dbshap(baseline, target, hypothesis=lambda x: {0: 1.0}, bootstrap=40)
    assert [cause.name for cause in change.causes] == ["inputs"]
    assert [cause.name for cause in change.drivers] == ["x"]
    words = change.sentence("Monday", "Tuesday")
    assert words.startswith("error rate rose by 0.5")
    assert " from Monday to Tuesday (" in words
    assert ": inputs +0.498 ± 0.0" in words
    assert words.endswith(
        "; x is higher by 2.12 throughout (+0.500 ± 0.023 of the risk)"
        "; 37% of Monday and 34% of Tuesday are unlike the other window and count as inputs"
    )
    called = change.sentence(name=lambda name: {"x": "the price"}.get(name, name))
    assert "; the price is higher by 2.12 throughout (" in called and " x is " not in called


def test_what_moved_by_less_than_its_interval_is_not_said_to_have_moved():
    rng = np.random.default_rng(3)
    before, after = ([({"x": x}, 5e4 * x) for x in rng.normal(size=1_000)] for _ in range(2))
    change = dbshap(before, after, loss="absolute", hypothesis=lambda x: 0.0)
    half = 1.96 * change.std
    assert abs(change.change) < half < 9_500
    digits = [
        round(value, 1 - math.floor(math.log10(half)))
        for value in (change.baseline.observed, change.target.observed, half)
    ]
    first, second, error = (f"{value:,.0f}" for value in digits)
    assert change.sentence("a", "b").startswith(
        f"absolute risk did not change noticeably from a to b ({first} → {second}; ± {error}); "
    )


def test_the_parts_of_a_change_sum_to_it(moved):
    models = (rule, lambda x: {"up": float(x["x"] > 0.6), "down": float(x["x"] <= 0.6)})
    seen = [0.1] * 2_000, [0.3] * 2_000
    change = dbshap(*moved, label="y", hypothesis=models, prequential=seen, bootstrap=0)
    joint = sum(player.value for player in change.joint.players)
    assert change.change == pytest.approx(0.2)
    assert joint + change.learning.value == pytest.approx(0.2, abs=1e-12)
    assert joint == pytest.approx(change.joint.target - change.joint.baseline, abs=1e-12)
    product = sum(cause.value for cause in change.product.inputs)
    assert product + change.dependence == pytest.approx(change.joint.inputs[0].value, abs=1e-12)
    for window in (change.baseline, change.target):
        parts = window.product + window.independence
        assert parts == pytest.approx(window.empirical, abs=1e-12)
    # Concept and model moved together: in the order of either the other undoes it.
    assert abs(change.joint.hypothesis.value) < 0.02


def test_two_models_that_are_one_leave_no_hypothesis_player(moved):
    change = dbshap(*moved, label="y", hypothesis=(rule, rule), bootstrap=0)
    assert change.joint.hypothesis is None
    assert change == dbshap(*moved, label="y", hypothesis=rule, bootstrap=0)


def test_a_model_that_changes_is_said_to_and_is_no_drift(moved):
    """A model that learns is another one after each window; its data need not have changed."""
    baseline, _ = moved
    worse = (rule, lambda x: {"up": 1.0})
    change = dbshap(baseline, baseline, label="y", hypothesis=worse, bootstrap=10, factorisation="joint")
    assert change.joint.hypothesis.stands_out
    assert change.causes == ()
    assert ": the model's own change +0.508 ± 0.0" in change.sentence()
    assert change.sentence().endswith("; no cause in the data stands out")


def test_learning_within_the_windows_is_said_where_it_matters(moved):
    _, target = moved
    seen = [[0.0] * (2_000 - errors) + [1.0] * errors for errors in (400, 100)]
    change = dbshap(target, target, label="y", hypothesis=rule, prequential=seen)
    assert change.learning.value == pytest.approx(-0.15)
    # ± is that of the losses as they were seen, not of the frozen model's.
    half = 1.96 * math.sqrt((0.2 * 0.8 + 0.05 * 0.95) / 1_999)
    assert f"error rate fell by 0.150 ± {half:.3f} (0.200 → 0.050)" in change.sentence()
    assert ": learning within the windows −0.150 ± 0.0" in change.sentence()


def test_a_static_model_learns_nothing_also_where_a_part_of_the_rows_is_evaluated(moved):
    seen = [[float(rule(x).get(y, 0.0) == 0.0) for x, y in zip(window[["x"]].to_dict("records"), window["y"], strict=True)] for window in moved]  # fmt: skip
    change = dbshap(*moved, label="y", hypothesis=rule, prequential=seen, max_samples=1_000, bootstrap=0)
    assert change.target.evaluated == 500
    assert (change.learning.value, change.learning.std) == (0.0, 0.0)
    assert change.change == pytest.approx(np.mean(seen[1]) - np.mean(seen[0]))
    assert sum(step.value for step in change.steps(1)) == pytest.approx(change.change, abs=1e-12)
    assert change.steps(1)[-1].name == "rows not evaluated"


def test_a_group_is_one_player_and_the_other_features_are_their_own(moved):
    change = dbshap(
        *moved, label="y", hypothesis=rule, factorisation={"rest": ["noise", "colour"]}, bootstrap=0
    )
    assert sorted(cause.name for cause in change.product.inputs) == ["rest", "x"]
    with pytest.raises(ValueError, match="'rest' names the unknown feature 'size'"):
        dbshap(*moved, label="y", hypothesis=rule, factorisation={"rest": ["size"]})


def test_the_same_seed_gives_the_same_result_and_another_one_does_not(moved):
    first, again, other = (
        dbshap(*moved, label="y", hypothesis=rule, bootstrap=5, max_cells=1, max_samples=500, seed=seed)
        for seed in (5, 5, 6)
    )
    assert first.to_json() == again.to_json()
    assert first.joint != other.joint
    assert first.product != other.product


def test_a_tree_is_learnt_from_rows_that_are_not_explained(moved):
    baseline, target = moved
    change = dbshap(baseline, target, label="y", conditional="tree", bootstrap=0)
    assert change.baseline.rows == 1_000
    assert change.product.route == "boxes"
    assert change.baseline.empirical < 0.1


def test_without_drift_a_tree_shows_no_gap():
    """In sample its baseline risk would be too low: labels are coins here, and a tree fits some of them."""
    rng = np.random.default_rng(3)
    baseline, target = (
        [(dict(zip("abcdef", x, strict=True)), int(y)) for x, y in zip(rng.random((3_000, 6)).tolist(), rng.integers(2, size=3_000), strict=True)]
        for _ in range(2)
    )  # fmt: skip
    change = dbshap(baseline, target, bootstrap=40)
    assert abs(change.change) < 3.0 * change.std
    assert change.causes == ()
    assert change.sentence().endswith("; no cause stands out of the noise")
    part = Cause("a", 0.2, 0.0, std=0.05, low=0.1, high=0.3)
    told = dataclasses.replace(change, differences=(Difference("a", "shifted", 0.2, by=3.1, risk=part),))
    assert told.sentence().endswith(
        "; no cause stands out as a whole; a is higher by 3.1 throughout (+0.20 ± 0.10 of the risk)"
    )


def test_cells_beyond_the_limit_are_sampled_with_a_standard_error(moved):
    exact = dbshap(*moved, label="y", hypothesis=rule, bootstrap=0)
    sampled = dbshap(*moved, label="y", hypothesis=rule, bootstrap=0, max_cells=10)
    assert (exact.product.route, sampled.product.route) == ("grid", "monte carlo")
    assert sampled.product.size <= 20_000
    for player, other in zip(exact.product.players, sampled.product.players, strict=True):
        assert player.error == 0.0
        assert abs(player.value - other.value) <= 4.0 * other.error + 1e-12
    assert sampled.product.concept.error > 0.0


def test_a_model_is_called_no_more_often_than_the_limit_says(moved):
    calls = []

    def counted(x):
        calls.append(1)
        return rule(x)

    other = wrap(lambda x: counted(x), "classification")
    change = dbshap(
        *moved, label="y", hypothesis=(counted, other), bootstrap=3, max_cells=1, max_samples=1_000
    )
    assert len(calls) <= 2 * 1_000
    assert (change.baseline.evaluated, change.target.evaluated) == (250, 250)
    assert change.baseline.rows == 2_000


@pytest.mark.parametrize("turned", ["model", "concept"])
def test_what_bins_cannot_see_is_still_the_doing_of_what_changed(turned):
    """The label follows the parity of a number, and so does the model, until one of them turns."""
    rng = np.random.default_rng(4)
    numbers = rng.integers(10_000, size=(2, 2_000)).tolist()
    parity, odd = (lambda x: {x["n"] % 2: 1.0}), (lambda x: {1 - x["n"] % 2: 1.0})
    turn = int(turned == "concept")
    baseline, target = ([({"n": n}, (n + w * turn) % 2) for n in part] for w, part in enumerate(numbers))
    change = dbshap(baseline, target, hypothesis=(parity, odd) if turned == "model" else parity)
    assert change.change == 1.0
    players = {player.name: player.value for player in change.joint.players}
    right = players.pop({"model": "hypothesis", "concept": "concept"}[turned])
    assert right == pytest.approx(1.0, abs=0.02)
    assert list(players.values()) == pytest.approx([0.0] * len(players), abs=0.02)


def test_windows_that_have_nothing_alike_are_not_attributed():
    baseline, target = ([({"version": w, "a": i % 7}, (i % 7 + w) % 2) for i in range(400)] for w in (0, 1))
    change = dbshap(baseline, target, hypothesis=lambda x: {x["a"] % 2: 1.0})
    assert (change.baseline.matched, change.target.matched) == (0.0, 0.0)
    assert (change.verdict, change.causes) == ("not attributable", ())
    words = "not attributable: 100% of May and 100% of June have nothing alike in the other window"
    assert f"{words}; version tells them apart" in change.sentence("May", "June")
    assert change.steps(8) == []


def test_a_model_sees_what_is_ignored_and_the_games_do_not(moved):
    plain = dbshap(*moved, label="y", hypothesis=rule, bootstrap=3, seed=1)
    marked = [frame.assign(mark=[[1]] * len(frame), far=float("inf"), w=w) for w, frame in enumerate(moved)]
    names = ["mark", "far", "w"]
    ignored = dbshap(*marked, label="y", hypothesis=rule, bootstrap=3, seed=1, ignore=names)
    assert dataclasses.replace(ignored, warnings=()) == dataclasses.replace(plain, warnings=())
    seen = set()

    def model(x):
        seen.add(x.get("w"))
        return rule(x)

    dbshap(*marked, label="y", hypothesis=model, ignore=[*names, "other"], bootstrap=0)
    assert seen == {0, 1}
    with pytest.raises(ValueError, match="ignore: 'w' is one string"):
        dbshap(*marked, label="y", ignore="w")
    none = dbshap(*moved, label="y", hypothesis=rule, ignore=[*moved[0].columns], bootstrap=2)
    assert none.product.inputs == () and none.joint.concept.value != 0.0


@pytest.mark.parametrize("factorisation", ["joint", "per_feature"])
def test_a_tree_sees_what_is_ignored_so_that_the_risks_stay_the_same(factorisation):
    rng = np.random.default_rng(2)
    windows = []
    for shift in (0.0, 0.7):
        a, b, day = (rng.normal(size=1_000) for _ in range(3))
        y = (a + 2.0 * day > shift).astype(int)
        windows.append(
            {"day": (day + 9.0 * shift).tolist(), "a": a.tolist(), "b": b.tolist(), "y": y.tolist()}
        )
    plain, ignored, other = (
        dbshap(*windows, label="y", factorisation=factorisation, ignore=names, bootstrap=3)
        for names in ([], ["day"], ["b"])
    )
    for one in (ignored, other):
        assert (one.baseline.empirical, one.target.empirical) == (
            plain.baseline.empirical,
            plain.target.empirical,
        )
        assert sum(cause.value for cause in one.joint.players) == pytest.approx(one.change)
    assert plain.verdict == "not attributable" and ignored.verdict == "attributed"


@pytest.mark.parametrize(("by", "shifted"), [("x", False), ("y", True)])
def test_a_shift_of_the_labels_is_told_from_one_of_an_input_that_is_small(by, shifted):
    """Trees that know the label often tell a shift of .3 standard deviations from nothing no more at 1,000 rows."""
    told = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(2, 4_000))
        a[1_000:] += 0.3 * (by == "x")
        y = (1.5 * a - b + rng.logistic(size=4_000) > 0.0).astype(int)
        kept = [
            *range(1_000),
            *(1_000 + np.flatnonzero((by == "x") | (rng.random(3_000) < 0.1 + 0.8 * y[1_000:]))),
        ][:2_000]
        rows = [({"a": float(a[i]), "b": float(b[i])}, int(y[i])) for i in kept]
        model = {"hypothesis": lambda x: {int(1.5 * x["a"] > x["b"]): 1.0}, "factorisation": "joint"}
        told.append(dbshap(rows[:1_000], rows[1_000:], **model).label_shift)
    assert sum(told) >= 6 if shifted else not any(told), told


def test_a_change_that_is_certain_is_told_without_what_rounding_makes():
    baseline = [({"a": i % 7}, 0) for i in range(200)]
    change = dbshap(baseline, [(x, 1) for x, _ in baseline], hypothesis=lambda x: {0: 1.0}, factorisation="joint")  # fmt: skip
    assert change.sentence() == "error rate rose by 1.000 ± 0.000 (0.000 → 1.000): concept +1.000 ± 0.000"


@pytest.mark.parametrize("predicted", [1e60, 1e71])
def test_a_model_that_has_diverged_has_finite_intervals(predicted):
    window = [({"a": i % 70}, float(i % 70)) for i in range(700)]
    model = wrap(lambda x: predicted if x["a"] == 69 else 0.0, "regression")
    change = dbshap(window, window[::-1], hypothesis=model, factorisation="joint")
    assert RiskChange.from_json(change.to_json()) == change and change.joint.concept.high > 0.0


@pytest.mark.parametrize("rows", [3, 10, 20])
def test_a_few_rows_without_an_error_do_not_show_that_the_risk_fell(rows):
    """Where 12 % are wrong, 3 rows are all right more often than not; the variance of their losses is 0 then."""
    baseline = [({"a": i % 7}, int(i % 8 == 0)) for i in range(800)]
    target = [({"a": i % 7}, 0) for i in range(rows)]
    change = dbshap(baseline, target, hypothesis=lambda row: {0: 1.0}, factorisation="joint")
    assert change.target.empirical == 0.0 and not change.causes
    assert change.sentence().startswith("error rate did not change noticeably")


def test_no_feature_stands_out_where_a_window_is_too_short_for_its_tree():
    rng = np.random.default_rng(5)
    baseline, target = (
        [({"a": a, "b": b}, int(a + rng.normal() > 0.0)) for a, b in rng.normal(size=(n, 2)).tolist()]
        for n in (1_500, 50)
    )
    change = dbshap(
        baseline,
        target,
        hypothesis=lambda row: {int(row["a"] > 0.2): 1.0},
        bootstrap=20,
        factorisation="per_feature",
    )
    assert not any(cause.stands_out for cause in (change.product.concept, *change.product.inputs))
    assert change.bootstrap == 0


@pytest.mark.parametrize(("rows_a_day", "late"), [(1, 0.0), (150, 0.003)])
def test_a_clock_does_not_tell_the_windows_apart_also_where_some_rows_are_late(rows_a_day, late):
    rng = np.random.default_rng(5)
    days = (np.arange(3_000) // rows_a_day - (rng.random(3_000) < late)).tolist()
    rows = [
        ({"day": day, "x": a}, int(a > 0.5 * (i >= 1_500)))
        for i, (day, a) in enumerate(zip(days, rng.normal(size=3_000).tolist(), strict=True))
    ]
    model = lambda row: {int(row["x"] > 0.0): 1.0}  # noqa: E731
    change = dbshap(rows[:1_500], rows[1_500:], hypothesis=model, factorisation="joint")
    assert [cause.name for cause in change.causes] == ["concept"]
    assert change.target.matched == 1.0
    assert any("day is growing from row to row" in warning for warning in change.warnings)


@pytest.mark.parametrize(("before", "after"), [((100, 240), (100, 1_200)), ((100, 170), (700, 1_200))])
def test_a_flag_that_is_set_for_a_while_is_no_clock_but_an_input(before, after):
    """It seldom falls from a row to the next, and begins and ends as in the other window."""
    rng = np.random.default_rng(5)
    baseline, target = (
        [
            ({"promo": int(begin <= i < end), "x": a}, int(a > 0.0) if not begin <= i < end else int(coin))
            for i, (a, coin) in enumerate(
                zip(rng.normal(size=1_500).tolist(), rng.random(1_500) < 0.5, strict=True)
            )
        ]
        for begin, end in (before, after)
    )
    change = dbshap(
        baseline, target, hypothesis=lambda row: {int(row["x"] > 0.0): 1.0}, factorisation="joint"
    )
    assert [cause.name for cause in change.causes] == ["inputs"]
    assert [found.feature for found in change.differences] == ["promo"]


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_a_regression_is_attributed_on_quantiles_of_the_truth(loss):
    rng = np.random.default_rng(6)
    x = rng.random((2, 2_000))
    baseline, target = (
        [({"x": a}, a + shift) for a in part.tolist()] for part, shift in zip(x, (0.0, 2.0), strict=True)
    )
    change = dbshap(baseline, target, loss=loss, hypothesis=lambda row: row["x"], bootstrap=10)
    assert change.baseline.empirical == 0.0
    assert change.target.empirical == pytest.approx({"squared": 4.0, "absolute": 2.0, "huber": 1.5}[loss])
    assert change.joint.concept.value == pytest.approx(change.target.empirical, rel=0.02)
    assert [cause.name for cause in change.causes] == ["concept"]
    assert change.sentence().startswith(f"{loss} risk rose by ")
    # Nor do the bins of y take anything off the risk of the game of single features.
    assert change.target.independence == pytest.approx(0.0, abs=0.02 * change.target.empirical)
    with pytest.raises(ValueError, match="regression needs a number"):
        dbshap([({"x": 1.0}, "a")] * 2, target, loss=loss)


def test_a_model_wrapped_for_regression_has_the_squared_loss(moved):
    rows = [({"x": 1.0}, 2.0), ({"x": 2.0}, 4.0)]
    change = dbshap(rows, rows, hypothesis=wrap(lambda x: x["x"], "regression"), bootstrap=0)
    assert change.loss == "squared"
    assert change.baseline.empirical == 2.5


def test_the_result_survives_json_and_has_only_finite_numbers(explained):
    text = explained.to_json()
    assert RiskChange.from_json(text) == explained
    known = json.loads(text)
    assert known["causes"] == ["concept"]
    assert known["verdict"] == "attributed"
    assert known["sentence"] == explained.sentence()
    assert sorted(known["bins"]["colour"]["categories"]) == ["green", "red"]
    assert len(known["bins"]["x"]["edges"]) == 9
    with pytest.raises(ValueError, match="missing required field `joint`"):
        RiskChange.from_dict({key: value for key, value in known.items() if key != "joint"})
    with pytest.raises(
        ValueError, match=r"risk change: Object missing required field `evaluated` - at `\$.baseline`"
    ):
        RiskChange.from_dict({**known, "baseline": {"rows": 3}})


def test_tables_records_and_pairs_are_read_alike(moved):
    baseline, target = moved
    expected = dbshap(baseline, target, label="y", hypothesis=rule, bootstrap=0)
    records = [frame.to_dict("records") for frame in moved]
    columns = [frame.to_dict("list") for frame in moved]
    pairs = [[({k: v for k, v in x.items() if k != "y"}, x["y"]) for x in part] for part in records]
    assert dbshap(*records, label="y", hypothesis=rule, bootstrap=0) == expected
    assert dbshap(*columns, label="y", hypothesis=rule, bootstrap=0) == expected
    assert dbshap(*pairs, hypothesis=rule, bootstrap=0) == expected


def test_the_waterfall_leads_from_the_baseline_to_the_target_risk(moved):
    matplotlib.use("Agg")
    seen = [0.1] * 2_000, [0.4] * 2_000
    change = dbshap(*moved, label="y", hypothesis=rule, prequential=seen, bootstrap=5)
    axes = plots.waterfall(change, top=1)
    names = [label.get_text() for label in axes.get_yticklabels()]
    others = ["2 others", "dependence", "learning within the windows"]
    assert names == ["baseline risk", "concept", "x", *others, "target risk"]
    *steps, first, last = axes.patches
    assert (first.get_width(), last.get_width()) == pytest.approx((0.1, 0.4))
    place = 0.1
    for step in steps:
        assert step.get_x() == pytest.approx(place)
        place += step.get_width()
    assert place == pytest.approx(0.4)
    assert len(axes.collections) == 3
    matplotlib.pyplot.close("all")
