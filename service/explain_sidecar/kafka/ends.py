"""Where the committed records of a topic end, and how far the group has come: for lag, asked outside the fold."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

ASK_SECONDS = 1.0


def last_stable_offsets(admin: AdminClient, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The last stable offset of each partition; those that no broker answers for in time are left out."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, partition): latest for partition in partitions}
    if not wanted:
        return {}
    found = {}
    try:
        asked = admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ASK_SECONDS
        )
        for where, future in asked.items():
            offset = int(future.result().offset)
            if offset >= 0:  # a request that timed out gives −1001, and no error
                found[where.partition] = offset
    except KafkaException:
        pass
    return found


def ask_ends(
    admin: AdminClient, places: Iterable[tuple[str, int]], isolation: IsolationLevel
) -> dict[TopicPartition, Future[Any]]:
    """Ask where partitions end for a reader, without waiting for the answers: the last stable offset, or the high watermark."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked: dict[TopicPartition, Future[Any]] = admin.list_offsets(
        {TopicPartition(*place): latest for place in places},
        isolation_level=isolation,
        request_timeout=ASK_SECONDS,
    )
    return asked


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
