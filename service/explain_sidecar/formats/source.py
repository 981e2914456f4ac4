"""The registry that records' schemas come from. It is asked outside the fold, once for each id."""

from __future__ import annotations

import base64
import binascii
import importlib
import time
from collections.abc import Iterator
from typing import Any

import orjson

from explain_sidecar.formats.avro import sources
from explain_sidecar.formats.errors import SchemaProblem
from explain_sidecar.formats.reading import KINDS, ValueReader
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.formats.schemas import MAX_SOURCE_BYTES, Fetch, Schemas, StoredSchema
from explain_sidecar.settings import Settings
from explain_sidecar.settings.records import Format, FormatSettings

ABSENT_SECONDS = 10.0
"""A registry is asked again for what it did not have after this long: bad records may name any id."""

MAX_ABSENT = 1_000
MAX_REFERENCES = 100


def schema_source(settings: Settings, values: FormatSettings | None = None) -> Fetch:
    """The source of the schemas of values, by default those of records: the registry, or none where no schemas are needed."""
    values = values or settings.record
    if not values.needs_registry:
        return lambda key: None
    return SchemaSource(RegistryClient(settings.registry), values.format).fetch


def check_formats(settings: Settings) -> None:
    """Read the schema files of all inputs, and make the registry's client; nothing is asked. Raises ``UserError`` as ``run`` and ``join`` would."""
    inputs: dict[str, FormatSettings] = {"record": settings.record}
    if settings.join.on:
        inputs |= {"join.events": settings.join.events, "join.labels": settings.join.labels}
    for section, values in inputs.items():
        ValueReader(values, Schemas(), section)
        schema_source(settings, values)


class SchemaSource:
    """Fetches schemas of a format from the registry at ``registry.url``. Raises ``UserError`` where it does not answer."""

    def __init__(self, client: RegistryClient, format: Format) -> None:
        self._client = client
        self._format = format
        self._found: dict[str, StoredSchema] = {}
        self._absent: dict[str, float] = {}

    def fetch(self, key: str) -> StoredSchema | None:
        """The schema under an id or GUID, with what it refers to; None where the registry has none."""
        if key in self._found:
            return self._found[key]
        now = time.monotonic()
        if self._absent.get(key, now) > now:
            return None
        schema = self._client.schema(key)
        if schema is None:
            if len(self._absent) >= MAX_ABSENT:
                self._absent.clear()
            self._absent[key] = now + ABSENT_SECONDS
            return None
        kind = schema.schema_type or "AVRO"
        source, problem = b"", ""
        try:
            if kind not in KINDS.values():
                raise SchemaProblem(f"it is of type {kind}")
            if kind == KINDS[self._format]:
                source = self._source(schema)
            if len(source) > MAX_SOURCE_BYTES:
                raise SchemaProblem(
                    f"it has {len(source):,} bytes with all that it refers to, and at most {MAX_SOURCE_BYTES:,} are kept"
                )
        except SchemaProblem as error:
            source, problem = b"", str(error)[:1_000]
        self._found[key] = StoredSchema(key, kind, source, problem)
        return self._found[key]

    def _source(self, schema: Any) -> bytes:
        referred = dict(self._references(schema, set()))
        if self._format == "avro":
            return sources([*referred.values(), schema.schema_str])
        if self._format == "json_schema":
            try:
                return orjson.dumps(
                    {name: orjson.loads(text) for name, text in {**referred, "": schema.schema_str}.items()}
                )
            except (orjson.JSONDecodeError, orjson.JSONEncodeError) as error:
                raise SchemaProblem(f"it is not JSON, or nested too deep: {error}") from None
        return _descriptors(schema.schema_str, referred)

    def _references(self, schema: Any, seen: set[tuple[str, int]]) -> Iterator[tuple[str, str]]:
        """Names and texts of the schemas that one refers to, dependencies first."""
        for reference in schema.references or ():
            where = (reference.subject, reference.version)
            if where in seen:
                continue
            seen.add(where)
            if len(seen) > MAX_REFERENCES:
                raise SchemaProblem(f"it refers to more than {MAX_REFERENCES} others")
            inner = self._client.version(*where)
            if inner is None:
                raise SchemaProblem(
                    f"it refers to version {where[1]} of {where[0]!r}, which the registry does not have"
                )
            yield from self._references(inner, seen)
            yield reference.name, inner.schema_str


def _descriptors(text: str, referred: dict[str, str]) -> bytes:
    """A FileDescriptorSet of a Protobuf schema, which registries have as .proto text or as a FileDescriptorProto in Base64."""
    from google.protobuf import descriptor_pb2

    from explain_sidecar.formats.files import compiled

    files = [(name, _serialized(file)) for name, file in [*referred.items(), ("record.proto", text)]]
    if all(file is not None for _, file in files):
        found = descriptor_pb2.FileDescriptorSet()
        for name, file in files:
            file.name = name
            found.file.append(file)
        return _with_known(found)
    imports = {name: file.encode() for name, file in referred.items()}
    return compiled("record.proto", text.encode(), imports)


def _serialized(text: str) -> Any:
    """The FileDescriptorProto in Base64; None where the text is something else."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _with_known(files: Any) -> bytes:
    """The set with the files of Google's that it imports, which registries do not keep."""
    from google.protobuf import descriptor_pb2

    known: dict[str, Any] = {}
    there = {file.name for file in files.file}

    def add(name: str) -> None:
        if name in there or name in known:
            return
        if not name.startswith("google/"):
            raise SchemaProblem(f"it imports {name!r}, which is not among its references")
        try:
            module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        except ImportError:
            raise SchemaProblem(f"it imports {name!r}, which is not installed") from None
        for dependency in module.DESCRIPTOR.dependencies:
            add(dependency.name)
        known[name] = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(known[name])

    for file in files.file:
        for name in file.dependency:
            add(name)
    found = descriptor_pb2.FileDescriptorSet(file=[*known.values(), *files.file])
    data: bytes = found.SerializeToString(deterministic=True)
    return data
