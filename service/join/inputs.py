"""What the join reads: from the bytes of a Kafka message to an event, a label or a tombstone, or to the reason why not."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from service.fold.records import ABSENT, InputRecord, find, milliseconds, path_of, short
from service.formats.errors import BadRecord
from service.join.entries import Event, Label
from service.settings import JoinInputSettings, Settings

PARTITION_HEADER = "__join.partition"
"""On the internal topic of events: the partition that the event came from."""

MAX_BYTES = 1_000
"""Longest id."""


class Tombstone(NamedTuple):
    """A record without a value; its key is the id."""

    id: bytes
    timestamp: int


class _Input:
    def __init__(self, settings: Settings, section: JoinInputSettings, name: str) -> None:
        self._section = section
        self._name = f"join.{name}"
        self._id = path_of(section.id)
        self._timestamp = path_of(section.timestamp)
        self._max_bytes = settings.record.max_bytes

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
        try:
            data = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise BadRecord("not_json", f"the value is not JSON: {error}") from None
        if type(data) is not dict:
            raise BadRecord("not_object", f"the value is {short(data)}; it must be an object")
        return data

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
        """Raises ``BadRecord``. The bytes of the event stay as they are, but for a field in the place of the label."""
        data = self.data(record)
        id, timestamp = self.id(record, data), self.time(record, data)
        if data is None:
            return Tombstone(id, timestamp)
        assert record.value is not None
        if self._label in data:
            del data[self._label]
            value = orjson.dumps(data)
        else:
            value = record.value.strip()
        headers = record.headers
        if headers and headers[-1][0] == PARTITION_HEADER:
            partition, headers = int(headers[-1][1] or b"0"), headers[:-1]
        return Event(id, timestamp, value[:-1].rstrip(), record.key, headers, partition)


class LabelInput(_Input):
    """Reads the labels topic."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, settings.join.labels, "labels")
        self._path = path_of(settings.join.labels.label)
        self._field = settings.join.labels.label

    def read(self, record: InputRecord, partition: int) -> Label | Tombstone:
        """Raises ``BadRecord``."""
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


def record_value(body: bytes, field: str, label: bytes) -> bytes:
    """The event with its label as the last field."""
    comma = b"" if body.endswith(b"{") else b","
    return body + comma + orjson.dumps(field) + b":" + label + b"}"
