"""The predictions topic, and records without a label: what is told of a record before its model learns from it."""

import json
import math

import msgspec
import pytest
from msgspec import structs

from explain_client import Prediction, SchemaError
from explain_client.chain import next_link
from explain_client.fold import FoldDriver
from explain_client.frames import to_pandas
from explain_client.words import signed
from explain_core.foreign import dumps, loads
from explain_core.state import StateError
from explain_core.stream.reasoner import background_digest
from explain_sidecar.errors import UserError
from explain_sidecar.fold.carry import carried, carry_over
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.partition import FoldError
from explain_sidecar.fold.selection import Choice
from explain_sidecar.settings.predictions import PredictionSettings
from tests.folds import SMALL, fold, messages, new_state, record, settings, size, values

ON = {"enabled": True}
PREDICTS = {"unlabelled": "predict"}


def told(outputs):
    return [Prediction.from_json(out.value) for out in outputs if out.destination == "predictions"]


def gaps(given):
    """The same records, two of three without a label: absent or null."""
    bare = [{name: own for name, own in value.items() if name != "label"} for value in given]
    return [
        value if i % 3 == 0 else without | ({"label": None} if i % 2 else {})
        for i, (value, without) in enumerate(zip(given, bare, strict=True))
    ]


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("name", ["linear", "mixture"])
def test_each_record_has_the_prediction_before_the_model_learns_with_reasons_that_add_up(task, name):
    if (name, task) == ("mixture", "multiclass"):
        name = "tree"
    state = new_state(
        task=task,
        model={"name": name, "task": task},
        predictions={**ON, "most": 100},
        record={"id": "id", "timestamp": "time"},
    )
    link, methods = None, set()
    for i, value in enumerate(values(60, task)):
        explained = state.stream.newest.explained
        rows = next(iter(explained.reservoirs.values())).rows
        background = len(rows), background_digest(rows)
        x = {feature: own for feature, own in value.items() if feature != "label" and own is not None}
        expected, before = explained.model.predict(dict(x)), list(state.labels)
        (found,) = told(state.step(record(i, {**value, "id": f"r{i}", "time": i})))
        link = next_link(link, found)
        assert (found.offset, found.id, found.timestamp, found.records, found.seq) == (i, f"r{i}", i, i, i)
        assert (found.background_rows, found.background_digest) == background
        if task == "regression":
            assert (found.value, found.probabilities, found.target) == (expected, {}, value["label"])
        else:
            labels = [str(label).lower() if label in (True, False) else label for label in state.labels]
            before = list(dict.fromkeys([*before, value["label"]]))
            assert found.probabilities == {
                labels[int(code)]: p for code, p in expected.items() if code < len(before)
            }
            assert found.label == labels[state.labels[value["label"]]] and found.value is None
        newest = state.explained.performance.newest[0].tolist()
        assert list(found.losses.values()) == newest and len(newest) == 1
        if found.method is None:
            assert (found.predicted, found.output, found.reasons) == (None, None, []) and i < 10
            continue
        methods.add(found.method)
        known = found.value if task == "regression" else found.probabilities[found.output]
        assert found.predicted == pytest.approx(known, abs=1e-12)
        assert known == max(found.probabilities.values(), default=known)
        values_of = [one.value for one in found.reasons]
        assert found.baseline + sum(values_of) + found.rest == pytest.approx(found.predicted, abs=1e-9)
        assert [abs(one) for one in values_of] == sorted(
            map(abs, values_of), reverse=True
        ) and 0 not in values_of
        assert len(values_of) <= 5
    assert link.seq == 59 and methods <= {"exact", "sampled"} and "sampled" in methods


def test_predictions_change_no_other_message_and_are_the_same_bytes_after_restarts():
    asked = {"model.name": "forest", "predictions.enabled": True, "alarms.enabled": True, "emit.every": 20}
    driver, without = FoldDriver(asked), FoldDriver({**asked, "predictions.enabled": False})
    given = values(80)
    driver.send(given)
    without.send(given)
    assert len(driver.predictions) == 80 and without.predictions == []
    assert driver.explanations == without.explanations and len(driver.explanations) == 4
    driver.verify(every=27)
    frame = to_pandas(driver.predictions)
    assert len(frame) == 80 and {"time", "predicted", "baseline", "reasons"} <= {*frame.columns}


