"""In which features two windows differ, and in which sense; what of the risk goes with each; and what looks like a fault of a sensor."""

import re

import numpy as np
import pytest

from explain_core.drift import Difference, RiskChange, dbshap

N = 2_000


def window(seed, n=N):
    """``temp`` and ``humid`` go together, ``plan`` stands alone; the label follows ``temp``."""
    rng = np.random.default_rng(seed)
    temp = rng.normal(20.0, 5.0, n)
    columns = {
        "plan": rng.choice(["basic", "pro"], n, p=[0.7, 0.3]).tolist(),
        "temp": temp.tolist(),
        "humid": (80.0 - temp + rng.normal(0.0, 3.0, n)).tolist(),
        "wind": rng.gamma(2.0, 3.0, n).tolist(),
    }
    return columns | {"y": (temp > 22.0).astype(int).tolist()}


def warm(x):
    return {int(x.get("temp", 20.0) > 22.0): 1.0}


def compared(target, baseline=None, **options):
    return dbshap(baseline or window(1), target, label="y", hypothesis=warm, factorisation="joint", **options)


def altered(**columns):
    """The target with other values, each by its position and the value that there was."""
    target = window(2)
    for name, value in columns.items():
        target[name] = [value(i, old) for i, old in enumerate(target[name])]
    return target


WAYS = {
    "missing": (altered(wind=lambda i, old: None if i % 10 < 3 else old), "missing", "wind is missing in 30% of the rows (before: 0%)"),
    "a new category": (altered(plan=lambda i, old: "trial" if i % 10 == 0 else old), "new", "plan is trial in 10% of the rows (before: 0%)"),
    "a category gone": (altered(plan=lambda i, old: "basic"), "gone", "plan is pro in 0% of the rows (before: 29%)"),
    "a code for what is not known": (altered(wind=lambda i, old: -999.0 if i % 10 == 0 else old), "new", "wind is -999 in 10% of the rows (before: 0%)"),
    "a range": (altered(wind=lambda i, old: 100.0 + old if i % 10 == 0 else old), "new", "wind is above 34.2123 in 10% of the rows (before: 0%)"),
    "other shares": (altered(plan=lambda i, old: "pro" if i % 4 == 0 else old), "shares", "plan is pro in 48% of the rows (before: 29%)"),
    "added": (altered(wind=lambda i, old: old + 2.0), "shifted", "wind is higher by 2.24 throughout"),
    "multiplied": (altered(wind=lambda i, old: 3.0 * old), "scaled", "wind is multiplied by 3.14"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_the_feature_that_was_altered_is_named_in_the_sense_in_which_it_was(way):
    target, sense, words = WAYS[way]
    change = compared(target)
    assert [(one.feature, one.sense, one.fault) for one in change.differences] == [
        (words.split()[0], sense, False)
    ]
    assert change.differences[0].words == words
    assert change.causes == () and change.change == 0.0, "also where the risk did not move"
    assert f"; {words} (+0.000 ± 0.000 of the risk)" in change.sentence()
    assert RiskChange.from_json(change.to_json()) == change


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (lambda i, old: 1_234_567.0 if i % 10 == 0 else 200_000.0 + old, "wind is 1234567 in 10%"),
        (lambda i, old: 200_000.0 + (old if i % 2 else 20.0 + old), "wind is above 200,0"),
    ],
)
def test_numbers_of_many_digits_are_told_with_those_that_matter(alter, words):
    """Zip codes, months such as 201304, pascals: four digits name others."""
    baseline = altered(wind=lambda i, old: 200_000.0 + old)
    assert compared(altered(wind=alter), baseline).differences[0].words.startswith(words)


def test_a_number_that_explains_nothing_is_not_told_and_of_two_that_explain_all_the_offset_is():
    """Most counts are 1 in both windows, so a factor of 1 fits nearly as well as any; a year more is not 1.0005 times the year."""
    rng = np.random.default_rng(7)
    before, after = window(1, 6_000), window(2, 6_000)
    before["wind"], after["wind"] = rng.geometric(0.55, 6_000).tolist(), rng.geometric(0.53, 6_000).tolist()
    assert compared(after, before).differences[0].sense == "shares"
    before["wind"], after["wind"] = [2011] * 6_000, [2012] * 6_000
    assert compared(after, before).differences[0].words == "wind is higher by 1 throughout"


