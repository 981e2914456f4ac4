"""The fold: what a record does to a partition, and what leaves it as it was."""

import hashlib
import itertools
import json
import math

import msgspec
import numpy as np
import pytest

from explain_core import losses as known_losses
from service.errors import UserError
from service.fold import vocabulary
from service.fold.messages import chained
from service.fold.models import load_model
from service.fold.partition import FoldError
from service.pickles.codec import dumps
from service.settings import ModelSettings
from service.snapshots.snapshot import encode
from tests.folds import SMALL, fold, messages, new_state, record, restored, settings, values

TASKS = ("binary", "multiclass", "regression")
GOOD = {"time": 10, "a": 0.5, "b": 1, "colour": "red", "label": True}


class Scripted:
    """A model whose calls can be read afterwards, and that fails where it is told to."""

    def __init__(self, fails_at=None):
        self.calls, self.n, self.fails_at = [], 0, fails_at

    def predict_proba_one(self, x):
        self.calls.append(("predict", dict(x)))
        return {0: 0.25, 1: 0.75}

    def predict_one(self, x):
        return 1

    def learn_one(self, x, y):
        if self.n == self.fails_at:
            raise ZeroDivisionError("no way")
        self.n += 1
        self.calls.append(("learn", dict(x), y))


def scripted(**params):
    return {"factory": f"{__name__}:Scripted", "params": params}


def without_position(state):
    """Everything in the state but what a dead letter may move: offset, count and its own chain."""
    data = state.state(dumps)
    chains = {name: chain for name, chain in data.chains.items() if name != "dead_letters"}
    return msgspec.structs.replace(data, next_offset=0, rejected=0, recently=b"", chains=chains)


def test_a_record_that_is_not_meant_moves_the_offset_and_a_count_alone():
    state = new_state(record={"where": {"header:trace": [1]}})
    fold(state, values(5))
    before = msgspec.structs.replace(state.state(dumps), next_offset=0, skipped=0)
    assert state.step(record(5, None)) == [] and state.step(record(6, b"{")._replace(headers=())) == []
    after = state.state(dumps)
    assert msgspec.structs.replace(after, next_offset=0, skipped=0) == before
    assert (after.next_offset, after.skipped) == (7, 2)
    known = settings(record={"where": {"header:trace": [1]}})
    assert restored(encode(state), known).skipped == 2


# --- bad records -------------------------------------------------------------------------------------------------

BAD = {
    "not_json": b"{",
    "not_object": [1],
    "missing_label": {"a": 1},
    "bad_label": {"a": 1, "label": []},
    "no_features": {"label": True},
    "nested_feature": {"a": [1], "label": True},
    "not_finite": {"a": 1e40, "label": True},
    "string_too_long": {"colour": "x" * 2_000, "label": True},
    "too_large": b'{"a": "' + b"x" * 1_040_000,
    "names_too_long": {**GOOD, **{f"{i:03}" * 300: i for i in range(600)}},
    "too_many_features": {**GOOD, **{f"new {i}": i for i in range(996)}},
    "bad_weight": {**GOOD, "weight": -1},
    "bad_timestamp": {**GOOD, "time": "never"},
    "bad_id": {**GOOD, "id": 0.5},
    "unknown_label": {**GOOD, "new": 1, "label": "third"},
    "feature_type": {"brand new": 1, **GOOD, "a": "text"},
    "group_name": {**GOOD, "another": 1, "look": 2},
}  # fmt: skip
NAMED = {"weight": "weight", "timestamp": "time", "id": "id"}


def grouped(**sections):
    explainers = [{**explainer, "groups": {"look": ["colour", "flag"]}} for explainer in SMALL]
    given = [{**value, "weight": 1.5, "time": 10, "id": "x"} for value in values(50)]
    state = new_state(explainers=explainers, record={**NAMED, **sections.pop("record", {})}, **sections)
    return state, given


@pytest.mark.parametrize("error_class", BAD)
def test_a_bad_record_is_a_dead_letter_and_leaves_the_state_as_it_was(error_class):
    state, given = grouped()
    fold(state, given)
    before, digest = without_position(state), state.fold_digest
    bad = record(50, BAD[error_class])
    (letter,) = state.step(bad)
    headers = dict(letter.headers)
    assert headers["__explain.errors.class"] == error_class.encode()
    assert (letter.destination, letter.key, letter.value) == ("dead_letters", b"key", bad.value)
    assert (headers["trace"], headers["__explain.errors.topic"]) == (b"1", b"records")
    assert (headers["__explain.errors.partition"], headers["__explain.errors.offset"]) == (b"3", b"50")
    assert without_position(state) == before
    assert (state.next_offset, state.rejections.total, state.fold_digest) == (51, 1, digest)


