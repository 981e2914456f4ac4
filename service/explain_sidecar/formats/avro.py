"""Values in Avro: what its types mean to the fold, and how its schemas evolve.

A record is read with the schema that it was written with. Moments become milliseconds since 1970, lengths of time milliseconds,
decimals numbers, UUIDs and enums texts, other bytes Base64. With a reader's schema Avro's schema resolution applies.
"""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from explain_sidecar.formats.errors import BadRecord, Read, SchemaProblem
from explain_sidecar.formats.names import Names
from explain_sidecar.formats.paths import levels

MAX_DEPTH = 64
"""Levels of a schema. fastavro calls itself at each level of a value and nothing there bounds how deep; deep enough is a crash."""

MAX_PARTS = 100_000
"""Of a schema's JSON, and of a record by it, where a list counts once: types by name can name one another twice at each of many levels."""

MAX_WEIGHTLESS = 10
"""Values without bytes in an item of an array or map, of which a record has as many as it has bytes."""

MAX_SCALE = 300
"""Digits after a decimal's point; a float has no more."""

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_DAY_MS = 86_400_000
_WRITTEN = "sidecar-written"
"""Of a prepared field: its name in the schema, by which defaults know it."""

_FLOATS = {"float": "<f", "double": "<d"}
"""As Avro writes them."""


class AvroSchema:
    """The schema of a record, ready to read. ``names``: its full name, and its aliases."""

    def __init__(self, source: bytes, names: Names | None = None) -> None:
        """``source``: a JSON array of schemas, the record's last. ``names`` keeps renamed fields under the name of before.

        Raises ``SchemaProblem``.
        """
        from fastavro import parse_schema
        from fastavro.read import LOGICAL_READERS

        LOGICAL_READERS.update(_READERS)
        try:
            last, named = _parsed(orjson.loads(source))
            if not isinstance(last, dict) or last.get("type") != "record":
                raise SchemaProblem("its topmost type is not a record")
            prepared, _ = _Preparation(named, names).of(last)
            self.parsed: Any = parse_schema(prepared)
            _convert_defaults(self.parsed)
        except SchemaProblem:
            raise
        # The library has an exception for each kind of error, and raises others for errors that it does not expect.
        except Exception as error:
            raise SchemaProblem(f"it is no Avro schema: {type(error).__name__}: {error}") from None
        self.names = [last["name"], *_full_names(last)]

    def is_for(self, written: AvroSchema) -> bool:
        """Whether records of another schema are of this schema's type, by its name or one of its aliases."""
        return written.names[0] in self.names

    def reader(self, target: AvroSchema | None = None) -> Read:
        """A reader of values of this schema, as values of ``target`` where that is given."""
        from fastavro import schemaless_reader
        from fastavro.read import SchemaResolutionError

        written, wanted, name = self.parsed, None if target is None else target.parsed, self.names[0]

        def read(body: bytes) -> dict[str, Any]:
            stream = io.BytesIO(body)
            try:
                found: Any = schemaless_reader(stream, written, wanted)
            except SchemaResolutionError as error:
                raise BadRecord(
                    "not_avro", f"a {name} cannot be read by record.schema_file: {error}"
                ) from None
            # As above. Its message may contain a memory address, and a dead letter must be the same in every process.
            except Exception as error:
                raise BadRecord("not_avro", f"the value is no {name}: {type(error).__name__}") from None
            if stream.tell() != len(body):
                raise BadRecord(
                    "not_avro", f"the value has {len(body) - stream.tell()} bytes after its {name}"
                )
            return found  # type: ignore[no-any-return]

        return read


def _parsed(schemas: list[Any]) -> tuple[Any, dict[str, Any]]:
    """The last of several schemas with full names, and every named type in them."""
    from fastavro import parse_schema

    named: Any = {}
    last: Any = None
    parts = 0
    for depth, level in enumerate(levels(schemas)):
        parts += len(level)
        if parts > MAX_PARTS:
            raise SchemaProblem(f"it has more than {MAX_PARTS:,} parts")
        if depth > 2 * MAX_DEPTH + 1:  # a level of records is two of JSON, with its list of fields
            raise SchemaProblem(f"it has more than {MAX_DEPTH} levels")
    for schema in schemas:
        last = parse_schema(schema, named, _write_hint=False)
    return last, named


def _full_names(schema: dict[str, Any]) -> list[str]:
    """The aliases of a named type; one without a dot is in the type's own namespace."""
    space = schema["name"].rpartition(".")[0]
    return [alias if "." in alias or not space else f"{space}.{alias}" for alias in schema.get("aliases", ())]


