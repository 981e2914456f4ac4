"""A real Schema Registry: records through it, and explanations framed by its ids and read by its deserialisers and by everything of ours."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from benchmarks.oracle import check as oracle
from explain_client import Drifts, Explanations, SchemaError, latest
from explain_sidecar.errors import UserError
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import Decoder, InputRecord
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.framing import HEADER
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.formats.source import SchemaSource
from explain_sidecar.settings.records import Format, RecordSettings
from explain_sidecar.settings.wire import RegistrySettings
from explain_sidecar.wire.registry import Registry
from explain_sidecar.wire.schemas import schemas
from tests.broker.harness import Factory, Pipeline, mixed_records
from tests.loopback import serving
from tests.service.test_spans import PARENT, TRACE, Collector

DRIFT = '{"enabled": true, "window": 60, "bootstrap": 2}'
OUTPUTS = {"explanations": "explanation", "drift": "drift"}
STREAMS: dict[str, Any] = {"explanations": Explanations, "drift": Drifts}
BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}


def plain(line: Pipeline) -> dict[str, list[bytes]]:
    """The JSON of a pipeline's messages, partition by partition, as the fold made it."""
    found: dict[str, list[bytes]] = {name: [] for name in OUTPUTS}
    for partition, log in line.inputs.items():
        state = PartitionState(line.settings, partition)
        for event in (output for record in log for output in state.step(record) if output.event):
            found[event.destination].append(event.value or b"")
    return found


def published(line: Pipeline) -> dict[str, list[bytes]]:
    return {
        name: [value or b"" for log in line.published()[name].values() for _, value, _ in log]
        for name in OUTPUTS
    }


