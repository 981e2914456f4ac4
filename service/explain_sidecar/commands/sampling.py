"""What the newest records of a topic are: as the settings decode them, and by their visible format and framing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
import yaml

from explain_core.markers import Markers
from explain_sidecar.errors import UserError
from explain_sidecar.fold.models import record_settings, version_artefact
from explain_sidecar.fold.records import Decoder, InputRecord
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.framing import HEADER, unframe
from explain_sidecar.formats.paths import ABSENT, find, path_of
from explain_sidecar.formats.reading import KINDS, ValueReader
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.formats.source import schema_source
from explain_sidecar.settings import Settings
from explain_sidecar.settings.records import RecordSettings

Placed = tuple[int, InputRecord]
"""A partition, and a record of it."""

ENVELOPES = (("payload.after", ("payload.op",)), ("after", ("op", "before")), ("data", ("specversion",)))
"""``record.root`` where these fields are beside it: Debezium with a schema in each record and without, CloudEvents."""


@dataclass
class Inferred:
    """A feature as the sample has it: the kinds of its values, in how many records, and one value."""

    kinds: set[str] = field(default_factory=set)
    records: int = 0
    example: Any = None
    markers: Markers = field(default_factory=Markers)


@dataclass
class Tally:
    """The outcome of decoding a sample; ``bad`` has the number of records and the first message of each class; ``newest`` is the newest event time; ``roles``: how many
    have what the settings name that may be absent.
    """

    good: int = 0
    skipped: int = 0
    newest: int | None = None
    roles: Counter[str] = field(default_factory=Counter)
    bad: dict[str, tuple[int, str]] = field(default_factory=dict)
    features: dict[str, Inferred] = field(default_factory=dict)
    labels: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class RecordShape:
    """What most records look like: ``words`` says it. ``settings`` is None where more has to be known to read them; ``fields`` are a record's."""

    words: str
    settings: RecordSettings | None = None
    fields: tuple[str, ...] = ()


def tally(settings: Settings, values: RecordSettings, records: Sequence[Placed]) -> Tally:
    """Decode the records, as `run` with these settings of records would."""
    known = settings.model_copy(update={"record": values})
    schemas, fetch, found = Schemas(), schema_source(known), Tally()
    decoder = Decoder(
        record_settings(known),
        settings.model.task,
        schemas,
        partial(_columns, settings) if settings.models.enabled else None,
    )
    for partition, record in records:
        try:
            sample = schemas.supply(decoder.decode, record, fetch)
        except BadRecord as error:
            count, first = found.bad.get(
                error.error_class, (0, f"partition {partition} offset {record.offset}: {error}")
            )
            found.bad[error.error_class] = count + 1, first
            continue
        if sample is None:
            found.skipped += 1
            continue
        found.good += 1
        found.newest = sample.timestamp if found.newest is None else max(found.newest, sample.timestamp)
        if sample.labelled:
            found.labels[str(sample.y)] += 1
        found.roles.update(label=sample.labelled, weight=sample.weight != 1.0, id=sample.id is not None)
        for name, value in sample.x.items():
            seen = found.features.setdefault(name, Inferred())
            seen.kinds.add({bool: "boolean", str: "string"}.get(type(value), "number"))
            seen.records += 1
            seen.example = value
            seen.markers.add(value)
    return found


def _columns(settings: Settings, version: str) -> Sequence[str]:
    try:
        return version_artefact(settings, version).features
    except UserError as error:
        raise BadRecord("unknown_version", str(error)) from None


