"""The newest explanations of every partition, without reading the topic from its beginning; the newest of each segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from explain_client.errors import ClientError
from explain_client.explanation import Explanation
from explain_client.kafka import CONNECT_SECONDS, connect, decoded, reached_end, reason
from explain_client.segments import Segment

FIRST_STEP = 64
"""Offsets that the search goes back at first; four times as many at each further step."""


def latest(
    servers: str, topic: str, *, app_id: str | None = None, config: Mapping[str, Any] | None = None
) -> dict[int, Explanation]:
    """The newest explanation of each partition that has one. ``app_id``: of this sidecar alone.

    Raises ``ClientError`` as ``Explanations`` does, and without ``app_id`` for a partition that several sidecars write to.
    """
    return {number: found[-1] for number, found in _newest(servers, topic, 1, app_id, config).items()}


def recent(
    servers: str,
    topic: str,
    *,
    app_id: str | None = None,
    window: int = 10_000,
    config: Mapping[str, Any] | None = None,
) -> list[Explanation]:
    """Each partition's explanations of its last ``window`` records, for ``merge``; the newest is always among them.

    ``app_id`` and errors are those of ``latest``.
    """
    return [
        explanation
        for found in _newest(servers, topic, window, app_id, config).values()
        for explanation in found
    ]


def newest_segments(
    explanations: Iterable[Explanation], estimator: str | None = None
) -> dict[str | None, Segment]:
    """What was told last of each segment of an estimator, by value, by default of the first that has any.

    The explanations are those of one partition and epoch, in their order, such as of ``Explanations`` with ``follow=False``.
    """
    found: dict[str | None, Segment] = {}
    for explanation in explanations:
        segments = explanation.segments
        segment = next(iter(segments.values()), None) if estimator is None else segments.get(estimator)
        if segment is not None:
            found[segment.value] = segment
    return found


def _newest(
    servers: str, topic: str, window: int, app_id: str | None, config: Mapping[str, Any] | None
) -> dict[int, list[Explanation]]:
    consumer, partitions = connect(servers, topic, None, config or {})
    try:
        found = {number: _partition(consumer, topic, number, window, app_id) for number in partitions}
    except KafkaException as error:
        raise ClientError(f"topic {topic!r}: {reason(error)}") from None
    finally:
        consumer.close()
    return {number: explanations for number, explanations in found.items() if explanations}


def _partition(
    consumer: Consumer, topic: str, number: int, window: int, app_id: str | None
) -> list[Explanation]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=CONNECT_SECONDS)
    step = FIRST_STEP
    found: list[Explanation] = []
    start = max(low, high - step)
    # Offsets are also taken by control records and aborted messages: only reading says what is there.
    while not _covers(found, window) and high > low:
        found = [
            explanation
            for explanation in _read(consumer, topic, number, start)
            if app_id in (None, explanation.app_id)
        ]
        names = {explanation.app_id: None for explanation in found}
        if len(names) > 1:
            raise ClientError(
                f"topic {topic!r} partition {number}: the sidecars {', '.join(names)} write to it; give the app_id of one"
            )
        if start == low:
            break
        step *= 4
        start = max(low, high - step)
    if not found:
        return []
    newest = found[-1]
    return [
        explanation
        for explanation in found
        if explanation.epoch == newest.epoch and explanation.records > newest.records - window
    ]


def _covers(found: list[Explanation], window: int) -> bool:
    if not found:
        return False
    first, last = found[0], found[-1]
    return first.epoch < last.epoch or first.seq == 0 or first.records <= last.records - window + 1


def _read(consumer: Consumer, topic: str, number: int, start: int) -> list[Explanation]:
    consumer.assign([TopicPartition(topic, number, start)])
    found: list[Explanation] = []
    while True:
        message = consumer.poll(CONNECT_SECONDS)
        if message is None:
            raise ClientError(f"topic {topic!r} partition {number}: no answer within {CONNECT_SECONDS:g} s")
        if reached_end(message, topic):
            return found
        found.append(decoded(Explanation, message))
