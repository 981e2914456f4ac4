"""What the join reads: from the bytes of a Kafka message to an event, a label or a tombstone, or to the reason for rejecting it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import orjson
from msgspec import structs

from explain_core.losses import fits_64_bits
from explain_sidecar.fold.records import InputRecord, milliseconds, short
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.json_schema import read_json
from explain_sidecar.formats.paths import ABSENT, find, path_of
from explain_sidecar.formats.reading import ValueReader
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.formats.source import schema_source
from explain_sidecar.join.entries import Event, Label
from explain_sidecar.settings import Settings
from explain_sidecar.settings.join import JoinInputSettings

SOURCE_HEADER = "__join.source"
"""On the internal topics: the partition that a record came from, its timestamp in Kafka, and how many of its headers were unreadable."""

MAX_BYTES = 1_000
"""Longest id."""


class Tombstone(NamedTuple):
    """A record without a value; its key is the id."""

    id: bytes
    timestamp: int


class Rejected(NamedTuple):
    """A record that cannot be used; it has no time of its own."""

    record: InputRecord
    error: BadRecord
    timestamp: None = None


Found = Event | Label | Tombstone | Rejected


class _Input:
    def __init__(
        self, settings: Settings, section: JoinInputSettings, name: str, schemas: Schemas | None
    ) -> None:
        self._section = section
        self._name = f"join.{name}"
        self._id = path_of(section.id)
        self._timestamp = path_of(section.timestamp)
        self._max_bytes = settings.record.max_bytes
        self._copied = settings.join.repartition
        self._schemas = Schemas() if schemas is None else schemas  # an empty one is false
        self._reader = ValueReader(section, self._schemas, self._name)
        self._fetch = schema_source(settings, section)
        self._plain = section.format == "json" and not section.framed

    def source(self, record: InputRecord, partition: int) -> tuple[InputRecord, int]:
        """The original record of a copy, and its partition."""
        name, source = record.headers[-1] if record.headers else ("", None)
        numbers = (source or b"").split(b" ")
        if name != SOURCE_HEADER or not all(number.removeprefix(b"-").isdigit() for number in numbers):
            raise BadRecord(
                "bad_header",
                f"its last header is not {SOURCE_HEADER}: another program wrote it to a topic of the join's own",
            )
        came_from, timestamp, *more = map(int, numbers)
        own = structs.replace(
            record, timestamp=timestamp, headers=record.headers[:-1], unreadable_headers=sum(more)
        )
        return own, came_from

    def data(self, record: InputRecord) -> dict[str, Any] | None:
        """The object that a record holds; None for a tombstone. Raises ``BadRecord``."""
        value = record.value
        if record.unreadable_headers:
            raise BadRecord(
                "bad_header", f"{record.unreadable_headers} of the headers have names that are not UTF-8"
            )
        if value is None:
            return None
        if len(value) > self._max_bytes:
            raise BadRecord(
                "too_large", f"the value has {len(value)} bytes; record.max_bytes is {self._max_bytes}"
            )
        if self._plain:
            return read_json(value)
        return self._schemas.supply(self._read, record, self._fetch)

    def _read(self, record: InputRecord) -> dict[str, Any]:
        assert record.value is not None
        return self._reader.read(record.value, record.headers)[0]

    def id(self, record: InputRecord, data: dict[str, Any] | None) -> bytes:
        if data is None or self._id is None:
            if not record.key:
                raise BadRecord("bad_id", f"{self._name}.id: the record has no key, which is its id")
            found = record.key
        else:
            value = find(data, self._id)
            if type(value) not in (str, int) or value == "":
                what = "absent" if value is ABSENT else short(value)
                raise BadRecord(
                    "bad_id",
                    f"{self._name}.id: {self._section.id!r} is {what}; it must be a string or an integer",
                )
            found = str(value).encode()
        if len(found) > MAX_BYTES:
            raise BadRecord("bad_id", f"{self._name}.id has {len(found)} bytes; it may have {MAX_BYTES}")
        return found

    def time(self, record: InputRecord, data: dict[str, Any] | None) -> int:
        if data is None or self._timestamp is None:
            return record.timestamp
        return milliseconds(find(data, self._timestamp), self._section.timestamp)


class EventInput(_Input):
    """Reads the events topic."""

    def __init__(self, settings: Settings, schemas: Schemas | None = None) -> None:
        super().__init__(settings, settings.join.events, "events", schemas)
        record = settings.record
        self._label = record.label
        self._features = (
            None if record.features is None else [(name, path_of(name)) for name in record.features]
        )
        self._numbers = [(name, path_of(name)) for name in (record.weight, record.prediction) if name]

    def read(self, record: InputRecord, partition: int) -> Event | Tombstone:
        """Raises ``BadRecord``. JSON stays as it is, byte for byte, but for a field in the place of the label."""
        if self._copied:
            record, partition = self.source(record, partition)
        data = self.data(record)
        id, timestamp = self.id(record, data), self.time(record, data)
        if data is None:
            return Tombstone(id, timestamp)
        assert record.value is not None
        verbatim = self._plain and self._label not in data
        value = record.value.strip() if verbatim else self._json(data)
        return Event(id, timestamp, value[:-1].rstrip(), record.key, record.headers, partition)

    def _json(self, data: dict[str, Any]) -> bytes:
        """The event as JSON, without the label. Raises ``BadRecord`` where JSON would have another value: it has no NaN."""
        used = data.items() if self._features is None else _at(data, self._features)
        for name, value in (*used, *_at(data, self._numbers)):
            if type(value) is float and not isfinite(value):
                raise BadRecord(
                    "not_finite", f"{short(name)} is {value}, which a joined record cannot have: it is JSON"
                )
        try:
            return orjson.dumps({name: value for name, value in data.items() if name != self._label})
        except TypeError as error:  # numbers of more than 64 bits, more than 254 levels
            raise BadRecord("not_json", f"the event cannot be written as JSON: {error}") from None


def _at(data: dict[str, Any], fields: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name, find(data, path)) for name, path in fields]


class LabelInput(_Input):
    """Reads the labels topic."""

    def __init__(self, settings: Settings, schemas: Schemas | None = None) -> None:
        super().__init__(settings, settings.join.labels, "labels", schemas)
        self._path = path_of(settings.join.labels.label)
        self._field = settings.join.labels.label

    def read(self, record: InputRecord, partition: int) -> Label | Tombstone:
        """Raises ``BadRecord``."""
        if self._copied:
            record, _ = self.source(record, partition)
        data = self.data(record)
        id, timestamp = self.id(record, data), self.time(record, data)
        if data is None:
            return Tombstone(id, timestamp)
        label = find(data, self._path)
        if not _is_label(label):
            raise BadRecord(
                "missing_label" if label is ABSENT or label is None else "bad_label",
                f"join.labels.label: {self._field!r} is {'absent' if label is ABSENT else short(label)}; "
                "it must be a string, a finite number of at most 64 bits, or a boolean",
            )
        return Label(id, timestamp, orjson.dumps(label))


def _is_label(value: Any) -> bool:
    if type(value) is int:
        return fits_64_bits(value)
    return isfinite(value) if type(value) is float else type(value) in (str, bool)


def record_value(body: bytes, field: bytes, label: bytes) -> bytes:
    """The event with its label as the last field, whose name is given in JSON."""
    return b"%b%b%b:%b}" % (body, b"" if body.endswith(b"{") else b",", field, label)
