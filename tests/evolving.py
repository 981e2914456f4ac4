"""Labelled records in each format that schemas describe, as their producers go on to the next version; and a registry of them."""

import io
import json
import random
from typing import Any

import fastavro
import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from explain_sidecar.errors import UserError
from explain_sidecar.formats.schemas import StoredSchema
from explain_sidecar.settings.records import Format

FORMATS: tuple[Format, ...] = ("avro", "protobuf", "json_schema")
KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}

_Type = descriptor_pb2.FieldDescriptorProto.Type


def _avro(*fields: dict[str, Any]) -> bytes:
    last = {"name": "label", "type": "boolean"}
    return json.dumps([{"type": "record", "name": "Event", "fields": [*fields, last]}]).encode()


def _protobuf(**fields: tuple[int, _Type]) -> bytes:
    """proto3 fields by name, each with its number and type; all but the label have presence."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", syntax="proto3")
    message = file.message_type.add(name="Event")
    message.field.add(name="label", number=15, type=_Type.TYPE_BOOL, label=1)
    for index, (name, (number, kind)) in enumerate(fields.items()):
        message.field.add(
            name=name, number=number, type=kind, label=1, proto3_optional=True, oneof_index=index
        )
    for name in fields:
        message.oneof_decl.add(name=f"_{name}")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def _json(**fields: str) -> bytes:
    properties = {name: {"type": kind} for name, kind in {**fields, "label": "boolean"}.items()}
    return json.dumps({"": {"type": "object", "properties": properties, "required": ["label"]}}).encode()


SCHEMAS: dict[Format, list[bytes]] = {
    "avro": [
        _avro({"name": "a", "type": "int"}, {"name": "b", "type": "float"}),
        _avro(
            {"name": "a", "type": "double"},
            {"name": "b", "type": "double"},
            {"name": "c", "type": "string", "default": "x"},
        ),
        _avro({"name": "alpha", "type": "double", "aliases": ["a"]}, {"name": "c", "type": ["null", "string"]}),
    ],
    "protobuf": [
        _protobuf(a=(1, _Type.TYPE_INT32), b=(2, _Type.TYPE_DOUBLE)),
        _protobuf(a=(1, _Type.TYPE_INT64), b=(2, _Type.TYPE_DOUBLE), c=(3, _Type.TYPE_STRING)),
        _protobuf(alpha=(1, _Type.TYPE_INT64), c=(3, _Type.TYPE_STRING)),
    ],
    "json_schema": [_json(a="integer", b="number"), _json(a="number", b="number", c="string"), _json(a="number", c="string")],
}  # fmt: skip
"""Three versions: then with a new field and a promoted type, then with one field removed and another renamed."""

KNOWN: dict[Format, dict[str, StoredSchema]] = {
    format: {str(key): StoredSchema(str(key), KINDS[format], version) for key, version in enumerate(versions)}
    for format, versions in SCHEMAS.items()
}


def _class(source: bytes) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorSet.FromString(source).file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))


_CLASSES = [_class(source) for source in SCHEMAS["protobuf"]]
_PARSED = [fastavro.parse_schema(json.loads(source)[0]) for source in SCHEMAS["avro"]]


def encoded(format: Format, version: int, record: dict[str, Any]) -> bytes:
    """A record of a version, framed; fields that the version does not have are left out."""
    frame = b"\0" + version.to_bytes(4, "big")
    renamed = {"alpha" if name == "a" and version == 2 else name: value for name, value in record.items()}
    if format == "avro":
        out = io.BytesIO(frame)
        out.seek(len(frame))
        fields = [field["name"] for field in _PARSED[version]["fields"]]
        fastavro.schemaless_writer(out, _PARSED[version], {name: renamed[name] for name in fields})
        return out.getvalue()
    if format == "protobuf":
        names = _CLASSES[version].DESCRIPTOR.fields_by_name
        message = _CLASSES[version](**{name: value for name, value in renamed.items() if name in names})
        data: bytes = message.SerializeToString()
        return frame + b"\0" + data
    names = json.loads(SCHEMAS[format][version])[""]["properties"]
    return frame + orjson.dumps({name: value for name, value in record.items() if name in names})


def record(rng: random.Random) -> dict[str, Any]:
    a = rng.randrange(9)
    return {"a": a, "b": rng.random(), "c": rng.choice("xyz"), "label": a + rng.random() > 4.5}


def values(format: Format, versions: list[int], seed: int = 0) -> list[bytes]:
    """A record for each of these versions."""
    rng = random.Random(seed)
    return [encoded(format, version, record(rng)) for version in versions]


class Registry:
    """The schemas under their versions as ids. ``gone``: it does not answer any more."""

    def __init__(self, format: Format) -> None:
        self._known = KNOWN[format]
        self.asked: list[str] = []
        self.gone = False

    def fetch(self, key: str) -> StoredSchema | None:
        self.asked.append(key)
        if self.gone:
            raise UserError("registry.url: no answer")
        return self._known.get(key)
