"""Attributions that alarms ask for: of which records, that they name the alarm, and that they survive a restart."""

import msgspec
import pytest

from explain_client import Explanation
from explain_client.messages import Alarm, Drift
from explain_core.drift import RiskChange
from explain_core.state import StateError
from explain_core.stream.models import ModelData
from explain_core.stream.recent import Question
from explain_core.stream.rows import Rows
from tests.changes import Epochs
from tests.folds import fold, fold_with_restores, new_state, record, settings
from tests.service.test_alarms import EARLY, ONE, STATIC
from tests.service.test_windows import stream
from tests.versions import EXPLAINERS, VersionedPartition, records, versioned, write

ASKED = {"enabled": True, "on_alarm": True, "window": 400}
WATCHED = {**EARLY, "subjects": ["loss", "gain"]}


def sections(**others):
    return {"alarms": WATCHED, "drift": ASKED, "explainers": ONE, "emit": {"every": 500}, **others}


def read(outputs, destination, kind):
    return [kind.from_json(output.value) for output in outputs if output.destination == destination]


@pytest.fixture(scope="module", params=["static", "learning"])
def flipped(request):
    """The concept turns over at record 1,030 of 1,300."""
    model = STATIC if request.param == "static" else {}
    return request.param, fold(new_state(**sections(model=model)), stream(1_300, flips_at=1_030))


def test_an_alarm_asks_why_and_the_answer_names_it_once_a_quarter_of_a_window_has_come(flipped):
    kind, outputs = flipped
    asked, (drift,) = read(outputs, "alarms", Alarm)[0], read(outputs, "drift", Drift)
    assert (drift.alarm.seq, drift.alarm.offset, drift.alarm.cause) == (asked.seq, asked.offset, asked.cause)
    before, since = drift.baseline, drift.target
    assert before.last_offset + 1 == since.first_offset == asked.onset.offset
    assert since.records == ASKED["window"] // 4 > asked.offset - asked.onset.offset + 1
    assert (drift.seq, drift.offset) == (0, since.last_offset) == (0, asked.onset.offset + 99)
    # A learning model's side begins with a chunk, as that is where a model was kept.
    assert before.records == 400 if kind == "static" else 300 < before.records <= 400
    assert (before.number, since.number) == (0, 1)
    change = RiskChange.from_dict(drift.change)
    assert change.causes[0].name == "concept" and change.joint.concept.value > 0.2
    assert kind == "learning" or not change.joint.hypothesis or change.joint.hypothesis.value == 0.0
    expected = f"from the {before.records} records before Tuesday 2023-11-14 22:13 UTC to the {since.records} from then on"
    assert drift.sentence.startswith("error rate rose by 0.") and expected in drift.sentence


def test_an_alarm_on_an_importance_asks_too_and_one_on_rejected_records_does_not():
    rows = stream(1_300, flips_at=1_030)
    known = sections(model=STATIC, alarms={**EARLY, "subjects": ["importance", "rejected"]})
    outputs = fold(new_state(**known), rows)
    asked, (drift,) = read(outputs, "alarms", Alarm)[0], read(outputs, "drift", Drift)
    assert (asked.subject, drift.alarm.seq) == ("importance", 0) and drift.causes == ("concept",)
    rows = [{**row, "label": None} if i >= 600 and i % 2 else row for i, row in enumerate(stream(1_000))]
    outputs = fold(new_state(**known), rows)
    assert {alarm.subject for alarm in read(outputs, "alarms", Alarm)} == {"rejected"}
    assert not read(outputs, "drift", Drift)


def test_an_answer_that_waits_is_not_given_in_the_next_epoch_whose_first_message_says_so():
    rows, known = stream(1_300, flips_at=1_030), settings(**sections(model=STATIC))
    state = Epochs(known, 3, [(1_105, known)])
    rows += stream(400)
    outputs = [output for i, row in enumerate(rows) for output in state.supplied(record(i, row), None, None)]
    alarms, changes = read(outputs, "alarms", Alarm), read(outputs, "drift", Drift)
    assert alarms[0].offset < 1_105 and state.epoch == 1
    assert [drift for drift in changes if drift.alarm.offset == alarms[0].offset] == []
    asked, (told,) = alarms[0], read(outputs, "explanations", Explanation)[-1:]
    missing = asked.onset.offset + 100 - 1_105
    notice = f"why it came is not told of the alarm at offset {asked.offset}: epoch 0 ended {missing} records too early"
    assert told.epoch == 1 and notice in told.notices


def test_the_alarm_comes_before_what_it_asked_for(flipped):
    _, outputs = flipped
    places = {output.destination: at for at, output in enumerate(outputs) if output.destination == "drift"}
    asked = [at for at, output in enumerate(outputs) if output.destination == "alarms"]
    assert min(asked) < places["drift"]


