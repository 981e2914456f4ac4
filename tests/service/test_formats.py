"""Each format: what its types mean, how its schemas evolve, and what is refused."""

import io
import json
import uuid

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.files import compiled
from explain_sidecar.formats.framing import HEADER
from explain_sidecar.formats.reading import ValueReader
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.formats.schemas import FULL_BYTES, MAX_SOURCE_BYTES, Fetch, Schemas, StoredSchema
from explain_sidecar.formats.source import SchemaSource
from explain_sidecar.settings import Settings
from explain_sidecar.settings.records import FormatSettings
from explain_sidecar.settings.wire import RegistrySettings
from explain_sidecar.snapshots.snapshot import begin, load, take
from tests.loopback import serving

MILLIS = 1_700_000_000_123


def section(format, **others):
    return FormatSettings(format=format, **others)


class Stream:
    """Values by schemas of one format, read by a reader that learns each schema when it is first needed."""

    def __init__(self, format, schemas, **others):
        self.kind = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}[format]
        self.registry = {str(key): self.stored(key, schema) for key, schema in schemas.items()}
        self.schemas, self.asked = Schemas(), []
        self.reader = ValueReader(section(format, **others), self.schemas)

    def stored(self, key, schema):
        if self.kind == "PROTOBUF":
            return StoredSchema(str(key), self.kind, compiled("record.proto", schema.encode()))
        source = json.dumps([schema] if self.kind == "AVRO" else {"": schema}).encode()
        return StoredSchema(str(key), self.kind, source)

    def read(self, value, headers=()):
        def fetch(key):
            self.asked.append(key)
            return self.registry.get(key)

        return self.schemas.supply(lambda raw: self.reader.read(raw, headers)[0], value, fetch)


def frame(key, body):
    return b"\0" + key.to_bytes(4) + body


def avro(schema, record):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def record(*fields, **others):
    return {"type": "record", "name": "Flight", "namespace": "air", "fields": list(fields), **others}


def field(name, kind, **others):
    return {"name": name, "type": kind, **others}


def message_of(text, values, name="Flight"):
    """The bytes of a Protobuf message, by its .proto and JSON."""
    from google.protobuf import descriptor_pool, json_format, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled("record.proto", text.encode())).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    return json_format.ParseDict(values, made, descriptor_pool=pool).SerializeToString()


# --- Avro ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        ("double", 0.5, 0.5),
        (["null", "long"], None, None),
        (["null", "long", "string"], "far", "far"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "int", "logicalType": "date"}, 2, 2 * 86_400_000),
        ({"type": "int", "logicalType": "time-millis"}, 5, 5),
        ({"type": "long", "logicalType": "time-micros"}, 5_500, 5.5),
        ({"type": "long", "logicalType": "timestamp-millis"}, MILLIS, MILLIS),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1_500, 1.5),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, -1_500, -1.5),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 2_500_000, 2.5),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, b"\xff\x38", -2.0),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1}, b"\0\x7b", 12.3),
        ({"type": "string", "logicalType": "uuid"}, "6f1c", "6f1c"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes(range(16)), str(uuid.UUID(bytes=bytes(range(16))))),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, b"\1\0\0\0\2\0\0\0\3\0\0\0", {"months": 1, "days": 2, "milliseconds": 3}),
        ("bytes", b"\0\1", "AAE="),
        ({"type": "string", "logicalType": "colour-of-mine"}, "red", "red"),
        ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
        ({"type": "array", "items": record(field("y", "int"), name="Inner")}, [{"y": 1}], [{"y": 1}]),
    ],
)  # fmt: skip
def test_avro_types_mean_what_the_reference_says(kind, raw, expected):
    plain = json.loads(
        json.dumps(kind).replace("logicalType", "doc")
    )  # raw values, as any writer puts them on the wire
    body = avro(record(field("x", plain)), {"x": raw})
    assert Stream("avro", {7: record(field("x", kind))}).read(frame(7, body)) == {"x": expected}


def test_an_avro_record_is_read_by_its_own_schema_and_a_renamed_field_keeps_its_name():
    first = record(field("delay", "int"), field("carrier", "string"), field("gone", "double"))
    second = record(
        field("departure_delay", "double", aliases=["delay"]),
        field("carrier", ["null", "string"], default=None),
        field("distance", "long", default=3),
    )
    stream = Stream("avro", {1: first, 2: second})
    old = frame(1, avro(first, {"delay": 5, "carrier": "UA", "gone": 0.5}))
    new = frame(2, avro(second, {"departure_delay": 5.5, "carrier": None, "distance": 9}))
    assert stream.read(old) == {"delay": 5, "carrier": "UA", "gone": 0.5}
    assert stream.read(new) == {"delay": 5.5, "carrier": None, "distance": 9}
    assert stream.read(old) == {"delay": 5, "carrier": "UA", "gone": 0.5}
    assert stream.asked == ["1", "2"]  # once for each


