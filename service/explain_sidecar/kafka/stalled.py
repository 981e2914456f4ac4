"""A partition that silently stops: its fetch stalls while records wait and others go on. Its fetch is begun anew."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.ends import PartitionEnds

if TYPE_CHECKING:
    from explain_sidecar.kafka.lifecycle import OwnedPartition

LOOK_SECONDS = 5.0
STALLED_SECONDS = 20.0
"""A fetch waits for 0.1 s at a broker that has nothing, and for 10 s at one that does not answer."""


class Stalls:
    """Compares positions with the ends of the input. Its questions run in the client's threads."""

    def __init__(self, ends: PartitionEnds, topic: str, clock: Clock) -> None:
        self._ends = ends
        self._topic = topic
        self._clock = clock
        self._asked: dict[TopicPartition, Future[Any]] = {}
        self._asked_at = clock.monotonic()
        self._since: dict[int, tuple[int, float]] = {}

    def look(self, owned: Collection[OwnedPartition], busy: bool) -> list[int]:
        """The partitions whose fetch has stalled: records wait, and for 20 s none came, though the loop had nothing else to do.

        ``busy``: whether records that were fetched wait to be taken in.
        """
        now = self._clock.monotonic()
        if busy:
            self._since.clear()
        places = {one.partition: one.position for one in owned if one.consuming}
        self._since = {
            partition: known
            if (known := self._since.get(partition)) and known[0] == position
            else (position, now)
            for partition, position in places.items()
            if position is not None
        }
        if not self._asked:
            if self._since and now - self._asked_at > LOOK_SECONDS:
                self._asked_at = now
                everything = [(self._topic, partition) for partition in self._since]
                self._asked = self._ends.ask(everything, IsolationLevel.READ_COMMITTED)
            return []
        if not all(future.done() for future in self._asked.values()):
            return []
        asked, self._asked = self._asked, {}
        stalled = [
            where.partition
            for where, future in asked.items()
            if where.partition in self._since
            and now - self._since[where.partition][1] > STALLED_SECONDS
            and _end(future) > self._since[where.partition][0]
        ]
        for partition in stalled:
            del self._since[partition]
        return stalled


def _end(future: Future[Any]) -> int:
    try:
        return int(future.result(0).offset)
    except KafkaException:
        return -1
