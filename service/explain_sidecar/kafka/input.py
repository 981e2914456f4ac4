"""Input messages, as the fold and the join read them."""

from __future__ import annotations

from confluent_kafka import Message

from explain_sidecar.fold.records import InputRecord
from explain_sidecar.kafka.headers import offset_of, read_headers


def record_of(message: Message) -> InputRecord:
    timestamp = message.timestamp()[1]
    return InputRecord(offset_of(message), timestamp, message.key(), message.value(), *read_headers(message))
