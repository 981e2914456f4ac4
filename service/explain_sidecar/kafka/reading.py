"""Reading a compacted topic at explicit offsets."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from explain_sidecar.errors import UserError


class Superseded(Exception):
    """What is to be read was compacted away: something newer was committed meanwhile."""


def read(consumer: Consumer, seconds: float, count: int = 500) -> Iterator[Message]:
    """The messages that come within a time; one with an error stands for the end of what is committed."""
    first = consumer.poll(seconds)
    # consume() would wait for the whole count; what is there already comes without waiting.
    for message in [] if first is None else [first, *consumer.consume(count, 0.0)]:
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            yield message
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise Superseded
        elif error.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            raise UserError(
                f"{message.topic() or 'consumer group'}: {error.str()}; grant this user READ on the sidecar's topics and on the groups that "
                "begin with app_id, see docs/guarantees.md for all rights"
            )
        elif not error.retriable() and error.code() not in (
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
        ):
            raise KafkaException(error)
