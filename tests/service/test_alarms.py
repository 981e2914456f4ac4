"""Alarms in the fold: what they say of whom, and that they are the same after every restart."""

import json
import math

import msgspec
import numpy as np
import pytest

from explain_client.chain import next_link
from explain_client.messages import Alarm, Explanation
from explain_core.state import StateError
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.metrics import measure
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.snapshots.snapshot import encode
from tests.folds import fold, messages, new_state, restored, settings
from tests.service.test_windows import stream

EARLY = {"enabled": True, "one_in": 10_000, "warm_up": 100, "baseline": 300}
STATIC = {"factory": "tests.models:fitted", "static": True}
ONE = [{"kind": "ipfi", "alpha": 0.05, "reservoir": {"size": 20}}]


def alarms(outputs):
    return [Alarm.from_json(output.value) for output in outputs if output.destination == "alarms"]


def subjects(found):
    return {(alarm.subject, alarm.feature, alarm.direction) for alarm in found}


@pytest.fixture(scope="module")
def flipped():
    """The concept turns over under a static model, at record 1,000 of 1,300."""
    return fold(new_state(alarms=EARLY, model=STATIC, emit={"every": 500}), stream(1_300, flips_at=1_000))


def test_a_change_of_the_concept_raises_alarms_of_one_cause_on_the_risk_and_what_the_model_uses(flipped):
    found = alarms(flipped)
    assert subjects(found) == {("loss", None, "up"), ("gain", None, "down"), ("importance", "a", "down")}
    assert {alarm.estimator for alarm in found} == {None, "ipfi", "isage"}
    assert {alarm.cause for alarm in found} == {1}
    assert {alarm.loss for alarm in found} == {"cross_entropy"}
    for alarm in found:
        assert 1_000 <= alarm.offset < 1_250
        assert alarm.earliest.offset <= 1_000 <= alarm.latest.offset
        assert alarm.onset.timestamp == 1_700_000_000_000 + alarm.onset.offset
        assert alarm.before.low < alarm.before.value < alarm.before.high
        assert (alarm.after.value > alarm.before.value) == (alarm.direction == "up")
        assert alarm.one_in == 10_000 and alarm.model == "tests.models:fitted" and alarm.evidence > 1.0


def test_the_message_says_it_in_words_and_is_of_a_chain_of_its_own(flipped):
    found, link = alarms(flipped), None
    for number, alarm in enumerate(found):
        link = next_link(link, alarm)
        assert (link.seq, alarm.schema) == (number, "alarm/1")
    (loss,) = (alarm for alarm in found if alarm.subject == "loss")
    half = (loss.after.high - loss.after.low) / 2.0
    change = f"{loss.before.value:.1f} → {loss.after.value:.1f} ± {half:.1f}; cross_entropy"
    share = 100.0 * loss.least / loss.before.value
    rose = "Since Tuesday 2023-11-14 22:13 UTC the model's log loss rose"
    assert loss.sentence == f"{rose} by at least {math.floor(share)} % ({change})."
    matters = next(alarm for alarm in found if alarm.subject == "importance")
    assert (
        "a matters less, by at least " in matters.sentence
        and f"{matters.estimator}, cross_entropy)" in matters.sentence
    )
    for alarm in found:
        assert 0.0 < alarm.least < abs(alarm.after.value - alarm.before.value)


def test_without_a_change_and_where_they_are_off_nothing_is_published():
    quiet = new_state(alarms=EARLY, model=STATIC, explainers=ONE, emit={"every": 500})
    assert not alarms(fold(quiet, stream(2_600, seed=5)))
    off = new_state(model=STATIC, explainers=ONE, emit={"every": 500})
    outputs = fold(off, stream(1_300, flips_at=1_000))
    assert {output.destination for output in outputs} == {"explanations"}
    assert "alarms" not in off.chains and "alarms" not in fold_settings(settings())