def test_records_without_a_label_are_predicted_and_leave_the_model_alone():
    given = values(150)
    known = {"predictions": {**ON, "label": True, "most": 100}, "record": PREDICTS, "emit": {"every": 10}}
    state, plain = new_state(**known), new_state(emit={"every": 10})
    outputs, expected = fold(state, gaps(given)), fold(plain, given[::3])
    found = told(outputs)
    assert [one.offset for one in found] == list(range(150))
    assert [one.records for one in found] == [(i + 2) // 3 for i in range(150)]
    assert [one.label is None for one in found] == [i % 3 > 0 for i in range(150)]
    assert all((one.label is None) == (one.losses == {}) for one in found)
    assert {one.output for one in found if one.method} == {"true"}
    assert (state.records, state.stream.unlabelled, state.rejections.total) == (50, 100, 0)
    losses = [
        [one["performance"]["cross_entropy"]["model"] for one in messages(outs)]
        for outs in (outputs, expected)
    ]
    # Equal up to rounding: columns and categories that come in another order are summed in another order.
    assert losses[0] == pytest.approx(losses[1], rel=1e-12) and len(losses[0]) == 5
    assert state.fold_digest != plain.fold_digest


def test_a_record_without_a_label_is_bad_unless_it_is_asked_for_and_is_checked_as_any_other():
    state = new_state(predictions=ON)
    assert [out.destination for out in fold(state, [{"a": 1}])] == ["dead_letters"]
    state = new_state(predictions=ON, record=PREDICTS)
    bad = [{"a": 1}, {"a": "text"}, {"a": None}, {"b": [1]}, {"c": 1e31}]
    assert [out.destination for out in fold(state, bad)] == ["predictions", *["dead_letters"] * 4]
    assert state.stream.unlabelled == 1 and state.chains["predictions"].seq == 1


def test_without_predictions_records_without_a_label_are_counted_and_nothing_is_told():
    state = new_state(record=PREDICTS)
    assert [out.destination for out in fold(state, gaps(values(30)))] == ["explanations"]
    assert (state.records, state.stream.unlabelled) == (10, 20)


def test_a_key_of_a_record_without_a_label_counts_for_the_partitions_name():
    first = structs.replace(record(0, {"a": 1}), key=b"JFK")
    for second, name in ((b"JFK", "JFK"), (b"LGA", None)):
        state = new_state(record=PREDICTS)
        state.step(first)
        assert state.key == "JFK"
        state.step(structs.replace(record(1, {"a": 1, "label": True}), key=second))
        assert state.key == name


def test_only_chosen_records_are_told_and_the_choice_is_even():
    state = new_state(predictions={**ON, "every": 7, "where": {"colour": ["red"]}, "most": 1})
    given = values(400)
    found = {one.offset for one in told(fold(state, given))}
    choice = Choice(PredictionSettings(enabled=True, every=7))
    assert found == {
        i for i, value in enumerate(given) if choice.has_offset(i) and value.get("colour") == "red"
    }
    assert 5 < len(found) < 50
    for every in (2, 7, 10, 64):
        choice = Choice(PredictionSettings(enabled=True, every=every))
        for step in (1, 2, 3, every):  # a transaction's marker takes an offset, too
            chosen = sum(choice.has_offset(i * step) for i in range(100 * every))
            assert 90 <= chosen <= 110
    assert not any(Choice(PredictionSettings()).has_offset(i) for i in range(100))


def test_what_cannot_be_explained_is_refused_with_the_remedy():
    with pytest.raises(UserError, match=r"^predictions\.space: margin, .* use space='prediction'"):
        new_state(model={"name": "forest"}, predictions={**ON, "space": "margin"})
    explainers = [{"kind": "ipfi", "reservoir": {"size": 20_000}}]
    with pytest.raises(UserError, match=r"^predictions: a reservoir of 20,000 rows; .* make explainers"):
        new_state(explainers=explainers, predictions=ON)


def test_log_odds_of_a_linear_model_are_exact():
    state = new_state(predictions={**ON, "space": "margin", "label": False})
    found = [one for one in told(fold(state, values(40))) if one.method]
    assert {(one.method, one.space, one.output) for one in found} == {("exact", "margin", "true")}
    assert len(found) > 35


def test_no_prediction_is_larger_than_the_largest_message():
    limit = 60_000
    state = new_state(
        model={"name": "tree", "task": "multiclass"},
        predictions={**ON, "most": 1, "top": 100},
        explainers=SMALL[:1],
        emit={"max_bytes": limit, "periods": []},
    )
    given = [{"a": i % 7, "b": i, "label": f"{i % 45:03}" + "\x01" * 300} for i in range(90)]
    outputs = fold(state, given)
    assert max(map(size, outputs)) < limit
    found = told(outputs)
    assert found[1].probabilities and not found[-1].probabilities and found[-1].reasons


def test_a_message_that_is_none_is_refused_with_its_reason():
    (found,) = told(fold(new_state(predictions=ON), values(1)))
    raw = json.loads(found.raw)
    for changed, named in (({"schema": "prediction/2"}, "prediction/2"), ({"method": "guessed"}, "method"), ({"reasons": 3}, "reasons")):  # fmt: skip
        with pytest.raises(SchemaError, match=named):
            Prediction.from_json(json.dumps({**raw, **changed}).encode())
    assert "no reasons yet" in found.sentence()


def test_a_sentence_names_prediction_reasons_and_what_it_was():
    found = told(fold(new_state(predictions={**ON, "label": True}), values(60)))[-1]
    said = found.sentence(2)
    assert said.startswith(f"predicted true: {found.predicted:.3f}, on average {found.baseline:.3f}, ")
    assert f"{found.reasons[1].feature} {signed(found.reasons[1].value)}; it was {found.label}" in said


def test_a_model_that_fails_on_a_record_without_a_label_says_so():
    state = new_state(
        model={"factory": "tests.service.test_predictions:broken", "static": True}, record=PREDICTS
    )
    with pytest.raises(FoldError, match=r"offset 0: the model .* failed: ZeroDivisionError"):
        state.step(record(0, {"a": 0}))


SETTLES = {"predictions": {**ON, "most": 1, "remember": 3}, "record": {**PREDICTS, "id": "id"}}


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_a_label_settles_the_prediction_that_was_told_under_the_same_id(task):
    state = new_state(task=task, model={"name": "linear", "task": task}, **SETTLES)
    given = values(30, task)
    fold(state, given[:20])
    x = {**given[20], "id": "late"}
    (before,) = told([*state.step(record(20, {**x, "label": None}))])
    assert before.earlier is None and before.losses == {} and before.reasons
    fold_between = [state.step(record(21 + i, value)) for i, value in enumerate(given[21:])]
    assert all(one.earlier is None for outputs in fold_between for one in told(outputs))
    (after,) = told(state.step(record(30, x)))
    earlier = after.earlier
    assert (earlier.offset, earlier.timestamp) == (20, before.timestamp)
    assert (earlier.value, earlier.probabilities) == (before.value, before.probabilities)
    if task == "regression":
        expected = {"squared": (after.target - before.value) ** 2}
    else:
        expected = {"cross_entropy": -math.log(before.probabilities[after.label])}
    assert earlier.losses == pytest.approx(expected, rel=1e-12)
    assert earlier.losses != after.losses and "the prediction of offset 20 had a" in after.sentence()
    (again,) = told(state.step(record(31, x)))
    assert again.earlier is None


def test_a_label_is_told_whatever_was_chosen():
    known = {**SETTLES, "predictions": {**SETTLES["predictions"], "every": 40}}
    choice = Choice(PredictionSettings(enabled=True, every=40))
    given = [{**value, "id": f"r{i}"} for i, value in enumerate(values(200))]
    chosen = next(filter(choice.has_offset, range(100, 200)))
    late = {**given[chosen], "id": "late"}
    stream = [*given[:chosen], {**late, "label": None}, *given[chosen:190], late, *given[190:]]
    assert not choice.has_offset(191)
    first, second = [one for one in told(fold(new_state(**known), stream)) if one.id == "late"]
    assert (first.offset, second.offset, second.earlier.offset) == (chosen, 191, chosen)


def test_only_so_many_wait_and_the_oldest_is_forgotten():
    state = new_state(**SETTLES)
    given = [{**value, "id": f"r{i}"} for i, value in enumerate(values(5))]
    fold(state, [{**value, "label": None} for value in given])
    found = [told(state.step(record(10 + i, value)))[0].earlier for i, value in enumerate(given)]
    assert [one and one.offset for one in found] == [None, None, 2, 3, 4]
    assert found[2].probabilities and found[2].losses


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"offset": 99}, "still to come"),
        ({"value": math.inf}, "no prediction"),
        ({"value": 1.0, "shares": [(0, 1.0)]}, "no prediction"),
        ({"shares": [(0, math.nan)]}, "no probabilities"),
        ({"shares": [(0, 0.5), (0, 0.5)]}, "a class twice"),
    ],
)
def test_what_waits_is_checked_when_a_state_is_read(changed, said):
    known = {**SETTLES, "predictions": {**SETTLES["predictions"], "remember": 1}}
    state = new_state(**known)
    state.step(record(0, {"a": 1, "id": "x"}))
    data = state.state(dumps)
    hostile = msgspec.structs.replace(data.waiting[0], **changed)
    for waiting, why in (([hostile], said), ([data.waiting[0]] * 2, "more than may wait")):
        with pytest.raises(StateError, match=why):
            new_state(**known).restore(msgspec.structs.replace(data, waiting=waiting), loads)


def test_what_waits_goes_on_under_other_settings_and_begins_anew_under_its_own():
    state = new_state(**SETTLES)
    fold(state, [{"a": 1, "id": "x"}])
    for change, kept in (({"top": 2}, 1), ({"remember": 7}, 0), ({"enabled": False}, 0)):
        now = settings(**{**SETTLES, "predictions": {**SETTLES["predictions"], **change}})
        carry = carry_over(fold_settings(state.settings), now)
        after = carried(state.state(dumps), carry, now, state.partition, 1, 1, loads)
        assert len(after.waiting.state()) == kept
        assert ("waiting" in carry.carried) == bool(kept)


def broken():
    return lambda x: {True: 1 / x["a"]}


def test_the_state_counts_records_without_a_label():
    state = new_state(record=PREDICTS)
    fold(state, [{"a": 1}])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state.state(dumps)))["unlabelled"] == 1