def test_values_dealt_out_to_other_rows_are_named_by_what_they_no_longer_go_with():
    target = window(2)
    target["humid"] = target["humid"][::-1]
    change = compared(target)
    assert [(one.feature, one.sense, one.value) for one in change.differences] in (
        [("humid", "unlike", "temp")],
        [("temp", "unlike", "humid")],  # of two features alone nobody can know which
    )
    assert " no longer goes with " in change.sentence()


def test_the_feature_by_which_rows_were_drawn_comes_before_what_merely_depends_on_it():
    rng = np.random.default_rng(3)
    target = window(2, 4 * N)
    kept = np.flatnonzero(rng.random(4 * N) < np.clip((np.array(target["temp"]) - 10.0) / 40.0, 0.0, 1.0))
    target = {name: [column[i] for i in kept] for name, column in target.items()}
    change = compared(target)
    assert [one.feature for one in change.differences] == ["temp", "humid"]
    assert "; humid differs less" in change.sentence()


@pytest.mark.parametrize("n", [100, 2_000])
@pytest.mark.parametrize("way", ["missing", "a new category", "unlike"])
def test_what_changed_is_named_also_where_one_window_is_short(way, n):
    """χ² expects too few rows of 100 in most cells, but 30 of them where 5,000 have none are no chance."""
    baseline, target = window(1, 5_100 - n), window(2, n)
    if way == "unlike":
        feature, sense = "humid", way
        target["humid"] = target["humid"][::-1]
    else:
        changed, sense, words = WAYS[way]
        feature = words.split()[0]
        target[feature] = changed[feature][:n]
    for windows in ((baseline, target), (target, baseline)):
        change = compared(windows[1], windows[0])
        first = change.differences[0]
        assert feature in (first.feature, first.value) and first.sense in (sense, "gone"), first


@pytest.mark.parametrize("n", [150, 2_000])
def test_without_a_difference_hardly_ever_a_feature_is_named(n):
    named = [
        seed
        for seed in range(25)
        if compared(window(2 * seed + 100, n), window(2 * seed + 101, n)).differences
    ]
    assert len(named) <= 1, named


def test_the_part_of_the_risk_is_what_the_shares_of_the_values_make():
    """Half of the rows have a missing value, and the model errs in each of them where it is warm."""
    target = altered(temp=lambda i, old: None if i % 2 == 0 else old)
    change = compared(target)
    (one,) = change.differences
    assert (one.feature, one.sense) == ("temp", "missing")
    assert one.risk.value == pytest.approx(change.change, abs=0.02)
    assert one.risk.low < change.change < one.risk.high


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (lambda old: old + 5.0, "temp is higher by "),
        (lambda old: 0.6 * old, "temp is multiplied by 0."),
    ],
    ids=["offset", "factor"],
)
def test_a_sensor_that_errs_alike_in_all_rows_looks_like_a_fault_and_not_like_a_concept(alter, words):
    change = compared(altered(temp=lambda i, old: alter(old)))
    assert [one.feature for one in change.differences if one.fault] == ["temp"]
    assert f"; this looks like a fault of the sensor: {words}" in change.sentence()
    assert "of the risk), and nothing that goes with it followed" in change.sentence()
    one = change.differences[0]
    assert one.risk.value == pytest.approx(change.change, abs=0.03), "all of it is the sensor's"


def test_a_feature_that_moved_with_all_that_goes_with_it_is_no_fault():
    """It is warmer: the humidity and the labels follow."""
    target = window(2)
    warmer = [value + 5.0 for value in target["temp"]]
    target |= {
        "temp": warmer,
        "humid": [value - 5.0 for value in target["humid"]],
        "y": [int(value > 22.0) for value in warmer],
    }
    change = compared(target)
    assert change.differences[0].sense == "shifted"
    assert not any(one.fault for one in change.differences)


