"""The partitions of a sidecar that is stopped: what the topics hold of them, and the first snapshot of another epoch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.kafka.checkpoints import Pointer, Undecided, to_records
from explain_sidecar.kafka.clients import (
    ErrorLog,
    admin_client,
    group_of,
    membership,
    reading_consumer,
    uncommitted_reader,
)
from explain_sidecar.kafka.errors import Aborted, Fenced
from explain_sidecar.kafka.past import Past, Seen
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.kafka.transaction import Transaction
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.signatures import read_keys
from explain_sidecar.snapshots.snapshot import Manifest, Snapshot
from explain_sidecar.wire.registry import json_reader, registry_of

JOIN_SECONDS = 20.0
"""A broker waits 3 s for other members before it admits the first one to an empty group."""

LEAVE_SECONDS = 10.0

DECIDE_SECONDS = 25.0
"""Kafka ends the transaction of a worker that is gone within 20 s."""

WITHOUT_LEADER = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""What a broker says of a partition that is seconds old."""

T = TypeVar("T")


class Found(NamedTuple):
    """What the topics hold of a partition: the log's bounds, the committed offset (below 0: none), the newest usable snapshot with its pointer, the
    last message that readers see of each output, and why the newest manifest is not usable, where it is not."""

    low: int
    high: int
    committed: int
    snapshot: tuple[Pointer, Manifest] | None
    visible: dict[str, Seen]
    unreadable: SnapshotError | None
    epochs: tuple[int, ...]

    @property
    def epoch(self) -> int:
        """The next one."""
        return max(self.epochs, default=-1) + 1

    @property
    def manifest(self) -> Manifest | None:
        return self.snapshot[1] if self.snapshot else None

    @property
    def ended(self) -> int:
        """Offset after the last record whose messages are committed, or that readers see."""
        newest = [seen.offset + 1 for seen in self.visible.values() if seen.epoch == max(self.epochs)]
        return max([self.committed, 0, *newest])


class Stopped:
    """A stopped sidecar. With ``hold`` it stays stopped: this is the only member of its group, and a commit is refused once another has joined.

    Raises ``UserError`` where workers run, unless they may (``running``).
    """

    def __init__(self, settings: Settings, hold: bool, running: bool) -> None:
        self._settings = settings
        self.keys = read_keys(settings.checkpoint)
        self._topics = Topics(settings).prepare(change=False)
        self.records = self._topics["records"]
        if not running:
            _check_stopped(settings)
        # The same settings as a worker's: the group accepts the member, and a crashed command leaves it no later than a worker would.
        self._group = reading_consumer(settings, group=settings.app_id, **membership(settings))
        self.reader = reading_consumer(settings)
        self._uncommitted = uncommitted_reader(settings)
        self._read = json_reader(registry_of(settings))
        self._metadata = _hold(settings, self._group, self.records.name) if hold else None

    def close(self) -> None:
        # librdkafka may not return from a close amid a rebalance (its issue 4884); the member's session then ends by itself.
        leaving = threading.Thread(target=self._group.close, daemon=True)
        leaving.start()
        leaving.join(LEAVE_SECONDS)
        self.reader.close()

    def committed(self, partition: int) -> TopicPartition:
        """The committed offset, below 0 where there is none, with its metadata."""
        (found,) = self._group.committed([TopicPartition(self.records.name, partition)], timeout=10)
        if found.error is not None:  # as while a transaction is being decided: not that there is none
            raise KafkaException(found.error)
        return found

    def past(self, partition: int) -> Past:
        """Of the topics as they are: the command may be refused, or only asked what it would do."""
        absent = self._absent(partition)
        return Past(self.reader, self._uncommitted, self._settings, partition, self._read, absent)

    def _absent(self, partition: int) -> list[str]:
        """The outputs whose topic lacks the partition."""
        outputs = (*self._settings.outputs, "checkpoints")
        return [
            name for name in outputs if name not in self._topics or partition >= self._topics[name].partitions
        ]

    def find(self, partition: int) -> Found:
        """What there is of a partition. Raises ``Undecided`` where an open transaction hides it for too long."""
        where = TopicPartition(self.records.name, partition)
        committed = self.committed(partition)
        pointer = Pointer.decode(committed.metadata) if committed.offset >= 0 else None
        past = self.past(partition)

        def look() -> Found:
            low, high = self.reader.get_watermark_offsets(where, timeout=10)
            visible, unreadable = past.visible(), None
            try:
                snapshot = past.find_snapshot(self.keys)
            except SnapshotError as error:
                snapshot, unreadable = past.find_snapshot(self.keys, strict=False), error
            known = [pointer, *visible.values(), snapshot[0] if snapshot else None]
            epochs = tuple(found.epoch for found in known if found is not None)
            return Found(low, high, committed.offset, snapshot, visible, unreadable, epochs)

        return decided(look)

    def newest(self, partition: int) -> Manifest | None:
        """The newest manifest. Raises ``SnapshotError`` where it cannot be used, as one that another key signed."""
        found = decided(lambda: self.past(partition).find_snapshot(self.keys))
        return found[1] if found else None

    def snapshots(self, partition: int) -> list[Snapshot]:
        """The newest two whole snapshots: of the newest epoch that has one, and of the one before. The newest comes first."""
        newest: list[Snapshot] = []

        def look() -> list[Snapshot]:
            newest.clear()
            for snapshot in self.past(partition).snapshots(self.keys):
                if newest and newest[0].manifest.epoch == snapshot.manifest.epoch:
                    newest[0] = snapshot
                else:
                    newest.insert(0, snapshot)
                    del newest[2:]
            return newest

        return decided(look)

    def store(
        self, partition: int, snapshot: Snapshot, chains: dict[str, tuple[int, str]], found: Found
    ) -> None:
        """Store a snapshot and commit its offset, in one transaction, on topics that are made where they lack the partition."""
        if self._absent(partition):
            self._topics = Topics(self._settings).prepare()
        manifest, before = snapshot.manifest, found.manifest
        stored = len(before.chunk_sizes) if before and before.topic_id == self.records.id else 0
        transaction = Transaction(self._settings, f"{self._settings.app_id}-reset-{partition}", ErrorLog())
        transaction.begin()
        entries = to_records(snapshot, stored, self.keys)
        ends = transaction.send_all(self._settings.topics.checkpoints, partition, entries)
        transaction.flush()
        pointer = Pointer(
            topic_id=self.records.id,
            epoch=manifest.epoch,
            first_chunk=ends.first,
            manifest=ends.last,
            next_offset=manifest.next_offset,
            fold_digest=manifest.fold_digest,
            chains=chains,
            ends=decided(self.past(partition).ends),
        )
        offset = TopicPartition(self.records.name, partition, manifest.next_offset, metadata=pointer.encode())
        transaction.commit([offset], self._group, self._metadata)


