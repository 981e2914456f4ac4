"""Explanations through a real Schema Registry: framed by its ids, read by its deserialisers and by everything of ours."""

import json
from collections import Counter
from typing import Any, cast

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from explain_client import Drifts, Explanations, SchemaError, latest
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.wire.registry import Registry
from explain_sidecar.wire.schemas import schemas
from tests.broker.harness import Factory, Pipeline, mixed_records
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
    pipeline: Factory, registry: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = pipeline(2, EXPLAIN_REGISTRY__URL=registry, EXPLAIN_DRIFT=DRIFT)
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
    pipeline: Factory, registry: str
) -> None:
    line = pipeline(1, EXPLAIN_REGISTRY__URL=registry, EXPLAIN_REGISTRY__FORMAT="avro", EXPLAIN_DRIFT=DRIFT)
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
