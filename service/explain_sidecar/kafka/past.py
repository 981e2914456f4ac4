"""What the topics still hold of a partition: the last messages published, and the newest snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from explain_client.messages import OUTPUTS
from explain_sidecar.errors import SnapshotError
from explain_sidecar.fold.messages import letter_headers
from explain_sidecar.formats.errors import Headers
from explain_sidecar.kafka.checkpoints import (
    MANIFEST,
    Pointer,
    assembled,
    key_prefix,
    signature_of,
    undecided,
)
from explain_sidecar.kafka.headers import offset_of, read_headers
from explain_sidecar.kafka.reading import read
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.signatures import Keys
from explain_sidecar.snapshots.snapshot import Manifest, Snapshot, verify

FIRST_STEP = 64
"""Offsets that the search for a last message goes back at first; four times as many at each further step."""

READ_SECONDS = 1.0

MESSAGES = {name: kind.called[0].partition(" ")[2] for name, kind in OUTPUTS.items()} | {
    "dead_letters": "dead letter"
}
"""What a message of an output topic is called."""

T = TypeVar("T")

Read = Callable[[bytes], bytes]
"""Decodes one of the sidecar's messages, framed or not, to JSON: see ``explain_sidecar.wire.registry.json_reader``."""


class Seen(NamedTuple):
    """A message of the sidecar on an output topic that readers see: its place in the chain, and the offset of the record that caused it."""

    epoch: int
    seq: int
    offset: int
    digest: str

    @property
    def link(self) -> tuple[int, str]:
        """The chain after it, as a pointer has it: how many messages, and the digest of the last."""
        return self.seq + 1, self.digest


