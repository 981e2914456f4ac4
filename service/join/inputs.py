"""What the join reads: from the bytes of a Kafka message to an event, a label or a tombstone, or to the reason for rejecting it."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from service.fold.records import InputRecord, milliseconds, short
from service.formats.errors import BadRecord
from service.formats.json_schema import read_json
from service.formats.paths import ABSENT, find, path_of
from service.formats.reading import ValueReader
from service.formats.schemas import Schemas
from service.formats.source import schema_source
from service.join.entries import Event, Label
from service.settings import JoinInputSettings, Settings

SOURCE_HEADER = "__join.source"
"""On the internal topics: the partition that a record came from, and its timestamp in Kafka."""

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
    def __init__(self, settings: Settings, section: JoinInputSettings, name: str) -> None:
        self._section = section
        self._name = f"join.{name}"
        self._id = path_of(section.id)
        self._timestamp = path_of(section.timestamp)
        self._max_bytes = settings.record.max_bytes
        self._copied = settings.join.repartition
        self._schemas = Schemas()
        self._reader = ValueReader(section, self._schemas, self._name)
        self._fetch = schema_source(settings, section)
        self._plain = section.format == "json" and not section.framed

    def source(self, record: InputRecord, partition: int) -> tuple[InputRecord, int]:
        """The original record of a copy, and its partition."""
        *own, (_, source) = record.headers
        came_from, _, timestamp = (source or b"").partition(b" ")
        return record._replace(timestamp=int(timestamp), headers=tuple(own)), int(came_from)

    def id_of(self, record: InputRecord) -> bytes:
        """Raises ``BadRecord``."""
        return self.id(record, self.data(record))

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

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, settings.join.events, "events")
        self._label = settings.record.label

    def read(self, record: InputRecord, partition: int) -> Event | Tombstone:
        """Raises ``BadRecord``. JSON stays as it is, byte for byte, but for a field in the place of the label."""
        if self._copied:
            record, partition = self.source(record, partition)
        data = self.data(record)
        id, timestamp = self.id(record, data), self.time(record, data)
        if data is None:
            return Tombstone(id, timestamp)
        assert record.value is not None
        if self._plain and self._label not in data:
            value = record.value.strip()
        else:
            value = orjson.dumps({name: value for name, value in data.items() if name != self._label})
        return Event(id, timestamp, value[:-1].rstrip(), record.key, record.headers, partition)


class LabelInput(_Input):
    """Reads the labels topic."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, settings.join.labels, "labels")
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
        if label is ABSENT or type(label) not in (str, int, float, bool):
            raise BadRecord(
                "missing_label" if label is ABSENT or label is None else "bad_label",
                f"join.labels.label: {self._field!r} is {'absent' if label is ABSENT else short(label)}; "
                "it must be a string, a number or a boolean",
            )
        return Label(id, timestamp, orjson.dumps(label))


def record_value(body: bytes, field: bytes, label: bytes) -> bytes:
    """The event with its label as the last field, whose name is given in JSON."""
    return b"%b%b%b:%b}" % (body, b"" if body.endswith(b"{") else b",", field, label)
