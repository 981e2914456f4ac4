"""Whose turn it is: the records of both inputs, in the order of their times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from confluent_kafka import Consumer, Message, TopicPartition

from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.join.inputs import EventInput, Found, LabelInput, Rejected
from explain_sidecar.join.joiner import LEAP_RECORDS
from explain_sidecar.kafka.headers import offset_of
from explain_sidecar.settings import Settings

EVENTS, LABELS = 0, 1
"""The two inputs, in the order of their topics."""

BEGIN = -(2**63)
"""Before every time."""

MAX_AHEAD = 20_000
"""Records of one input that wait for the other one; beyond it the input is paused until a tenth is left."""

MAX_AHEAD_BYTES = 64 * 2**20
"""Likewise of their keys and values."""


class Timed(Protocol):
    @property
    def timestamp(self) -> int | None:
        """Milliseconds; None where it has no time of its own."""


T = TypeVar("T", bound=Timed)


class Queue(Generic[T]):
    """The records of one input of a partition that are read and wait for their turn."""

    def __init__(self, topic: str, partition: int) -> None:
        self._place = TopicPartition(topic, partition)
        self._waiting: deque[tuple[int, int, T]] = deque()  # after offset and bytes
        self._bytes = 0
        self._end = 0
        self.at_end = False
        self._paused = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def first(self) -> T:
        return self._waiting[0][2]

    def times(self) -> list[int]:
        """Of the first records, as many as a wrong clock is told by; not of those without a time."""
        first = (found.timestamp for _, _, found in islice(self._waiting, LEAP_RECORDS))
        return [time for time in first if time is not None]

    def receive(self, record: InputRecord, found: T) -> None:
        size = len(record.value or b"") + len(record.key or b"")
        self.at_end = False
        self._bytes += size
        self._waiting.append((record.offset, size, found))

    def came_to(self, message: Message) -> None:
        """There is nothing more before this offset (the last records may have been control records)."""
        self.at_end, self._end = True, offset_of(message)

    @property
    def drained(self) -> int | None:
        """Where the input ends, if nothing of it waits."""
        return self._end if self.at_end and not self else None

    def reached(self, offset: int, wanted: int) -> bool:
        """Whether the input, processed up to ``offset``, has come to an end."""
        return offset >= wanted or (not self._waiting and self._end >= wanted)

    def take(self) -> int:
        """The first record is taken in; returns the offset from which the next one comes: behind control records, where they end the input."""
        offset, size, _ = self._waiting.popleft()
        self._bytes -= size
        return max(offset + 1, self._end) if self.at_end and not self._waiting else offset + 1

    def flow(self, group: Consumer) -> None:
        """Hold the input back where too much of it waits, and let it go on once it does not."""
        share = max(len(self._waiting) / MAX_AHEAD, self._bytes / MAX_AHEAD_BYTES)
        if not self._paused and share > 1:
            group.pause([self._place])
            self._paused = True
        elif self._paused and share < 0.1:
            group.resume([self._place])
            self._paused = False


class Turns:
    """The records that a partition has read of both ``topics`` and that wait for their turn."""

    def __init__(
        self,
        settings: Settings,
        topics: tuple[str, str],
        partition: int,
        schemas: tuple[Schemas, Schemas],
    ) -> None:
        self._topics = topics
        self._partition = partition
        self._readers = (
            EventInput(settings, schemas[EVENTS]),
            LabelInput(settings, schemas[LABELS]),
        )
        self._queues: tuple[Queue[Found], Queue[Found]] = (
            Queue(topics[EVENTS], partition),
            Queue(topics[LABELS], partition),
        )
        self.ids: list[bytes] = []
        """Of the records received, until ``JoinPartition.read`` has read what is known of them."""

    def receive(self, topic: str | None, record: InputRecord) -> None:
        """Put a record of one input behind those that wait for their turn."""
        which = EVENTS if topic == self._topics[EVENTS] else LABELS
        found: Found
        try:
            found = self._readers[which].read(record, self._partition)
            self.ids.append(found.id)
        except BadRecord as error:
            found = Rejected(record, error)
        self._queues[which].receive(record, found)

    def at_end(self, message: Message) -> None:
        """An input has nothing more before the message's offset."""
        self._queues[EVENTS if message.topic() == self._topics[EVENTS] else LABELS].came_to(message)

    def reached(self, offsets: Sequence[int], ends: Sequence[int]) -> bool:
        """Whether both inputs, processed up to ``offsets``, have come to ``ends``."""
        return all(queue.reached(*at) for queue, *at in zip(self._queues, offsets, ends, strict=True))

    @property
    def drained(self) -> Sequence[int]:
        """Where both inputs end, if nothing of them waits; else nothing."""
        ends = [queue.drained for queue in self._queues]
        return [end for end in ends if end is not None] if None not in ends else ()

    def whose(self, leaps: Callable[[int], bool]) -> tuple[int, int] | None:
        """The time and the input of the record whose turn it is; None where the other input must come first.

        Of the first record of each input the one with the earlier timestamp is taken, an event before a label. An input at
        its end is not waited for. ``leaps`` says whether a timestamp is too far from stream time.
        """
        events, labels = self._queues
        if events and labels:
            return min((_order(events, leaps), EVENTS), (_order(labels, leaps), LABELS))
        if events and labels.at_end:
            return _order(events, leaps), EVENTS
        if labels and events.at_end:
            return _order(labels, leaps), LABELS
        return None

    def next(self, leaps: Callable[[int], bool], until: int | None = None) -> tuple[int, Found] | None:
        """The input and the record whose turn it is; None where there is none, or where it is of a time after ``until``."""
        turn = self.whose(leaps)
        if turn is None or (until is not None and turn[0] > until):
            return None
        which = turn[1]
        return which, self._queues[which].first

    def take(self, which: int) -> int:
        """The first record of an input is taken in; returns the offset from which the next one comes."""
        return self._queues[which].take()

    def flow(self, group: Consumer) -> None:
        """Hold back an input that is far ahead of the other, and let it go on once it is not."""
        for queue in self._queues:
            queue.flow(group)


def _order(queue: Queue[Found], leaps: Callable[[int], bool]) -> int:
    """The order of an input's first record. A bad record, or one whose clock alone has leapt, does not hold up those behind it."""
    timestamp = queue.first.timestamp
    if timestamp is None:
        return BEGIN
    alone = leaps(timestamp) and not all(map(leaps, queue.times()))
    return BEGIN if alone else timestamp
