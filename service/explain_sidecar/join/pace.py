"""The order in which records of several partitions are taken in, where they meet in one: that of their times, as far as they are read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from explain_sidecar.join.turns import BEGIN
from explain_sidecar.kafka.clock import SLICE_SECONDS, Clock
from explain_sidecar.kafka.commits import Owned
from explain_sidecar.kafka.ends import PartitionEnds
from explain_sidecar.kafka.errors import Aborted
from explain_sidecar.kafka.member import MAX_BATCH, Member

ASK_SECONDS = 0.5
"""How often the other workers' partitions are asked for, where one of this worker's waits for them."""


class Paced(Owned):
    """A partition whose records wait for their turn; how far it is, it tells with the offsets that it commits."""

    tells = True
    """Whether other workers are told."""
    amid = False
    """Whether ``take_in`` has last published a part of what a record makes due, and not taken in the record."""
    ahead = 0
    """Milliseconds of time that it is ahead of the slowest partition with a backlog; see ``Pace``."""
    _tell = _told = ""

    @property
    @abstractmethod
    def time(self) -> int | None:
        """How far it is, milliseconds."""

    @property
    @abstractmethod
    def next_time(self) -> int | None:
        """That of the record whose turn it is, if any."""

    @property
    @abstractmethod
    def drained(self) -> Sequence[int]:
        """Where its inputs end, if all that is before has been taken in; else nothing."""

    @abstractmethod
    def take_in(self, until: int | None = None) -> Sequence[Any] | None:
        """Take in the record whose turn it is; what that publishes, or None where there is none, or it is later than ``until``."""

    @abstractmethod
    def flow(self, group: Consumer) -> None:
        """Hold back input that is far ahead, and let it go on once it is not."""

    def read(self) -> None:
        """Read what is known of the records received since the last call; before ``take_in``."""

    @property
    def standing(self) -> int | None:
        """``_place``; None without a backlog."""
        return None if self.drained else self._place

    @property
    def _place(self) -> int:
        """The time of the next record, or of the last one where the next is not known."""
        following = self.next_time
        known = self.time if following in (None, BEGIN) else following
        return BEGIN if known is None else known

    @property
    def untold(self) -> bool:
        """Whether other workers wait to hear how far this partition is, though no record of it is taken in."""
        if not self.tells or (self._told and self.next_time is None and not self.drained):
            return False
        return self._told != self._telling()

    def tell(self) -> str:
        """What is to be committed beside the offsets; ``told`` says that it was."""
        self._tell = self._telling() if self.tells else ""
        return self._tell

    def told(self) -> None:
        self._told = self._tell

    def _telling(self) -> str:
        """How far it is, and where its inputs end if it is drained: what comes behind that is a backlog again, whoever is to take it in."""
        return " ".join(map(str, (self._place, *self.drained)))


P = TypeVar("P", bound=Paced)


class Pace:
    """What a partition of this worker may take in: nothing that is more than ``skew`` seconds ahead of a partition with a backlog.

    Each worker tells, beside the offset that it commits, how far each of its partitions is. A partition without a backlog holds nobody back.
    """

    def __init__(
        self,
        skew: float,
        group: Consumer,
        ends: PartitionEnds,
        topics: Sequence[str],
        partitions: int,
        clock: Clock,
    ) -> None:
        self._skew = round(skew * 1000)
        self.step = self._skew // 100
        """How far a partition of a worker may pass another one's turn, so that it takes in more than a record at a time."""
        self._group, self._ends = group, ends
        self._topics = topics
        self._partitions = partitions
        self._clock = clock
        self._asked = -ASK_SECONDS
        self._others: dict[int, int | None] = {}
        self.committed: dict[int, int] = {}
        """The offsets of the other workers' partitions when they were last asked for."""

    def limit(self, owned: Collection[Paced]) -> int | None:
        """The last time that may be taken in; None where no partition has a backlog."""
        here = {one.partition: one.standing for one in owned if one.phase == "running"}
        others = set(range(self._partitions)) - here.keys()
        if others:
            self._ask(others)
        all_of_them = [*here.values(), *(self._others.get(partition, BEGIN) for partition in others)]
        slowest = min((at for at in all_of_them if at is not None), default=None)
        for partition in owned:
            at = here.get(partition.partition)
            partition.ahead = 0 if at is None or slowest in (None, BEGIN) else at - slowest
        return None if slowest is None else slowest + self._skew

    def _ask(self, others: Collection[int]) -> None:
        now = self._clock.monotonic()
        if now - self._asked < ASK_SECONDS:
            return
        self._asked = now
        places = [TopicPartition(self._topics[0], partition) for partition in sorted(others)]
        try:
            found = self._group.committed(places, timeout=ASK_SECONDS)
        except KafkaException:  # such as a transaction that is just being committed
            return
        self.committed = {place.partition: place.offset for place in found}
        told = {place.partition: _numbers(place.metadata or "") for place in found}
        drained = {partition: ends for partition, (_, *ends) in told.items() if ends}
        known = [self._ends.last_stable(topic, drained) for topic in self._topics]
        self._others = {
            partition: None if drained.get(partition) == [end.get(partition) for end in known] else at
            for partition, (at, *_) in told.items()
        }