def test_alarms_change_no_value_and_no_band_and_what_drives_the_model_is_then_said_of_the_records_since():
    rows = stream(4_000, flips_at=2_000)
    known = {"explainers": [{**ONE[0], "alpha": 0.005}], "emit": {"every": 50}}
    told, untold = (
        {message["offset"]: message for message in messages(fold(new_state(**known, **alarmed), rows))}
        for alarmed in ({"alarms": EARLY}, {})
    )
    assert told.keys() == untold.keys()
    cells = [
        {
            offset: message["importance"]["ipfi"]["cross_entropy"]["a"] | {"floor": None}
            for offset, message in of.items()
        }
        for of in (told, untold)
    ]
    assert cells[0] == cells[1]
    driven = [
        [said for message in of.values() if (said := message["drivers"]["ipfi"]["cross_entropy"])]
        for of in (told, untold)
    ]
    since = [said["records"] for said in driven[0] if said["since_alarm"]]
    assert since and max(since) < 2_000
    assert driven[1] and not any(said["since_alarm"] for said in driven[1])


def test_each_message_says_the_smallest_change_that_could_be_noticed():
    """None while a subject warms up; then it falls with the records, and begins anew after an alarm."""
    rows = stream(2_400, flips_at=2_000)
    known = {"model": STATIC, "explainers": ONE, "emit": {"every": 50}}
    outputs = fold(new_state(**known, alarms=EARLY), rows)
    published = {message["offset"] + 1: message for message in messages(outputs)}
    losses = {n: message["performance"]["cross_entropy"] for n, message in published.items()}
    assert all(losses[n]["floor"] is None for n in range(50, EARLY["warm_up"] + EARLY["baseline"], 50))
    first, last = losses[450], losses[2_000]
    assert first["floor"] > last["floor"] > 0.05 * last["empty"]
    assert first["gain_floor"] > last["gain_floor"]
    (alarm,) = (alarm for alarm in alarms(outputs) if alarm.subject == "loss")
    assert alarm.after.value - alarm.before.value > last["floor"]
    assert losses[(alarm.offset // 50 + 2) * 50]["floor"] is None
    cells = published[2_000]["importance"]["ipfi"]["cross_entropy"]
    assert cells["a"]["floor"] > cells["b"]["floor"] > 0.0  # b varies less, as the model does not use it
    parsed = Explanation.from_json(json.dumps(published[2_000] | {"digest": "0" * 32}).encode())
    assert parsed.importance()["a"].floor == cells["a"]["floor"]
    assert parsed.performance["cross_entropy"].gain_floor == last["gain_floor"]
    quiet = messages(fold(new_state(**known), rows[:500]))[-1]
    assert quiet["performance"]["cross_entropy"]["floor"] is None
    assert quiet["importance"]["ipfi"]["cross_entropy"]["a"]["floor"] is None


def test_the_metrics_have_the_floors_of_the_loss_the_gain_and_rejected_records():
    alarmed = {**EARLY, "subjects": ["loss", "gain", "rejected"]}
    state = new_state(model=STATIC, explainers=ONE, emit={"every": 500}, alarms=alarmed)
    fold(state, stream(300))
    assert measure(state)["alarm_floor"] == []
    fold(state, [b"{" if i % 10 == 0 else row for i, row in enumerate(stream(300))])
    floors = {tuple(labels): floor for labels, floor in measure(state)["alarm_floor"]}
    assert floors.keys() == {
        ("loss", "cross_entropy", ""),
        ("gain", "cross_entropy", ""),
    }
    ((labels, rejected),) = measure(state)["alarm_rejected_floor"]
    assert labels == [""] and rejected > 0.05
    assert measure(new_state(model=STATIC, explainers=ONE))["alarm_floor"] == []


def test_a_feature_that_comes_late_has_a_baseline_of_its_own():
    """c comes with record 300, and six in ten records lack it from 1,100 on; before 300 nobody missed it."""
    rng = np.random.default_rng(3)
    rows = stream(1_400)
    for i, row in enumerate(rows):
        if 300 <= i < 1_100 or (i >= 1_100 and rng.random() < 0.4):
            row["c"] = float(i % 3)
    watched = {**EARLY, "subjects": ["missing"]}
    (alarm,) = alarms(fold(new_state(alarms=watched, explainers=ONE, emit={"every": 500}), rows))
    assert (alarm.subject, alarm.feature, alarm.direction) == ("missing", "c", "up")
    assert alarm.earliest.offset <= 1_100 <= alarm.latest.offset
    assert 300 <= alarm.before.records <= 1_100 - 300 - EARLY["warm_up"] + 50
    assert alarm.before.value == 0.0


def test_missing_values_and_rejected_records_are_watched_where_that_is_asked_for():
    watched = {**EARLY, "subjects": ["missing", "rejected"]}
    rng = np.random.default_rng(0)
    rows = stream(1_800)
    for i, row in enumerate(rows):
        if i >= 1_000 and rng.random() < 0.4:
            del row["b"]
        if i >= 1_200 and rng.random() < 0.4:
            row["label"] = None
    found = alarms(fold(new_state(alarms=watched, model=STATIC, explainers=ONE, emit={"every": 500}), rows))
    assert subjects(found) == {("missing", "b", "up"), ("rejected", None, "up")}
    missing, rejected = (
        next(alarm for alarm in found if alarm.subject == kind) for kind in ("missing", "rejected")
    )
    assert missing.earliest.offset <= 1_000 <= missing.latest.offset
    assert rejected.earliest.offset <= 1_200 <= rejected.latest.offset
    assert missing.cause != rejected.cause and missing.loss is None
    assert "b is missing more often, by at least 0." in missing.sentence
    assert "more records are rejected, by at least 0." in rejected.sentence


def test_a_feature_that_comes_late_is_watched_too():
    rows = [
        {**row, "c": row["a"]} if i >= 300 else row for i, row in enumerate(stream(1_500, flips_at=1_200))
    ]
    known = {
        "alarms": {**EARLY, "subjects": ["importance", "missing"]},
        "explainers": ONE,
        "emit": {"every": 500},
    }
    state = new_state(**known)
    assert alarms(fold(state, rows))
    detectors = restored(encode(state), settings(**known)).state(bytes).alarms.detectors
    counts = {name: detector.cells.shape[1] for name, detector in detectors.items()}
    assert counts == {"importance/ipfi/cross_entropy": 3, "missing": 3}


@pytest.mark.parametrize(("min_change", "noticed"), [(0.05, {"loss", "gain"}), (1.0, set())])
def test_a_change_up_to_the_tolerance_is_none(min_change, noticed):
    """The error rate rises by .4, and without a model it is .5."""
    explainers, rows = [{**ONE[0], "losses": ["zero_one"]}], stream(1_600, flips_at=1_000)
    known = {"model": STATIC, "explainers": explainers, "emit": {"every": 500}}
    found = alarms(
        fold(
            new_state(**known, alarms={**EARLY, "min_change": min_change, "subjects": ["loss", "gain"]}), rows
        )
    )
    assert {alarm.subject for alarm in found} == noticed


def test_a_state_of_other_subjects_is_refused():
    state = new_state(alarms=EARLY, explainers=ONE)
    data = state.state(bytes)
    fewer = msgspec.structs.replace(data.alarms, detectors={})
    for changed in (None, fewer):
        with pytest.raises(StateError):
            new_state(alarms=EARLY, explainers=ONE).restore(
                msgspec.structs.replace(data, alarms=changed), bytes
            )


def test_a_snapshot_of_a_version_without_alarms_is_restored():
    state = PartitionState(settings(), 3)
    fold(state, stream(30))
    raw = msgspec.msgpack.decode(encode(state))
    del raw["alarms"]
    assert restored(msgspec.msgpack.encode(raw), settings()).records == 30
