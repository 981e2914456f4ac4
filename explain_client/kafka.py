"""A consumer of committed messages, and its errors in words."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from explain_client.errors import ClientError, SchemaError
from explain_client.fields import Message as Told

CONNECT_SECONDS = 8.0
"""A broker that does not answer for this long is reported as missing."""
POLL_SECONDS = 0.2
"""How long Ctrl-C, or the end of an ``async for``, may have to wait."""

COMMITTED: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    # Offsets are tracked here: the library's own run ahead of what the caller has had.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Every assignment names its offset; `earliest` would silently jump over deleted messages.
    "auto.offset.reset": "error",
    # Says where a partition ends, also where its last records are control records.
    "enable.partition.eof": True,
    # Bounds the memory that a backlog takes.
    "queued.max.messages.kbytes": 16_384,
}
"""What makes a consumer read every committed message, from offsets of our own choice."""

log = logging.getLogger(__name__)


class Errors:
    """Keeps what a client reports in the background: it says why a call failed when the call itself just timed out."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        # "All brokers down" follows the error that says why.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error
            log.debug("kafka: %s", error.str())


def connect(
    servers: str, topic: str, group_id: str | None, config: Mapping[str, Any]
) -> tuple[Consumer, list[int]]:
    """A consumer, and the partitions of the topic. Raises ``ClientError``: no broker, no such topic, a wrong setting."""
    owned = sorted(set(config) & {*COMMITTED, "bootstrap.servers", "group.id"})
    if owned:
        raise ClientError(f"config: {', '.join(owned)} cannot be set; the client sets them itself")
    errors = Errors()
    try:
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                # librdkafka wants a name even where no group is joined; nothing is ever committed under it.
                "group.id": group_id or "explain-client",
                "error_cb": errors,
                # Its own lines repeat what error_cb gets.
                "log_level": 2,
                "fetch.wait.max.ms": 50,
                **COMMITTED,
                **config,
            }
        )
    except (KafkaException, ValueError, TypeError) as error:
        raise ClientError(f"config: {reason(error)}") from None
    try:
        found = consumer.list_topics(timeout=CONNECT_SECONDS).topics
        if topic not in found:
            raise ClientError(
                f"topic {topic!r} is not on {servers}; has the sidecar run yet? It creates its topics at its start"
            )
    except KafkaException as error:
        consumer.close()
        why = errors.last.str() if errors.last else reason(error)
        raise ClientError(
            f"{servers}: no broker answered within {CONNECT_SECONDS:g} s ({why}); check the address, the broker, and "
            "sasl.* and ssl.* in config"
        ) from None
    except ClientError:
        consumer.close()
        raise
    return consumer, sorted(found[topic].partitions)


def reason(error: Exception) -> str:
    """What Kafka says, without the codes around it."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)


T = TypeVar("T", bound=Told)


def decoded(kind: type[T], message: Message) -> T:
    """What a message says. Raises ``SchemaError``, which names it, for what is none of the kind: reading can go on after it."""
    try:
        return kind.from_json(message.value() or b"")
    except SchemaError as error:
        where = f"topic {message.topic()!r} partition {message.partition()} offset {message.offset()}"
        raise SchemaError(f"{where}: {error}; the next one is read where this error is caught") from None


def reached_end(message: Message, topic: str, group: str | None = None) -> bool:
    """Whether this is the end of a partition and no message. Raises ``ClientError`` for an error that stays."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        remedy = "start='earliest'"
        if group is not None:  # whose offset counts, and not start
            remedy = f"kafka-consumer-groups --group {group} --topic {topic}:{message.partition()} --reset-offsets --to-earliest --execute"
        raise ClientError(
            f"topic {topic!r} partition {message.partition()}: the position to read from is not on the topic any more "
            f"(retention, or another topic of that name); the messages in between are lost, and to go on without them: {remedy}"
        )
    raise ClientError(f"topic {topic!r}: {error.str()}")
