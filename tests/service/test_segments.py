"""Segments in the fold: what messages tell of them, alarms about them, and that they survive a restart."""

import io
import random

import msgspec
import pytest

from explain_client import newest_segments
from explain_client.messages import Alarm, Explanation
from explain_core.foreign import refuse
from explain_core.state import StateError
from explain_core.stream import Alarming
from explain_core.stream.alarms import Alarms
from explain_sidecar.commands.tail import view
from explain_sidecar.fold.sizes import ExplanationSize
from tests.folds import fold, fold_with_restores, messages, new_state, settings
from tests.service.test_alarms import EARLY

BY = [
    {"kind": "ipfi", "alpha": 0.05, "reservoir": {"size": 20}, "by": "plan", "segments": 2},
    {"kind": "isage", "alpha": 0.05, "n_samples": 2, "reservoir": {"size": 20}},
]


def stream(n, flips_at=None, seed=1):
    """y follows a; under plan B from ``flips_at`` on the opposite of it."""
    rng = random.Random(seed)
    made = []
    for i in range(n):
        a, b, plan = rng.randrange(4), rng.random(), "ABC"[min(rng.randrange(4), 2)]
        y = (a > 1) != (flips_at is not None and i >= flips_at and plan == "B")
        made.append({"a": a, "b": b, "plan": plan, "label": int(y if rng.random() < 0.9 else not y)})
    return made


def sections(**others):
    return {"explainers": BY, "emit": {"every": 20}, **others}


def test_each_message_tells_of_one_segment_and_all_are_told_in_turn():
    outputs = fold(new_state(**sections()), stream(600))
    explanations = [
        Explanation.from_json(output.value) for output in outputs if output.destination == "explanations"
    ]
    assert all(explanation.segments.keys() <= {"ipfi"} for explanation in explanations)
    assert explanations[0].segments == {}  # the reservoir was not full
    told = newest_segments(explanations)
    assert told.keys() == newest_segments(explanations, "ipfi").keys()
    # Two values are kept apart, the first to come.
    assert len(told) == 3 and None in told
    assert newest_segments(explanations, "isage") == {}
    assert sum(segment.records for segment in told.values()) == pytest.approx(580, abs=60)
    for segment in told.values():
        assert segment.feature == "plan" and segment.importance().keys() == {"a", "b", "plan"}
        losses = segment.performance["cross_entropy"]
        assert 0.0 < losses.model < losses.empty and losses.floor is None
        assert segment.importance()["a"].value > segment.importance("cross_entropy")["b"].value


def test_a_feature_that_comes_after_a_segments_last_record_leaves_a_snapshot_that_is_restored():
    watched = {**EARLY, "subjects": ["segment_importance"]}
    known = sections(alarms=watched, explainers=[{**BY[0], "segments": 3}])
    rows = [*stream(200), *({**row, "late": 1.5} for row in stream(50, seed=2) if row["plan"] == "A")]
    expected = fold(new_state(**known), rows)
    assert fold_with_restores(known, rows, (200, len(rows) - 1, len(rows))) == expected


def test_alarms_name_the_segment_whose_loss_and_in_which_an_importance_changed():
    watched = {
        **EARLY,
        "warm_up": 50,
        "baseline": 100,
        "one_in": 10_000,
        "subjects": ["segments", "segment_importance"],
    }
    known = {"alarms": watched, "model": {"factory": "tests.models:fitted", "static": True}}
    known |= {"explainers": [{**BY[0], "segments": 3}, BY[1]], "emit": {"every": 100}}
    outputs = fold(new_state(**sections(**known)), stream(1_900, flips_at=1_300))
    found = [Alarm.from_json(output.value) for output in outputs if output.destination == "alarms"]
    assert {alarm.subject for alarm in found} == {"loss", "importance"}
    for alarm in found:
        assert (alarm.segment.feature, alarm.segment.value) == ("plan", "B") and alarm.onset.offset >= 1_200
        if alarm.subject == "loss":
            assert alarm.direction == "up"
            assert "the model's log loss rose where plan is B by at least " in alarm.sentence
        else:
            assert (alarm.direction, alarm.feature, alarm.estimator) == ("down", "a", "ipfi")
            assert "a matters less where plan is B, by at least " in alarm.sentence
    told = [message["segments"]["ipfi"] for message in messages(outputs)[10:]]
    floors = [
        [one["performance"]["cross_entropy"]["floor"] for one in told],
        [one["importance"]["cross_entropy"]["a"]["floor"] for one in told if one["value"] != "B"],
    ]
    assert all(any(floor is not None and floor > 0 for floor in of) for of in floors)


def test_a_stored_alarm_about_a_segment_that_is_none_is_refused():
    watched = {**EARLY, "subjects": ["segment_importance"]}
    state = new_state(**sections(alarms=watched))
    fold(state, stream(200))
    data = state.watches[""].state()
    name, loss, value, detector = data.importances[0]
    for entry in [("isage", loss, value), (name, "brier", value), (name, loss, "X")]:
        other = msgspec.structs.replace(data, importances=[(*entry, detector)])
        with pytest.raises(StateError, match="segment"):
            new_alarms(state).restore(other, 2, refuse)
    twice = msgspec.structs.replace(data, importances=[data.importances[0]] * 2)
    with pytest.raises(StateError, match="twice"):
        new_alarms(state).restore(twice, 2, refuse)


def new_alarms(state):
    """Alarms of this partition that have not seen a record."""
    explained = state.explained
    options = Alarming(subjects=["segment_importance"], warm_up=EARLY["warm_up"], baseline=EARLY["baseline"])
    return Alarms(options, explained.explainers, explained.performance, {}, explained.segments)


def test_tail_shows_the_segments_as_they_were_told_last():
    from rich.console import Console

    explanations = messages(fold(new_state(**sections()), stream(600)))
    segments = {}
    for message in explanations:
        for name, told in message["segments"].items():
            segments.setdefault((3, 0, name), {})[told["value"]] = told
    console = Console(width=140, file=io.StringIO())
    console.print(view(settings(), {3: explanations[-1]}, segments))
    text = console.file.getvalue()
    assert "by plan, iPFI" in text and "others" in text and "what matters most" in text


def test_no_message_is_larger_than_was_reckoned():
    known = sections(explainers=[{**BY[0], "losses": ["cross_entropy", "zero_one"], "by": "a"}, BY[1]])
    outputs = fold(new_state(**known), stream(200))
    size = ExplanationSize(settings(**known)).of(["a", "b", "plan"])
    without = ExplanationSize(settings(**sections(explainers=[{**BY[0], "by": None}, BY[1]]))).of(
        ["a", "b", "plan"]
    )
    largest = max(len(output.value) for output in outputs)
    assert largest < size and without < size


def test_a_challenger_has_no_segments_of_its_own():
    known = sections(challenger={"factory": "river.tree:HoeffdingTreeClassifier"})
    state = new_state(**known)
    with_it, without = fold(state, stream(200)), fold(new_state(**sections()), stream(200))
    assert state.challenger.explained.segments == {}
    assert [m["segments"] for m in messages(with_it)] == [m["segments"] for m in messages(without)]
