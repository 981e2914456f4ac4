"""The join of events in Avro and labels in Protobuf, each by a schema file, on the in-memory cluster."""

import io
import json
from pathlib import Path

import fastavro
import orjson
import pytest
from google.protobuf import descriptor_pb2

from explain_sidecar.errors import UserError
from explain_sidecar.formats.files import compiled
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.settings import Settings
from explain_sidecar.settings.wire import RegistrySettings
from tests.driver.join import EVENTS, JOIN, LABELS, JoinDriver
from tests.driver.log import Entry
from tests.loopback import serving

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


def framed(schema: dict, key: int, record: dict) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return b"\0" + key.to_bytes(4) + out.getvalue()


def named(name: str, *aliases: str) -> dict:
    fields = [{"name": "id", "type": "string"}, {"name": "at", "type": "long"}]
    return {
        "type": "record",
        "name": "Event",
        "fields": [*fields, {"name": name, "type": "double", "aliases": list(aliases)}],
    }


@pytest.mark.parametrize("lost", [False, True])
def test_after_a_restart_fields_keep_their_names_and_no_schema_is_asked_for_again(lost: bool) -> None:
    """The first name is that of a schema which no record has any more once the join was killed. ``lost``: the disk too."""
    schemas = {1: named("delay"), 2: named("departure_delay", "delay")}
    asked: list[str] = []

    def answer(path: str, body: bytes) -> tuple[int, bytes]:
        asked.append(path)
        key = int(path.partition("?")[0].rpartition("/")[2])
        return 200, json.dumps({"schema": json.dumps(schemas[key])}).encode()

    with serving(answer) as address:
        join = JOIN["join"]
        join = join | {"events": join["events"] | {"format": "avro"}}
        driver = JoinDriver(Settings(**JOIN | {"join": join, "registry": {"url": address}}), partitions=1)
        put(driver, EVENTS, framed(schemas[1], 1, {"id": "a", "at": 1, "delay": 1.5}))
        put(driver, EVENTS, framed(schemas[2], 2, {"id": "b", "at": 2, "departure_delay": 2.5}))
        driver.start()
        driver.finish()
        driver.kill(0)
        before = len(asked)
        if lost:
            driver.stores.clear()
        put(driver, EVENTS, framed(schemas[2], 2, {"id": "c", "at": 3, "departure_delay": 3.5}))
        for id in "abc":
            put(driver, LABELS, orjson.dumps({"of": id, "at": 9, "is": {"label": 1}}))
        driver.start()
        driver.finish()
    delays = {}
    for entry in driver.visible("records", 0):
        data = orjson.loads(entry.value or b"")
        delays[data["id"]] = data["delay"]
    assert delays == {"a": 1.5, "b": 2.5, "c": 3.5}
    assert len(asked) == before == 2


def test_an_answer_without_a_schema_is_no_schema() -> None:
    """A proxy that answers for the registry: the records are not refused for good."""
    with serving(lambda path, body: (200, b"{}")) as address:
        client = RegistryClient(RegistrySettings(url=address))
        with pytest.raises(UserError, match=r"registry\.url .*no answer that can be used"):
            client.schema("1")
