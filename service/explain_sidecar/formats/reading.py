"""From the bytes and headers of a message to a dictionary, in any format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explain_sidecar.formats.avro import AvroSchema
from explain_sidecar.formats.errors import BadRecord, Headers, Read, SchemaProblem
from explain_sidecar.formats.files import SchemaFile
from explain_sidecar.formats.framing import SIMPLE, message_path, unframe
from explain_sidecar.formats.json_schema import JsonSchema, read_json
from explain_sidecar.formats.names import Names
from explain_sidecar.formats.schemas import FULL_BYTES, MAX_SCHEMAS, Kind, Schemas, StoredSchema
from explain_sidecar.settings.records import Format, FormatSettings

Reader = tuple[Read, str | None]
"""What reads the values of a type, and the type's full name in its schema, if any."""

Found = tuple[dict[str, Any], str | None]
"""The content of a value, and the full name of its type in its schema, if any."""

PLAIN: dict[Format, Read] = {"json": read_json}
"""The formats without a schema, and what reads them."""

KINDS: dict[Format, Kind] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}
"""What a registry calls the schemas of a format."""


class ValueReader:
    """Reads the values of a topic by the settings of its format. ``schemas`` may be shared, and is never changed here.

    ``read(value, headers)`` returns the dictionary and the name of its type. It raises ``BadRecord`` for what cannot be read, and
    ``UnknownSchema`` where ``schemas`` lacks the schema. Raises ``SettingsError`` for a schema file that cannot be used.
    """

    def __init__(self, settings: FormatSettings, schemas: Schemas, section: str = "record") -> None:
        self._schemas = schemas
        self._format = settings.format
        self._names = Names()
        self._compiled: dict[str, Any] = {}
        self._readers: dict[Any, Reader] = {}
        self._frame = SIMPLE + (settings.format == "protobuf")
        self._framed: dict[bytes, Reader] = {}
        self._file = None if settings.schema_file is None else SchemaFile(settings, section)
        self.read: Callable[[bytes, Headers], Found] = self._choose(settings.framed)

    def _choose(self, framed: bool) -> Callable[[bytes, Headers], Found]:
        if self._file is not None and (not framed or self._format == "json_schema"):
            read, name = self._file.reader()
        elif self._format in PLAIN:
            read, name = PLAIN[self._format], None
        else:
            return self._read_framed
        if framed:
            return lambda value, headers: (read(unframe(value, headers).body), name)
        return lambda value, headers: (read(value), name)

    def _read_framed(self, value: bytes, headers: Headers) -> Found:
        """Frames before the value are mostly the same few bytes, whose reader is found without taking them apart."""
        known = None if headers else self._framed.get(value[: self._frame])
        if known is not None:
            return known[0](value[self._frame :]), known[1]
        framed = unframe(value, headers)
        if self._format == "protobuf":
            path, body = message_path(framed)
            reader = self._readers.get((framed.key, path)) or self._message_reader(framed.key, path)
        else:
            body = framed.body
            reader = self._readers.get(framed.key) or self._reader(framed.key)
        if framed.after is None and len(value) - len(body) == self._frame:
            self._framed[value[: self._frame]] = reader
        return reader[0](body), reader[1]

    def _reader(self, key: str) -> Reader:
        schema = self._find(key)
        if isinstance(schema, JsonSchema):
            reader = (schema.read, schema.title)
        else:
            wanted = None if self._file is None else self._file.avro
            target = wanted if wanted is not None and wanted.is_for(schema) else None
            reader = (schema.reader(target), schema.names[0])
        self._readers[key] = reader
        return reader

    def _message_reader(self, key: str, path: tuple[int, ...]) -> Reader:
        schema = self._find(key)
        name = schema.at(path)
        wanted = None if self._file is None else self._file.protobuf
        reader = ((wanted if wanted is not None and wanted.has(name) else schema).reader(name), name)
        self._readers[key, path] = reader
        return reader

    def _find(self, key: str) -> Any:
        """The schema, ready to read."""
        if self._schemas.find(key) is None:
            raise BadRecord(
                "unknown_schema",
                f"schema {key} is not in the registry, or the partition has as many as it may ({MAX_SCHEMAS:,}, or {FULL_BYTES // 2**20} MiB of them)",
            )
        for stored in self._schemas.state():  # in their order, upon which the names of renamed fields depend
            if stored.key not in self._compiled:
                self._compiled[stored.key] = self._compile(stored)
        schema = self._compiled[key]
        if isinstance(schema, SchemaProblem):
            raise BadRecord("bad_schema", f"schema {key} cannot be used: {schema}")
        return schema

    def _compile(self, stored: StoredSchema) -> Any:
        wanted = KINDS[self._format]
        try:
            if stored.kind != wanted:
                raise SchemaProblem(f"it is of type {stored.kind}, and those of {self._format} are {wanted}")
            if stored.problem:
                raise SchemaProblem(stored.problem)
            if self._format == "json_schema":
                return JsonSchema(stored.source)
            names = self._names if self._file is None else None  # a reader's schema has its own names
            if self._format == "avro":
                return AvroSchema(stored.source, names)
            from explain_sidecar.formats.protobuf import ProtobufSchema

            return ProtobufSchema(stored.source, names)
        except SchemaProblem as problem:
            return problem
