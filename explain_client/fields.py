"""What every message has in common: described fields, times, and the checks of what a topic holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any

import orjson

from explain_client.errors import SchemaError


def described(
    description: str, example: Any, *, unit: str | None = None, default: Any = MISSING, **constraints: Any
) -> Any:
    """A field of a message, described for its schema. With a ``default`` earlier versions did not have it."""
    if unit is not None:
        constraints["json_schema_extra"] = {"x-unit": unit}
    return field(default=default, metadata={"description": description, "examples": [example], **constraints})


DIGEST = "^[0-9a-f]{32}$"
"""A chain's digest: 128 bits in hexadecimal."""

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def utc(milliseconds: int) -> datetime:
    """The time so many milliseconds after 1970; outside the years 1 to 9999 the first or the last moment of these."""
    try:
        return _1970 + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _FIRST if milliseconds < 0 else _LAST


def is_date(milliseconds: int) -> bool:
    """Whether a timestamp is within the years 1 to 9999; one in nanoseconds, say, is not."""
    return utc(milliseconds) not in (_FIRST, _LAST)


@dataclass(frozen=True, slots=True)
class Message:
    """What every message begins with; each says anew what its schema, offset and timestamp are."""

    schema: str = described("Name and version of this schema.", "")
    app_id: str = described("The sidecar's app_id.", "explanation-sidecar")
    topic: str = described("Records topic.", "records")
    partition: int = described("Partition of the records topic, and of this message.", 0, ge=0)
    offset: int = described("Offset of a record.", 0, ge=0)
    timestamp: int = described("Event time of that record.", 0, unit="milliseconds")
    id: str | None = described("Id of that record, where `record.id` is set.", None)
    keys: str | None = described(
        "The one key that all records folded in this epoch have; null where they have several, or none that is a text of 1 to 200 characters.",
        "JFK",
    )
    epoch: int = described("Starts at 0; a reset begins a new one, with a new model.", 0, ge=0)
    seq: int = described("Number of this message in its partition and epoch, from 0.", 0, ge=0)

    @property
    def time(self) -> datetime:
        """Event time of the record that the offset names, in UTC.

        A ``timestamp`` outside the years 1 to 9999, such as one in nanoseconds, gives ``datetime.min`` or ``datetime.max``.
        """
        return utc(self.timestamp)


FRAME_BYTES = 5
"""What a schema registry's serialiser puts before a message: a zero, which no JSON begins with, and the schema's id."""


def unframed(value: bytes) -> bytes:
    """A message without a schema registry's framing, where it has one."""
    return value[FRAME_BYTES:] if value[:1] == b"\0" else value


def decoded(value: bytes, schema: str, what: str, topic: str) -> dict[str, Any]:
    framed, value = value, unframed(value)
    try:
        data: dict[str, Any] = orjson.loads(value)
        found = data["schema"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        if value is not framed:
            raise SchemaError(
                f"{what} in another format than JSON, probably Avro: {framed[:60]!r}; read it with an Avro deserialiser and your "
                "Schema Registry, or set the sidecar's registry.format to json"
            ) from None
        raise SchemaError(f"not {what}: {value[:60]!r}; is this the {topic} topic?") from None
    if found != schema:
        raise SchemaError(
            f"schema {found!r}, and this explain-client reads {schema!r} here; install one of the sidecar's version"
        )
    data["raw"] = value
    return data


_DIGEST = re.compile(DIGEST)
_FIGURE = frozenset((int, float, NoneType))


def require(data: Mapping[Any, Any], kind: type, *names: Any) -> None:
    """Raise ``TypeError`` where one of these values has another type: what reads a topic must not stumble later."""
    for name in names:
        if type(data[name]) is not kind:
            raise TypeError(f"{name} is {data[name]!r:.60}, and has to be of type {kind.__name__}")


def require_head(data: dict[str, Any]) -> None:
    """What every message begins and ends with."""
    data.setdefault("keys", None)  # messages of before have none
    require(data, int, "partition", "offset", "timestamp", "epoch", "seq")
    require(data, str, "app_id", "topic", "digest")
    if not _DIGEST.match(data["digest"]):
        raise TypeError(f"digest is {data['digest']!r:.60}, and has to be 32 hexadecimal digits")
    for name in ("id", "keys"):
        if data[name] is not None:
            require(data, str, name)


def figures(*values: Any) -> tuple[Any, ...]:
    if not _FIGURE.issuperset(map(type, values)):
        raise TypeError(f"{values!r:.60}: not all of these are numbers or null")
    return values
