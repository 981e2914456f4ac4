"""Schemas for records that have none: flat, every field may be missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from explain_sidecar.formats.errors import SchemaProblem
from explain_sidecar.formats.json_schema import json_type
from explain_sidecar.settings.records import Format

Columns = Mapping[str, str]
"""The kind of each field: integer, number, boolean, string; another JSON type; or several kinds, with "or" between them."""

NAME = "Record"

_AVRO = {"integer": "long", "number": "double", "boolean": "boolean", "string": "string"}
_PROTOBUF = {"integer": "int64", "number": "double", "boolean": "bool", "string": "string"}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LARGEST = 2**63


def kinds_of(records: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str], int]:
    """The kind of each field, and how many records there are.

    >>> kinds_of([{"a": 1, "b": "x"}, {"a": 2.5}])
    ({'a': 'number', 'b': 'string'}, 2)
    """
    kinds: dict[str, dict[str, None]] = {}
    count = 0
    for record in records:
        count += 1
        for name, value in record.items():
            kinds.setdefault(name, {})[_kind(value)] = None
    return {name: _joined(found) for name, found in kinds.items()}, count


def schema_of(format: Format, columns: Columns) -> str:
    """The text of a schema of such records, for Protobuf a .proto file. Raises ``SchemaProblem`` that names the field."""
    for name, kind in columns.items():
        if kind not in _AVRO:
            raise SchemaProblem(
                f"field {name!r} is {kind}, and an inferred schema has numbers, booleans and strings; name a schema in record.schema_file"
            )
        if format in ("avro", "protobuf") and not _IDENTIFIER.fullmatch(name):
            raise SchemaProblem(
                f"field {name!r} cannot have this name in {format}, where names are letters, digits and _; rename it, or write json_schema"
            )
    if format == "avro":
        fields = [
            {"name": name, "type": ["null", _AVRO[kind]], "default": None} for name, kind in columns.items()
        ]
        return orjson.dumps({"type": "record", "name": NAME, "fields": fields}).decode()
    if format == "protobuf":
        lines = [
            f"  optional {_PROTOBUF[kind]} {name} = {number};"
            for number, (name, kind) in enumerate(columns.items(), start=1)
        ]
        return "\n".join(['syntax = "proto3";', f"message {NAME} {{", *lines, "}\n"])
    return orjson.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": NAME,
            "type": "object",
            "properties": {name: {"type": [kind, "null"]} for name, kind in columns.items()},
        }
    ).decode()


def _kind(value: Any) -> str:
    if type(value) is int:
        return "integer" if -_LARGEST <= value < _LARGEST else "number"
    return json_type(value)


def _joined(kinds: dict[str, None]) -> str:
    if kinds.keys() == {"integer", "number"}:
        return "number"
    return " or ".join(kinds)