BAD_FROM_THE_START = [kind for kind in BAD if kind not in ("unknown_label", "feature_type", "group_name", "too_many_features", "names_too_long")]  # fmt: skip


def neighbours(outputs):
    """Explanations without what a bad record may move."""
    moved = ("offset", "timestamp", "rejected", "rejected_recently", "digest")
    return [
        {name: value for name, value in message.items() if name not in moved} for message in messages(outputs)
    ]


def test_a_bad_record_at_any_position_leaves_its_neighbours_explanations_as_they_were():
    clean, given = grouped(emit={"every": 1})
    alone = neighbours(fold(clean, given))
    assert len(alone) == 50
    for position in range(51):
        kind = BAD_FROM_THE_START[position % len(BAD_FROM_THE_START)]
        state, _ = grouped(emit={"every": 1})
        outputs = fold(state, [*given[:position], BAD[kind], *given[position:]])
        assert [output.destination for output in outputs].index("dead_letters") == position
        assert neighbours(outputs) == alone, (kind, position)
        assert state.rejections.total == 1


def test_the_records_after_bad_ones_of_every_kind_are_explained_as_if_these_had_not_been():
    mixed, given = grouped()
    with_bad = fold(mixed, [*given[:45], *BAD.values(), *given[45:]])
    clean, _ = grouped()
    assert neighbours(with_bad) == neighbours(fold(clean, given))
    assert len(messages(with_bad)) == 5
    assert messages(with_bad)[-1]["rejected"] == mixed.rejections.total == len(BAD)


def test_what_is_said_of_a_bad_record_is_short_however_long_its_parts_are():
    state = new_state()
    (letter,) = fold(
        state, [{"label": "\u0080" * 999, "a": 1}, {"label": "b", "a": 1}, {"label": "\u0081" * 999, "a": 1}]
    )
    assert len(dict(letter.headers)["__explain.errors.message"].decode()) == 1_000


def test_a_state_of_ten_thousand_categories_takes_memory_for_each_of_them_once():
    state = new_state(explain={"every": 100})

    def size(first, last):
        fold(state, [{"shop": f"shop {i}", "label": i % 2} for i in range(first, last)])
        return len(encode(state))

    few, many = size(0, 1_000), size(1_000, 10_000)
    assert (many - few) / 9_000 < 60
    assert size(0, 1_000) - many < 1_000


