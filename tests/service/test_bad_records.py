"""A record that cannot be used is a dead letter and changes nothing else."""

import hashlib
import itertools
import json

import pytest
from msgspec import structs

from explain_sidecar.fold import vocabulary
from explain_sidecar.fold.messages import chained
from explain_sidecar.fold.partition import FoldError
from explain_sidecar.snapshots.snapshot import encode
from tests.folds import (
    GOOD,
    fold,
    grouped,
    messages,
    new_state,
    record,
    restored,
    settings,
    size,
    values,
    without_position,
)

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
    given = given[:20]
    alone = neighbours(fold(clean, given))
    assert len(alone) == 20
    for position in range(21):
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
        known = {"record": {"on_bad": on_bad}, "emit": {"every": 1}, "explain": {"every": 50}}
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


@pytest.mark.parametrize(
    ("sections", "of"),
    [
        ({"model": {"factory": "river.linear_model:LogisticRegression"}}, "model"),
        ({"model": {"factory": "river.linear_model:LogisticRegression", "learner": "river"}}, "model"),
        ({"model": {"factory": "river.linear_model:PAClassifier"}}, "model"),
        ({"challenger": {"factory": "river.linear_model:LogisticRegression"}}, "challenger"),
    ],
)
def test_a_label_that_is_one_more_than_a_model_tells_apart_is_a_dead_letter(sections, of):
    model = {"model": {"task": "multiclass", **sections.get("model", {})}}
    state = new_state(**sections | model)
    fold(state, [{"a": i % 7, "label": ("low", "high")[i % 7 > 3]} for i in range(50)])
    before, digest = without_position(state), state.fold_digest
    (letter,) = state.step(record(50, {"a": 1, "b": 2, "label": "middle"}))
    headers = dict(letter.headers)
    assert headers["__explain.errors.class"] == b"unknown_label"
    assert headers["__explain.errors.message"].decode() == (
        f"the label 'middle' would be class 3; the {of} tells 2 apart and has seen 'low', 'high'; "
        f"name one of more classes in {of}.factory"
    )
    assert (without_position(state), state.fold_digest) == (before, digest)
    state.step(record(51, {"a": 1, "label": "high"}))
    assert state.explained.records == 51


@pytest.mark.parametrize("part", ["value", "key", "headers"])
def test_a_bad_record_that_is_too_large_for_a_dead_letter_leaves_a_dead_letter_without_it(part):
    state, given = new_state(emit={"max_bytes": 50_000}), values(20)
    fold(state, given)
    before = without_position(state)
    large = {"value": b"{" * 60_000, "key": b"k" * 60_000, "headers": (("own", b"v" * 60_000),)}[part]
    (letter,) = state.step(structs.replace(record(20, b"{"), **{part: large}))
    assert (letter.key, letter.value) == (None, None) and size(letter) < 5_000
    headers = dict(letter.headers)
    assert (
        headers["__explain.errors.class"] == b"not_kept"
        and b"not_json" in headers["__explain.errors.message"]
    )
    assert (headers["__explain.errors.offset"], "own" in headers) == (b"20", False)
    assert without_position(state) == before


def test_a_record_with_unreadable_header_names_is_a_dead_letter_with_the_others():
    state, given = new_state(), values(20)
    fold(state, given)
    before = without_position(state)
    (letter,) = state.step(structs.replace(record(20, given[0]), unreadable_headers=2))
    headers = dict(letter.headers)
    assert headers["__explain.errors.class"] == b"bad_header"
    assert headers["__explain.errors.message"].startswith(
        b"2 of the record's headers have names that are not UTF-8"
    )
    assert (letter.key, json.loads(letter.value), headers["trace"]) == (b"key", given[0], b"1")
    assert without_position(state) == before


NAMED = {
    "name": "Ada Lovelace",
    "age": None,
    "mails": [{"at": "ada@example.org"}, {"at": "b@example.org", "ok": 1}],
}
MASKS = {
    "masked": ["customer.name", "customer.age", "customer.mails.at", "ssn", "payload.before.ssn", "label"]
}


