"""What DBShap names where the truth is known: nothing without drift, and the one cause that there was."""

import numpy as np
import pytest

from explain_core.drift import dbshap
from explain_core.drift.tree import fit

COLOURS = np.array(["red", "green", "blue"])


def window(rng, n):
    """n records with some missing, and labels that follow three of the features."""
    x = rng.normal(size=(n, 4))
    colour = rng.integers(3, size=n)
    y = (x[:, 0] + x[:, 1] * x[:, 2] + (colour == 0) + rng.logistic(size=n) * 0.3 > 0.0).astype(int)
    records = [
        {**{f"x{j}": value for j, value in enumerate(row)}, "colour": name}
        for row, name in zip(x.tolist(), COLOURS[colour].tolist(), strict=True)
    ]
    return list(zip(records, y.tolist(), strict=True))


def model(x):
    """Right but for the interaction; without its main feature it takes the more frequent label."""
    up = x["x0"] + (x["colour"] == "red") > 0.0 if x.get("x0") is not None else x["colour"] == "red"
    return {1: 0.8, 0: 0.2} if up else {1: 0.2, 0: 0.8}


def explain(baseline, target, **arguments):
    return dbshap(baseline, target, hypothesis=model, **{"factorisation": "joint"} | arguments)


@pytest.mark.parametrize(("first", "second"), [(500, 500), (200, 2_000), (2_000, 200)])
def test_without_drift_the_values_are_0_on_average_and_no_larger_than_their_errors(first, second):
    """Also in windows of unequal size, where what fits its own rows too well would pass for a concept."""
    rng = np.random.default_rng(7)
    changes = [explain(window(rng, first), window(rng, second), seed=seed) for seed in range(30)]
    for i in (0, 1):
        z = np.array([change.joint.players[i].value / change.joint.players[i].std for change in changes])
        assert abs(z.mean()) <= 3.0 / np.sqrt(len(z))
        assert z.std() == pytest.approx(1.0, abs=0.25)
    # 5 % of 30; 5 and more have a chance of 2 %.
    assert sum(bool(change.causes) for change in changes) <= 4


def without(rng, rows, share, name, value):
    """The rows with a feature replaced in a random share of them; None takes it out."""
    hit = rng.random(len(rows)) < share
    return [
        ({k: v for k, v in (x | {name: value}).items() if v is not None} if replaced else x, y)
        for (x, y), replaced in zip(rows, hit.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("share", "name", "value", "before"),
    [(0.4, "x0", None, 0.0), (0.4, "x0", None, 0.05), (0.6, "colour", "violet", 0.0), (0.4, "x0", 9.0, 0.05)],
)
def test_a_burst_of_missing_or_new_values_is_a_change_of_the_inputs(share, name, value, before):
    """At random, so that what y is given the other features stays as it was."""
    rng = np.random.default_rng(9)
    baseline = without(rng, window(rng, 3_000), before, name, value)
    target = without(rng, window(rng, 3_000), share, name, value)
    change = explain(baseline, target, factorisation="per_feature", bootstrap=10)
    assert [cause.name for cause in change.causes] == ["inputs"]
    assert change.joint.inputs[0].value == pytest.approx(change.change, abs=3.0 * change.joint.concept.std)
    if not before:
        assert change.target.matched == pytest.approx(1.0 - share, abs=0.03)


def test_a_tree_that_never_saw_a_value_missing_does_not_take_it_for_the_highest():
    rng = np.random.default_rng(10)
    codes = rng.integers(4, size=(2_000, 1))
    y = (codes[:, 0] > 2).astype(np.int64)
    apart = [np.array([False] * 4 + [True])]
    tree, counts = fit(codes, y, 2, [np.arange(5)], np.ones(2_000), apart)
    assert counts[tree.leaves(np.array([[3]]))[0]].argmax() == 1
    assert counts[tree.leaves(np.array([[4]]))[0]].argmax() == y.mean().round()


def test_a_change_of_the_concept_in_a_part_of_the_inputs_is_named_alone():
    rng = np.random.default_rng(11)
    target = [(x, 1 - y if x["x1"] > 0.84 else y) for x, y in window(rng, 2_000)]
    change = explain(window(rng, 2_000), target)
    assert [cause.name for cause in change.causes] == ["concept"]
    assert change.joint.concept.value == pytest.approx(change.change, abs=3.0 * change.joint.inputs[0].std)


def test_a_change_of_the_inputs_that_two_features_make_together_is_named_alone():
    """The marginals stay as they are: the rows in which two features have the same sign are three times as frequent."""
    rng = np.random.default_rng(12)
    rows = window(rng, 9_000)
    wrong = [row for row in rows if row[0]["x1"] * row[0]["x2"] < -0.3 and row[0]["x0"] > 0.0]
    change = explain(window(rng, 2_000), [*rows[:2_000], *wrong[:600]])
    assert [cause.name for cause in change.causes] == ["inputs"]


def drawn(rng, rows, weight, n=2_000):
    """Rows with a chance by their weight."""
    weights = np.array([weight(x, y) for x, y in rows])
    return [rows[i] for i in rng.choice(len(rows), n, p=weights / weights.sum())]


def test_a_shift_of_the_labels_is_told_from_other_drifts():
    rng = np.random.default_rng(11)
    rows = window(rng, 20_000)
    baseline, others = rows[:2_000], rows[2_000:]
    ways = {
        "none": lambda x, y: 1.0,
        "labels": lambda x, y: 1.0 + 3.0 * y,
        "inputs": lambda x, y: 1.0 + 3.0 * (x["x0"] > 0.5),
    }
    targets = {name: drawn(rng, others, weight) for name, weight in ways.items()}
    targets["concept"] = [(x, 1 if x["x3"] > 0.0 else y) for x, y in targets["none"]]
    found = {name: explain(baseline, target) for name, target in targets.items()}
    assert [name for name, change in found.items() if change.label_shift] == ["labels"]
    assert found["labels"].causes
    assert "; a label shift: other shares of the labels" in found["labels"].sentence()
    assert not any("label shift" in found[name].sentence() for name in ("none", "inputs", "concept"))


def test_no_label_shift_is_called_where_nothing_drifts():
    rng = np.random.default_rng(12)
    assert not any(explain(window(rng, 400), window(rng, 400), seed=seed).label_shift for seed in range(25))