def test_json_is_framed_by_the_registry_and_read_and_verified_by_the_client(
    memory: Factory, registry: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = memory(2, EXPLAIN_REGISTRY__URL=registry, EXPLAIN_DRIFT=DRIFT)
    line.environment["EXPLAIN_CLOUDEVENTS__ENABLED"] = "true"
    line.feed(mixed_records(2, 500, bad_every=50))
    checks = json.loads(line.cli("check", "--json", status=1).stdout)["checks"]
    (missing,) = [check["detail"] for check in checks if check["what"] == "registry" and check["ok"] is False]
    assert f"registry.url {registry}: subject '{line.topics['explanations']}-value' does not have" in missing
    assert "`explain-sidecar schemas register` registers it" in missing
    rows = json.loads(line.cli("schemas", "register", "--json").stdout)
    assert [row["subject"] for row in rows] == [f"{line.topics[name]}-value" for name in OUTPUTS]
    line.run_to_end()
    line.verify()
    framed, bare, client = (
        published(line),
        plain(line),
        SchemaRegistryClient({"url": registry, "timeout": 10}),
    )
    for row, (name, schema) in zip(rows, OUTPUTS.items(), strict=True):
        text = schemas()[f"{schema}.schema.json"]
        assert json.loads(client.get_schema(row["schema_id"]).schema_str or "") == json.loads(text)
        frame = b"\0" + row["schema_id"].to_bytes(4, "big")
        assert framed[name] == [frame + value for value in bare[name]] and len(bare[name]) >= 4
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer  # takes seconds, here alone

        read = JSONDeserializer(text, schema_registry_client=client, conf=BY_TOPIC)
        context = SerializationContext(line.topics[name], MessageField.VALUE)
        assert [read(value, context) for value in framed[name]] == [json.loads(value) for value in bare[name]]
        with STREAMS[name](line.broker.bootstrap_servers, line.topics[name], follow=False) as stream:
            assert sorted(message.raw for message in stream) == sorted(bare[name])
    assert latest(line.broker.bootstrap_servers, line.topics["explanations"])[1].partition == 1
    # The ids are asked for once; a registry that goes away later is not missed.
    asked = Registry(line.settings)
    caplog.set_level("INFO", "httpx2")
    asked.resolve()
    assert sum("HTTP Request" in text for text in caplog.messages) == 2
    assert [asked.encode("drift", value) for value in bare["drift"]] == framed["drift"]
    assert sum("HTTP Request" in text for text in caplog.messages) == 2


def test_avro_is_read_by_what_is_ours_also_to_recover_and_refused_in_words_by_the_client(
    memory: Factory, registry: str
) -> None:
    line = memory(1, EXPLAIN_REGISTRY__URL=registry, EXPLAIN_REGISTRY__FORMAT="avro", EXPLAIN_DRIFT=DRIFT)
    line.environment |= {"EXPLAIN_REGISTRY__AUTO_REGISTER": "true", "EXPLAIN_CLOUDEVENTS__ENABLED": "true"}
    line.feed(mixed_records(1, 200, bad_every=50), [("traceparent", f"00-{TRACE}-{PARENT}-01".encode())])
    with Collector().running() as collector:
        line.run_to_end(EXPLAIN_TRACING__ENDPOINT=collector.endpoint)
    assert {link.trace_id.hex() for _, span in collector.spans for link in span.links} == {TRACE}
    spans = Counter(span.name.removeprefix("send ") for _, span in collector.spans)
    assert spans == {line.topics[name]: len(line.published()[name][0]) for name in (*OUTPUTS, "dead_letters")}
    # A group that has expired finds what was published last in the messages themselves.
    for future in line.admin.delete_consumer_groups([line.name]).values():
        future.result()
    line.feed(mixed_records(1, 105, seed=1))
    assert "no committed offset: recovering" in line.run_to_end().log()
    line.verify()
    framed, bare, client = (
        published(line),
        plain(line),
        SchemaRegistryClient({"url": registry, "timeout": 10}),
    )
    for name in OUTPUTS:
        read = AvroDeserializer(client, conf=BY_TOPIC)
        context = SerializationContext(line.topics[name], MessageField.VALUE)
        found = [cast(dict[str, Any], read(value, context)) for value in framed[name]]
        # Read by the service's own process, which knows the type `json`, and so here: what has no schema is no string.
        assert [json.dumps(message) for message in found] == [
            json.dumps(json.loads(value)) for value in bare[name]
        ]
    content = {dict(headers)["content-type"] for _, _, headers in line.published()["explanations"][0]}
    assert content == {b"application/avro"}
    with (
        Explanations(line.broker.bootstrap_servers, line.topics["explanations"], follow=False) as stream,
        pytest.raises(SchemaError, match="probably Avro"),
    ):
        next(stream)
    shown = line.cli("tail", "--json", "--until-caught-up").stdout.splitlines()
    assert [text.encode() for text in shown] == bare["explanations"]


CONTEXT = SerializationContext("flights", MessageField.VALUE)


class Counted:
    """The registry's client; ``asked`` are the ids that went over the wire."""

    def __init__(self, url: str, **config: str) -> None:
        self._client = RegistryClient(RegistrySettings(url=url, config=config))
        self.asked: list[str] = []

    def schema(self, key: str) -> Any:
        self.asked.append(key)
        return self._client.schema(key)

    def version(self, subject: str, version: int) -> Any:
        return self._client.version(subject, version)


def read(format: Format, client: Any, *records: InputRecord) -> list[dict[str, Any]]:
    schemas, fetch = Schemas(), SchemaSource(client, format).fetch
    decoder = Decoder(RecordSettings(format=format), "binary", schemas)
    samples = [schemas.supply(decoder.decode, record, fetch) for record in records]
    return [sample.x for sample in samples if sample is not None]


def test_check_prints_the_settings_that_read_what_produce_has_written(
    memory: Factory, registry: str, tmp_path: Path
) -> None:
    line = memory(1, EXPLAIN_REGISTRY__URL=registry, EXPLAIN_REGISTRY__FORMAT="none")
    rng, file = random.Random(1), tmp_path / "rows.jsonl"
    rows = [{"a": i % 7, "b": rng.random(), "c": rng.choice("xyz"), "late": i % 7 > 3} for i in range(120)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    written = {"EXPLAIN_RECORD__FORMAT": "avro", "EXPLAIN_RECORD__LABEL": "late"}
    line.cli("produce", "--input", str(file), "--label", "late", "--key", "c", **written)
    found = json.loads(line.cli("check", "--json", status=1).stdout)
    pasted = found["settings"]
    assert "label: label  # no such field; one of a, b, c, late" in pasted
    config = tmp_path / "sidecar.yaml"
    config.write_text(pasted.replace("label: label", "label: late"))
    assert yaml.safe_load(pasted)["record"]["format"] == "avro"
    done = line.cli("--config", str(config), "check")
    assert "100 of the newest 100 records can be folded" in done.stdout
    line.environment |= written
    line.run_to_end()
    line.cli("produce", "--input", str(file), "--label", "late")
    line.run_to_end(EXPLAIN_REGISTRY__URL="http://127.0.0.1:1")  # nobody is asked for what the snapshot has
    verdict = oracle(line.settings)
    assert verdict.differences == [] and verdict.records == 240
    assert not line.published()["dead_letters"][0]


def test_an_id_is_fetched_once_before_the_value_and_in_the_header(registry: str) -> None:
    client = SchemaRegistryClient({"url": registry, "timeout": 10})
    text = '{"type": "record", "name": "Once", "fields": [{"name": "a", "type": "int"}, {"name": "label", "type": "boolean"}]}'
    value = AvroSerializer(client, text)({"a": 3, "label": True}, CONTEXT)
    assert value is not None
    key, counted = str(int.from_bytes(value[1:5])), Counted(registry)
    given = [
        InputRecord(0, 0, None, value),
        InputRecord(1, 0, None, value[5:], ((HEADER, value[:5]),)),
        InputRecord(2, 0, None, value),
    ]
    assert read("avro", counted, *given) == [{"a": 3}] * 3
    assert counted.asked == [key]
    source = SchemaSource(counted, "avro")  # type: ignore[arg-type]
    assert source.fetch(key) is source.fetch(key)
    assert counted.asked == [key, key]


def test_schemas_are_read_with_what_they_refer_to(registry: str) -> None:
    client = SchemaRegistryClient({"url": registry, "timeout": 10})
    inner = '{"type": "record", "name": "Plane", "namespace": "air", "fields": [{"name": "seats", "type": "int"}]}'
    outer = (
        '{"type": "record", "name": "Flight", "namespace": "air", "fields": [{"name": "plane", "type": "air.Plane"},'
        ' {"name": "label", "type": "boolean"}]}'
    )
    client.register_schema("plane", Schema(inner, "AVRO"))
    key = client.register_schema("flight", Schema(outer, "AVRO", [SchemaReference("air.Plane", "plane", 1)]))
    frame = b"\0" + key.to_bytes(4)
    schemas, fetch = Schemas(), SchemaSource(Counted(registry), "avro").fetch  # type: ignore[arg-type]
    decoder = Decoder(RecordSettings(format="avro", features=["plane.seats"]), "binary", schemas)
    sample = schemas.supply(decoder.decode, InputRecord(0, 0, None, frame + b"\x90\x03\1"), fetch)
    assert sample is not None and (sample.x, sample.y) == ({"plane.seats": 200}, True)
    proto = 'syntax = "proto3"; package air; message Plane { int32 seats = 1; }'
    client.register_schema("plane.proto", Schema(proto, "PROTOBUF"))
    proto = 'syntax = "proto3"; package air; import "plane.proto"; message Flight { Plane plane = 1; bool label = 2; }'
    key = client.register_schema(
        "flight.proto", Schema(proto, "PROTOBUF", [SchemaReference("plane.proto", "plane.proto", 1)])
    )
    schemas, fetch = Schemas(), SchemaSource(Counted(registry), "protobuf").fetch  # type: ignore[arg-type]
    decoder = Decoder(RecordSettings(format="protobuf", features=["plane.seats"]), "binary", schemas)
    value = b"\0" + key.to_bytes(4) + b"\0" + b"\x0a\x03\x08\xc8\x01\x10\x01"
    sample = schemas.supply(decoder.decode, InputRecord(0, 0, None, value), fetch)
    assert sample is not None and (sample.x, sample.y) == ({"plane.seats": 200}, True)


def test_an_id_that_is_missing_is_a_dead_letter_in_words_and_a_registry_that_fails_is_not(
    registry: str,
) -> None:
    missing = InputRecord(0, 0, None, b"\0" + (2**31 - 5).to_bytes(4) + b"\2")
    counted = Counted(registry)
    with pytest.raises(BadRecord, match="schema 2147483643 is not in the registry") as caught:
        read("avro", counted, missing)
    assert caught.value.error_class == "unknown_schema" and counted.asked == ["2147483643"]
    with pytest.raises(UserError, match=r"registry\.url http://127\.0\.0\.1:1: no answer that can be used"):
        read("avro", Counted("http://127.0.0.1:1"), missing)
    with (
        serving(lambda path, body: (401, b'{"error_code": 40101, "message": "not you"}')) as url,
        pytest.raises(
            UserError, match=r"it answers .*not you.*; check the address .*, the rights, and registry\.config"
        ),
    ):
        read("avro", Counted(url, **{"basic.auth.user.info": "me:wrong"}), missing)
