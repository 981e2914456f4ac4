"""Decoding: every value is a sample within the bounds, or a bad record with the reason."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explain_core.losses import MAX_NUMBER
from explain_sidecar.fold.records import Decoder, InputRecord
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.settings.records import RecordSettings


def decode(value, task="binary", **settings):
    if value is not None and not isinstance(value, bytes):
        value = json.dumps(value).encode()
    return Decoder(RecordSettings(**settings), task, Schemas()).decode(InputRecord(7, 1_000, None, value))


def skipped(value, headers=(), **settings):
    return (
        Decoder(RecordSettings(**settings), "binary", Schemas()).decode(
            InputRecord(7, 1_000, None, None if value is None else json.dumps(value).encode(), headers)
        )
        is None
    )


def refusal(value, task="binary", **settings):
    with pytest.raises(BadRecord) as caught:
        decode(value, task, **settings)
    return caught.value


GOOD = {"a": 1, "label": 1}


@pytest.mark.parametrize(
    ("value", "error_class", "words"),
    [
        (b"", "not_json", []),
        (b"{", "not_json", []),
        (b"\xff\xfe", "not_json", []),
        (b'{"a": NaN, "label": 1}', "not_json", []),
        (b'{"a": Infinity, "label": 1}', "not_json", []),
        (b"[" * 100_000 + b"]" * 100_000, "not_json", []),
        (b'{"a": "\\ud800", "label": 1}', "not_json", []),
        ([GOOD], "not_object", ["array"]),
        ("text", "not_object", ["string"]),
        (1.5, "not_object", ["number"]),
        (True, "not_object", ["boolean"]),
        (b"null", "not_object", ["null"]),
        ({"a": 1}, "missing_label", ["'label'", "absent"]),
        ({"a": 1, "label": None}, "missing_label", ["null"]),
        ({"a": 1, "label": [1]}, "bad_label", ["a JSON array"]),
        ({"a": 1, "label": {}}, "bad_label", ["a JSON object"]),
        ({"a": 1, "label": 1e300}, "bad_label", ["1e+300", "64 bits"]),
        ({"a": 1, "label": -(2.0**64)}, "bad_label", ["64 bits"]),
        ({"a": 1, "label": 0.5}, "bad_label", ["0.5", "whole number"]),
        ({"a": 1, "label": "x" * 1_001}, "string_too_long", ["1001 characters"]),
        ({"label": 1}, "no_features", []),
        ({"a": None, "label": 1}, "no_features", []),
        ({"a": [1], "label": 1}, "nested_feature", ["'a'", "array", "record.features"]),
        ({"a": {"b": 1}, "label": 1}, "nested_feature", ["'a'", "object"]),
        ({"a": 1e31, "label": 1}, "not_finite", ["'a'", "1e+31"]),
        (b'{"a": 1e999, "label": 1}', "not_json", []),
        (b'{"a": -1' + b"0" * 60 + b', "label": 1}', "not_finite", ["'a'"]),
        ({"a": "x" * 1_001, "label": 1}, "string_too_long", ["'a'", "record.max_string is 1000"]),
        ({"n" * 1_001: 1, "label": 1}, "string_too_long", ["name"]),
        ({**{f"f{i}": i for i in range(1_001)}, "label": 1}, "too_many_features", ["1001"]),
        (b'{"a": "' + b"x" * 1_000_000 + b'", "label": 1}', "too_large", ["1000021 bytes"]),
    ],
)  # fmt: skip
def test_a_bad_record_is_refused_with_its_class_and_the_reason(value, error_class, words):
    error = refusal(value)
    assert error.error_class == error_class
    assert all(word in str(error) for word in words), str(error)
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("label", "error_class"),
    [
        ("1.5", "bad_label"),
        (True, "bad_label"),
        ([], "bad_label"),
        (1e31, "not_finite"),
        (-2e30, "not_finite"),
    ],
)
def test_a_regression_needs_a_number(label, error_class):
    assert refusal({"a": 1, "label": label}, "regression").error_class == error_class


@pytest.mark.parametrize("weight", [0, -1, "2", True, [], 1e31, 5e-324, 1e-31])
def test_a_weight_that_is_no_number_above_zero_is_refused(weight):
    error = refusal({**GOOD, "w": weight}, weight="w")
    assert error.error_class == "bad_weight"
    assert "'w'" in str(error)


@pytest.mark.parametrize("moment", [None, "yesterday", [], True, 1e300, "0001-01-01T00:00:00+24:00", ""])
def test_a_timestamp_that_is_no_time_is_refused(moment):
    error = refusal({**GOOD, "t": moment}, timestamp="t")
    assert error.error_class == "bad_timestamp"
    assert "'t'" in str(error)


@pytest.mark.parametrize("name", [[1], 0.5, True, "x" * 1_001])
def test_an_id_that_is_no_short_text_is_refused(name):
    assert refusal({**GOOD, "key": name}, id="key").error_class == "bad_id"


def test_features_keep_their_types_and_null_means_missing():
    sample = decode(b'{"a": 1, "b": 1.0, "c": true, "d": "text", "e": null, "label": "up"}')
    assert sample.x == {"a": 1, "b": 1.0, "c": True, "d": "text"}
    assert [type(value) for value in sample.x.values()] == [int, float, bool, str]
    assert (sample.y, sample.weight, sample.timestamp, sample.id) == ("up", 1.0, 1_000, None)


@pytest.mark.parametrize(
    ("task", "label", "known"),
    [
        ("binary", 1.0, 1),
        ("binary", True, True),
        ("multiclass", "up", "up"),
        ("multiclass", -3, -3),
        ("regression", 2, 2.0),
        ("regression", -0.5, -0.5),
    ],
)
def test_labels_have_the_type_of_their_task(task, label, known):
    y = decode({"a": 1, "label": label}, task).y
    assert (y, type(y)) == (known, type(known))


def test_fields_are_named_by_paths():
    value = {
        "customer": {"age": 40, "name": "x", "since": "2020-01-02T03:04:05"},
        "outcome": {"late": True, "weight": 2},
        "dotted.name": 7,
        "id": 12,
        "more": 1,
    }
    sample = decode(
        value,
        features=["customer.age", "dotted.name", "customer.absent", "more.deep"],
        label="outcome.late",
        weight="outcome.weight",
        timestamp="customer.since",
        id="id",
    )
    assert sample.x == {"customer.age": 40, "dotted.name": 7}
    assert (sample.y, sample.weight, sample.id) == (True, 2.0, "12")
    assert sample.timestamp == 1_577_934_245_000


def test_without_a_list_of_features_the_named_fields_are_none_of_them():
    sample = decode({"a": 1, "t": 5, "w": 3, "id": "i", "label": 0}, timestamp="t", weight="w", id="id")
    assert sample.x == {"a": 1}
    assert (sample.timestamp, sample.weight, sample.id, sample.y) == (5, 3.0, "i", 0)


@pytest.mark.parametrize(
    "moment",
    ["2020-01-02T03:04:05", "2020-01-02T03:04:05Z", "2020-01-02T05:04:05+02:00", 1_577_934_245_000.9],
)
def test_event_time_is_utc_unless_it_says_otherwise(moment):
    assert decode({**GOOD, "t": moment}, timestamp="t").timestamp == 1_577_934_245_000


@pytest.mark.parametrize("weight", [None, 1])
def test_a_record_without_a_weight_counts_once(weight):
    assert decode({**GOOD, "w": weight}, weight="w").weight == 1.0
    assert decode(GOOD, weight="w").weight == 1.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.sampled_from(["a", "b", "label", "w", "t", "i"]), JSON)


@given(
    st.one_of(st.binary(max_size=40), FIELDS.map(lambda x: json.dumps(x).encode())),
    st.sampled_from(["binary", "regression"]),
)
def test_whatever_the_bytes_there_is_a_sample_within_the_bounds_or_a_reason(value, task):
    try:
        sample = decode(value, task, weight="w", timestamp="t", id="i")
    except BadRecord as error:
        assert error.error_class.isidentifier()
        assert str(error).isprintable()
        return
    assert sample.x
    for cell in sample.x.values():
        assert type(cell) in (int, float, bool, str)
        assert isinstance(cell, str) or abs(cell) <= MAX_NUMBER
    assert 0.0 < sample.weight <= MAX_NUMBER
    assert (
        type(sample.y) is float and math.isfinite(sample.y) if task == "regression" else sample.y is not None
    )


def test_where_skips_records_by_field_header_and_type():
    where = {"type": ["order", 1, True], "header:kind": ["new", 7]}
    good = (("kind", b"old"), ("kind", b"new"))
    for value, headers, expected in [
        ({**GOOD, "type": "order"}, good, False),
        ({**GOOD, "type": 1.0}, (("kind", b"7"),), False),
        ({**GOOD, "type": True}, good, False),
        ({**GOOD, "type": "refund"}, good, True),
        ({**GOOD, "type": ["order"]}, good, True),
        ({**GOOD, "type": None}, good, True),
        (GOOD, good, True),
        ({**GOOD, "type": "order"}, (), True),
        ({**GOOD, "type": "order"}, (("kind", None), ("kind", b"\xff")), True),
        ("not an object, and not to be read", (("kind", b"old"),), True),
        (None, (("kind", b"old"),), True),
    ]:
        assert skipped(value, headers, where=where, deletes="dead_letter") == expected, (value, headers)
    # What selects has a role, and is no feature.
    assert decode({**GOOD, "type": 1}, where={"type": [1]}).x == {"a": 1}
    assert skipped({**GOOD, "type": True}, where={"type": [1]})
    assert skipped(GOOD, where={"schema:name": ["air.Flight"]})


def test_root_is_where_the_fields_are():
    change = {"payload": {"op": "u", "before": None, "after": GOOD}}
    settings = {"root": "payload.after", "where": {"payload.op": ["c", "u"]}}
    assert decode(change, **settings).x == {"a": 1}
    assert skipped({"payload": {"op": "d", "after": None}}, **settings)
    assert skipped({"payload": {"op": "u", "after": None}}, **settings)
    for value, error_class in [({"payload": {}}, "no_root"), ({"payload": {"after": [1]}}, "not_object")]:
        assert refusal(value, root="payload.after").error_class == error_class
    data = {"time": "2026-01-01T00:00:00Z", "label": 1, "version": 1, "served": 0.5, "data": GOOD}
    for role, name in (("timestamp", "time"), ("prediction", "served"), ("label", "outcome")):
        said = str(refusal(data, root="data", **{role: name}))
        assert f"{name!r} is absent" in said and "its path begins at record.root, 'data'" in said
    assert "which record.root names" in str(refusal({"payload": 1}, root="payload.after"))


def test_deletes_are_skipped_or_dead_letters():
    assert skipped(None) and skipped({"after": None}, root="after")
    assert refusal(None, deletes="dead_letter").error_class == "null_value"
    assert refusal({"after": None}, root="after", deletes="dead_letter").error_class == "null_value"


@pytest.mark.parametrize("role", ["label", "weight", "timestamp", "id", "prediction"])
def test_a_role_whose_field_has_dots_in_its_name_is_no_feature(role: str) -> None:
    data = GOOD | {"user.role": 1}
    assert decode(data, **{role: "user.role"}).x == ({"a": 1, "label": 1} if role == "label" else {"a": 1})


def test_a_field_of_where_with_dots_in_its_name_is_no_feature() -> None:
    assert decode(GOOD | {"kind.name": "a"}, where={"kind.name": ["a"]}).x == {"a": 1}
