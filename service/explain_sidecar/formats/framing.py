"""The id of the schema that a value was written with: in a header, or before the value.

Confluent's wire format: a byte 0 and the schema's id in four bytes, or a byte 1 and its GUID in sixteen. A header
``__value_schema_id`` has the same bytes, and the value is then bare. In Protobuf, the path to the message in its file follows the id.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from explain_sidecar.formats.errors import BadRecord, Headers

HEADER = "__value_schema_id"

MAX_NESTING = 32
"""Levels of messages within messages that a path may go down."""

FIRST = (0,)
"""Path of the first message in a file."""

_ID, _GUID = 0, 1

SIMPLE = 5
"""Bytes of a frame with a number; in Protobuf one more names the first message."""


class Framed(NamedTuple):
    """A value without its frame. ``after``: what follows the id in its header; None where the id stands before the value."""

    key: str
    body: bytes
    after: bytes | None


def unframe(value: bytes, headers: Headers) -> Framed:
    """Take the frame off a value. Raises ``BadRecord`` where it has none."""
    for name, frame in headers:
        if name == HEADER and frame is not None:
            key, end = _key(frame, f"the header {HEADER}")
            return Framed(key, value, frame[end:])
    key, end = _key(value, "the value")
    return Framed(key, value[end:], None)


def message_path(framed: Framed) -> tuple[tuple[int, ...], bytes]:
    """The path to a Protobuf message in its file, and the message. Raises ``BadRecord`` where there is no such path."""
    data = framed.body if framed.after is None else framed.after
    if data[:1] == b"\0":
        path: tuple[int, ...] = FIRST
        end = 1
    else:
        length, end = _varint(data, 0)
        if not 0 < length <= MAX_NESTING:
            raise BadRecord("bad_frame", f"the frame names a Protobuf message at level {length}")
        indexes = []
        for _ in range(length):
            index, end = _varint(data, end)
            indexes.append(index)
        path = tuple(indexes)
    if framed.after is None:
        return path, data[end:]
    if end != len(data):
        raise BadRecord("bad_frame", f"the header {HEADER} has {len(data) - end} bytes too many")
    return path, framed.body


def _key(data: bytes, where: str) -> tuple[str, int]:
    kind = data[0] if data else None
    if kind == _ID and len(data) >= 5:
        return str(int.from_bytes(data[1:5])), 5
    if kind == _GUID and len(data) >= 17:
        return str(UUID(bytes=data[1:17])), 17
    raise BadRecord(
        "bad_frame",
        f"{where} does not begin with a schema's id: a byte 0 and four more, or a byte 1 and sixteen more; "
        "where records have no such id, set record.framing to none",
    )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of at most five bytes, and where it ends."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise BadRecord("bad_frame", "the path to the Protobuf message is cut off or too long")
