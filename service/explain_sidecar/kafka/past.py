"""What the topics still hold of a partition: the last messages published, and the newest snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from explain_sidecar.errors import SnapshotError
from explain_sidecar.fold.messages import letter_headers
from explain_sidecar.kafka.checkpoints import (
    MANIFEST,
    Pointer,
    key_prefix,
    signature_of,
    undecided,
)
from explain_sidecar.kafka.headers import offset_of, read_headers
from explain_sidecar.kafka.reading import read
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.signatures import Keys
from explain_sidecar.snapshots.snapshot import Manifest

FIRST_STEP = 64
"""Offsets that the search for a last message goes back at first; four times as many at each further step."""

READ_SECONDS = 1.0

MESSAGES = {
    "explanations": "explanation",
    "drift": "drift message",
    "alarms": "alarm",
    "dead_letters": "dead letter",
}
"""What a message of an output topic is called."""

T = TypeVar("T")

Read = Callable[[bytes], bytes]
"""Decodes one of the sidecar's messages, framed or not, to JSON: see ``explain_sidecar.wire.registry.json_reader``."""


@dataclass(frozen=True)
class Published:
    """What consumers have seen last: epoch, the input offset after it, and the chains of the output topics."""

    epoch: int
    offset: int
    chains: dict[str, tuple[int, str]]
    newest: str
    """What the newest message is, in words."""


class _Last(NamedTuple):
    """The sidecar's last message on an output topic: epoch and offset of its record, and the chain after it."""

    epoch: int
    offset: int
    name: str
    chain: tuple[int, str]