def test_the_chain_of_dead_letters_covers_every_byte_of_them():
    state, given = grouped()
    fold(state, given)
    letters = fold(state, BAD.values())
    assert [dict(letter.headers)["__explain.seq"] for letter in letters] == [
        b"%d" % i for i in range(len(BAD))
    ]
    identity = "explanation-sidecar/records/3/0/dead_letters"
    digest = hashlib.blake2b(identity.encode(), digest_size=16).digest()
    for letter in letters:
        headers = dict(letter.headers)
        added = {name: value.decode() for name, value in headers.items() if name.startswith("__explain.")}
        claimed, added["__explain.digest"] = added["__explain.digest"], ""
        value = None if letter.value is None else letter.value.hex()
        body = [b"key".hex(), value, [["trace", b"1".hex()]], added]
        digest = chained(digest, json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
        assert claimed == digest.hex()


def test_the_status_says_so_where_more_than_fifty_of_the_last_thousand_records_were_bad():
    for on_bad in ("dead_letter", "skip"):
        known = {"record": {"on_bad": on_bad}, "emit": {"every": 1}}
        state, given = new_state(**known), itertools.cycle(values(60))
        fold(state, itertools.islice(given, 1_000))

        def last(state, *objects):
            message = messages(fold(state, objects))[-1]
            return message["status"], message["rejected_recently"], message["rejected"]

        assert last(state, *[b"{"] * 50, next(given)) == ("ready", 50, 50)
        assert last(state, b"{", next(given)) == ("rejecting", 51, 51)
        # What a snapshot restores counts on from the same records.
        again = restored(encode(state), settings(**known))
        tail = [b"{", *itertools.islice(given, 946)]
        assert last(state, *tail) == last(again, *tail) == ("rejecting", 52, 52)
        assert last(state, next(given)) == last(again, next(given)) == ("rejecting", 51, 52)
        assert last(again, next(given)) == ("ready", 50, 52)


def test_skip_publishes_nothing_of_a_bad_record_and_fail_names_it():
    skipping, given = grouped(record={"on_bad": "skip"})
    assert fold(skipping, [given[0], b"{", given[1]]) == []
    assert (skipping.records, skipping.rejections.total) == (2, 1)
    failing, _ = grouped(record={"on_bad": "fail"})
    fold(failing, given[:1])
    with pytest.raises(FoldError, match=r"records partition 3 offset 1: .*not_json.*record\.on_bad is fail"):
        failing.step(record(1, b"{"))


def test_the_number_of_classes_is_bounded(monkeypatch):
    monkeypatch.setattr(vocabulary, "MAX_CLASSES", 3)
    state = new_state(task="multiclass")
    letters = fold(state, [{"a": 1, "label": f"id {i}"} for i in range(5)])
    assert [dict(letter.headers)["__explain.errors.class"] for letter in letters] == [b"unknown_label"] * 2
    assert list(state.labels.items()) == [("id 0", 0), ("id 1", 1), ("id 2", 2)]


@pytest.mark.filterwarnings("error:overflow", "error:invalid value")
@pytest.mark.parametrize("task", TASKS)
def test_the_largest_numbers_and_weights_let_the_fold_go_on_to_finite_results(task):
    large = (1e30, -1e30, 1.0, 0.0, 1e-300, 5, -7)
    label = {
        "binary": lambda i: i % 2,
        "multiclass": lambda i: i % 3,
        "regression": lambda i: large[i * 3 % 7],
    }[task]
    given = [
        {
            "a": large[i % 7],
            "b": large[i * 5 % 6],
            "weight": max(abs(large[i * 2 % 7]), 1e-30),
            "label": label(i),
        }
        for i in range(150)
    ]
    model = {"factory": "river.tree:HoeffdingTreeRegressor"} if task == "regression" else {}
    weighted = {} if task == "multiclass" else {"weight": "weight"}
    state = new_state(task=task, record=weighted, model=model)
    last = messages(fold(state, given))[-1]
    cells = [
        cell
        for estimator in last["importance"].values()
        for loss in estimator.values()
        for cell in loss.values()
    ]
    assert all(value is not None for cell in cells for value in (cell["value"], cell["std"]))
    assert (last["records"], last["rejected"]) == (150, 0)


# --- the order inside a step -------------------------------------------------------------------------------------


def test_a_record_is_predicted_before_it_is_learnt_and_stored_after_it_is_explained():
    state = new_state(model=scripted())
    given = [{"a": i, "label": i % 2} for i in range(60)]
    fold(state, given)
    calls = state.explained.model.wrapped.calls
    learnt = -1
    for what, x, *_ in calls:
        if what == "predict":
            assert x["a"] <= learnt + 1
        else:
            assert x["a"] == learnt + 1
            learnt += 1
    assert learnt == 59
    of_last = calls[calls.index(("learn", {"a": 58}, 0)) + 1 : -1]
    assert of_last[0] == ("predict", {"a": 59})
    assert len(of_last) > 1
    assert {x["a"] for _, x in of_last[1:]} <= set(range(59)) | {59}
    assert {"a": 59} in [row for reservoir in state.explained.reservoirs.values() for row in reservoir.rows]


def test_a_model_gets_classes_as_numbers_in_order_of_appearance():
    state = new_state(model=scripted(), task="multiclass")
    fold(state, [{"a": 1, "label": name} for name in ("up", "down", "up", "flat")])
    assert [call[2] for call in state.explained.model.wrapped.calls if call[0] == "learn"] == [0, 1, 0, 2]


def test_a_static_model_is_explained_and_never_taught():
    state = new_state(model={**scripted(), "static": True})
    assert messages(fold(state, values(30)))[-1]["explained"] == 10
    assert {what for what, *_ in state.explained.model.wrapped.calls} == {"predict"}


def test_a_weight_reaches_a_model_that_takes_one_and_is_refused_for_another():
    heavy, light = new_state(record={"weight": "w"}), new_state(record={"weight": "w"})
    fold(heavy, [{**value, "w": 5} for value in values(30)])
    fold(light, [{**value, "w": 1} for value in values(30)])
    x = {"a": 0.5, "colour": "red"}
    assert heavy.explained.model.predict(x)[1] > light.explained.model.predict(x)[1]
    with pytest.raises(UserError, match=r"record\.weight: .*takes no weights"):
        new_state(model=scripted(), record={"weight": "w"})


def test_a_model_that_fails_stops_the_fold_and_names_the_record():
    state = new_state(model=scripted(fails_at=5))
    with pytest.raises(
        FoldError,
        match=r"records partition 3 offset 5: the model \(Scripted\) failed: ZeroDivisionError: no way",
    ):
        fold(state, values(10))


def test_offsets_may_have_gaps_and_never_go_back():
    state = new_state()
    state.step(record(10, GOOD))
    state.step(record(99, GOOD))
    assert (state.next_offset, state.records) == (100, 2)
    with pytest.raises(AssertionError, match="offset 99 after 100"):
        state.step(record(99, GOOD))


# --- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "published"),
    [
        ([b"JFK"] * 4, ["JFK"] * 4),
        ([b"JFK", b"JFK", b"LGA", b"JFK"], ["JFK", "JFK", None, None]),
        ([b"JFK", None, b"JFK", b"JFK"], ["JFK", None, None, None]),
        ([None, None, b"JFK", b"JFK"], [None] * 4),
        (["größe".encode()] * 4, ["größe"] * 4),
        ([b"k" * 200] * 4, ["k" * 200] * 4),
        ([b"k" * 201] * 4, [None] * 4),
        ([b""] * 4, [None] * 4),
        ([b"\xff"] * 4, [None] * 4),
        ([b"\0\0\0\0\1k"] * 4, [None] * 4),  # framed by a registry
    ],
)
def test_a_message_names_the_one_key_of_all_records_also_after_a_restore(keys, published):
    state = new_state(emit={"every": 1})
    outputs = []
    for offset, (key, value) in enumerate(zip(keys, values(4), strict=True)):
        outputs += state.step(record(2 * offset, b"{")._replace(key=b"of a bad record"))
        outputs += state.step(record(2 * offset + 1, value)._replace(key=key))
        state = restored(encode(state), settings(emit={"every": 1}))
    assert [message["keys"] for message in messages(outputs)] == published


