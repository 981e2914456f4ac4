"""The messages' Avro schemas, derived from their JSON Schemas.

Objects with fields are records, other objects are maps. What has no schema (settings of an estimator, the parts of a change) is
JSON in a string, of the logical type ``json``; moments are of the logical type ``timestamp-millis``. So nothing is lost: JSON → Avro → JSON gives the same bytes.
"""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Any

import orjson

NAMESPACE = "explanation_sidecar"
_FREE = {"type": "string", "logicalType": "json"}
_PRIMITIVES = {
    "integer": "long",
    "number": "double",
    "string": "string",
    "boolean": "boolean",
    "null": "null",
}


def avro_schema(schema: dict[str, Any]) -> Any:
    """The Avro schema of what a JSON Schema describes."""
    return _record(schema["title"], schema, schema.get("$defs", {}), set())


@functools.cache
def teach_fastavro() -> None:
    """Let fastavro write and read the logical type ``json`` (readers that do not know it find a string), and write moments that are texts."""
    import fastavro

    moments = fastavro.write.LOGICAL_WRITERS["long-timestamp-millis"]
    fastavro.write.LOGICAL_WRITERS["long-timestamp-millis"] = lambda data, schema: moments(
        datetime.fromisoformat(data) if isinstance(data, str) else data, schema
    )
    fastavro.write.LOGICAL_WRITERS["string-json"] = lambda data, schema: orjson.dumps(data).decode()
    fastavro.read.LOGICAL_READERS["string-json"] = lambda data, writer, reader: orjson.loads(data)


def _record(name: str, schema: dict[str, Any], definitions: dict[str, Any], known: set[str]) -> Any:
    known.add(name)
    return {
        "type": "record",
        "name": name,
        "namespace": NAMESPACE,
        "doc": schema["description"],
        "fields": [
            {"name": field, "type": _type(inner, definitions, known), "doc": inner["description"]}
            for field, inner in schema["properties"].items()
        ],
    }


def _type(schema: dict[str, Any], definitions: dict[str, Any], known: set[str]) -> Any:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name if name in known else _record(name, definitions[name], definitions, known)
    if schema.get("format") == "date-time":
        return {"type": "long", "logicalType": "timestamp-millis"}
    if "anyOf" in schema:
        return [_type(part, definitions, known) for part in schema["anyOf"]]
    kind, values = schema.get("type"), schema.get("additionalProperties")
    if kind == "object" and isinstance(values, dict):
        return {"type": "map", "values": _type(values, definitions, known)}
    if kind == "array":
        return {"type": "array", "items": _type(schema["items"], definitions, known)}
    return _PRIMITIVES.get(kind or "", _FREE)
