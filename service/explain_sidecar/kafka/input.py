"""Input messages, as the fold and the join read them."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Message

from explain_sidecar.fold.records import InputRecord
from explain_sidecar.kafka.headers import offset_of, read_headers


class Received(NamedTuple):
    """A message of a partition of the input and its record; None where it is no record, but what librdkafka says of the partition."""

    partition: int
    message: Message
    record: InputRecord | None


def received(message: Message) -> Received:
    partition: int = message.partition()  # type: ignore[assignment]
    return Received(partition, message, record_of(message) if message.error() is None else None)


def record_of(message: Message) -> InputRecord:
    """Read a message, once: afterwards it lacks what is wrong with it."""
    timestamp = message.timestamp()[1]
    return InputRecord(offset_of(message), timestamp, message.key(), message.value(), *read_headers(message))
