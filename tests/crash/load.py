"""Workers on a broker under load, and the verdict on what they published: what the proofs of this folder have in common."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from service.broker.embedded import Broker
from service.commands.run import worker_environment
from tests.broker import raw
from tests.broker.harness import Pipeline
from tests.crash.faults import Recovery
from tests.crash.fleet import Fleet
from tests.crash.proxy import SESSION_SECONDS
from tests.crash.streams import MIXED, Stream

if TYPE_CHECKING:
    from tests.crash.cluster import Cluster

PARTITIONS = 8
CATCH_UP_SECONDS = 180

PROBE = b"a probe that is no JSON: it comes out as a dead letter at once"


@dataclass
class Verdict:
    """What was survived and compared; without ``problems`` all of it was survived."""

    faults: int
    membership: str
    seconds: float
    records: int
    messages: int
    bytes: int
    points: dict[str, int]
    ended: dict[str, int]
    recoveries: list[Recovery]
    probe_seconds: float
    problems: list[str]
    models: dict[str, int]
    """How many partitions each was the model of."""


class Load:
    """Topics, workers by slot and a producer that never rests, on a broker that runs.

    ``workers_servers`` is where the workers find the broker, if elsewhere. The producer stops by itself after ``count`` records.
    """

    static = False

    def __init__(
        self,
        name: str,
        broker: "Broker | Cluster",
        environment: dict[str, str],
        workers: int,
        workers_servers: str | None = None,
        records_per_second: float | None = None,
        count: int = 10**6,
        stream: Stream = MIXED,
    ) -> None:
        self.recoveries: list[Recovery] = []
        self.produced = 0
        self._stream = stream
        environment = {
            "EXPLAIN_LOG__FORMAT": "json",
            "EXPLAIN_DRIFT__ENABLED": "true",
            "EXPLAIN_DRIFT__WINDOW": "200",
            "EXPLAIN_DRIFT__BOOTSTRAP": "2",
            "EXPLAIN_DRIFT__MAX_SAMPLES": "100",
            "EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS": "1",
            "EXPLAIN_CHECKPOINT__MAX_AGE": "4",
            "EXPLAIN_CHECKPOINT__MAX_OVERHEAD": "1",
            "EXPLAIN_KAFKA__CONFIG": json.dumps({"session.timeout.ms": int(1000 * SESSION_SECONDS)}),
            **environment,
        }
        self.pipeline = Pipeline(broker, name, PARTITIONS, environment)
        servers = workers_servers or broker.bootstrap_servers
        at = {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": servers}
        self.fleet = Fleet({**self.pipeline.environment, **at}, stream.supervised)
        self._feeding = threading.Event()
        self._feeding.set()
        self._producer = threading.Thread(
            target=self._feed, args=(records_per_second or stream.rate, count), daemon=True
        )
        self._producer.start()
        for slot in range(workers):
            self.fleet.start(slot)

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Tend the workers until a condition holds; False where it does not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.fleet.wait(0.1)
        return True

    def committed(self) -> list[int]:
        """Committed offset by partition, below 0 where there is none; nothing where Kafka does not say."""
        try:
            return [place.offset for _, place in sorted(self.pipeline.committed().items())]
        except KafkaException:
            return []

    def verdict(self, faults: int, seconds: float) -> Verdict:
        """Probe every partition, stop, and compare every byte with the oracle."""
        self._feeding.clear()
        self._producer.join()
        problems = []
        ends = self._ends()
        if sum(ends) != self.produced:
            problems.append(f"the input has {sum(ends)} records and {self.produced} were produced")
        if not self.until(lambda: self.committed() == ends, CATCH_UP_SECONDS):
            problems.append(
                f"not caught up within {CATCH_UP_SECONDS} s: committed {self.committed()} of {ends}"
            )
        probe_seconds = self._probe(problems)
        for slot in list(self.fleet.live):
            self.fleet.stop(slot)
        if not self.until(lambda: self._members() == 0, 2 * SESSION_SECONDS):
            problems.append(f"the group still has {self._members()} members after they all left")
        self.fleet.inspect()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.oracle"],
            env={**worker_environment(), **self.pipeline.environment},
            capture_output=True,
            text=True,
        )
        compared = json.loads(done.stdout) if done.stdout else {"differences": [done.stderr]}
        return Verdict(
            faults,
            "static" if self.static else "dynamic",
            seconds,
            compared.get("records", 0),
            compared.get("messages", 0),
            compared.get("bytes", 0),
            dict(self.fleet.points),
            dict(self.fleet.ended),
            self.recoveries,
            probe_seconds,
            [*problems, *self.fleet.failures, *compared["differences"]],
            compared.get("models", {}),
        )

    def close(self) -> None:
        self._feeding.clear()
        self.fleet.close()

    def _feed(self, records_per_second: float, count: int) -> None:
        """Records at an even rate, through every crash of the broker, in order and without doubles."""
        servers = self.pipeline.broker.bootstrap_servers
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        seed = random.Random(self.pipeline.name).randrange(2**31)
        topic, started = self.pipeline.topics["records"], time.monotonic()
        records = islice(self._stream.records(PARTITIONS, seed), count)
        for index, (partition, value, headers, odd) in enumerate(records):
            if not self._feeding.is_set():
                break
            key = b"k%d" % partition
            if odd:
                given = [(key, value or b"", int(1_000 * time.time()), odd)]
                raw.produce(servers, topic, partition, given, seconds=600)
            else:
                producer.produce(topic, value, key, partition=partition, headers=headers)
            self.produced += 1
            producer.poll(max(0.0, started + index / records_per_second - time.monotonic()))
        assert producer.flush(60) == 0

    def _probe(self, problems: list[str]) -> float:
        topic = self.pipeline.topics["dead_letters"]

        def probes() -> int:
            return sum(message.value() == PROBE for message in self.pipeline.read(topic))

        started = time.monotonic()
        self.pipeline.feed((partition, PROBE) for partition in range(PARTITIONS))
        if not self.until(lambda: probes() == PARTITIONS, 30):
            problems.append(f"{probes()} of {PARTITIONS} probes came through within 30 s")
        return time.monotonic() - started

    def _ends(self) -> list[int]:
        reader = Consumer({"bootstrap.servers": self.pipeline.broker.bootstrap_servers, "group.id": "ends"})
        topic = self.pipeline.topics["records"]
        ends = [
            reader.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in range(PARTITIONS)
        ]
        reader.close()
        return ends

    def _members(self) -> int:
        admin = AdminClient({"bootstrap.servers": self.pipeline.broker.bootstrap_servers})
        name = self.pipeline.name
        return len(admin.describe_consumer_groups([name])[name].result().members)