def test_the_answer_is_that_of_windows_that_are_cut_at_the_onset():
    rows, length = stream(1_100, flips_at=1_000), 50
    (asked,) = read(
        fold(new_state(**sections(model=STATIC, drift={**ASKED, "window": length})), rows), "drift", Drift
    )
    assert (asked.target.first_offset, asked.target.records, asked.baseline.records) == (
        1_000,
        length,
        length,
    )
    fixed = {"enabled": True, "window": length}
    windows = read(fold(new_state(**{**sections(model=STATIC), "drift": fixed}), rows), "drift", Drift)
    same = next(drift for drift in windows if drift.target.first_offset == 1_000)
    assert same.alarm is None
    found, expected = (RiskChange.from_dict(drift.change) for drift in (asked, same))
    assert found.change == expected.change
    assert found.joint.concept.value == pytest.approx(expected.joint.concept.value)
    assert (found.baseline, found.target) == (expected.baseline, expected.target)


def test_a_state_that_is_restored_gives_the_same_answers():
    known, rows = sections(model=STATIC), stream(1_300, flips_at=1_030)
    cuts = (1, 100, 760, 1_040, 1_100, 1_110, 1_300)
    assert fold_with_restores(known, rows, cuts) == fold(new_state(**known), rows)


def test_where_too_few_records_are_kept_the_answer_says_so():
    outputs = fold(
        new_state(**sections(model=STATIC, drift={**ASKED, "window": 10})), stream(1_300, flips_at=1_030)
    )
    (drift,) = read(outputs, "drift", Drift)
    assert drift.change is None
    assert drift.sentence.startswith("not computed: of the records before the onset at offset 10")
    assert drift.sentence.endswith("too few are kept; a wider window keeps more")
    assert drift.target.records <= 22


def test_no_more_records_are_kept_than_two_windows_and_a_chunk():
    state = new_state(**sections(model=STATIC, drift={**ASKED, "window": 40}))
    for start in range(0, 300, 50):
        fold(state, stream(50, seed=start))
        kept = sum(
            len(Rows.restored(chunk.rows, "classification", 2)) for chunk in state.state(bytes).recent.chunks
        )
        assert kept <= 2 * 40 + 10
    assert kept >= 2 * 40


@pytest.mark.parametrize(
    "rows",
    [
        b"[[[0,[],[]]],[0],[0],[7],[0.5],[null]]",  # no such class
        b"[[[0,[],[]]],[0],[0],[0],[0.5],[null]]",  # not full, and not the newest
        b"[[[0,[],[]]],[9,11],[0,0],[0,0],[0.5,0.5],[null,null]]",  # the next chunk begins before it ends
        b"[[],[],[],[],[],[]]",
        b"{",
    ],
)
def test_records_that_are_none_are_refused(rows):
    known = sections(model=STATIC, drift={**ASKED, "window": 10})
    state = new_state(**known)
    fold(state, stream(20))
    data = state.state(bytes)
    first, *others = data.recent.chunks
    changed = msgspec.structs.replace(
        data.recent, chunks=[msgspec.structs.replace(first, rows=rows), *others]
    )
    wait = Question(0, 19, 1, 15, None, 2)
    restored = new_state(**known)
    restored.restore(
        msgspec.structs.replace(data, recent=msgspec.structs.replace(data.recent, waiting=[wait])), bytes
    )
    waiting = [
        [msgspec.structs.replace(wait, **wrong)] for wrong in ({"offset": 20}, {"onset": 20}, {"wait": 3})
    ]
    asked = [msgspec.structs.replace(data.recent, waiting=wrong) for wrong in (*waiting, [wait] * 9)]
    learning = msgspec.structs.replace(
        data.recent, chunks=[msgspec.structs.replace(first, model=ModelData(foreign=b""))]
    )
    for wrong in (changed, None, learning, *asked):
        with pytest.raises(StateError):
            new_state(**known).restore(msgspec.structs.replace(data, recent=wrong), bytes)


def test_an_alarm_about_a_version_asks_of_the_records_that_it_served(tmp_path):
    watched = {"enabled": True, "one_in": 1_000, "warm_up": 100, "baseline": 100, "subjects": ["loss"]}
    known = versioned(
        write(tmp_path, "v2", "w9"), explainers=EXPLAINERS[:1], alarms=watched, drift={**ASKED, "window": 300}
    )
    given = records(["v2", "w9"] * 700)
    for x in given[1_000:]:
        x["label"] = int(x["a"] < 0.5) if x["served_by"] == "v2" else x["label"]
    line = VersionedPartition(known)
    outputs = line.fold(given[:900])
    outputs += line.restart().fold(given[900:])
    assert outputs == VersionedPartition(known).fold(given)
    alarms, changes = read(outputs, "alarms", Alarm), read(outputs, "drift", Drift)
    assert [alarm.version for alarm in alarms] == ["v2"] == [drift.baseline.version for drift in changes]
    (asked,), (drift,) = alarms, changes
    assert drift.alarm.seq == asked.seq
    for window in (drift.baseline, drift.target):
        length = window.last_offset - window.first_offset + 1
        assert (window.version, window.of_other_versions) == ("v2", length - window.records)
        assert abs(window.records - window.of_other_versions) <= 1
    assert drift.baseline.last_offset < asked.onset.offset == drift.target.first_offset
    assert RiskChange.from_dict(drift.change).joint.concept.value > 0.0
