"""Where the committed records of a topic end, and how far the group has come: for lag, asked outside the fold."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

ASK_SECONDS = 1.0
LEADERS_SECONDS = 300.0
"""A third of the time for which an admin client knows a topic, see ``clients.admin_client``."""


class PartitionEnds:
    """Where partitions end for readers.

    librdkafka puts the question in the caller's thread, and where it has yet to find out a leader, its own thread may take the answer in meanwhile,
    which ends the process (``rd_kafka_topic_partition_list_query_leaders_async``). So all topics are asked for beforehand, and again before they are
    forgotten; what is not among them is not asked about.
    """

    def __init__(self, admin: AdminClient, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._admin, self._monotonic = admin, monotonic
        self._known: Collection[str] = ()
        self._known_at = 0.0

    def ask(
        self, places: Collection[tuple[str, int]], isolation: IsolationLevel
    ) -> dict[TopicPartition, Future[Any]]:
        """Ask for the last stable offsets, or the high watermarks, without waiting for the answers.

        Only the leaders are waited for, for a second at most and once in ``LEADERS_SECONDS``; nothing is asked where no broker tells them.
        """
        topics = {topic for topic, _ in places}
        if not topics:
            return {}
        if not topics.issubset(self._known) or self._monotonic() - self._known_at > LEADERS_SECONDS:
            try:
                self._known = self._admin.list_topics(timeout=ASK_SECONDS).topics.keys()
            except KafkaException:
                return {}
            self._known_at = self._monotonic()
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(*place): latest for place in places if place[0] in self._known}
        if not wanted:
            return {}
        asked: dict[TopicPartition, Future[Any]] = self._admin.list_offsets(
            wanted, isolation_level=isolation, request_timeout=ASK_SECONDS
        )
        return asked

    def last_stable(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The last stable offset of each partition; those that no broker answers for in time are left out."""
        found = {}
        try:
            asked = self.ask([(topic, partition) for partition in partitions], IsolationLevel.READ_COMMITTED)
            for where, future in asked.items():
                offset = int(future.result().offset)
                if offset >= 0:  # a request that timed out gives −1001, and no error
                    found[where.partition] = offset
        except KafkaException:
            pass
        return found


def committed_offsets(group: Consumer, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The committed offset of each partition that has one; nothing where no broker answers in time.

    ``group`` is a consumer with the group's name: librdkafka's admin client ends the process where the coordinator has moved (its issue 5040).
    """
    try:
        found = group.committed(
            [TopicPartition(topic, partition) for partition in partitions], timeout=ASK_SECONDS
        )
    except KafkaException:
        return {}
    return {place.partition: place.offset for place in found if place.error is None and place.offset >= 0}