def test_a_new_concept_is_no_fault_and_no_feature_is_named_for_it():
    change = compared(altered(y=lambda i, old: 1 - old if i % 3 == 0 else old))
    assert [cause.name for cause in change.causes] == ["concept"] and change.differences == ()


@pytest.mark.parametrize(
    ("hit", "feature", "value"),
    [
        (lambda x: x["plan"] == "pro", "plan", "pro"),
        (lambda x: 18.0 < x["temp"] <= 22.0, "temp", r"above 1[78]\..* and at most 2[12]\..*"),
    ],
    ids=["a category", "a range"],
)
def test_where_the_concept_changed_is_said(hit, feature, value):
    target = window(2)
    rows = [dict(zip(target, row, strict=True)) for row in zip(*target.values(), strict=True)]
    target["y"] = [1 - x["y"] if hit(x) else x["y"] for x in rows]
    change = compared(target)
    assert change.where.feature == feature and re.fullmatch(value, change.where.value)
    assert change.where.share > 0.9 and change.where.rows == pytest.approx(
        np.mean([*map(hit, rows)]), abs=0.05
    )
    assert f" ({change.where.words})" in change.sentence()
    assert RiskChange.from_json(change.to_json()) == change
    earlier = {name: part for name, part in change.to_dict().items() if name != "where"}
    assert RiskChange.from_dict(earlier).where is None


def test_a_concept_that_changed_everywhere_changed_nowhere_most():
    hits = np.random.default_rng(5).random((8, N)) < 0.2
    targets = [window(2) for _ in hits]
    for target, hit in zip(targets, hits, strict=True):
        target["y"] = [1 - y if turned else y for y, turned in zip(target["y"], hit, strict=True)]
    changes = [compared(target) for target in targets]
    assert all(change.where is None and change.joint.concept.stands_out for change in changes)


def test_an_offset_and_a_new_concept_are_no_fault_alone():
    change = compared(altered(temp=lambda i, old: old + 5.0, y=lambda i, old: 1 - old if i % 3 == 0 else old))
    assert change.differences[0].feature == "temp" and not change.differences[0].fault


def test_values_on_a_grid_are_mapped_back_to_the_values_that_there_were():
    """0.1 + 0.2 is not 0.3: what differs by rounding alone is the same value."""
    before, after = ({**window(seed)} for seed in (1, 2))
    for target in (before, after):
        target["temp"] = [float(round(value)) for value in target["temp"]]
        target["y"] = [int(value > 22.0) for value in target["temp"]]
    after["temp"] = [value + 3.3 for value in after["temp"]]
    change = compared(after, before)
    assert change.differences[0].fault and change.differences[0].by == pytest.approx(3.3, abs=1e-9)


def test_features_to_ignore_and_clocks_are_not_compared():
    target, baseline = altered(wind=lambda i, old: old + 2.0), window(1)
    baseline["time"], target["time"] = list(range(N)), list(range(N, 2 * N))
    change = compared(target, baseline, ignore=["wind"])
    assert change.differences == ()


def test_long_windows_are_compared_by_some_of_their_rows_always_the_same():
    first, second = window(1, 25_000), window(2, 25_000)
    second["wind"] = [value + 2.0 for value in second["wind"]]
    one, other = (compared(second, first, max_samples=1_000) for _ in range(2))
    assert [found.feature for found in one.differences] == ["wind"]
    assert one.to_json() == other.to_json()


def test_words_are_of_bounded_length():
    one = Difference("x" * 500, "new", 0.1, 0.0, 0.1, "y" * 500)
    assert len(one.words) < 300


def test_a_whole_number_is_one_still_where_an_offset_is_undone():
    """The model is asked again for rows whose offset is undone, and may count by the feature."""
    kinds = set()

    def model(x):
        kinds.add(type(x["floor"]))
        return {0: 1.0}

    baseline = [({"floor": 0, "side": 0}, 0)] * 14
    change = dbshap(baseline, [({"floor": 1, "side": 0}, 0)] * 2, hypothesis=model)
    assert change.differences[0].by == 1.0 and kinds == {int}
