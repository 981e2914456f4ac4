"""A reader of the explanations that notes when each comes, as a service downstream would see them."""

import json
import threading
import time
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from tests.broker.harness import Pipeline


class Arrival(NamedTuple):
    """An explanation that came: seconds since 1970, partition, and seconds since its record was produced."""

    at: float
    partition: int
    latency: float


class Watch:
    """Reads under read_committed from now on, until it is closed; the topic is there already."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.arrivals: list[Arrival] = []
        self._partitions = range(pipeline.partitions)
        self._reader = Consumer(
            {
                "bootstrap.servers": pipeline.broker.bootstrap_servers,
                "group.id": "watch",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        topic = pipeline.topics["explanations"]
        self._reader.assign([TopicPartition(topic, partition) for partition in self._partitions])
        self._open = True
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def gaps(self, since: float, until: float) -> list[float]:
        """For each partition the longest time, in seconds, without an explanation between two moments."""
        moments: list[list[float]] = [[since] for _ in self._partitions]
        for arrival in list(self.arrivals):
            if since < arrival.at < until:
                moments[arrival.partition].append(arrival.at)
        return [
            max(after - before for before, after in zip(own, [*own[1:], until], strict=True))
            for own in moments
        ]

    def explained_since(self, moment: float) -> set[int]:
        """Partitions of which a record was explained that was produced after a moment."""
        return {arrival.partition for arrival in list(self.arrivals) if arrival.at - arrival.latency > moment}

    def close(self) -> None:
        self._open = False
        self._thread.join()
        self._reader.close()

    def _read(self) -> None:
        while self._open:
            for message in self._reader.consume(1_000, 0.05):
                if message.error() is None:
                    at = time.time()
                    produced = json.loads(message.value() or b"")["timestamp"] / 1000
                    self.arrivals.append(Arrival(at, message.partition() or 0, at - produced))
