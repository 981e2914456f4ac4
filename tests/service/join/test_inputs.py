"""What the join makes of the bytes of a message, and what it does not."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import fastavro
import pytest

from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.join.entries import Event, Label
from explain_sidecar.join.inputs import SOURCE_HEADER, EventInput, LabelInput, Tombstone, record_value
from explain_sidecar.join.partitioner import partition_of
from explain_sidecar.settings import Settings, load_settings
from explain_sidecar.settings.records import RecordSettings

SETTINGS = Settings(
    record={"label": "clicked"},
    join={
        "events": {"topic": "views", "id": "view.id", "timestamp": "at"},
        "labels": {"topic": "clicks", "label": "done"},
    },
)
EVENTS, LABELS = EventInput(SETTINGS), LabelInput(SETTINGS)


def message(value: bytes | None, key: bytes | None = b"k", **more: object) -> InputRecord:
    return InputRecord(7, 1_000, key, value, **more)  # type: ignore[arg-type]


def test_an_event_keeps_its_bytes_its_key_its_headers_and_its_partition() -> None:
    value = b' {"view": {"id": 3}, "at": 5, "price": 1.50e2 } '
    event = EVENTS.read(message(value, headers=(("own", None),)), 2)
    assert event == Event(b"3", 5, b'{"view": {"id": 3}, "at": 5, "price": 1.50e2', b"k", (("own", None),), 2)
    assert record_value(event.body, b'"clicked"', b"true") == value.strip()[:-2] + b',"clicked":true}'


def test_a_field_in_the_place_of_the_label_gives_way_to_it() -> None:
    event = EVENTS.read(message(b'{"view":{"id":"a"},"at":"1970-01-01T00:00:01Z","clicked":null}'), 0)
    assert event == Event(b"a", 1_000, b'{"view":{"id":"a"},"at":"1970-01-01T00:00:01Z"', b"k", (), 0)


def test_an_object_without_fields_gets_its_first() -> None:
    assert record_value(b"{", b'"clicked"', b"1") == b'{"clicked":1}'


def test_a_copied_event_goes_to_the_partition_that_it_came_from() -> None:
    copied = EventInput(
        SETTINGS.model_copy(update={"join": SETTINGS.join.model_copy(update={"repartition": True})})
    )
    headers = (("own", b"1"), (SOURCE_HEADER, b"5 77"))
    event = copied.read(message(b'{"view":{"id":1},"at":1}', headers=headers), 2)
    assert isinstance(event, Event) and (event.partition, event.headers) == (5, headers[:1])
    assert copied.read(message(None, headers=headers), 2) == Tombstone(b"k", 77)


def test_a_label_without_a_path_for_its_id_has_that_of_its_key() -> None:
    assert LABELS.read(message(b'{"done": false}'), 0) == Label(b"k", 1_000, b"false")


@pytest.mark.parametrize("read", [EVENTS.read, LABELS.read])
def test_a_tombstone_names_the_id_by_its_key(read) -> None:
    assert read(message(None), 0) == Tombstone(b"k", 1_000)
    with pytest.raises(BadRecord, match="no key"):
        read(message(None, key=None), 0)


@pytest.mark.parametrize(
    ("read", "value", "error_class"),
    [
        (EVENTS.read, b"{", "not_json"),
        (EVENTS.read, b"[1]", "not_object"),
        (EVENTS.read, b'{"at":1}', "bad_id"),
        (EVENTS.read, b'{"view":{"id":true},"at":1}', "bad_id"),
        (EVENTS.read, b'{"view":{"id":"%s"},"at":1}' % (b"x" * 1_001), "bad_id"),
        (EVENTS.read, b'{"view":{"id":1},"at":"soon"}', "bad_timestamp"),
        (EVENTS.read, b'{"a":"%s"}' % (b"x" * 1_000_000), "too_large"),
        # With a field in the label's place it is written anew, in which no more than 254 levels are possible.
        (EVENTS.read, b'{"view":{"id":1},"at":1,"clicked":1,"a":%s}' % (b"[" * 300 + b"]" * 300), "not_json"),
        (LABELS.read, b"{}", "missing_label"),
        (LABELS.read, b'{"done":null}', "missing_label"),
        (LABELS.read, b'{"done":[1]}', "bad_label"),
    ],
)
def test_what_cannot_be_joined_is_refused_with_its_class(read, value: bytes, error_class: str) -> None:
    with pytest.raises(BadRecord) as refused:
        read(message(value), 0)
    assert refused.value.error_class == error_class


TYPES = {
    "id": "long",
    "x": "double",
    "label": ["null", "double"],
    "day": {"type": "int", "logicalType": "date"},
}


def avro(folder: Path, **fields: object) -> tuple[Settings, bytes]:
    schema = {"type": "record", "name": "E", "fields": [{"name": n, "type": t} for n, t in TYPES.items()]}
    (folder / "e.avsc").write_text(json.dumps(schema))
    schema["fields"][-1]["type"] = "long"  # type: ignore[index]  a producer whose numbers have more bits
    out = io.BytesIO()
    record = {"id": 1, "x": 0.5, "label": None, "day": 1} | fields
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    side = {"id": "id", "format": "avro", "framing": "none", "schema_file": folder / "e.avsc"}
    return Settings(join={"events": {"topic": "e"} | side, "labels": {"topic": "l"} | side}), out.getvalue()


@pytest.mark.parametrize(
    ("side", "fields", "error_class"),
    [
        (EventInput, {"x": math.nan}, "not_finite"),
        (EventInput, {"x": -math.inf}, "not_finite"),
        (EventInput, {"day": 2**50}, "not_json"),
        (LabelInput, {"label": math.nan}, "bad_label"),
        (LabelInput, {"label": math.inf}, "bad_label"),
        (EventInput, {}, None),
        (LabelInput, {"label": 1.0}, None),
    ],
)
def test_what_json_cannot_say_does_not_become_something_else(
    tmp_path: Path, side: type, fields: dict, error_class: str | None
) -> None:
    settings, value = avro(tmp_path, **fields)
    if error_class is None:
        assert side(settings).read(message(value), 0).id == b"1"
        return
    with pytest.raises(BadRecord) as refused:
        side(settings).read(message(value), 0)
    assert refused.value.error_class == error_class


def test_a_number_that_no_feature_has_may_be_none_of_json(tmp_path: Path) -> None:
    settings, value = avro(tmp_path, x=math.nan)
    named = settings.model_copy(update={"record": RecordSettings(features=["day"])})
    event = EventInput(named).read(message(value), 0)
    assert isinstance(event, Event) and b'"x":null' in event.body


@pytest.mark.parametrize("headers", [(), (("own", b"1"),), ((SOURCE_HEADER, b"soon"),)])
def test_a_record_of_another_program_on_a_topic_of_copies_is_refused(headers: tuple) -> None:
    copied = EventInput(
        SETTINGS.model_copy(update={"join": SETTINGS.join.model_copy(update={"repartition": True})})
    )
    with pytest.raises(BadRecord, match="another program wrote it"):
        copied.read(message(b'{"view":{"id":1},"at":1}', headers=headers), 0)


def test_a_copy_tells_of_headers_that_could_not_be_copied() -> None:
    copied = EventInput(
        SETTINGS.model_copy(update={"join": SETTINGS.join.model_copy(update={"repartition": True})})
    )
    with pytest.raises(BadRecord, match="1 of the headers"):
        copied.read(message(b'{"view":{"id":1},"at":1}', headers=((SOURCE_HEADER, b"5 77 1"),)), 0)


def test_keys_are_hashed_as_by_the_java_client() -> None:
    """The values are those of org.apache.kafka.common.utils.UtilsTest, taken to positive numbers."""
    hashes = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"abc": 479470107,
    }
    for key, value in hashes.items():
        assert partition_of(key, 2**31) == value & 0x7FFFFFFF


def test_a_label_in_the_environment_is_the_number_that_it_looks_like() -> None:
    for text, value in (("0", 0), ("no", "no"), ("drop", "drop"), ("false", False)):
        found = load_settings(environ={"EXPLAIN_JOIN__UNLABELLED": text}).join.unlabelled
        assert (found, type(found)) == (value, type(value))
