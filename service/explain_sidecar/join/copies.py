"""``join.repartition``: both inputs are copied through internal topics by id, so that an event and its label are in one partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.join.inputs import SOURCE_HEADER, EventInput, LabelInput
from explain_sidecar.join.pace import Paced, PacedMember
from explain_sidecar.join.partitioner import partition_of
from explain_sidecar.join.stage import JoinStage, Open
from explain_sidecar.join.topics import join_settings, prepare
from explain_sidecar.join.turns import BEGIN, Queue
from explain_sidecar.kafka.clients import KAFKA, Kafka, admin_client
from explain_sidecar.kafka.clock import SLICE_SECONDS
from explain_sidecar.kafka.ends import PartitionEnds
from explain_sidecar.kafka.headers import offset_of
from explain_sidecar.kafka.member import Member
from explain_sidecar.kafka.report import Report
from explain_sidecar.kafka.sent import Sent
from explain_sidecar.kafka.topics import Topic, Topics
from explain_sidecar.kafka.totals import Phase, Totals
from explain_sidecar.settings import Settings

COPYING = "copying both inputs by id (join.repartition), as far as they were there at the start"
"""Why the join has not begun."""


class Copy(NamedTuple):
    """A record to be copied; without a timestamp it has no readable one."""

    sent: Sent
    timestamp: int | None


class CopiedPartition(Paced):
    """A partition that is copied: its only state is an offset."""

    def __init__(self, topic: str, partition: int, group: Consumer, reader: Consumer) -> None:
        self._where = TopicPartition(topic, partition)
        self._group, self._reader = group, reader
        self.partition = partition
        self.phase: Phase = "waiting"
        self.consuming = False
        self.offset = self.committed = 0
        self.queue = Queue[Copy](topic, partition)
        self._time: int | None = None

    @property
    def dirty(self) -> bool:
        return self.phase == "running" and (self.offset > self.committed or self.untold)

    def advance(self) -> None:
        try:
            # Blocks while a predecessor's transaction is open: its outcome decides where we start.
            (found,) = self._group.committed([self._where], timeout=SLICE_SECONDS)
            low, _ = self._reader.get_watermark_offsets(self._where, timeout=1.0, cached=False)
        except KafkaException:
            return
        if found.error is None:
            self.offset = self.committed = found.offset if found.offset >= 0 else low
            self.phase = "running"

    def consume(self) -> list[TopicPartition]:
        self.consuming = True
        return [self.position()]

    def inputs(self) -> list[TopicPartition]:
        return [self.position()] if self.consuming else []

    def reached(self, end: Any) -> bool:
        return self.phase == "running" and self.offset >= end

    def position(self) -> TopicPartition:
        return TopicPartition(self._where.topic, self.partition, self.offset, metadata=self._tell)

    def came_to(self, message: Message) -> None:
        """Nothing more comes before the message's offset."""
        self.queue.came_to(message)
        if not self.queue:  # it may have ended with control records
            self.offset = max(self.offset, offset_of(message))

    @property
    def next_time(self) -> int | None:
        """The earliest of the next few: one wrong clock does not hold up those behind it."""
        return min(self.queue.times(), default=BEGIN) if self.queue else None

    @property
    def time(self) -> int | None:
        return self._time

    @property
    def drained(self) -> Sequence[int]:
        end = self.queue.drained
        return () if end is None else [end]

    def take_in(self, until: int | None = None) -> list[Sent] | None:
        at = self.next_time
        if at is None or (until is not None and at > until):
            return None
        self._time = self._time if at == BEGIN else at
        sent = self.queue.first.sent
        self.offset = self.queue.take()
        return [sent]

    def flow(self, group: Consumer) -> None:
        self.queue.flow(group)