class _Extent(NamedTuple):
    """How many values a value of a schema holds, itself included, how deep they lie, and how many of them take no bytes."""

    parts: int
    levels: int
    weightless: int

    @classmethod
    def around(cls, inner: Sequence[_Extent], weightless: int) -> _Extent:
        """Of a value with these in it. Raises ``SchemaProblem`` where one is too many."""
        parts = 1 + sum(each.parts for each in inner)
        levels = 1 + max((each.levels for each in inner), default=0)
        if parts > MAX_PARTS:
            raise SchemaProblem(f"a record of it has more than {MAX_PARTS:,} parts")
        if levels > 2 * MAX_DEPTH:
            raise SchemaProblem(f"it has more than {MAX_DEPTH} levels")
        return cls(parts, levels, weightless)

    @property
    def empty(self) -> bool:
        """Whether it may take no bytes at all."""
        return self.weightless == self.parts


class _Preparation:
    """A schema as it is read: logical types replaced by ours, fields under the names that they keep."""

    def __init__(self, named: dict[str, Any], names: Names | None) -> None:
        self._named = named
        self._names = names
        self._open: set[str] = set()
        self._known: dict[str, _Extent] = {}

    def of(self, schema: Any) -> tuple[Any, _Extent]:
        """The prepared schema, and the extent of a value of it."""
        if isinstance(schema, list):
            found = [self.of(branch) for branch in schema]
            inner = [extent for _, extent in found]
            # The number of the branch takes a byte.
            weightless = max([1, *(extent.weightless for extent in inner)]) - 1
            return [prepared for prepared, _ in found], _Extent.around(inner, weightless)
        if isinstance(schema, dict):
            return self._complex(schema)
        if schema == "bytes":
            return {"type": "bytes", "logicalType": "sidecar-base64"}, _Extent(1, 1, 0)
        if schema in _PRIMITIVES:
            return schema, _Extent(1, 1, schema == "null")
        if schema in self._open:
            raise SchemaProblem(f"{schema} contains itself; types that do are not supported")
        if schema in self._known:
            return schema, self._known[schema]
        return self._complex(self._named[schema])

    def _complex(self, schema: dict[str, Any]) -> tuple[Any, _Extent]:
        kind, logical = schema["type"], schema.get("logicalType")
        rest = {key: value for key, value in schema.items() if key != "logicalType"}
        if kind in ("record", "error"):
            return self._record(rest)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            prepared, extent = self.of(schema[inner])
            if extent.empty and kind == "array":
                raise SchemaProblem(
                    "it has an array of values that take no bytes, of which a record could claim any number"
                )
            if extent.weightless > MAX_WEIGHTLESS:
                raise SchemaProblem(
                    f"it has items with {extent.weightless} values that take no bytes, and at most {MAX_WEIGHTLESS} are taken"
                )
            return {**rest, inner: prepared}, _Extent.around([extent], 0)
        ours = _OURS.get((kind, logical)) or _OURS.get((kind, None))
        scale = schema.get("scale", 0)
        if ours == "sidecar-decimal" and not (isinstance(scale, int) and 0 <= scale <= MAX_SCALE):
            raise SchemaProblem(
                f"it has a decimal of scale {scale}; a scale is a number from 0 to {MAX_SCALE}"
            )
        extent = _Extent(1, 1, kind == "null" or (kind == "fixed" and schema["size"] == 0))
        if "name" in schema:
            self._known[schema["name"]] = extent
        return {**rest, "logicalType": ours} if ours else rest, extent

    def _record(self, schema: dict[str, Any]) -> tuple[Any, _Extent]:
        name, fields = schema["name"], schema["fields"]
        self._open.add(name)
        kept = [field["name"] for field in fields]
        if self._names is not None:
            marks = [(field["name"], [field["name"], *field.get("aliases", ())]) for field in fields]
            kept = self._names.of([name, *_full_names(schema)], marks)
        found = [self.of(field["type"]) for field in fields]
        self._open.remove(name)
        inner = [extent for _, extent in found]
        weightless = sum(extent.weightless for extent in inner)
        empty = all(extent.empty for extent in inner)
        self._known[name] = _Extent.around(inner, weightless + empty)
        prepared = [
            {**field, "name": own, "type": kind, _WRITTEN: field["name"]}
            for field, own, (kind, _) in zip(fields, kept, found, strict=True)
        ]
        return {**schema, "fields": prepared}, self._known[name]


