"""One partition of the join, from assignment to the end: waiting → restoring → running → (gone)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from explain_sidecar.crash_points import reach
from explain_sidecar.errors import RecoveryError
from explain_sidecar.fold.messages import Chain, Output, dead_letter
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.join.changelog import (
    ENTRY,
    PROGRESS,
    SCHEMA,
    Checkpoint,
    Learnt,
    Saved,
    decoded,
    encode,
    learn,
    schema_key,
)
from explain_sidecar.join.entries import Counts, Event, Joined, Label
from explain_sidecar.join.inputs import Rejected, Tombstone
from explain_sidecar.join.joiner import Joiner, Progress, Rules
from explain_sidecar.join.pace import Paced, moving
from explain_sidecar.join.rocks import Rocks
from explain_sidecar.join.store import Store, restore
from explain_sidecar.join.turns import EVENTS, Turns
from explain_sidecar.kafka.clock import BEHIND_SECONDS, SLICE_SECONDS, Clock
from explain_sidecar.kafka.headers import offset_of
from explain_sidecar.kafka.reading import Superseded, read
from explain_sidecar.kafka.sent import Keyed
from explain_sidecar.kafka.topics import same
from explain_sidecar.kafka.totals import Phase
from explain_sidecar.settings import Settings

MAX_LOCAL_AGE = 12 * 3_600
"""Seconds after which a local store is not trusted: the changelog may have lost the tombstones of later deletions, which Kafka
keeps for a day (delete.retention.ms)."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JoinCluster:
    """What a partition needs of the cluster. ``topics`` and ``topic_ids``: events and labels."""

    settings: Settings
    rules: Rules
    topics: tuple[str, str]
    topic_ids: tuple[str, str]
    changelog: str
    changelog_id: str
    group: Consumer
    reader: Consumer
    uncommitted: Callable[[], Consumer]
    """Makes a reader of what no transaction has committed yet, once."""
    open: Callable[[int, bool], Rocks]
    """The local store of a partition; with True an empty one."""
    clock: Clock

    @property
    def ids(self) -> tuple[str | None, str | None]:
        """Where the ids of events and labels are."""
        join = self.settings.join
        return join.events.id, join.labels.id


