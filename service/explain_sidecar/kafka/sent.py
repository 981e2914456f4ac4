"""What a transaction sends, and what is known of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message


class Sent(NamedTuple):
    """A message of the open transaction.

    ``owner``: the partition of the input that it is of, if that is another than the one it goes to.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Any
    owner: int | None = None


Keyed = tuple[bytes, bytes | None, list[tuple[str, bytes]]]
"""Key, value (None is a tombstone) and headers."""


@dataclass
class Ends:
    """Offsets of the first and the last of several messages; −1 until Kafka has acknowledged them."""

    first: int = -1
    last: int = -1


def size_of(sent: Sent) -> int:
    """Bytes that a message takes, about."""
    size = 200 + len(sent.value or b"")
    for _, value in sent.headers:
        size += len(value or b"")
    return size


def stored_at(error: KafkaError | None, message: Message) -> int:
    """−1 also where a message was stored at an offset that Kafka no longer knows, as after the retry of a batch before the last."""
    offset = message.offset()
    return -1 if error is not None or offset is None else offset
