"""Drift windows in the fold: where they begin and end, what they say, and that they survive a restart."""

import json
import random

import pytest
import yaml

from explain_client.drift import Drift, Separation
from explain_core.drift import RiskChange
from explain_sidecar.fold.contents import ignoring
from tests.folds import fold, messages, new_state

QUICK = {"enabled": True, "window": 200, "bootstrap": 20}


def stream(n, flips_at=None, seed=1):
    """y follows a; from ``flips_at`` on the opposite of a."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        a, b = rng.randrange(4), rng.random()
        y = (a > 1) != (flips_at is not None and i >= flips_at)
        rows.append({"a": a, "b": b, "label": int(y if rng.random() < 0.9 else not y)})
    return rows


def timed(stamps):
    """Records of these event times, in seconds."""
    return [row | {"at": int(1_000 * at)} for row, at in zip(stream(len(stamps)), stamps, strict=True)]


def test_a_window_speaks_with_its_last_record_of_the_pairs_whose_models_had_learnt():
    found = messages(fold(new_state(drift=QUICK), stream(1_100)), "drift")
    assert [m["offset"] for m in found] == [599, 799, 999]
    assert [(m["baseline"]["number"], m["target"]["number"]) for m in found] == [(1, 2), (2, 3), (3, 4)]
    assert [m["seq"] for m in found] == [0, 1, 2]
    target = found[0]["target"]
    assert (target["first_offset"], target["last_offset"], target["records"], target["late"]) == (
        400,
        599,
        200,
        0,
    )
    assert target["last_timestamp"] == found[0]["timestamp"]


def test_a_change_of_the_concept_is_named_and_no_change_is_not():
    found = messages(fold(new_state(drift=QUICK), stream(1_600, flips_at=1_200)), "drift")
    changes = [RiskChange.from_dict(m["change"]) for m in found]
    assert [[cause.name for cause in change.causes] for change in changes[:4]] == [[], [], [], []]
    flipped = changes[4]
    assert found[4]["target"]["first_offset"] == 1_200
    assert flipped.causes[0].name == "concept" and flipped.joint.concept.value > 0.6
    assert found[4]["sentence"].startswith("error rate rose by 0.")
    assert "from window 5 to window 6" in found[4]["sentence"]


def test_a_weekday_that_tells_the_windows_apart_is_named_and_ignored_where_that_is_asked_for():
    days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    rows = [
        row | {"schedule": {"weekday": days[i // 200 % 7]}}
        for i, row in enumerate(stream(1_600, flips_at=1_200))
    ]
    sections = {"record": {"features": ["a", "b", "schedule.weekday"]}}
    outputs = fold(new_state(drift=QUICK, **sections), rows)
    found = [Drift.from_json(output.value) for output in outputs if output.destination == "drift"]
    proposed = "; schedule.weekday tells them apart; to attribute the change without it, set drift.ignore: [schedule.weekday]"
    assert len(found) == 6
    for drift in found:
        assert drift.separation == Separation(["schedule.weekday"], True) and drift.causes == ()
        assert drift.sentence.endswith(proposed)
    ignoring = new_state(drift=QUICK | {"ignore": ["schedule.weekday"]}, **sections)
    found = messages(fold(ignoring, rows), "drift")
    assert [m["change"]["causes"] for m in found] == [[], [], [], [], ["concept"], []]
    assert [m["separation"] for m in found] == [None] * 6


def test_what_is_ignored_already_is_in_the_proposal_as_yaml_reads_it():
    names = ["a.b_1", "no", "7", "ü", "a b", 'q"', "#"]
    key, _, value = ignoring(names[:2], names[2:]).removeprefix("set ").partition(": ")
    assert (key, yaml.safe_load(value)) == ("drift.ignore", names)


def test_the_risk_is_split_by_feature_where_that_is_wished():
    moved = [row | {"b": row["b"] + (i >= 600)} for i, row in enumerate(stream(800))]
    found = messages(fold(new_state(drift=QUICK | {"factorisation": "per_feature"}), moved), "drift")
    assert [cause["name"] for cause in found[-1]["change"]["product"]["inputs"]] == ["a", "b"]
    grouped = new_state(drift=QUICK | {"groups": {"both": ["a", "b"]}})
    found = messages(fold(grouped, moved), "drift")
    assert [cause["name"] for cause in found[-1]["change"]["product"]["inputs"]] == ["both"]


def test_a_static_model_is_compared_with_itself_from_the_second_window_on():
    static = {"factory": "tests.models:fitted", "static": True}
    found = messages(fold(new_state(drift=QUICK, model=static), stream(600)), "drift")
    assert [(m["baseline"]["number"], m["target"]["number"]) for m in found] == [(0, 1), (1, 2)]
    assert found[0]["change"]["joint"]["hypothesis"] is None


def test_a_window_of_event_time_ends_before_the_first_record_of_the_next_and_counts_who_is_late():
    stamps = [*range(100), 30, 40, *range(100, 200), 99, *range(200, 300), 310]
    state = new_state(drift=QUICK | {"period": 100}, record={"timestamp": "at"})
    found = messages(fold(state, timed(stamps)), "drift")
    assert [(m["offset"], m["target"]["records"], m["target"]["late"]) for m in found] == [(303, 100, 0)]
    baseline = found[0]["baseline"]
    assert (baseline["records"], baseline["late"]) == (100, 1)
    assert (baseline["first_offset"], baseline["last_offset"]) == (102, 201)
    assert (baseline["first_timestamp"], baseline["last_timestamp"]) == (100_000, 199_000)


def test_a_leap_of_the_clock_does_not_make_all_that_follows_late():
    drift = {"enabled": True, "window": 50, "period": 1_000, "bootstrap": 20}
    state = new_state(drift=drift, record={"timestamp": "at"})
    found = messages(fold(state, timed([*range(60), 10**9, *range(60, 220)])), "drift")
    assert found[0]["sentence"] == "not computed: target: 1 row; a window needs at least two"
    assert found[0]["change"] is None and found[0]["target"]["late"] == 51
    assert found[-1]["target"]["records"] == 50 and found[-1]["change"] is not None


def test_windows_without_variation_say_something_finite():
    same = [{"a": 1.0, "c": "x", "label": 1}] * 700
    outputs = fold(new_state(drift=QUICK), same)
    for output in outputs:
        json.loads(output.value, parse_constant=lambda name: pytest.fail(f"{name} in a message"))
    assert messages(outputs, "drift")[-1]["change"]["causes"] == []


def test_a_bad_record_is_in_no_window():
    rows = stream(600)
    good = messages(fold(new_state(drift=QUICK), rows), "drift")
    state = new_state(drift=QUICK)
    outputs = fold(state, [*rows[:300], {"a": 1}, *rows[300:]])
    assert [m["change"] for m in messages(outputs, "drift")] == [m["change"] for m in good]
