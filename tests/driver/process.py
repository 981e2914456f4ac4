"""Processes that own clients of the in-memory cluster, and what all these clients have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError

from tests.driver.log import Cluster, Killed, error

Fault = Callable[["Client"], None]


class Process:
    """Whatever owns clients: it can be killed, or stand still, and faults happen at its calls by their number."""

    def __init__(self, cluster: Cluster, faults: Mapping[int, Fault]) -> None:
        self.cluster = cluster
        self.killed = self.paused = False
        self.calls: list[str] = []
        """The name of each call so far."""
        self.faults = dict(faults)
        """What happens at a call, by its number from 0 on."""

    @property
    def alive(self) -> bool:
        return not self.killed and not self.paused


class Client:
    def __init__(self, process: Process, config: dict[str, Any]) -> None:
        self.process, self.cluster, self.config = process, process.cluster, config
        self.lost = False
        """Whether the answer to this call gets lost."""
        self.refused: KafkaError | None = None
        """Why the message that is sent next is refused."""
        self.unknown = False
        """Whether Kafka no longer knows the offset of the message that is produced next."""

    def called(self, name: str) -> None:
        process = self.process
        if process.killed:
            raise Killed
        number = len(process.calls)
        process.calls.append(name)
        self.lost = False
        self.cluster.pass_time()
        fault = process.faults.pop(number, None)
        if fault is not None:
            fault(self)
            self.cluster.pass_time()
        if process.killed:
            raise Killed

    def answered(self) -> None:
        if self.process.killed:
            raise Killed
        if self.lost:
            raise error(KafkaError._TIMED_OUT, "the answer was lost", retriable=True)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        self.called("list_topics")
        found = {
            name: SimpleNamespace(partitions=dict.fromkeys(range(len(known.logs))))
            for name, known in self.cluster.topics.items()
            if topic in (None, name)
        }
        return SimpleNamespace(topics=found, brokers={1: None})
