"""From records to values in any format, bare or framed by a schema of the registry."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.formats.errors import BadRecord, SchemaProblem
from explain_sidecar.formats.files import EXTRA, compiled, contents
from explain_sidecar.formats.inferred import NAME, Columns, schema_of
from explain_sidecar.formats.json_schema import JsonSchema
from explain_sidecar.formats.reading import KINDS
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.settings.records import Format, FormatSettings
from explain_sidecar.settings.wire import RegistrySettings

Write = Callable[[Mapping[str, Any]], bytes]


def value_writer(
    settings: FormatSettings,
    registry: RegistrySettings,
    topic: str,
    columns: Columns,
    section: str = "record",
) -> Write:
    """A writer of records for ``settings`` to read: by ``schema_file``, else by a schema inferred from the columns.

    A framed value's schema is registered under ``topic-value``. Raises ``UserError``; what is returned raises ``SchemaProblem`` for a record that
    does not fit the schema.
    """
    format: Format = "json_schema" if settings.format == "json" and settings.framed else settings.format
    if format == "json":
        return orjson.dumps
    try:
        data = (
            b"" if settings.schema_file is None else contents(settings.schema_file, f"{section}.schema_file")
        )
        by_file = settings.schema_file is not None
        text = data.decode(errors="replace") if by_file else schema_of(format, columns)
        frame = b"\0" * (format == "protobuf")  # the path to the first message
        if format == "avro":
            write = _avro(text)
        elif format == "json_schema":
            write = _json(text, validate=by_file)
        else:
            is_source = settings.schema_file is None or settings.schema_file.suffix == ".proto"
            files = compiled("record.proto", text.encode()) if is_source else data
            write, alone = _protobuf(files, settings.message if by_file else NAME)
            text = text if is_source else alone
    except ImportError as error:
        raise UserError(f"{section}.format {format}: {error.name or error} is missing; {EXTRA}") from None
    except SchemaProblem as error:
        where = (
            f"{section}.schema_file {settings.schema_file}"
            if settings.schema_file
            else f"{section}.format {format}"
        )
        raise SettingsError(f"{where}: {error}") from None
    if not settings.framed:
        return write
    key = RegistryClient(registry).register(f"{topic}-value", text, KINDS[format])
    head = b"\0" + key.to_bytes(4) + frame
    return lambda record: head + write(record)


def _avro(text: str) -> Write:
    from fastavro import parse_schema, schemaless_writer

    try:
        schema = parse_schema(orjson.loads(text))
    # As in reading: the library has an exception for each kind of error.
    except Exception as error:
        raise SchemaProblem(f"it is no Avro schema: {type(error).__name__}: {error}") from None
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    missing = {
        field["name"]: None
        for field in fields
        if "default" not in field and isinstance(field["type"], list) and "null" in field["type"]
    }

    def write(record: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        try:
            schemaless_writer(out, schema, missing | dict(record), strict_allow_default=True)
        except Exception as error:
            raise SchemaProblem(f"{type(error).__name__}: {error}") from None
        return out.getvalue()

    return write


def _json(text: str, validate: bool) -> Write:
    try:
        schema = JsonSchema(orjson.dumps({"": orjson.loads(text)}))
    except orjson.JSONDecodeError as error:
        raise SchemaProblem(f"it is not JSON: {error}") from None

    def write(record: Mapping[str, Any]) -> bytes:
        value = orjson.dumps(record)
        if validate:
            try:
                schema.read(value)
            except BadRecord as error:
                raise SchemaProblem(str(error)) from None
        return value

    return write


def _protobuf(files: bytes, name: str | None) -> tuple[Write, str]:
    """What writes a message, by default the first one, and the file of it as registries take one that is not text."""
    from google.protobuf import descriptor_pb2, json_format

    from explain_sidecar.formats.protobuf import ProtobufSchema

    known = ProtobufSchema(files)
    make = known.message(name or known.names[0])
    last = descriptor_pb2.FileDescriptorSet.FromString(files).file[-1]

    def write(record: Mapping[str, Any]) -> bytes:
        try:
            data: bytes = json_format.ParseDict(record, make()).SerializeToString(deterministic=True)
        except (json_format.ParseError, TypeError, ValueError) as error:
            raise SchemaProblem(str(error)) from None
        return data

    return write, base64.b64encode(last.SerializeToString()).decode()
