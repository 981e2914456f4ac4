"""Whose turn it is: the records of both inputs, in the order of their times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

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

MAX_AHEAD = 20_000
"""Records of one input that wait for the other one; beyond it the input is paused until a tenth is left."""

MAX_AHEAD_BYTES = 64 * 2**20
"""Likewise of their keys and values."""

Ahead = deque[tuple[int, int, Found]]
"""Records of an input that wait for their turn, each after its offset and its bytes."""


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
        self._ahead: tuple[Ahead, Ahead] = (deque(), deque())
        self._bytes = [0, 0]
        self.ids: list[bytes] = []
        """Of the records received, until ``JoinPartition.read`` has read what is known of them."""
        self._at_end = [False, False]
        self._ends = [0, 0]
        self._paused = [False, False]

    def receive(self, topic: str | None, record: InputRecord) -> None:
        """Put a record of one input behind those that wait for their turn."""
        which = EVENTS if topic == self._topics[EVENTS] else LABELS
        self._at_end[which] = False
        size = len(record.value or b"") + len(record.key or b"")
        self._bytes[which] += size
        try:
            found = self._readers[which].read(record, self._partition)
        except BadRecord as error:
            self._ahead[which].append((record.offset, size, Rejected(record, error)))
            return
        self.ids.append(found.id)
        self._ahead[which].append((record.offset, size, found))

    def at_end(self, message: Message) -> None:
        """An input has nothing more before this offset (its last records may have been control records)."""
        which = EVENTS if message.topic() == self._topics[EVENTS] else LABELS
        self._at_end[which] = True
        self._ends[which] = offset_of(message)

    def reached(self, offsets: Sequence[int], ends: Sequence[int]) -> bool:
        """Whether both inputs, processed up to ``offsets``, have come to ``ends``."""
        return all(
            offset >= wanted or (not ahead and end >= wanted)
            for offset, end, ahead, wanted in zip(offsets, self._ends, self._ahead, ends, strict=True)
        )

    @property
    def drained(self) -> bool:
        """Whether both inputs have come to their ends, and nothing of them waits."""
        return all(self._at_end) and not any(self._ahead)

    def whose(self, leaps: Callable[[int], bool]) -> tuple[int, int] | None:
        """The time and the input of the record whose turn it is; None where the other input must come first.

        Of the first record of each input the one with the earlier timestamp is taken, an event before a label. An input at
        its end is not waited for. ``leaps`` says whether a timestamp is too far from stream time.
        """
        events, labels = self._ahead
        if events and labels:
            return min((_order(events, leaps), EVENTS), (_order(labels, leaps), LABELS))
        if events and self._at_end[LABELS]:
            return _order(events, leaps), EVENTS
        if labels and self._at_end[EVENTS]:
            return _order(labels, leaps), LABELS
        return None

    def next(self, leaps: Callable[[int], bool], until: int | None = None) -> tuple[int, Found] | None:
        """The input and the record whose turn it is; None where there is none, or where it is of a time after ``until``."""
        turn = self.whose(leaps)
        if turn is None or (until is not None and turn[0] > until):
            return None
        which = turn[1]
        return which, self._ahead[which][0][2]

    def take(self, which: int) -> int:
        """The first record of an input is taken in; returns its offset."""
        offset, size, _ = self._ahead[which].popleft()
        self._bytes[which] -= size
        return offset

    def flow(self, group: Consumer) -> None:
        """Hold back an input that is far ahead of the other, and let it go on once it is not."""
        for which, waiting in enumerate(self._ahead):
            partition = [TopicPartition(self._topics[which], self._partition)]
            share = max(len(waiting) / MAX_AHEAD, self._bytes[which] / MAX_AHEAD_BYTES)
            if not self._paused[which] and share > 1:
                group.pause(partition)
                self._paused[which] = True
            elif self._paused[which] and share < 0.1:
                group.resume(partition)
                self._paused[which] = False


def _order(waiting: Ahead, leaps: Callable[[int], bool]) -> int:
    """The order of an input's first record. A bad record, or one whose clock alone has leapt, does not hold up those behind it."""
    timestamp = waiting[0][2].timestamp
    if timestamp is None:
        return -(2**63)
    if not leaps(timestamp):
        return timestamp
    times = [found.timestamp for _, _, found in islice(waiting, LEAP_RECORDS)]
    alone = not all(leaps(time) for time in times if time is not None)
    return -(2**63) if alone else timestamp