def _numbers(told: str) -> list[int]:
    """What ``Paced.tell`` says; the beginning where nothing was told, or by a version that told otherwise."""
    try:
        return [int(number) for number in told.split()] or [BEGIN]
    except ValueError:
        return [BEGIN]


def moving(group: str, topic: str, partition: int, to: str) -> str:
    """The command that moves a committed offset."""
    return f"kafka-consumer-groups --group {group} --topic {topic}:{partition} --reset-offsets --to-{to} --execute"


class PacedMember(Member[P]):
    """A member that takes in the records of its partitions in the order of their times, where it has a ``pace``; else each for itself."""

    _left = False
    _step_seconds = SLICE_SECONDS / MAX_BATCH  # messages are only read, which takes microseconds
    _pace: Pace | None = None

    @abstractmethod
    def _publish(self, partition: int, published: Sequence[Any]) -> None:
        """What a record of a partition publishes. Raises ``Aborted``."""

    def _overtaken(self, topic: str, partition: int) -> str:
        return f"go on with what is there: {moving(self._group_name, topic, partition, 'earliest')}"

    def _keep_pace(self, skew: float, ends: PartitionEnds, partitions: int) -> Pace:
        """Take in records in the order of their times, of all partitions of the inputs."""
        self._pace = Pace(skew, self._consumer, ends, [*self._inputs], partitions, self._clock)
        return self._pace

    def _take_in_waiting(self) -> None:
        self._left = False
        while self._waiting:
            self._take(self._waiting.popleft())
        for owned in self._owned.values():
            owned.read()
        try:
            if self._pace is not None:
                self._in_order(self._pace)
            else:
                for owned in self._owned.values():
                    self._go_on(owned, self._clock.monotonic() + SLICE_SECONDS)
        except Aborted:  # as for a message: the outputs are sent again before anything else
            pass
        for owned in self._owned.values():
            owned.flow(self._consumer)

    def _go_on(self, owned: P, deadline: float, until: int | None = None) -> None:
        """Process what is ready, up to a time of records, and until a deadline."""
        while (published := owned.take_in(until)) is not None:
            if not owned.amid:
                self.totals.counted()
            self._publish(owned.partition, published)
            now = self._clock.monotonic()
            if now > deadline or self._full(now):
                self._left = True
                break

    def _in_order(self, pace: Pace) -> None:
        """Process what is ready in all partitions in the order of its times, about a tenth of a second's worth."""
        deadline = self._clock.monotonic() + SLICE_SECONDS
        while not self._left:
            ready = sorted(
                (time, number)
                for number, owned in self._owned.items()
                if (time := owned.next_time) is not None
            )
            limit = pace.limit(self._owned.values())
            if not ready or (limit is not None and ready[0][0] > limit):
                break
            ends = [time + pace.step for time, _ in ready[1:2]] + ([] if limit is None else [limit])
            self._go_on(self._owned[ready[0][1]], deadline, min(ends, default=None))

    def _poll_seconds(self) -> float:
        return 0.0 if self._left else super()._poll_seconds()