def _convert_defaults(parsed: Any) -> None:
    """Let the defaults of a schema mean what values of their types mean."""
    named = parsed["__named_schemas"]
    fields = [field for schema in named.values() for field in schema.get("fields", ()) if "default" in field]
    for field, default in [(field, _default(field["type"], field["default"], named)) for field in fields]:
        field["default"] = default


def _default(kind: Any, default: Any, named: dict[str, Any]) -> Any:
    if isinstance(kind, list):
        return (
            default
            if default is None
            else _default(next(branch for branch in kind if branch != "null"), default, named)
        )
    if isinstance(kind, str):
        if kind in _FLOATS and isinstance(default, int | float):
            return struct.unpack(_FLOATS[kind], struct.pack(_FLOATS[kind], default))[0]
        return default if kind in _PRIMITIVES else _default(named[kind], default, named)
    logical = f"{kind['type']}-{kind.get('logicalType')}"
    if logical in _READERS:
        raw = default.encode("latin-1") if kind["type"] in ("bytes", "fixed") else int(default)
        if kind["type"] == "int" and int(raw).bit_length() > 31:
            raise SchemaProblem(f"{raw} is the default of an int, which has 32 bits")
        return _READERS[logical](raw, kind, None)
    if kind["type"] == "array":
        return [_default(kind["items"], item, named) for item in default]
    if kind["type"] == "map":
        return {key: _default(kind["values"], item, named) for key, item in default.items()}
    if kind["type"] == "record":
        fields = {field[_WRITTEN]: field for field in kind["fields"]}
        inner = {name: field["default"] for name, field in fields.items() if "default" in field}
        return {
            fields[name]["name"]: _default(fields[name]["type"], item, named)
            for name, item in {**inner, **default}.items()
        }
    return default


def _decimal(data: bytes, writer: dict[str, Any], reader: Any) -> float:
    scale: int = writer.get("scale", 0)
    number: float = int.from_bytes(data, signed=True) / 10**scale
    return number


def _uuid(data: bytes, writer: dict[str, Any], reader: Any) -> str:
    return str(UUID(bytes=data))


def _duration(data: bytes, writer: dict[str, Any], reader: Any) -> dict[str, int]:
    parts = (int.from_bytes(data[at : at + 4], "little") for at in (0, 4, 8))
    return dict(zip(("months", "days", "milliseconds"), parts, strict=True))


def _base64(data: bytes, writer: dict[str, Any], reader: Any) -> str:
    return base64.b64encode(data).decode()


_READERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "int-sidecar-days": lambda data, writer, reader: data * _DAY_MS,
    "long-sidecar-micros": lambda data, writer, reader: data / 1_000,
    "long-sidecar-nanos": lambda data, writer, reader: data / 1_000_000,
    "bytes-sidecar-decimal": _decimal,
    "fixed-sidecar-decimal": _decimal,
    "fixed-sidecar-uuid": _uuid,
    "fixed-sidecar-duration": _duration,
    "bytes-sidecar-base64": _base64,
    "fixed-sidecar-base64": _base64,
}
"""Converters from fastavro's values of these logical types, in its form: value, writer's and reader's schema."""

_OURS: dict[tuple[str, str | None], str] = {
    ("int", "date"): "sidecar-days",
    ("long", "time-micros"): "sidecar-micros",
    ("long", "timestamp-micros"): "sidecar-micros",
    ("long", "local-timestamp-micros"): "sidecar-micros",
    ("long", "timestamp-nanos"): "sidecar-nanos",
    ("long", "local-timestamp-nanos"): "sidecar-nanos",
    ("bytes", "decimal"): "sidecar-decimal",
    ("fixed", "decimal"): "sidecar-decimal",
    ("fixed", "uuid"): "sidecar-uuid",
    ("fixed", "duration"): "sidecar-duration",
    ("bytes", None): "sidecar-base64",
    ("fixed", None): "sidecar-base64",
}
"""The sidecar's logical type for each of Avro's. All others, unknown ones included, mean what the underlying type means."""


def sources(schemas: Iterable[str]) -> bytes:
    """The texts of schemas, the record's last, as ``AvroSchema`` takes them. Raises ``SchemaProblem`` where one is not JSON."""
    try:
        return orjson.dumps([orjson.loads(text) for text in schemas])
    except orjson.JSONDecodeError as error:
        raise SchemaProblem(f"it is not JSON: {error}") from None