class Copier(PacedMember[CopiedPartition]):
    """Copies one input by id. Records without a readable id are copied too: the join reports their error."""

    def __init__(
        self, settings: Settings, which: int, slot: int, alive: Callable[[], None], kafka: Kafka = KAFKA
    ) -> None:
        stage = join_settings(settings)
        topics = Topics(stage, kafka=kafka)
        known = prepare(stage, topics)
        assert known.copied is not None
        self._source: Topic = known.copied[which]
        self._target: Topic = (known.events, known.labels)[which]
        self._input = (EventInput, LabelInput)[which](stage)
        setting = ("join.events.topic", "join.labels.topic")[which]
        own = stage.model_copy(update={"app_id": f"{stage.app_id}-copy-{('events', 'labels')[which]}"})
        watched = {setting: self._source, "join": self._target}
        super().__init__(own, slot, alive, kafka, topics, known=watched, totals=Totals(own.topics))
        self._backlog: Mapping[int, int] | None = None
        ends = PartitionEnds(admin_client(stage, topics.errors, kafka), kafka.clock.monotonic)
        self._others = self._keep_pace(
            min(stage.join.max_skew, stage.join.wait / 4), ends, self._source.partitions
        )

    @property
    def behind(self) -> bool:
        """Whether records that were there at the start are still to be copied, by this worker or another."""
        if self._backlog is None:
            self._backlog = self._end_offsets()
        if self._backlog:
            here = {partition.partition: partition.committed for partition in self._owned.values()}
            committed = self._others.committed | here
            if all(committed.get(partition, -1) >= end for partition, end in self._backlog.items()):
                self._backlog = {}
        return bool(self._backlog)

    def _caught_up(self) -> bool:
        return super()._caught_up() and not self.behind

    def _publish(self, partition: int, published: Sequence[Sent]) -> None:
        self._count()
        self._transaction.keep([*published])

    def _commit(self, saved: Collection[CopiedPartition] | None = None) -> None:
        """Records, and the input's offsets."""
        moved = [partition for partition in self._owned.values() if partition.dirty]
        asked = self._begin(moved)
        if asked is None:
            return
        for partition in moved:
            partition.tell()
        self._end([partition.position() for partition in moved], asked)
        for partition in moved:
            partition.told()
            partition.committed = partition.offset

    def _take_in(self, owned: CopiedPartition, message: Message, record: InputRecord) -> int:
        owned.queue.receive(record, self._copy(owned, record))
        return 1

    def _copy(self, owned: CopiedPartition, record: InputRecord) -> Copy:
        count, timestamp = self._target.partitions, None
        to = owned.partition % count
        with suppress(BadRecord):
            data = self._input.data(record)
            to = partition_of(self._input.id(record, data), count)
            timestamp = self._input.time(record, data)
        source = b"%d %d %d" % (owned.partition, record.timestamp, record.unreadable_headers)
        headers = [*record.headers, (SOURCE_HEADER, source)]
        sent = Sent(self._target.name, to, record.key, record.value, headers, owner=owned.partition)
        return Copy(sent, timestamp)

    def _at_end(self, owned: CopiedPartition, message: Message) -> None:
        owned.came_to(message)

    def _own(self, partition: int) -> CopiedPartition:
        return CopiedPartition(self._source.name, partition, self._consumer, self._reader)

    def _end_offsets(self) -> Mapping[int, int]:
        return {
            partition: self._end_of(self._source.name, partition)
            for partition in range(self._source.partitions)
        }


class JoinOfCopies:
    """Both copies and the join, a turn of each after the other in one thread.

    The join begins once the backlog is copied: it could not know of a label that has yet to be copied.
    """

    def __init__(
        self,
        settings: Settings,
        slot: int,
        alive: Callable[[], None],
        kafka: Kafka = KAFKA,
        open: Open | None = None,
    ) -> None:
        self._copiers = [Copier(settings, which, slot, alive, kafka) for which in (0, 1)]
        self._join = JoinStage(settings, slot, alive, kafka, open)
        self._all: list[Member[Any]] = [*self._copiers, self._join]
        self.stopping = False
        self._copying = True

    @property
    def totals(self) -> Totals:
        return self._join.totals

    def report(self, alive_at: float) -> Report:
        found = self._join.report(alive_at)
        return replace(found, reason=COPYING) if self._copying else found

    def run(self, until_caught_up: bool = False) -> None:
        """As ``Member.run``."""
        for _ in self.turns(until_caught_up):
            pass

    def turns(self, until_caught_up: bool = False) -> Generator[None]:
        """A turn of each. With ``until_caught_up`` the copies finish first: their output is the input of the join."""
        if until_caught_up:
            yield from self._together([copier.turns(True) for copier in self._copiers], None)
            yield from self._together([], self._join.turns(True))
        else:
            yield from self._together([copier.turns() for copier in self._copiers], self._join.turns())

    def _together(self, copying: list[Generator[None]], joining: Generator[None] | None) -> Generator[None]:
        running = copying if joining is None else [*copying, joining]
        with ExitStack() as leaving:  # each leaves its group at once, whatever ended the others
            for turns in running:
                leaving.callback(turns.close)
            while running:
                for turns in list(running):
                    for member in self._all:
                        member.stopping = member.stopping or self.stopping
                    waits = copying and turns is joining and not self.stopping
                    if waits and any(copier.behind for copier in self._copiers):
                        continue
                    self._copying = self._copying and turns is not joining
                    if next(turns, running) is running:
                        running.remove(turns)
                yield


def join_of(
    settings: Settings,
    slot: int,
    alive: Callable[[], None],
    kafka: Kafka = KAFKA,
    open: Open | None = None,
) -> JoinStage | JoinOfCopies:
    """The join that the settings describe."""
    return (JoinOfCopies if settings.join.repartition else JoinStage)(settings, slot, alive, kafka, open)
