"""Reading an output topic from outside: all partitions, committed messages, without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from explain_sidecar.errors import UserError
from explain_sidecar.fold.messages import app_of, letter_headers
from explain_sidecar.kafka.clients import reading_consumer
from explain_sidecar.kafka.headers import read_headers
from explain_sidecar.kafka.reading import Superseded, read
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings
from explain_sidecar.wire.registry import json_reader, registry_of

Start = Literal["beginning", "newest"]

NEWEST = 20
"""Offsets of a partition's end that hold its newest messages, some ten of them: each transaction ends with a marker."""

PATIENCE_SECONDS = 0.2
LOOK_SECONDS = 15.0
"""How often new partitions are looked for."""


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
        counts, looked = {name: known.partitions for name, known in found.items()}, time.monotonic()
        while left or not until_caught_up:
            if time.monotonic() - looked > LOOK_SECONDS:
                reader.incremental_assign(_gained(reader, counts))
                looked = time.monotonic()
            came = list(read(reader, PATIENCE_SECONDS))
            if not came:
                yield None
            for message in came:
                if message.error() is not None:
                    left.discard((message.topic(), message.partition() or 0))
                    continue
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
    except Superseded:
        raise UserError(f"topic {topic!r}: what is to be read was deleted meanwhile; try again") from None
    except KafkaException as error:
        raise UserError(f"topic {topic!r}: {error.args[0].str()}") from None
    finally:
        reader.close()


def _gained(reader: Consumer, counts: dict[str, int]) -> list[TopicPartition]:
    """The partitions that the topics have gained, from their beginning; ``counts``, how many are known, counts them too."""
    gained = []
    with suppress(KafkaException):  # reading waits for a broker that is away
        topics = reader.list_topics(timeout=PATIENCE_SECONDS * 5).topics
        for name in counts.keys() & topics.keys():
            known, counts[name] = counts[name], max(counts[name], len(topics[name].partitions))
            gained += [
                TopicPartition(name, number, OFFSET_BEGINNING) for number in range(known, counts[name])
            ]
    return gained
