"""The sidecar's topics as an AsyncAPI 3 document, from the sidecar's view: it receives records and sends everything else."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from explain_sidecar.fold.messages import TRACE_CONTEXT
from explain_sidecar.settings import Settings
from explain_sidecar.wire.envelope import schema_id
from explain_sidecar.wire.registry import SCHEMAS

KAFKA = "0.5.0"
"""Version of AsyncAPI's bindings to Kafka."""


_TRACE_CONTEXT = {
    name: {"type": "string", "description": f"The last record's `{name}`, unchanged, where it has one."}
    for name in TRACE_CONTEXT
}


_TITLES = {
    "explanation": "An explanation",
    "drift": "A change of risk",
    "alarm": "An alarm",
    "row": "A row",
    "prediction": "A prediction",
}
_CHANNELS = {
    "records": ("receiveRecord", "Fold a record; the consumer group is the setting app_id.", ["record"]),
    "explanations": ("sendExplanation", "What drives the model, every emit.every records.", ["explanation"]),
    "drift": ("sendDrift", "Why the risk changed from one window to the next, where drift.enabled is set.", ["drift"]),
    "alarms": ("sendAlarm", "When a loss or an importance changed, where alarms.enabled is set.", ["alarm"]),
    "rows": ("sendRow", "A mean over a period that ended, or of a segment or the challenger, where rows.enabled is set.", ["row"]),
    "predictions": ("sendPrediction", "The prediction for a record with its reasons, where predictions.enabled is set.", ["prediction"]),
    "dead_letters": ("sendDeadLetter", "A record that could not be folded, where record.on_bad is dead_letter.", ["deadLetter"]),
    "checkpoints": ("sendCheckpoint", "A part of a snapshot of a partition's state, for the sidecar alone.", ["manifest", "chunk"]),
}  # fmt: skip
"""Of each topic, by its setting: the operation, what it does, and the messages."""


def document() -> dict[str, Any]:
    """The document, with the default names of the topics; its schemas are the files beside it."""
    topics = Settings().topics.names
    return {
        "asyncapi": "3.0.0",
        "id": "urn:explanation-sidecar",
        "info": {
            "title": "Explanation sidecar",
            "version": version("explanation-sidecar"),
            "description": (
                "Reads labelled records and publishes, for each partition, what drives an online model. What a partition of the "
                "records topic causes goes to the partition of that number of every other topic, in transactions: read with "
                "isolation.level=read_committed. Topic names are settings."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {name: _channel(name, topic) for name, topic in topics.items()},
        "operations": {
            operation: {
                "action": "receive" if name == "records" else "send",
                "channel": {"$ref": f"#/channels/{name}"},
                "summary": summary,
            }
            for name, (operation, summary, _) in _CHANNELS.items()
        },
        "components": {"messages": _messages()},
    }


def _channel(name: str, topic: str) -> dict[str, Any]:
    policy = "compact" if name == "checkpoints" else "delete"
    return {
        "address": topic,
        "messages": {message: {"$ref": f"#/components/messages/{message}"} for message in _CHANNELS[name][2]},
        "bindings": {
            "kafka": {
                "topic": topic,
                "topicConfiguration": {"cleanup.policy": [policy]},
                "bindingVersion": KAFKA,
            }
        },
    }


def _messages() -> dict[str, Any]:
    of_partition = _key("The records topic and the partition.", "records/0")
    of_record = {"type": ["string", "null"], "description": "The record's key, as it came; not read."}
    return {
        "record": _message("A labelled record", of_record, payload="record"),
        **{name: _message(_TITLES[name], of_partition, name, _headers(name)) for name in SCHEMAS.values()},
        "deadLetter": {
            "title": "A dead letter",
            "summary": "The record's key, value and headers, unchanged, and headers that say what is wrong with it.",
            "contentType": "application/octet-stream",
            "headers": _file("dead-letter-headers"),
            "bindings": {"kafka": {"key": of_record, "bindingVersion": KAFKA}},
        },
        "manifest": _message(
            "A snapshot's manifest",
            _key("What the snapshot is of.", "app/topic-id/0/manifest"),
            payload="checkpoint-manifest",
        ),
        "chunk": {
            "title": "A chunk of a snapshot",
            "contentType": "application/zstd",
            "bindings": {
                "kafka": {
                    "key": _key("What the snapshot is of, and the chunk's number.", "app/topic-id/0/0"),
                    "bindingVersion": KAFKA,
                }
            },
        },
    }


def _headers(name: str) -> dict[str, Any]:
    properties = {"schema": {"const": f"{name}/1"}, **_TRACE_CONTEXT, **_cloudevent(name)}
    return _draft_07({"type": "object", "required": ["schema"], "properties": properties})


def _cloudevent(name: str) -> dict[str, Any]:
    """Headers of a message where cloudevents.enabled is set."""
    output = next(output for output, schema in SCHEMAS.items() if schema == name)
    return {
        "ce_specversion": {"const": "1.0"},
        "ce_id": {
            "type": "string",
            "description": "app_id/topic-id/partition/output/epoch/seq: the same for the same message, and for no other.",
            "examples": [f"explanation-sidecar/x3vBHtRvQ9GrhJXWqkFzKA/0/{output}/0/22"],
        },
        "ce_source": {"type": "string", "examples": ["urn:explanation-sidecar:explanation-sidecar"]},
        "ce_type": {
            "type": "string",
            "pattern": f"\\.{name}\\.v1$",
            "description": "cloudevents.type_prefix, the kind of message, and its version.",
            "examples": [f"org.explanation-sidecar.{name}.v1"],
        },
        "ce_dataschema": {"const": schema_id(f"{name}/1")},
        "ce_time": {
            "type": "string",
            "format": "date-time",
            "description": "The message's `timestamp`: event time of the last record, in UTC to the millisecond.",
            "examples": ["2013-12-20T22:00:00.000Z"],
        },
        "ce_subject": {"type": "string", "description": "The message's key.", "examples": ["records/0"]},
        "content-type": {"enum": ["application/json", "application/avro"]},
    }


def _message(
    title: str, key: dict[str, Any], payload: str, headers: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "title": title,
        "contentType": "application/json",
        "payload": _file(payload),
        **({"headers": headers} if headers else {}),
        "bindings": {"kafka": {"key": key, "bindingVersion": KAFKA}},
    }


def _key(description: str, example: str) -> dict[str, Any]:
    return {"type": "string", "description": description, "examples": [example]}


def _file(name: str) -> dict[str, Any]:
    return _draft_07({"$ref": f"./{name}.schema.json"})


def _draft_07(schema: dict[str, Any]) -> dict[str, Any]:
    # What the schemas use means the same in this draft and in theirs; parsers know this one.
    return {"schemaFormat": "application/schema+json;version=draft-07", "schema": schema}
