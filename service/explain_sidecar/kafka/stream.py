"""Reading an output topic from outside: all partitions, committed messages, without a consumer group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from explain_sidecar.errors import UserError
from explain_sidecar.fold.messages import app_of, letter_headers
from explain_sidecar.kafka.clients import reading_consumer
from explain_sidecar.kafka.headers import read_headers
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings
from explain_sidecar.wire.registry import json_reader, registry_of

Start = Literal["beginning", "newest"]

NEWEST = 20
"""Offsets of a partition's end that hold its newest messages, some ten of them: each transaction ends with a marker."""

PATIENCE_SECONDS = 0.2


def messages(
    settings: Settings,
    topic: str,
    start: Start,
    until_caught_up: bool = False,
    also: Sequence[str] = (),
) -> Iterator[Message | None]:
    """This sidecar's messages on an output topic as they come, explanations and drift in JSON; None whenever none came for a moment.

    "newest" begins with some that are there already. With ``until_caught_up`` it ends at the ends seen at the start. ``also`` are further topics to read, as far as they exist; the control topic, which people
    write, is read from its beginning and as it is.
    """
    topics = Topics(settings)
    found = topics.written(topic) | (topics.describe(*also) if also else {})
    reader, as_json = reading_consumer(settings), json_reader(registry_of(settings))
    letters, control = topic == settings.topics.dead_letters, settings.topics.control
    try:
        starts: list[TopicPartition] = []
        left: set[tuple[str | None, int]] = set()
        for name, description in found.items():
            for partition in range(description.partitions):
                low, high = reader.get_watermark_offsets(TopicPartition(name, partition), timeout=10)
                whole = start == "beginning" or name == control
                starts.append(TopicPartition(name, partition, low if whole else max(low, high - NEWEST)))
                if start == "beginning" and high > low:
                    left.add((name, partition))
        reader.assign(starts)
        while left or not until_caught_up:
            message = reader.poll(PATIENCE_SECONDS)
            error = None if message is None else message.error()
            if message is None:
                yield None
            elif error is None:
                app_id: str | None = settings.app_id
                if message.topic() == control:
                    pass
                elif letters:
                    app_id = letter_headers(read_headers(message).headers).get("app_id")
                else:
                    message.set_value(as_json(message.value() or b""))
                    app_id = app_of(message.value() or b"")
                if app_id == settings.app_id:
                    yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard((message.topic(), message.partition() or 0))
            elif error.fatal():
                raise UserError(f"topic {topic!r}: {error.str()}")
    except KafkaException as error:
        raise UserError(f"topic {topic!r}: {error.args[0].str()}") from None
    finally:
        reader.close()