@pytest.mark.parametrize("task", TASKS)
def test_a_message_says_what_was_folded_and_has_every_number(task):
    names = {"regression": ["squared", "absolute"]}.get(task, ["cross_entropy", "brier"])
    explainers = [{**explainer, "losses": names} for explainer in SMALL]
    found = messages(
        fold(
            new_state(task=task, explainers=explainers, record={"id": "key"}),
            [{**value, "key": f"no {i}"} for i, value in enumerate(values(60, task))],
        )
    )
    assert [message["records"] for message in found] == [10, 20, 30, 40, 50, 60]
    assert [message["offset"] for message in found] == [9, 19, 29, 39, 49, 59]
    assert [message["seq"] for message in found] == [0, 1, 2, 3, 4, 5]
    assert [message["id"] for message in found] == ["no 9", "no 19", "no 29", "no 39", "no 49", "no 59"]
    assert [message["timestamp"] for message in found] == [1_700_000_000_000 + m["offset"] for m in found]
    last = found[-1]
    assert (last["topic"], last["partition"], last["epoch"], last["app_id"]) == (
        "records",
        3,
        0,
        "explanation-sidecar",
    )
    assert set(last["importance"]) == {"ipfi", "isage"}
    for estimator in last["importance"].values():
        assert list(estimator) == list(last["performance"]) == names
        for features in estimator.values():
            assert set(features) == {"a", "b", "colour", "flag", "late"}
            for cell in features.values():
                assert (cell["low"], cell["high"], cell["settled"]) == (None, None, False)  # of 50 records
                assert math.isfinite(cell["value"]) and cell["std"] >= 0


def test_it_is_warming_until_the_reservoir_is_full_and_then_ready():
    found = messages(fold(new_state(), values(40)))
    assert [message["status"] for message in found] == ["warming", "warming", "ready", "ready"]
    assert [message["explained"] for message in found] == [0, 0, 10, 20]
    cold = found[0]["importance"]["ipfi"]["cross_entropy"]["a"]
    assert cold.pop("settled") is False
    assert set(cold) == {"value", "std", "low", "high", "floor"} and set(cold.values()) == {None}