@pytest.mark.parametrize(
    ("value", "kept", "told"),
    [
        (
            {"a": 1.0, "customer": NAMED, "ssn": 4711, "payload": {"before": {"ssn": 4711}, "n": 1}},
            {
                "a": 1.0,
                "customer": {"name": "***", "age": None, "mails": [{"at": "***"}, {"at": "***", "ok": 1}]},
                "ssn": "***",
                "payload": {"before": {"ssn": "***"}, "n": 1},
            },
            b"fields",
        ),
        ({"customer.name": "Ada Lovelace", "a": 1.0}, {"customer.name": "***", "a": 1.0}, b"fields"),
        ([{"customer": {"name": "Ada"}}], [{"customer": {"name": "***"}}], b"fields"),
        ({"a": 1.0, "label": {"secret": "Ada"}}, {"a": 1.0, "label": "***"}, b"fields"),
        ({"a": 1.0, "customer": {"age": None}}, {"a": 1.0, "customer": {"age": None}}, None),
        ("Ada Lovelace", None, b"value"),
    ],
)
def test_a_dead_letter_lacks_the_fields_that_are_masked(value, kept, told):
    letter, *_ = new_state(record=MASKS).step(record(0, value))
    headers = dict(letter.headers)
    assert (None if letter.value is None else json.loads(letter.value)) == kept
    assert (headers.get("__explain.masked"), headers["trace"]) == (told, b"1")
    assert not any(b"Ada" in part or b"4711" in part for part in (letter.value or b"", *headers.values()))
    assert headers["__explain.errors.offset"] == b"0" and headers["__explain.errors.class"]


def test_a_value_in_which_no_field_can_be_found_is_left_out_of_its_dead_letter():
    for raw in (b'{"ssn": 4711', b"\0\1\2", b"4711"):
        (letter,) = new_state(record=MASKS).step(structs.replace(record(0, b""), value=raw))
        headers = dict(letter.headers)
        assert (letter.value, letter.key, headers["__explain.masked"]) == (None, b"key", b"value")
        assert b"record.masked" in headers["__explain.errors.message"]
        kept = {b"4711": "the value is a JSON number"}.get(raw, "the value is not JSON: ")
        assert headers["__explain.errors.message"].decode().startswith(kept)


def test_an_error_message_says_what_is_wrong_unless_it_could_have_what_is_masked():
    def told(**fields):
        (letter,) = new_state(record={"masked": ["ssn", "customer.name"], "weight": "w"}).step(
            record(0, fields)
        )
        return dict(letter.headers)["__explain.errors.message"].decode()

    assert told(a=1.0, ssn="4711", label=None) == told(a=1.0, label=None) == "the label 'label' is null"
    unsaid = "what is wrong is not said"
    assert told(ssn={"no": 4711}, label=0).startswith("feature 'ssn' is a JSON object; name paths")
    assert told(ssn=4711, customer={"name": "x"}, label=0).startswith("feature 'customer' is a JSON object")
    assert told(ssn={"objection": 4711}, label=0).startswith(unsaid)  # it could have a name within
    assert told(a=1.0, ssn="4711", w="my ssn", label=True).startswith(
        unsaid
    )  # it names the field, with a value
    assert told(a=1.0, ssn="secret text", w="secret text", label=True).startswith(unsaid)  # it has its value
    assert "'no number'" in told(a=1.0, ssn="secret text", w="no number", label=True)
    assert not told(a={}, ssn="secret text", label=0).startswith(unsaid)


def test_masked_fields_change_nothing_of_good_records():
    given = [row | {"ssn": "x"} for row in values(200)]
    settings = {"features": ["a", "b"]}
    plain, masks = (fold(new_state(record=settings | more), given) for more in ({}, {"masked": ["ssn"]}))
    assert [json.loads(o.value)["importance"] for o in plain] == [
        json.loads(o.value)["importance"] for o in masks
    ]