class JoinPartition(Paced):
    """A partition assigned to this worker: both inputs, the waiting entries, and how much of it is committed.

    Another thread may read its properties; only its own methods change it.
    """

    def __init__(self, cluster: JoinCluster, partition: int) -> None:
        self._cluster = cluster
        self.partition = partition
        self.phase: Phase = "waiting"
        self.consuming = False
        self.since = cluster.clock.monotonic()
        self.counts = Counts()
        """As they were committed."""
        self.restore_left = 0
        self._restoring_since = self.since
        self._who = f"{cluster.topics[EVENTS]} partition {partition}"
        self._extra = {"partition": partition, "offset": None}
        self.delay = ""
        self._behind_until: float | None = None
        self._local: Rocks | None = None
        self._committed = [-1, -1]
        self._next = self._end = 0
        self._saved: Saved | None = None
        self._store: Store | None = None
        self._joiner: Joiner | None = None
        self._schemas = (Schemas(), Schemas())
        self._learnt: Learnt = ([], [])
        """Those schemas as of the last ``changes``."""
        self._on_changelog = [0, 0]
        """How many of each input's."""
        self.turns = Turns(cluster.settings, cluster.topics, partition, self._schemas)
        self.offsets = [0, 0]
        """Offset of the next record of each input."""
        self._committed_offsets = [-1, -1]
        self._changes: dict[bytes, bytes | None] = {}
        self.tells = cluster.settings.join.merges
        self._letters = Chain(cluster.settings.app_id, partition, "dead_letters")

    # --- recovery --------------------------------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """Whether something was processed that no commit covers."""
        return self.phase == "running" and (
            self.offsets != self._committed_offsets
            or self.untold
            or (self._store is not None and self._store.changed)  # amid what a record makes due
        )

    @property
    def next_time(self) -> int | None:
        turn = None if self._joiner is None else self.turns.whose(self._joiner.leaps)
        return None if turn is None else turn[0]

    @property
    def time(self) -> int | None:
        return None if self._joiner is None else self._joiner.progress.time

    @property
    def drained(self) -> Sequence[int]:
        return self.turns.drained

    def flow(self, group: Consumer) -> None:
        self.turns.flow(group)

    def advance(self) -> None:
        """One slice of recovery. Raises ``RecoveryError`` where the past does not fit."""
        try:
            if self.phase == "waiting":
                self._wait()
            elif self.phase == "restoring":
                self._restore()
        except KafkaException as error:
            self._delayed(error.args[0].str())
        except Superseded:
            # Compaction or a new topic: the local store cannot be continued.
            self._open(fresh=True)
            self.phase = "waiting"

    def _delayed(self, reason: str) -> None:
        if reason != self.delay:
            self.delay = reason
            log.info("waiting: %s", reason, extra=self._extra)

    def _wait(self) -> None:
        cluster = self._cluster
        partitions = [TopicPartition(topic, self.partition) for topic in cluster.topics]
        # Blocks while a predecessor's transaction is open: its outcome decides where we start.
        found = cluster.group.committed(partitions, timeout=SLICE_SECONDS)
        for position in found:
            if position.error is not None:
                raise KafkaException(position.error)
        self._committed = [max(position.offset, -1) for position in found]
        where = TopicPartition(cluster.changelog, self.partition)
        low, high = cluster.reader.get_watermark_offsets(where, timeout=1.0, cached=False)
        if self._local is None:
            self._open(fresh=False)
        checkpoint = self._checkpoint()
        if (
            checkpoint is None
            or (checkpoint.topic, checkpoint.partition) != (cluster.changelog_id, self.partition)
            or not low <= checkpoint.next_offset <= high
            or cluster.clock.time() - checkpoint.at > MAX_LOCAL_AGE
        ):
            if self._local is not None and self._local.checkpoint is not None:
                log.info(
                    "the local store is too old or not this partition's, it is restored from the changelog",
                    extra=self._extra,
                )
                self._open(fresh=True)
            self._next, self._saved, self._learnt = low, None, ([], [])
        else:
            self._next, self._saved = checkpoint.next_offset, checkpoint.saved
            self._learnt = checkpoint.schemas
        self._end = high
        self.restore_left = max(0, high - self._next)
        self._restoring_since = cluster.clock.monotonic()
        if self.restore_left:
            log.info("restoring: %d offsets of the changelog", self.restore_left, extra=self._extra)
        cluster.reader.assign([TopicPartition(cluster.changelog, self.partition, self._next)])
        self.phase = "restoring"

    def _open(self, fresh: bool) -> None:
        if self._local is not None:
            self._local.close()
        self._local = self._cluster.open(self.partition, fresh)

    def _checkpoint(self) -> Checkpoint | None:
        assert self._local is not None
        raw = self._local.checkpoint
        try:
            return None if raw is None else msgspec.msgpack.decode(raw, type=Checkpoint)
        except msgspec.MsgspecError:
            return None

    def _restore(self) -> None:
        """Take what the changelog has into the local store, about a tenth of a second's worth."""
        assert self._local is not None
        cluster = self._cluster
        until = cluster.clock.monotonic() + SLICE_SECONDS
        done = self._next >= self._end
        while not done and cluster.clock.monotonic() < until:
            changes: dict[bytes, bytes | None] = {}
            for message in read(cluster.reader, 0.05, count=2_000):
                if message.error() is not None:
                    done = offset_of(message) >= self._end
                    break
                key, value = message.key() or b"", message.value()
                if key[:1] == ENTRY:
                    changes[key[1:]] = value
                elif key == PROGRESS and value is not None:
                    self._saved = decoded(value, self._who)
                elif key[:1] == SCHEMA and value is not None:
                    learn(self._learnt, key, value, self._who)
                self._next = offset_of(message) + 1
            reach("restore")
            if changes or done:
                self._next = max(self._next, self._end) if done else self._next
                restore(self._local, changes, self._encoded_checkpoint(), self._who)
        self.restore_left = max(0, self._end - self._next)
        if done:
            cluster.reader.unassign()
            self._begin()

    def _encoded_checkpoint(self) -> bytes:
        cluster = self._cluster
        at = cluster.clock.time()
        return encode(
            Checkpoint(cluster.changelog_id, self.partition, self._next, at, self._saved, self._learnt)
        )

    def _begin(self) -> None:
        """The restored state matches the committed one: go on from there."""
        cluster, saved, committed = self._cluster, self._saved, self._committed
        if saved is None and committed == [-1, -1]:
            lows = [
                cluster.reader.get_watermark_offsets(TopicPartition(topic, self.partition), timeout=5.0)[0]
                for topic in cluster.topics
            ]
            saved = Saved(
                Progress(), (lows[0], lows[1]), cluster.topic_ids, (0, self._letters.digest), cluster.ids
            )
        elif saved is None:
            self._not_yet(
                f"group {cluster.settings.app_id!r} has committed offset {committed[EVENTS]}, and the changelog {cluster.changelog!r} has nothing "
                f"of it: it was emptied or created again. {self._remedy()}"
            )
            return
        elif not all(map(same, saved.topics, cluster.topic_ids)):
            raise RecoveryError(
                f"{self._who}: a topic was deleted and created again (their ids were {', '.join(saved.topics)} and are "
                f"{', '.join(cluster.topic_ids)}); what waits is of records that are gone. {self._remedy()}"
            )
        elif not self._fit(saved.offsets):
            group, places = cluster.settings.app_id, zip(cluster.topics, saved.offsets, strict=True)
            back = " and ".join(
                moving(group, topic, self.partition, f"offset {then}") for topic, then in places
            )
            self._not_yet(
                f"the committed offsets {committed} of group {group!r} are not those of the changelog {list(saved.offsets)}: "
                f"an operator or another program moved them. Set them back: {back}; or begin anew: {self._remedy()}"
            )
            return
        if saved.ids not in (None, cluster.ids):
            log.warning(
                "join.events.id and join.labels.id were %s and are %s (null is the key): what waits is known by the ids of before, which "
                "labels by those of now do not find",
                *(orjson.dumps(ids).decode() for ids in (saved.ids, cluster.ids)),
                extra=self._extra,
            )
        assert self._local is not None
        self._saved = saved
        self._store = Store(self._local)
        self._joiner = Joiner(cluster.rules, self._store, saved.progress)
        self._letters.seq, self._letters.digest = saved.letters
        for schemas, learnt in zip(self._schemas, self._learnt, strict=True):
            schemas.restore(learnt)
        self._on_changelog = [len(learnt) for learnt in self._learnt]
        self.offsets = list(map(max, saved.offsets, committed))
        self._committed_offsets = list(saved.offsets)
        self._count()
        self.phase = "running"
        seconds = cluster.clock.monotonic() - self._restoring_since
        log.info("running from offsets %s, restored in %.3f s", self.offsets, seconds, extra=self._extra)

    def _not_yet(self, problem: str) -> None:
        """The changelog and the group's offsets are written by one transaction; each may become visible a little later, or behind another transaction."""
        cluster, clock = self._cluster, self._cluster.clock
        where = TopicPartition(cluster.changelog, self.partition)
        _, high = cluster.uncommitted().get_watermark_offsets(where, timeout=5.0)
        if self._end < high:
            self._behind_until = None
            self._delayed(
                f"{cluster.changelog} partition {self.partition}: a transaction is open since offset {self._end} and hides what comes after it; "
                "if it stays: explain-sidecar transactions show"
            )
        else:
            self._behind_until = self._behind_until or clock.monotonic() + BEHIND_SECONDS
            if clock.monotonic() > self._behind_until:
                raise RecoveryError(f"{self._who}: {problem}")
            self._delayed("the group's offsets and the changelog do not fit yet")
        clock.sleep(SLICE_SECONDS / 2)
        self.phase = "waiting"

    def _fit(self, saved: Sequence[int]) -> bool:
        """Whether the committed offsets are those of the changelog, or one was moved over records that retention has deleted, as ``_overtaken`` says."""
        for topic, now, then in zip(self._cluster.topics, self._committed, saved, strict=True):
            if now in (-1, then):
                continue
            where = TopicPartition(topic, self.partition)
            low, _ = self._cluster.reader.get_watermark_offsets(where, timeout=5.0)
            if not then < now <= low:
                return False
            log.warning("records %d to %d of %s are passed over: they were deleted", then, now - 1, topic, extra=self._extra)  # fmt: skip
        return True

    def _remedy(self) -> str:
        settings = self._cluster.settings
        return (
            f"To begin anew with what both topics hold, delete the topic {self._cluster.changelog!r} and the group {settings.app_id!r}; "
            "events that were joined before are then joined again"
        )

    # --- input -----------------------------------------------------------------------------------------------------

    def consume(self) -> list[TopicPartition]:
        self.consuming = True
        return self._positions()

    def _positions(self, metadata: str = "") -> list[TopicPartition]:
        return [
            TopicPartition(topic, self.partition, offset, metadata=metadata)
            for topic, offset in zip(self._cluster.topics, self.offsets, strict=True)
        ]

    def inputs(self) -> list[TopicPartition]:
        return (
            [TopicPartition(topic, self.partition) for topic in self._cluster.topics]
            if self.consuming
            else []
        )

    def reached(self, ends: Any) -> bool:
        return self.phase == "running" and self.turns.reached(self.offsets, ends or (0, 0))

    def read(self) -> None:
        """Read what is known of the ids received since the last call; before ``take_in``."""
        ids = self.turns.ids
        if ids and self._store is not None:
            self._store.read(ids)
            self.turns.ids = []

    def take_in(self, until: int | None = None) -> Sequence[Joined | Output] | None:
        """Take in the record whose turn it is, or a part of what it makes due before it (``amid``); what that publishes, or None where the
        other input must come first, or the record is later than ``until``.
        """
        joiner = self._joiner
        turn = None if joiner is None else self.turns.next(joiner.leaps, until)
        if joiner is None or turn is None:
            return None
        which, found = turn
        settled, self.amid = list[Joined](), False
        if found.timestamp is not None:
            settled, self.amid = joiner.ahead_of(found.timestamp)
            if self.amid:
                return settled
        self.offsets[which] = self.turns.take(which)
        if type(found) is Event:
            return settled + joiner.event(found)
        if type(found) is Label:
            return settled + joiner.label(found)
        if type(found) is Tombstone:
            withdraw = joiner.withdraw_event if which == EVENTS else joiner.withdraw_label
            return settled + withdraw(found.id, found.timestamp)
        assert type(found) is Rejected
        return [self._bad(joiner, which, found)]

    def _bad(self, joiner: Joiner, which: int, found: Rejected) -> Output:
        if which == EVENTS:
            joiner.bad_event()
        else:
            joiner.bad_label()
        settings, topic = self._cluster.settings, self._cluster.topics[which]
        return dead_letter(found.record, found.error, settings, topic, self.partition, 0, self._letters)

    # --- commits ---------------------------------------------------------------------------------------------------

    def changes(self) -> list[Keyed]:
        """What a commit must write to the changelog."""
        assert self._store is not None and self._joiner is not None
        self._changes = self._store.changes()
        self._saved = Saved(
            self._joiner.progress,
            (self.offsets[0], self.offsets[1]),
            self._cluster.topic_ids,
            (self._letters.seq, self._letters.digest),
            self._cluster.ids,
        )
        none: list[tuple[str, bytes]] = []
        records: list[Keyed] = [(ENTRY + id, value, none) for id, value in self._changes.items()]
        self._learnt = (self._schemas[0].state(), self._schemas[1].state())
        for which, (learnt, first) in enumerate(zip(self._learnt, self._on_changelog, strict=True)):
            records += [
                (schema_key(which, number), encode(schema), none)
                for number, schema in enumerate(learnt[first:], start=first)
            ]
        records.append((PROGRESS, encode(self._saved), none))
        return records

    def positions(self) -> list[TopicPartition]:
        """The offsets to commit."""
        for before, now in zip(self._committed_offsets, self.offsets, strict=True):
            if now < before:
                raise AssertionError(f"{self._who}: offsets {self.offsets} after {self._committed_offsets}")
        return self._positions(self.tell())

    def committed(self, changelog_offset: int) -> None:
        """The ``changes`` are committed, the last one at this offset: now they go into the local store."""
        assert self._store is not None
        self._next = changelog_offset + 1
        self._committed_offsets = list(self.offsets)
        self.told()
        self._on_changelog = [len(learnt) for learnt in self._learnt]
        self._store.committed(self._changes, self._encoded_checkpoint())
        self._changes = {}
        self._count()

    def _count(self) -> None:
        assert self._joiner is not None
        self.counts = msgspec.structs.replace(self._joiner.progress.counts)

    def close(self) -> None:
        if self._local is not None:
            self._local.close()