@contextmanager
def stopped(settings: Settings, what: str, hold: bool, running: bool = False) -> Iterator[Stopped]:
    """A ``Stopped`` for a command; what goes wrong there in words, with ``what`` naming it."""
    sidecar = Stopped(settings, hold, running)
    try:
        yield sidecar
    except Aborted as error:
        raise UserError(
            f"the {what} was aborted and nothing was changed: {error}; did a worker or another reset begin meanwhile? Stop the sidecar, and try again"
        ) from None
    except Fenced:
        raise UserError(f"another reset was begun meanwhile; this {what} changed nothing") from None
    except KafkaException as error:
        raise UserError(f"{what}: {error.args[0].str()}") from None
    finally:
        sidecar.close()


def decided(look: Callable[[], T]) -> T:
    """What ``look`` returns, once no transaction of a worker that is gone hides it, and new topics have leaders.

    Raises ``Undecided`` where a transaction stays open.
    """
    deadline = time.monotonic() + DECIDE_SECONDS
    while True:
        try:
            return look()
        except (Undecided, KafkaException) as error:
            passes = isinstance(error, Undecided) or error.args[0].code() in WITHOUT_LEADER
            if not passes or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _hold(settings: Settings, group: Consumer, topic: str) -> object:
    """Join the group; returns the metadata of its only member. A commit with it is refused once another member has joined."""
    held: list[object] = []

    def joined(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        held.append(consumer.consumer_group_metadata())
        consumer.incremental_assign([])

    group.subscribe([topic], on_assign=joined)
    deadline = time.monotonic() + JOIN_SECONDS
    while not held:
        group.poll(0.1)
        if time.monotonic() > deadline:
            raise UserError(
                f"group {settings.app_id!r} could not be joined within {JOIN_SECONDS:g} s, so that nothing was changed; try again"
            )
    _check_stopped(settings, members=1)
    return held[0]


def _check_stopped(settings: Settings, members: int = 0) -> None:
    """Raises ``UserError`` where the group has more members than that."""
    try:
        described = group_of(admin_client(settings), settings.app_id)
    except KafkaException as error:
        raise UserError(f"group {settings.app_id!r}: {error.args[0].str()}") from None
    found = described.members if described else []
    if len(found) > members:
        raise UserError(
            f"group {settings.app_id!r} has {len(found) - members} running workers, or another reset; stop the sidecar first, or wait until a "
            "killed one's session ends (10 s)"
        )