class Past:
    """What a partition's output topics and its checkpoints hold of this sidecar; messages of others are passed over.

    Each search reads to the end. It raises ``Undecided`` while another program's open transaction hides what was there
    when this object looked first. ``uncommitted`` makes the reader that tells whose that transaction is.
    """

    def __init__(
        self,
        reader: Consumer,
        uncommitted: Callable[[], Consumer],
        settings: Settings,
        partition: int,
        read: Read,
    ) -> None:
        self._reader = reader
        self._uncommitted = uncommitted
        self._settings = settings
        self._partition = partition
        self._read = read
        self._prefix = f"{settings.app_id}/"
        self._seen: dict[str, int] = {}

    def last_published(self, since: Mapping[str, int] | None = None) -> Published | None:
        """None where nothing of this sidecar is on the output topics.

        ``since``: offsets on those topics from which on to look; without one the search goes back to the beginning.
        """
        known = since or {}
        found = []
        for name in self._settings.outputs:
            last = self._last(name, partial(self._ours, name), known.get(name, 0))
            if last is not None:
                found.append(last)
        if not found:
            return None
        newest = max(found)
        return Published(
            newest.epoch,
            newest.offset + 1,
            {message.name: message.chain for message in found if message.epoch == newest.epoch},
            f"the {MESSAGES[newest.name]} of offset {newest.offset} of epoch {newest.epoch}",
        )

    def newest_manifest(self, since: int, keys: Keys) -> Manifest | None:
        """The newest manifest that is whole and signed, from an offset of the checkpoints topic on."""

        def signed(message: Message) -> Manifest | None:
            with suppress(SnapshotError):
                return _verified(message, keys) if self._is_manifest(message) else None
            return None

        return self._last("checkpoints", signed, since)

    def find_snapshot(self, keys: Keys, *, strict: bool = True) -> tuple[Pointer, Manifest] | None:
        """The newest snapshot, of whatever topic id.

        Raises ``SnapshotError`` if the newest manifest cannot be read or its signature is not valid. If not ``strict``, the search
        passes over such manifests.
        """
        topic = self._settings.topics.checkpoints
        low, _ = self._reader.get_watermark_offsets(TopicPartition(topic, self._partition), timeout=10)
        first: dict[str, int] = {}
        found = problem = None
        for message in self._committed("checkpoints", low):
            prefix, part = self._key(message)
            value, offset = message.value(), offset_of(message)
            if part == "0" and value is not None:
                first[prefix] = offset
            elif self._is_manifest(message):
                try:
                    manifest = _verified(message, keys)
                except SnapshotError as error:
                    problem = error
                    continue
                if key_prefix(self._settings.app_id, manifest.topic_id, self._partition) == prefix + "/":
                    pointer = Pointer(
                        topic_id=manifest.topic_id,
                        epoch=manifest.epoch,
                        first_chunk=first.get(prefix, offset),
                        manifest=offset,
                        next_offset=manifest.next_offset,
                        fold_digest=manifest.fold_digest,
                        chains={},
                    )
                    found, problem = (pointer, manifest), None
        if problem is not None and strict:
            raise problem
        return found

    def ends(self) -> dict[str, int]:
        """The end offset of each output topic; any later message of the sidecar has a higher offset."""
        return {
            name: self._reader.get_watermark_offsets(
                TopicPartition(getattr(self._settings.topics, name), self._partition), timeout=READ_SECONDS
            )[1]
            for name in self._settings.outputs
        }

    def _last(self, name: str, ours: Callable[[Message], T | None], since: int) -> T | None:
        """What ``ours`` makes of the last committed message that it knows, found by walking back from the end."""
        where = TopicPartition(getattr(self._settings.topics, name), self._partition)
        low, end = self._reader.get_watermark_offsets(where, timeout=10)
        # A topic that was created again may end before that offset.
        bottom = max(low, since) if since <= end else low
        step, start, stop = FIRST_STEP, max(bottom, end - FIRST_STEP), None
        while True:
            found = None
            for message in self._committed(name, start):
                if stop is not None and offset_of(message) >= stop:
                    break
                mine = ours(message)
                found = found if mine is None else mine
            if found is not None or start <= bottom:
                return found
            step *= 4
            start, stop = max(bottom, start - step), start

    def _committed(self, name: str, start: int) -> Iterator[Message]:
        """Every committed message from an offset to the end. Raises ``Undecided`` where that is not all there was."""
        where = TopicPartition(getattr(self._settings.topics, name), self._partition, start)
        self._reader.assign([where])
        try:
            while True:
                for message in read(self._reader, READ_SECONDS):
                    if message.error() is None:
                        yield message
                        continue
                    stable, (_, high) = (
                        offset_of(message),
                        self._reader.get_watermark_offsets(where, cached=True),
                    )
                    if stable < self._seen.setdefault(name, high) and not self._own(name, stable):
                        raise undecided(where, stable)
                    return
        finally:
            self._reader.unassign()

    def _own(self, name: str, offset: int) -> bool:
        """Whether the open transaction that begins at an offset is of a worker of ours that is gone.

        It hides nothing of ours: a partition has one worker at a time, and what came before the transaction is visible.
        """
        consumer = self._uncommitted()
        consumer.assign([TopicPartition(getattr(self._settings.topics, name), self._partition, offset)])
        for message in read(consumer, READ_SECONDS, count=1):
            consumer.unassign()
            if message.error() is None:
                known = self._key(message)[1] if name == "checkpoints" else self._ours(name, message)
                return bool(known)
        return False

    def _key(self, message: Message) -> tuple[str, str]:
        """Prefix and part of the key of one of the sidecar's records on the checkpoints topic, else empty."""
        prefix, _, part = (message.key() or b"").decode(errors="replace").rpartition("/")
        ours = prefix.startswith(self._prefix) and prefix.rpartition("/")[2] == str(self._partition)
        return (prefix, part) if ours else ("", "")

    def _is_manifest(self, message: Message) -> bool:
        return self._key(message)[1] == MANIFEST and message.value() is not None

    def _ours(self, name: str, message: Message) -> _Last | None:
        try:
            if name == "dead_letters":
                headers = letter_headers(read_headers(message).headers)
                mine = headers["app_id"], headers["errors.topic"]
                chain = int(headers["seq"]) + 1, headers["digest"]
                last = _Last(int(headers["epoch"]), int(headers["errors.offset"]), name, chain)
            else:
                body: dict[str, Any] = orjson.loads(self._read(message.value() or b""))
                mine = body["app_id"], body["topic"]
                last = _Last(
                    int(body["epoch"]), int(body["offset"]), name, (int(body["seq"]) + 1, str(body["digest"]))
                )
        except (KeyError, TypeError, ValueError):  # a message of another program
            return None
        return last if mine == (self._settings.app_id, self._settings.topics.records) else None


def _verified(message: Message, keys: Keys) -> Manifest:
    value = message.value() or b""
    keys.check(value, signature_of(message))
    return Manifest.decode(value)