def look(settings: Settings, records: Sequence[Placed]) -> RecordShape | None:
    """What most of the records with a value look like; None where there are none.

    Asks the registry what the schema of one of them is. Raises ``UserError`` where it does not answer.
    """
    frames = [_frame(record) for _, record in records if record.value is not None]
    if not frames:
        return None
    (where, is_json), _ = Counter(frame[:2] for frame in frames).most_common(1)[0]
    if where is None:
        if is_json:
            return _read(settings, "JSON objects without a schema's id", {"format": "json"}, records)
        return RecordShape(
            "neither JSON nor with a schema's id: probably bare Avro or Protobuf; "
            "set record.format, record.framing none and record.schema_file"
        )
    key = next(key for *kind, key in frames if kind == [where, is_json])
    framed = f"with a schema's id {where}, such as {key}"
    if settings.registry.url is None:
        if is_json:
            return _read(
                settings, f"JSON objects {framed}", {"format": "json", "framing": "registry"}, records
            )
        return RecordShape(f"Avro or Protobuf {framed}; set registry.url, whose schema says which")
    schema = RegistryClient(settings.registry).schema(key)
    if schema is None:
        return RecordShape(
            f"binary {framed}, which the registry at {settings.registry.url} does not have; is it the producers' registry?"
        )
    kind = schema.schema_type or "AVRO"
    format = next((name for name, of_registry in KINDS.items() if of_registry == kind), None)
    if format is None:
        return RecordShape(
            f"values {framed}, whose schema is of type {kind}; `run` reads {', '.join(KINDS.values())}"
        )
    return _read(settings, f"{_WORDS[format]} {framed}", {"format": format}, records)


_WORDS = {"avro": "Avro", "protobuf": "Protobuf", "json_schema": "JSON by a JSON Schema"}


def _frame(record: InputRecord) -> tuple[str | None, bool, str]:
    """Where the schema's id is, whether the rest is a JSON object, and the id."""
    value, where, key = record.value or b"", None, ""
    with suppress(BadRecord):
        framed = unframe(value, record.headers)
        where = "before each value" if framed.after is None else f"in the header {HEADER}"
        value, key = framed.body, framed.key
    try:
        is_json = isinstance(orjson.loads(value), dict)
    except orjson.JSONDecodeError:
        is_json = False
    return where, is_json, key


def _read(settings: Settings, words: str, found: dict[str, Any], records: Sequence[Placed]) -> RecordShape:
    """The first candidate settings that decode the records, and the fields of a record."""
    own = settings.record
    known: dict[str, Any] = {"framing": None, "schema_file": None, "message": None, **found}
    same = own.format in (known["format"], "json_schema" if known["format"] == "json" else None)
    if same and own.framed == own.model_copy(update=known).framed:
        known = {}  # a schema to read by, too
    values = own.model_copy(update=known)
    schemas = Schemas()
    reader, fetch = ValueReader(values, schemas), schema_source(settings, values)
    for _, record in records:
        try:
            data, _ = schemas.supply(
                lambda message: reader.read(message.value or b"", message.headers), record, fetch
            )
        except BadRecord:
            continue
        root = values.root or next(
            (
                path
                for path, beside in ENVELOPES
                if isinstance(find(data, path_of(path)), dict)
                and all(find(data, path_of(name)) is not ABSENT for name in beside)
            ),
            None,
        )
        inner = data if root is None else find(data, path_of(root))
        if isinstance(inner, dict):
            return RecordShape(words, values.model_copy(update={"root": root}), tuple(inner))
    return RecordShape(words, values)


def to_paste(settings: Settings, seen: RecordSettings, fields: Sequence[str]) -> str:
    """The settings, as YAML, with which such records are read."""
    record: dict[str, Any] = {"format": seen.format}
    for name in ("framing", "schema_file", "message", "root"):
        if (value := getattr(seen, name)) is not None:
            record[name] = str(value)
    record["label"] = seen.label
    sections: dict[str, Any] = {"record": record}
    if seen.needs_registry:
        sections["registry"] = {"url": settings.registry.url, "format": settings.registry.format}
    text: str = yaml.safe_dump(sections, sort_keys=False, allow_unicode=True)
    if fields and not {seen.label, seen.label.partition(".")[0]} & set(fields):
        text = text.replace(
            f"  label: {seen.label}\n",
            f"  label: {seen.label}  # no such field; one of {', '.join(fields)}\n",
        )
    return text