def test_a_schema_file_is_the_readers_schema_of_avro(tmp_path):
    first = record(field("delay", "int"), field("gone", "double"))
    second = record(
        field("departure_delay", "double", aliases=["delay"]),
        field(
            "price",
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            default="\x01\x2c",
        ),
        field("at", {"type": "long", "logicalType": "timestamp-micros"}, default=2_000),
        field("who", ["null", "string"], default=None),
    )
    other = record(field("x", "int"), name="Other")
    file = tmp_path / "flight.avsc"
    file.write_text(json.dumps(second))
    stream = Stream("avro", {1: first, 2: other}, schema_file=file)
    assert stream.read(frame(1, avro(first, {"delay": 5, "gone": 0.5}))) == {
        "departure_delay": 5, "price": 3.0, "at": 2.0, "who": None,
    }  # fmt: skip
    assert stream.read(frame(2, avro(other, {"x": 1}))) == {"x": 1}  # another type is read by its own schema


@pytest.mark.parametrize(
    ("kind", "default", "raw"),
    [
        ("double", 7, 7.0),
        ("float", 0.1, 0.1),
        (["float", "null"], 0.1, 0.1),
        ({"type": "array", "items": "double"}, [1], [1.0]),
        (record(field("y", "int", default=5), field("z", "float"), name="Inner"), {"z": 1}, {"y": 5, "z": 1.0}),
    ],
)  # fmt: skip
def test_a_default_of_avro_is_what_is_read_where_a_writer_writes_it(tmp_path, kind, default, raw):
    without, written = record(field("a", "int")), record(field("a", "int"), field("x", kind))
    file = tmp_path / "flight.avsc"
    file.write_text(json.dumps(record(field("a", "int"), field("x", kind, default=default))))
    stream = Stream("avro", {1: without, 2: written}, schema_file=file)
    found = [
        stream.read(frame(1, avro(without, {"a": 1}))),
        stream.read(frame(2, avro(written, {"a": 1, "x": raw}))),
    ]
    assert repr(found[0]) == repr(found[1])  # 7 is not 7.0


def test_a_default_knows_a_renamed_field_by_the_name_in_its_own_schema():
    first = record(field("x", record(field("old", "int"), name="Inner")))
    inner = record(field("new", "int", aliases=["old"]), name="Inner")
    second = record(field("x", inner, default={"new": 3}))
    stream = Stream("avro", {1: first, 2: second})
    assert stream.read(frame(1, avro(first, {"x": {"old": 1}}))) == {"x": {"old": 1}}
    assert stream.read(frame(2, avro(second, {"x": {"new": 2}}))) == {"x": {"old": 2}}


def test_the_names_of_a_restored_store_are_those_of_before():
    first, second = record(field("a", "int")), record(field("b", "int", aliases=["a"]))
    stream = Stream("avro", {1: first, 2: second})
    values = [frame(1, avro(first, {"a": 1})), frame(2, avro(second, {"b": 2}))]
    before = [stream.read(value) for value in values]
    restored = Schemas()
    restored.restore(stream.schemas.state())
    reader = ValueReader(section("avro"), restored)
    # In another order, and without a registry.
    assert [reader.read(value, ())[0] for value in reversed(values)] == before[::-1] == [{"a": 2}, {"a": 1}]


def defined(*kinds):
    """A record that defines types, each by the names of those before it."""
    return record(*(field(f"x{i}", kind) for i, kind in enumerate(kinds)), name="All")


DATE = {"type": "int", "logicalType": "date"}


def doubling(levels, leaf):
    """Each type holds the one before it twice: 2^levels values, which may take no byte at all."""
    first = record(field("value", leaf), name="D0")
    return defined(
        first,
        *(record(field("a", f"D{i}"), field("b", f"D{i}"), name=f"D{i + 1}") for i in range(levels)),
    )