class Past:
    """What a partition's output topics and its checkpoints hold of this sidecar; messages of others are passed over.

    Each search reads to the end. It raises ``Undecided`` while an open transaction hides what was there when this object looked first.
    One of a worker of ours that is gone may still be committed. ``uncommitted`` makes the reader that tells whose it is.
    ``absent`` are the outputs whose topic has not been given this partition yet.
    """

    def __init__(
        self,
        reader: Consumer,
        uncommitted: Callable[[], Consumer],
        settings: Settings,
        partition: int,
        read: Read,
        absent: Collection[str] = (),
    ) -> None:
        self._absent = absent
        self._reader = reader
        self._uncommitted = uncommitted
        self._settings = settings
        self._partition = partition
        self._read = read
        self._prefix = f"{settings.app_id}/"
        self._seen: dict[str, int] = {}

    def visible(self, pointer: Pointer | None = None) -> dict[str, Seen]:
        """The last message of this sidecar on each output topic that has one, where it is not of an earlier epoch than the pointer's.

        The search goes back to where the topics ended before the pointer's snapshot (``ends``), or without that to the beginning. What retention
        has deleted since then counts as seen. Where something was written since and nothing of it is visible, the snapshot may count messages
        that readers do not see: the search goes on before it. An output that has nothing new since the snapshot is left out; one of which
        readers see nothing of the pointer's epoch has a ``seq`` of −1.
        """
        known, found = pointer.ends if pointer else {}, {}
        for name in self._settings.outputs:
            since = known.get(name, 0)
            seen = self.last(name, since)
            if pointer is not None and (seen is None or seen.epoch < pointer.epoch):
                low, end = self._bounds(name)
                if seen is None and low <= since < end:
                    seen, since = self.last(name), 0
                if seen is None and low > since:
                    seq, digest = pointer.chains.get(name, (0, ""))
                    seen = Seen(pointer.epoch, seq - 1, -1, digest)
                elif seen.epoch < pointer.epoch if seen else since == 0 < end:
                    seen = Seen(pointer.epoch, -1, -1, "")
            if seen is not None and (pointer is None or seen.epoch >= pointer.epoch):
                found[name] = seen
        return found

    def last(self, name: str, since: int = 0) -> Seen | None:
        """The last message of this sidecar on an output topic, from an offset on."""
        return self._last(name, partial(self._ours, name), since)

    def bodies(self, name: str, epoch: int) -> Iterator[dict[str, Any]]:
        """The content of each message of this sidecar on an output topic of JSON, in an epoch."""
        for message in self._committed(name, self._bounds(name)[0]):
            seen = self._ours(name, message)
            if seen is not None and seen.epoch == epoch:
                yield orjson.loads(self._read(message.value() or b""))

    def newest_manifest(self, since: int, keys: Keys) -> Manifest | None:
        """The newest manifest that is whole and signed, from an offset of the checkpoints topic on."""

        def signed(message: Message) -> Manifest | None:
            with suppress(SnapshotError):
                return _verified(message, keys) if self._is_manifest(message) else None
            return None

        return self._last("checkpoints", signed, since)

    def find_snapshot(
        self, keys: Keys, *, strict: bool = True, before: Pointer | None = None
    ) -> tuple[Pointer, Manifest] | None:
        """The newest snapshot, of whatever topic id; with ``before`` the newest that is no newer than that one and lies before it, of its epoch.

        Raises ``SnapshotError`` if the newest manifest cannot be read or its signature is not valid. If not ``strict``, the search
        passes over such manifests.
        """
        low, _ = self._bounds("checkpoints")
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
                if before is not None and not (
                    manifest.epoch == before.epoch
                    and (manifest.next_offset, offset) < (before.next_offset, before.manifest)
                ):
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

    def snapshots(self, keys: Keys) -> Iterator[Snapshot]:
        """Every snapshot that is still whole, of whatever topic id, the oldest first. What cannot be read or verified is passed over."""
        chunks: dict[str, dict[str, bytes]] = {}
        for message in self._committed("checkpoints", self._bounds("checkpoints")[0]):
            prefix, part = self._key(message)
            value = message.value()
            if value is None or not prefix:
                continue
            if part != MANIFEST:
                chunks.setdefault(prefix, {})[part] = value
                continue
            with suppress(SnapshotError):
                snapshot = assembled(message, chunks.get(prefix, {}), keys)
                verify(snapshot)
                yield snapshot

    def ends(self) -> dict[str, int]:
        """The end offset of each output topic; any later message of the sidecar has a higher offset."""
        return {name: self._bounds(name, READ_SECONDS)[1] for name in self._settings.outputs}

    def _bounds(self, name: str, seconds: float = 10.0) -> tuple[int, int]:
        """The first offset of a topic, and the one after the last committed message."""
        if name in self._absent:
            return 0, 0
        where = TopicPartition(getattr(self._settings.topics, name), self._partition)
        return self._reader.get_watermark_offsets(where, timeout=seconds)

    def _last(self, name: str, ours: Callable[[Message], T | None], since: int) -> T | None:
        """What ``ours`` makes of the last committed message that it knows, found by walking back from the end."""
        low, end = self._bounds(name)
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
        if name in self._absent:
            return
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
                    if stable < self._seen.setdefault(name, high):
                        raise undecided(where, stable, self._own(name, stable))
                    return
        finally:
            self._reader.unassign()

    def _own(self, name: str, offset: int) -> bool:
        """Whether the open transaction that begins at an offset is of a worker of ours that is gone."""
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

    def _ours(self, name: str, message: Message) -> Seen | None:
        return self.message(name, message.value(), read_headers(message).headers)

    def message(self, name: str, value: bytes | None, headers: Headers) -> Seen | None:
        """What a message of an output topic says of itself; None for one of another program."""
        try:
            if name == "dead_letters":
                said: dict[str, Any] = letter_headers(headers)
                mine = said["app_id"], said["errors.topic"]
                offset = said["errors.offset"]
            else:
                said = orjson.loads(self._read(value or b""))
                mine = said["app_id"], said["topic"]
                offset = said["offset"]
            seen = Seen(int(said["epoch"]), int(said["seq"]), int(offset), str(said["digest"]))
        except (KeyError, TypeError, ValueError):  # a message of another program
            return None
        return seen if mine == (self._settings.app_id, self._settings.topics.records) else None


def _verified(message: Message, keys: Keys) -> Manifest:
    value = message.value() or b""
    keys.check(value, signature_of(message))
    return Manifest.decode(value)