def test_warm_up_may_be_shorter_and_the_slowest_explainer_decides():
    short = messages(fold(new_state(explain={"warm_up": 5}), values(20)))
    assert [(message["status"], message["explained"]) for message in short] == [("ready", 5), ("ready", 15)]
    slow = [SMALL[0], {**SMALL[1], "reservoir": {"size": 25, "kind": "uniform"}}]
    found = messages(fold(new_state(explainers=slow), values(30)))
    assert [(m["status"], m["explained"]) for m in found] == [("warming", 0), ("warming", 0), ("ready", 5)]


def test_each_kth_record_is_explained_and_all_are_learnt():
    state = new_state(explain={"every": 3}, model=scripted())
    last = messages(fold(state, values(40)))[-1]
    assert last["explained"] == len([i for i in range(20, 40) if i % 3 == 0])
    assert state.explained.model.wrapped.n == last["records"] == 40


def test_messages_come_by_the_number_of_records_folded():
    outputs = fold(new_state(emit={"every": 7}), [*values(10), b"{", b"[", *values(11)])
    assert [message["records"] for message in messages(outputs)] == [7, 14, 21]
    assert [message["offset"] for message in messages(outputs)] == [6, 15, 22]


def test_a_group_has_one_importance():
    state, given = grouped()
    importance = messages(fold(state, given))[-1]["importance"]
    for estimator in importance.values():
        assert set(estimator["cross_entropy"]) == {"a", "b", "look", "late"}


@pytest.mark.parametrize("task", TASKS)
def test_performance_is_the_smoothed_loss_before_learning_of_the_model_of_the_frequencies_and_of_the_mean_prediction(
    task,
):
    given, alpha = values(200, task), SMALL[0]["alpha"]
    model = load_model(ModelSettings(task=task), 0)
    loss = known_losses.get(known_losses.DEFAULT[model.task])
    labels: dict = {}
    own = empty = frequencies = weights = 0.0
    labels_before: list = []
    mean: dict = {}
    for value in given:
        x = {name: cell for name, cell in value.items() if name != "label"}
        y = value["label"] if task == "regression" else labels.setdefault(value["label"], len(labels))
        prediction = model.predict(x)
        weights = 1.0 + (1.0 - alpha) * weights
        cells = {None: prediction} if task == "regression" else prediction
        for label in {**mean, **cells}:
            mean[label] = mean.get(label, 0.0) + (cells.get(label, 0.0) - mean.get(label, 0.0)) / weights
        expected = (
            mean[None]
            if task == "regression"
            else {k: p / (sum(mean.values()) or 1.0) for k, p in mean.items()}
        )
        own += (loss(y, prediction) - own) / weights
        empty += (loss(y, expected) - empty) / weights
        w = (1.0 - alpha) ** np.arange(len(labels_before))[::-1]
        if task == "regression":
            guess = float(w @ labels_before / w.sum()) if labels_before else y
        else:
            counts = dict.fromkeys([*labels_before, y], 0.5)
            for weight, before in zip(w, labels_before, strict=True):
                counts[before] += weight
            guess = {label: count / sum(counts.values()) for label, count in counts.items()}
        frequencies += (loss(y, guess) - frequencies) / weights
        labels_before.append(y)
        model.learn(x, y)
    last = messages(fold(new_state(task=task), given))[-1]["performance"][loss.name]
    assert {name for name, value in last.items() if value is None} == {"floor", "gain_floor", "served"}
    known = {name: value for name, value in last.items() if value is not None}
    assert known == pytest.approx({"model": own, "empty": frequencies, "mean_prediction": empty}, rel=1e-9)


def test_the_feature_that_decides_the_label_comes_first():
    given = [{**value, "label": value["a"] > 0} for value in values(1_500)]
    last = messages(fold(new_state(explain={"every": 2}), given))[-1]["importance"]
    for estimator in last.values():
        cells = estimator["cross_entropy"]
        assert max(cells, key=lambda name: cells[name]["value"]) == "a"
        a = cells["a"]["value"] - 1.96 * cells["a"]["std"]
        assert a > max(cells[name]["value"] for name in cells if name != "a")


def test_a_class_that_appears_late_is_learnt_and_explained():
    given = [
        {"a": i % 3, "label": "late" if i >= 60 and i % 3 == 2 else ("up", "down")[i % 2]} for i in range(120)
    ]
    state = new_state(task="multiclass")
    found = messages(fold(state, given))
    assert state.labels == {"up": 0, "down": 1, "late": 2}
    assert state.explained.model.predict({"a": 2})[2] > 0.3
    assert math.isfinite(found[-1]["importance"]["ipfi"]["cross_entropy"]["a"]["value"])


