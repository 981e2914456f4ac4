"""The join of events in Avro and labels in Protobuf, each by a schema file, on the in-memory cluster."""

import io
import json
from pathlib import Path

import fastavro
import orjson
import pytest
from google.protobuf import descriptor_pb2

from service.formats.files import compiled
from service.settings import Settings
from tests.driver.join import EVENTS, JOIN, LABELS, JoinDriver
from tests.driver.log import Entry

AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "x", "type": ["null", "double"]},
    ],
}
PROTO = 'syntax = "proto3"; message Label { string of = 1; int64 at = 2; Inner is = 3; } message Inner { int32 label = 1; }'


def avro(id: str, at: int, x: float | None) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": id, "at": at, "x": x})
    return out.getvalue()


def protobuf(id: str, at: int, label: int) -> bytes:
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled("label.proto", PROTO.encode())).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("Label"))
    return bytes(made(**{"of": id, "at": at, "is": {"label": label}}).SerializeToString())


@pytest.fixture
def driver(tmp_path: Path) -> JoinDriver:
    (tmp_path / "event.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "label.proto").write_text(PROTO)
    join = JOIN["join"]
    events = join["events"] | {"format": "avro", "framing": "none", "schema_file": tmp_path / "event.avsc"}
    labels = join["labels"] | {
        "format": "protobuf", "framing": "none", "schema_file": tmp_path / "label.proto", "message": "Label",
    }  # fmt: skip
    return JoinDriver(Settings(**JOIN | {"join": join | {"events": events, "labels": labels}}), partitions=1)


def put(driver: JoinDriver, topic: str, value: bytes) -> None:
    driver.cluster.log(topic, 0).append(Entry(b"k", value, (), 1_700_000_000_000))


def test_events_in_avro_and_labels_in_protobuf_are_joined_into_json(driver: JoinDriver) -> None:
    for number in range(6):
        put(driver, EVENTS, avro(f"f{number}", 1_000 * number, number / 2 if number % 2 else None))
        put(driver, LABELS, protobuf(f"f{number}", 1_000 * number + 250, number % 3))
    put(driver, EVENTS, b"\xff")
    put(driver, LABELS, b"\xff\xff")
    driver.start()
    driver.finish()
    joined = {
        data["id"]: (data["x"], data["label"], dict(entry.headers)["label_delay_ms"])
        for entry in driver.visible("records", 0)
        if entry.value is not None and (data := orjson.loads(entry.value))
    }
    assert joined == {f"f{n}": (n / 2 if n % 2 else None, n % 3, b"250") for n in range(6)}
    topics = [
        dict(letter.headers)["__explain.errors.topic"]
        for letter in driver.visible("app-join-dead-letters", 0)
    ]
    assert sorted(topics) == [EVENTS.encode(), LABELS.encode()]