def in_a_row(levels):
    first = record(field("value", "int"), name="D0")
    return defined(first, *(record(field("a", f"D{i}"), name=f"D{i + 1}") for i in range(levels)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (["null", "Flight"], "air.Flight contains itself"),
        ({"type": "array", "items": "null"}, "values that take no bytes"),
        ({"type": "array", "items": record(name="Empty")}, "values that take no bytes"),
        ("Elsewhere", "it is no Avro schema: UnknownType"),
        (json.loads('{"type": "array", "items": ' * 140 + '"int"' + "}" * 140), "more than 64 levels"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 10**9}, "scale 1000000000"),
        (doubling(60, "null"), "more than 100,000 parts"),
        (doubling(60, "int"), "more than 100,000 parts"),
        (in_a_row(200), "more than 64 levels"),
        (
            record(field("y", record(name="Inner"), default={"z": 1}), name="Off"),
            "it is no Avro schema: KeyError",
        ),
        (
            record(
                field("y", {"type": "bytes", "logicalType": "decimal", "precision": 4}, default="\u0fff"),
                name="Off",
            ),
            "it is no Avro schema: UnicodeEncodeError",
        ),
        (
            record(field("y", record(field("z", DATE), name="Inner"), default={"z": "x"}), name="Off"),
            "it is no Avro schema: ValueError",  # not a text of 86,400,000 characters
        ),
        (record(field("y", DATE, default=2**40), name="Off"), "1099511627776 is the default of an int"),
        (
            {"type": "enum", "name": "Many", "symbols": [f"s{i}" for i in range(200_000)]},
            "more than 100,000 parts",
        ),
        (
            {
                "type": "array",
                "items": record(
                    *(field(f"n{i}", "null") for i in range(20)), field("y", "int"), name="Light"
                ),
            },
            "20 values that take no bytes",
        ),
    ],
)
def test_an_avro_schema_that_is_wrong_or_would_let_a_value_take_any_memory_is_refused(kind, text):
    stream = Stream("avro", {7: record(field("x", kind))})
    with pytest.raises(BadRecord, match=text) as refused:
        stream.read(frame(7, b"\2\2"))
    assert refused.value.error_class == "bad_schema"


# --- Protobuf --------------------------------------------------------------------------------------------------------

PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
enum Cabin { UNKNOWN = 0; FIRST = 1; }
message Flight {
  double distance = 1;
  optional int64 stops = 2;
  string carrier = 3;
  Cabin cabin = 4;
  google.protobuf.Timestamp at = 5;
  google.protobuf.Duration taxi = 6;
  google.protobuf.Int64Value wrapped = 7;
  google.protobuf.Struct more = 8;
  oneof pay { double cash = 9; string card = 10; }
  Plane plane = 11;
  repeated int32 legs = 12;
  map<string, double> fares = 13;
  bytes raw = 14;
  Flight connection = 15;
  message Plane { int32 seats = 1; }
}
"""


def test_protobuf_types_mean_what_the_reference_says():
    stream = Stream("protobuf", {9: PROTO})
    least = {"distance": 0.0, "carrier": "", "cabin": "UNKNOWN", "raw": ""}
    assert stream.read(frame(9, b"\0")) == least
    body = message_of(
        PROTO,
        {
            "distance": 1.5, "stops": 0, "carrier": "UA", "cabin": "FIRST", "at": "2023-11-14T22:13:20.123Z", "taxi": "1.5s",
            "wrapped": 0, "more": {"b": [1, None, {"c": True}], "a": "x"}, "card": "", "plane": {}, "legs": [1, 2],
            "fares": {"z": 1, "a": 2}, "raw": "AAE=", "connection": {},
        },
    )  # fmt: skip
    assert stream.read(frame(9, b"\0" + body)) == {
        "distance": 1.5, "stops": 0, "carrier": "UA", "cabin": "FIRST", "at": MILLIS, "taxi": 1_500,
        "wrapped": 0, "more": {"a": "x", "b": [1.0, None, {"c": True}]}, "card": "", "plane": {"seats": 0}, "legs": [1, 2],
        "fares": {"a": 2.0, "z": 1.0}, "raw": "AAE=", "connection": least,
    }  # fmt: skip


def test_a_protobuf_field_is_its_number_and_keeps_its_name():
    first = 'syntax = "proto3"; message Flight { int32 delay = 1; string carrier = 2; }'
    second = 'syntax = "proto3"; message Flight { int64 departure_delay = 1; reserved 2; optional double fare = 3; }'
    stream = Stream("protobuf", {1: first, 2: second})
    old = frame(1, b"\0" + message_of(first, {"delay": 5, "carrier": "UA"}))
    new = frame(2, b"\0" + message_of(second, {"departureDelay": 7, "fare": 1.5}))
    assert [stream.read(body) for body in (old, new, old)] == [
        {"delay": 5, "carrier": "UA"},
        {"delay": 7, "fare": 1.5},
        {"delay": 5, "carrier": "UA"},
    ]


def test_a_protobuf_field_may_have_the_name_of_a_method():
    text = 'syntax = "proto3"; message Flight { int32 HasField = 1; optional int32 Clear = 2; int32 FromString = 3; }'
    body = message_of(text, {"HasField": 5, "FromString": 6})
    assert Stream("protobuf", {1: text}).read(frame(1, b"\0" + body)) == {"HasField": 5, "FromString": 6}


def test_protobuf_types_of_which_each_holds_the_next_are_a_bad_schema():
    chain = "".join(f"message M{i} {{ M{i + 1} next = 1; }}" for i in range(3_000))
    text = f'syntax = "proto3"; message Flight {{ M0 first = 1; }} {chain} message M3000 {{ int32 a = 1; }}'
    stream = Stream("protobuf", {1: text})
    for _ in range(2):
        with pytest.raises(BadRecord, match="more than 150 types in a row") as refused:
            stream.read(frame(1, b"\0"))
        assert refused.value.error_class == "bad_schema"


def test_a_protobuf_frame_says_which_message_of_its_file_it_holds():
    text = (
        'syntax = "proto3"; message A { int32 a = 1; message In { int32 b = 1; } } message B { int32 c = 1; }'
    )
    stream, body = Stream("protobuf", {1: text}), b"\x08\x05"
    found = [stream.read(frame(1, path + body)) for path in (b"\0", b"\2\2", b"\4\0\0")]
    assert found == [{"a": 5}, {"c": 5}, {"b": 5}]
    assert stream.reader.read(frame(1, b"\4\0\0" + body), ())[1] == "A.In"
    for path, text in [
        (b"\2\x08", "no such message"),
        (b"\2\x80", "cut off"),
        (b"\x82\1", "at level 65"),
        (b"\1", "level -1"),
    ]:
        with pytest.raises(BadRecord, match=text):
            stream.read(frame(1, path))


# --- JSON Schema, framing --------------------------------------------------------------------------------------------


def test_json_by_a_schema_is_validated_with_what_it_refers_to():
    main = {
        "title": "Flight",
        "type": "object",
        "properties": {"delay": {"$ref": "delay.json"}},
        "required": ["delay"],
    }
    stream = Stream("json_schema", {})
    source = {"": main, "delay.json": {"type": "number", "maximum": 100}}
    stream.registry["3"] = StoredSchema("3", "JSON", json.dumps(source).encode())
    assert stream.read(frame(3, b'{"delay": 5}')) == {"delay": 5}
    for body, error_class in [
        (b'{"delay": "5"}', "not_valid"),
        (b"{}", "not_valid"),
        (b"[]", "not_object"),
        (b"{", "not_json"),
    ]:
        with pytest.raises(BadRecord) as bad:
            stream.read(frame(3, body))
        assert bad.value.error_class == error_class
    stream.registry["4"] = StoredSchema("4", "JSON", b'{"": {"$ref": "http://127.0.0.1:1/x.json"}}')
    with pytest.raises(BadRecord, match="which is not among its references"):  # and nothing is fetched
        stream.read(frame(4, b"{}"))


def test_a_header_names_the_schema_as_confluents_serialisers_write_it():
    from confluent_kafka.schema_registry.serde import SchemaId

    guid = str(uuid.UUID(int=77))
    schema = record(field("x", "int"))
    stream = Stream("avro", {7: schema, guid: schema})
    body = avro(schema, {"x": 3})
    for schema_id in (SchemaId("AVRO", guid=guid).guid_to_bytes(), SchemaId("AVRO", 7).id_to_bytes()):
        assert stream.read(body, ((HEADER, schema_id),)) == stream.read(schema_id + body) == {"x": 3}
    proto = Stream("protobuf", {guid: PROTO})
    header = SchemaId("PROTOBUF", guid=guid, message_indexes=[0, 1]).guid_to_bytes()
    assert proto.read(b"\x08\x05", ((HEADER, header),)) == {"seats": 5}
    with pytest.raises(BadRecord, match="1 bytes too many"):
        proto.read(b"\x08\x05", ((HEADER, header + b"\0"),))


def test_the_same_schema_is_refused_alike_with_and_without_a_registry():
    schema = record(field("x", "int"))
    stream = Stream("avro", {7: schema, 8: "int"})
    stream.registry["9"] = StoredSchema("9", "PROTOBUF", b"")
    values = [
        b"",
        b"\0\0\0",
        b"\5" * 9,
        frame(7, b""),
        frame(7, b"\2\2"),
        frame(8, b"\2"),
        frame(9, b""),
        frame(10, b"\2"),
    ]

    def refusals(read):
        for value in values:
            with pytest.raises(BadRecord) as bad:
                read(value)
            yield bad.value.error_class, str(bad.value)

    found = list(refusals(stream.read))
    assert [kind for kind, _ in found] == ["bad_frame"] * 3 + ["not_avro"] * 2 + ["bad_schema"] * 2 + [
        "unknown_schema"
    ]
    restored = Schemas()
    restored.restore(stream.schemas.state())
    again = Stream("avro", {})
    again.schemas, again.reader = restored, ValueReader(section("avro"), restored)
    assert list(refusals(again.read)) == found and again.asked == ["10"]


def test_bare_values_are_read_by_a_schema_file(tmp_path):
    schema = record(field("x", "int"))
    (tmp_path / "x.avsc").write_text(json.dumps(schema))
    (tmp_path / "x.proto").write_text(PROTO)
    (tmp_path / "x.binpb").write_bytes(compiled("x.proto", PROTO.encode()))
    (tmp_path / "x.json").write_text('{"type": "object", "required": ["x"]}')
    reads = [
        ("avro", "x.avsc", avro(schema, {"x": 3}), {"x": 3}, "air.Flight"),
        ("protobuf", "x.proto", b"\x08\x05", {"seats": 5}, "Flight.Plane"),
        ("protobuf", "x.binpb", b"\x08\x05", {"seats": 5}, "Flight.Plane"),
        ("json_schema", "x.json", b'{"x": 1}', {"x": 1}, None),
    ]
    for format, file, value, expected, name in reads:
        message = "Flight.Plane" if format == "protobuf" else None
        source = section(format, framing="none", schema_file=tmp_path / file, message=message)
        assert ValueReader(source, Schemas()).read(value, ()) == (expected, name)
    assert ValueReader(section("json", framing="registry"), Schemas()).read(frame(1, b'{"x": 1}'), ()) == (
        {"x": 1},
        None,
    )


def test_what_is_said_of_a_bad_value_is_the_same_in_every_process():
    schema = record(field("x", "double"), field("y", "string"))
    stream = Stream("avro", {7: schema})
    texts = set()
    for length in range(8):
        with pytest.raises(BadRecord) as bad:
            stream.read(frame(7, b"\x7f" * length))
        texts.add(str(bad.value))
    assert texts == {"the value is no air.Flight: EOFError"}


def test_however_large_the_schemas_are_that_records_name_the_state_can_be_stored() -> None:
    settings = Settings(record={"format": "json_schema"}, registry={"url": "http://127.0.0.1:1"})
    asked = []

    def fetch(key: str) -> StoredSchema:
        asked.append(key)
        return StoredSchema(key, "JSON", json.dumps({"": {"description": "x" * 2_000_000 + key}}).encode())

    def fold(state: PartitionState, first: int, last: int, fetch: Fetch) -> list[Output]:
        found = []
        for i in range(first, last):
            value = json.dumps({"a": i % 7, "label": i % 2 == 0}).encode()
            record = InputRecord(i, 1_700_000_000_000 + i, b"k", frame(i + 1, value), ())
            found += state.supplied(record, fetch, lambda *_: None)
        return found

    state = begin(settings, 0)
    letters = fold(state, 0, 40, fetch)
    known = len(state.schemas)
    assert known == -(-FULL_BYTES // 2_000_100) == len(asked) == 40 - len(letters)
    assert b"has as many as it may (1,000, or 64 MiB of them)" in (
        dict(letters[0].headers)["__explain.errors.message"] or b""
    )
    snapshot = take(state, "app", "records", "id", {})
    restored = load(snapshot, settings)
    # What was refused then is refused again where no registry answers, and what was known is still.
    assert fold(restored, 40, 60, lambda key: None) == fold(state, 40, 60, fetch)
    assert len(asked) == known


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            json.dumps({"description": "x" * MAX_SOURCE_BYTES}),
            "bytes with all that it refers to, and at most 16,777,216 are kept",
        ),
        ('{"items":' * 900 + "{}" + "}" * 900, "it is not JSON, or nested too deep: Recursion limit reached"),
        ('{"items":', "it is not JSON, or nested too deep: "),
    ],
)
def test_a_schema_that_cannot_be_kept_is_refused(text: str, problem: str) -> None:
    with serving(
        lambda path, body: (200, json.dumps({"schema": text, "schemaType": "JSON"}).encode())
    ) as url:
        found = SchemaSource(RegistryClient(RegistrySettings(url=url)), "json_schema").fetch("5")
    assert found is not None and found.source == b"" and problem in found.problem
