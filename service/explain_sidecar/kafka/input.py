"""Input messages, as the fold and the join read them."""

from __future__ import annotations

from confluent_kafka import Message

from explain_sidecar.fold.records import InputRecord
from explain_sidecar.kafka.headers import offset_of, read_headers

Received = tuple[int, Message, InputRecord | None]
"""A partition of the input, a message of it, and its record; None where it is no record, but what librdkafka says of the partition."""


def received(message: Message) -> Received:
    record = record_of(message) if message.error() is None else None
    return message.partition(), message, record  # type: ignore[return-value]


def record_of(message: Message) -> InputRecord:
    """Read a message, once: afterwards it lacks what is wrong with it."""
    timestamp = message.timestamp()[1]
    headers, unreadable = read_headers(message)
    return InputRecord(offset_of(message), timestamp, message.key(), message.value(), headers, unreadable)
