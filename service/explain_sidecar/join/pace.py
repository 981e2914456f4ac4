"""How far partitions may be apart in time, where records of several partitions of the join meet in one of the records topic."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import Consumer, KafkaException, TopicPartition

from explain_sidecar.join.partition import BEGIN, DRAINED, JoinPartition
from explain_sidecar.kafka.clock import Clock
from explain_sidecar.settings import JoinSettings

ASK_SECONDS = 0.5
"""How often the other workers' partitions are asked for, where one of this worker's waits for them."""


class Pace:
    """What a partition of this worker may take in: nothing that is further ahead than ``join.max_skew`` of a partition with a backlog.

    Each worker tells, beside the offset that it commits, how far each of its partitions is. A partition without a backlog holds nobody back.
    """

    def __init__(
        self, settings: JoinSettings, group: Consumer, topic: str, partitions: int, clock: Clock
    ) -> None:
        self.on = settings.key is not None or settings.repartition
        self._skew = round(settings.max_skew * 1000)
        self.step = self._skew // 100
        """How far a partition of a worker may pass another one's turn, so that it takes in more than a record at a time."""
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._clock = clock
        self._asked = -ASK_SECONDS
        self._others: dict[int, int | None] = {}

    def limit(self, owned: Collection[JoinPartition]) -> int | None:
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
        places = [TopicPartition(self._topic, partition) for partition in sorted(others)]
        try:
            found = self._group.committed(places, timeout=ASK_SECONDS)
        except KafkaException:  # such as a transaction that is just being committed
            return
        self._others = {place.partition: _standing(place.metadata or "") for place in found}


def _standing(told: str) -> int | None:
    if told == DRAINED:
        return None
    return int(told) if told.removeprefix("-").isdigit() else BEGIN
