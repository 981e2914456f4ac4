"""The clients of an in-memory cluster: exactly those calls of confluent-kafka that a worker makes, with their errors."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError

from explain_sidecar.kafka.clients import Kafka
from tests.driver.consumer import Consumer
from tests.driver.log import error
from tests.driver.process import Client, Process
from tests.driver.producer import Producer

DEFAULTS = {"cleanup.policy": "delete"}
"""Of topics."""


def kafka_of(process: Process) -> Kafka:
    """What a worker in this process takes for Kafka."""
    made: list[Callable[[dict[str, Any]], Any]] = [
        lambda config, kind=kind: kind(process, config) for kind in (Consumer, Producer, Admin)
    ]
    return Kafka(*made, clock=process.cluster.clock)


class Admin(Client):
    def poll(self, timeout: float) -> int:
        return 0

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        self.called("describe_topics")
        found = {}
        for name in topics.topic_names:
            known = self.cluster.topics.get(name)
            failure = None if known else error(KafkaError.UNKNOWN_TOPIC_OR_PART)
            result = known and SimpleNamespace(topic_id=known.id, partitions=known.logs)
            found[name] = _done(result, failure)
        return found

    def list_topics(self, *, timeout: float) -> SimpleNamespace:
        self.called("list_topics")
        return SimpleNamespace(topics=dict(self.cluster.topics))

    def list_offsets(
        self, wanted: Any, *, isolation_level: IsolationLevel, request_timeout: float
    ) -> dict[Any, Future[Any]]:
        self.called("list_offsets")
        found = {}
        for where in wanted:
            log = self.cluster.log(where.topic, where.partition)
            committed = isolation_level == IsolationLevel.READ_COMMITTED
            found[where] = _done(SimpleNamespace(offset=log.stable if committed else log.high))
        return found

    def describe_configs(self, resources: list[Any], *, request_timeout: float) -> dict[Any, Future[Any]]:
        self.called("describe_configs")
        return {
            resource: _done(
                {
                    key: SimpleNamespace(value=value)
                    for key, value in (DEFAULTS | self.cluster.topics[resource.name].config).items()
                }
            )
            for resource in resources
        }

    def create_topics(self, topics: list[Any], *, request_timeout: float) -> dict[str, Future[Any]]:
        self.called("create_topics")
        found = {}
        for topic in topics:
            failure = None
            if topic.topic in self.cluster.topics:
                failure = error(KafkaError.TOPIC_ALREADY_EXISTS)
            else:
                self.cluster.create(topic.topic, topic.num_partitions, **topic.config)
            found[topic.topic] = _done(None, failure)
        return found

    def create_partitions(self, topics: list[Any], *, request_timeout: float) -> dict[str, Future[Any]]:
        self.called("create_partitions")
        for topic in topics:
            self.cluster.grow(topic.topic, topic.new_total_count)
        return {topic.topic: _done(None) for topic in topics}


def _done(result: Any, failure: Exception | None = None) -> Future[Any]:
    future: Future[Any] = Future()
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
    return future
