"""The headers of a Kafka message, whatever bytes its producer named them with."""

from __future__ import annotations

import gc
from operator import methodcaller
from typing import NamedTuple

from confluent_kafka import Message

from explain_sidecar.formats.errors import Headers


class Read(NamedTuple):
    """The headers whose names are UTF-8, and the number of the others, which the client cannot give."""

    headers: Headers
    unreadable: int = 0


_NONE = Read(())

_headers = methodcaller("headers")
"""Calls ``message.headers()`` and checks its outcome; Python's own fast path for methods in C does not, and raises later, elsewhere."""


def read_headers(message: Message) -> Read:
    """The headers of a message. Afterwards the message itself has only the readable ones.

    confluent-kafka decodes the names as UTF-8. Where a name is not, it raises ``SystemError`` and keeps a list in which that
    header's tuple has no name at all: Python code that takes such an item crashes the interpreter. The garbage collector tells
    which items are there.
    """
    try:
        found = _headers(message)
        return Read(tuple(found)) if found else _NONE
    except (SystemError, UnicodeDecodeError):
        found = _headers(message) or []
        readable = [pair for pair in found if len(gc.get_referents(pair)) == 2]
        message.set_headers(readable)
        return Read(tuple(readable), len(found) - len(readable))


def offset_of(message: Message) -> int:
    """The offset of a message that was read, or of the end of a partition; either always has an offset."""
    offset: int = message.offset()  # type: ignore[assignment]
    return offset