def size(output):
    """Bytes of a message without Kafka's frame."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in output.headers)
    return len(output.key or b"") + len(output.value or b"") + headers


@pytest.mark.parametrize("character", ["x", "\x01", "é", "\U0001f600", '"'])
def test_names_that_are_let_in_fill_no_more_than_the_largest_message(character):
    limit = 200_000
    explainers = [
        {**explainer, "name": f"e{i}", "losses": ["cross_entropy", "brier"], "groups": {"look": ["a", "b"]}}
        for i, explainer in enumerate(SMALL)
    ]
    state = new_state(explainers=explainers, emit={"every": 1, "max_bytes": limit}, record={"id": "id"})
    given = [
        {"id": "\x01" * 1_000, "label": i % 2, "a": 1e-300 * i, f"{i:03}{character * (i % 200)}": -1e-300 / (i + 1)}
        for i in range(300)
    ]  # fmt: skip
    context = (("traceparent", b"1" * 55), ("tracestate", b"x" * 1_900))
    outputs = [
        output
        for offset, value in enumerate(given)
        for output in state.step(record(offset, value)._replace(headers=context))
    ]
    refused = [output for output in outputs if output.destination == "dead_letters"]
    assert {dict(output.headers)["__explain.errors.class"] for output in refused} == {b"names_too_long"}
    largest = max(size(output) for output in outputs if output.destination == "explanations")
    # Half of it is kept free at the most: for what a message need not have, a long id, numbers of 24 characters.
    assert 0.5 * limit < largest < limit


def test_what_settings_alone_make_too_large_is_refused_before_any_record():
    named = {"features": [f"{i:03}" * 300 for i in range(100)]}
    with pytest.raises(UserError, match=r"emit\.max_bytes: 100000: .* takes up to \d+ bytes; raise it"):
        new_state(record=named, emit={"max_bytes": 100_000})


@pytest.mark.parametrize("part", ["value", "key", "headers"])
def test_a_bad_record_that_is_too_large_for_a_dead_letter_leaves_a_dead_letter_without_it(part):
    state, given = new_state(emit={"max_bytes": 50_000}), values(20)
    fold(state, given)
    before = without_position(state)
    large = {"value": b"{" * 60_000, "key": b"k" * 60_000, "headers": (("own", b"v" * 60_000),)}[part]
    (letter,) = state.step(record(20, b"{")._replace(**{part: large}))
    assert (letter.key, letter.value) == (None, None) and size(letter) < 5_000
    headers = dict(letter.headers)
    assert (
        headers["__explain.errors.class"] == b"not_kept"
        and b"not_json" in headers["__explain.errors.message"]
    )
    assert (headers["__explain.errors.offset"], "own" in headers) == (b"20", False)
    assert without_position(state) == before


def test_trace_context_that_is_long_is_not_passed_on():
    state = new_state(emit={"every": 1})
    long = (("traceparent", b"1"), ("tracestate", b"x" * 900_000))
    (explanation,) = state.step(record(0, GOOD)._replace(headers=long))
    assert [name for name, _ in explanation.headers] == ["schema"]


def test_a_drift_message_that_would_be_too_large_has_its_sentence_alone():
    drift = {"enabled": True, "window": 20, "bootstrap": 2, "factorisation": "per_feature"}
    state = new_state(drift=drift, emit={"every": 10_000, "max_bytes": 50_000})
    given = [
        {**{f"f{j}": f"{j} {i % 8} " * 150 for j in range(40)}, "a": i % 5, "label": i % 2} for i in range(60)
    ]
    outputs = fold(state, given)
    found = messages(outputs, "drift")
    assert found and max(map(size, outputs)) < 50_000
    for output in found:
        assert output["change"] is None and "are left out: raise emit.max_bytes" in output["sentence"]


def test_a_record_with_unreadable_header_names_is_a_dead_letter_with_the_others():
    state, given = new_state(), values(20)
    fold(state, given)
    before = without_position(state)
    (letter,) = state.step(record(20, given[0])._replace(unreadable_headers=2))
    headers = dict(letter.headers)
    assert headers["__explain.errors.class"] == b"bad_header"
    assert headers["__explain.errors.message"].startswith(
        b"2 of the record's headers have names that are not UTF-8"
    )
    assert (letter.key, json.loads(letter.value), headers["trace"]) == (b"key", given[0], b"1")
    assert without_position(state) == before
