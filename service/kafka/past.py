"""What the topics still know of a partition: the last messages published, and the newest snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from service.kafka.checkpoints import MANIFEST, Pointer, key_prefix, read_all, signature_of
from service.kafka.headers import read_headers
from service.messages import app_of, letter_headers
from service.settings import Settings
from service.signatures import Keys
from service.snapshot import Manifest

FIRST_STEP = 64
"""Offsets that the search for a last message goes back at first; four times as many at each further step."""


@dataclass(frozen=True)
class Published:
    """What downstream has seen last: epoch, the input offset after it, and the chains of the output topics."""

    epoch: int
    offset: int
    chains: dict[str, tuple[int, str]]


Read = Callable[[bytes], bytes]
"""What gives the JSON of a message of ours, framed or not: see ``service.registry.json_reader``."""


def last_published(reader: Consumer, settings: Settings, partition: int, read: Read) -> Published | None:
    """None where nothing of this sidecar is on the output topics."""
    found: list[tuple[int, int, str, tuple[int, str]]] = []
    for name in ("explanations", "drift"):
        body = last_body(reader, settings, partition, name, read)
        if body is not None:
            found.append((body["epoch"], body["offset"], name, (body["seq"] + 1, body["digest"])))

    def ours(message: Message) -> bool:
        return letter_headers(read_headers(message).headers).get("app_id") == settings.app_id

    message = last_message(reader, settings.topics.dead_letters, partition, ours)
    if message is not None:
        headers = letter_headers(read_headers(message).headers)
        if headers["errors.topic"] == settings.topics.records:
            chain = int(headers["seq"]) + 1, headers["digest"]
            found.append((int(headers["epoch"]), int(headers["errors.offset"]), "dead_letters", chain))
    if not found:
        return None
    epoch = max(found)[0]
    current = [one for one in found if one[0] == epoch]
    return Published(
        epoch, max(one[1] for one in current) + 1, {name: chain for _, _, name, chain in current}
    )


def last_body(
    reader: Consumer, settings: Settings, partition: int, name: str, read: Read
) -> dict[str, Any] | None:
    """The last message of this sidecar on its topic of explanations, or of drift; None where there is none."""

    def ours(message: Message) -> bool:
        return app_of(read(message.value() or b"")) == settings.app_id

    message = last_message(reader, getattr(settings.topics, name), partition, ours)
    if message is None:
        return None
    body: dict[str, Any] = orjson.loads(read(message.value() or b""))
    return body


def find_snapshot(
    reader: Consumer, settings: Settings, partition: int, keys: Keys
) -> tuple[Pointer, Manifest] | None:
    """The newest snapshot of a partition on the checkpoints topic, of whatever topic id; its signature is checked."""
    topic = settings.topics.checkpoints
    low, _ = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
    first: dict[str, int] = {}
    found = None
    for message in read_all(reader, topic, partition, low):
        key = (message.key() or b"").decode(errors="replace")
        prefix, _, part = key.rpartition("/")
        if not key.startswith(settings.app_id + "/") or prefix.rpartition("/")[2] != str(partition):
            continue
        value, offset = message.value(), message.offset() or 0
        if part == "0" and value is not None:
            first[prefix] = offset
        elif part == MANIFEST and value is not None:
            keys.check(value, signature_of(message))
            manifest = Manifest.decode(value)
            if key_prefix(settings.app_id, manifest.topic_id, partition) == prefix + "/":
                pointer = Pointer(
                    topic_id=manifest.topic_id,
                    epoch=manifest.epoch,
                    first_chunk=first.get(prefix, offset),
                    manifest=offset,
                    next_offset=manifest.next_offset,
                    fold_digest=manifest.fold_digest,
                    chains={},
                )
                found = pointer, manifest
    return found


def last_message(
    reader: Consumer, topic: str, partition: int, matches: Callable[[Message], bool] | None = None
) -> Message | None:
    """The last committed message of a partition (that ``matches``), found by walking back over control and aborted records."""
    low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
    step, start = FIRST_STEP, high
    while start > low:
        end, start = start, max(low, start - step)
        step *= 4
        found = None
        for message in read_all(reader, topic, partition, start):
            if (message.offset() or 0) >= end:
                break
            if matches is None or matches(message):
                found = message
        if found is not None:
            return found
    return None
