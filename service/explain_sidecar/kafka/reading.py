"""Reading at explicit offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from explain_sidecar.errors import UserError
from explain_sidecar.kafka.clients import CONNECT_SECONDS
from explain_sidecar.kafka.errors import DENIED
from explain_sidecar.kafka.headers import offset_of


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
        elif error.code() in DENIED:
            raise UserError(
                f"{message.topic() or 'consumer group'}: {error.str()}; grant this user READ on the sidecar's topics and on the groups that "
                "begin with app_id, see docs/guarantees.md for all rights"
            )
        elif not error.retriable() and error.code() not in (
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
        ):
            raise KafkaException(error)


def read_to(consumer: Consumer, where: TopicPartition, end: int) -> Iterator[Message]:
    """The messages of a partition from an offset up to another; what is left before that are control records.

    Raises ``UserError`` where none comes for as long as connecting may take.
    """
    consumer.assign([where])
    at, came = where.offset, time.monotonic()
    try:
        while at < end:
            for message in read(consumer, 1.0):
                at, came = offset_of(message) + 1, time.monotonic()
                if message.error() is not None or at > end:
                    return
                yield message
            if time.monotonic() > came + CONNECT_SECONDS:
                raise UserError(
                    f"{where.topic} partition {where.partition}: no record came within {CONNECT_SECONDS:g} s"
                )
    except Superseded:
        raise UserError(
            f"{where.topic} partition {where.partition}: what is to be read was deleted meanwhile; try again"
        ) from None
    except KafkaException as error:
        raise UserError(f"{where.topic} partition {where.partition}: {error.args[0].str()}") from None
    finally:
        consumer.unassign()
