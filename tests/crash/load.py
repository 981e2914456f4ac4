"""Workers on a broker under load, and the verdict on what they published: what the proofs of this folder have in common."""

import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.pinned import worker_environment
from tests.broker import raw
from tests.broker.harness import Pipeline
from tests.crash.faults import Recovery
from tests.crash.fleet import Fleet
from tests.crash.proxy import SESSION_SECONDS
from tests.crash.streams import BAD, EVOLVED, MIXED, Fed, Stream

if TYPE_CHECKING:
    from tests.crash.cluster import Cluster

STILL_SECONDS = 180
"""Without a further commit the workers are stuck; how long they take in all depends on the machine."""

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
    joined: dict[str, int] = field(default_factory=dict)
    """Events by outcome."""
    aborted: int = 0
    """Transactions that Kafka left open for good in a partition, ended by the operator's command."""


BASE = {
    "EXPLAIN_LOG__FORMAT": "json",
    "EXPLAIN_EMIT__PERIODS": json.dumps([200, "hour", "alarm", "all"]),
    "EXPLAIN_DRIFT__ENABLED": "true",
    "EXPLAIN_DRIFT__WINDOW": "200",
    "EXPLAIN_DRIFT__BOOTSTRAP": "2",
    "EXPLAIN_DRIFT__MAX_SAMPLES": "100",
    "EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS": "1",
    "EXPLAIN_CHECKPOINT__MAX_AGE": "4",
    "EXPLAIN_CHECKPOINT__MAX_OVERHEAD": "1",
    "EXPLAIN_KAFKA__CONFIG": json.dumps({"session.timeout.ms": int(1000 * SESSION_SECONDS)}),
}
"""Of every stream, where its own say nothing else."""


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
        self.pipeline = Pipeline(broker, name, stream.partitions, BASE | environment)
        self._folder = tempfile.TemporaryDirectory()
        for source in stream.inputs:
            if source not in self.pipeline.topics:
                topic = self.pipeline.topics[source] = f"{source}-{name}"
                self.pipeline.create(topic, retention_ms="-1")
                self.pipeline.environment[f"EXPLAIN_JOIN__{source.upper()}__TOPIC"] = topic
                self.pipeline.environment["EXPLAIN_JOIN__STATE_DIR"] = self._folder.name
        servers = workers_servers or broker.bootstrap_servers
        at = {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": servers}
        self.fleet = Fleet({**self.pipeline.environment, **at}, stream.supervised, stream.stages)
        if stream.registry is not None:
            stream.registry.start()
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

    def committed(self, name: str = "records", stage: str = "") -> list[int]:
        """Committed offset by partition, below 0 where there is none; nothing where Kafka does not say."""
        try:
            return [place.offset for _, place in sorted(self.pipeline.committed(name, stage).items())]
        except KafkaException:
            return []

    def evolve(self) -> bool:
        """Take the registry away once every partition has committed records of all schemas; whether it is away."""
        registry, committed = self._stream.registry, self.committed()
        if registry is None or min(committed, default=0) <= EVOLVED + 10:
            return False
        registry.stop()
        return True

    def verdict(self, faults: int, seconds: float) -> Verdict:
        """Probe every partition, stop, and compare every byte with the oracle."""
        self._feeding.clear()
        self._producer.join()
        problems, aborted = [], 0
        held = sum(sum(self._ends(name)) for name in self._stream.inputs)
        if held != self.produced:
            problems.append(f"the input has {held} records and {self.produced} were produced")
        for stage, inputs in self._stages():
            for name in inputs:
                # Offsets may be committed before every reader sees the records of the same transaction.
                while (before := self.committed(name, stage)) != (ends := self._ends(name)):
                    moved = lambda: self.committed(name, stage) not in (before, [])  # noqa: B023, E731
                    if self.until(moved, STILL_SECONDS) or self._ends(name) != ends:
                        continue
                    if not (torn := self._abort_torn()):
                        problems.append(
                            f"{name}: nothing committed for {STILL_SECONDS} s: {before} of {ends}"
                        )
                        break
                    aborted += torn
        probe_seconds = self._probe(problems)
        for slot in list(self.fleet.live):
            self.fleet.stop(slot)
        if not self.until(lambda: self._members() == 0, 2 * SESSION_SECONDS):
            problems.append(f"the group still has {self._members()} members after they all left")
        self.fleet.inspect()
        problems += self._wrong_letters()
        if self._stream.registry is not None:
            self._stream.registry.start()  # the oracle remembers no schema
        compared: dict[str, Any] = {"differences": []}
        for module in (self._stream.oracle, *self._stream.checks):
            done = subprocess.run(
                [sys.executable, "-m", module],
                env={**worker_environment(), **self.pipeline.environment},
                capture_output=True,
                text=True,
            )
            found = json.loads(done.stdout) if done.stdout else {"differences": [done.stderr]}
            compared |= {**found, "differences": compared["differences"] + found["differences"]}
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
            compared.get("joined", {}),
            aborted,
        )

    def _abort_torn(self) -> int:
        """End what Kafka has left open, by the command that the workers' logs name; returns how many transactions of how many partitions."""
        command = [sys.executable, "-P", "-m", "explain_sidecar.cli", "transactions", "abort", "--yes"]
        said = subprocess.run(command, env=self.pipeline.environment, capture_output=True, text=True)
        found = re.search(r"^aborted (\d+);", said.stdout, re.MULTILINE)
        return int(found[1]) if found else 0

    def _stages(self) -> list[tuple[str, Sequence[str]]]:
        """What the group of each stage is called beside ``app_id``, and what it reads."""
        if "join" not in self._stream.stages:
            return [("", ("records",))]
        return [("-join", self._stream.inputs), ("", ("records",))]

    def close(self) -> None:
        self._feeding.clear()
        self.fleet.close()
        self._folder.cleanup()
        if self._stream.registry is not None:
            self._stream.registry.stop()

    def _feed(self, records_per_second: float, count: int) -> None:
        """Records at an even rate, through every crash of the broker, in order and without doubles."""
        servers = self.pipeline.broker.bootstrap_servers
        producer = Producer(
            {
                "bootstrap.servers": servers,
                **raw.ONCE,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        seed = random.Random(self.pipeline.name).randrange(2**31)
        started = time.monotonic()
        there = list(range(self._stream.partitions))

        def give(fed: Fed) -> None:
            topic, partition = self.pipeline.topics[fed.topic], fed.partition
            key = b"k%d" % partition if fed.key == b"" else fed.key
            if fed.odd:
                given = [(key or b"", fed.value or b"", int(1_000 * time.time()), fed.odd)]
                raw.produce(servers, topic, partition, given, seconds=600)
            else:
                while partition >= len(there):  # the topic has gained it
                    with suppress(KafkaException):
                        there[:] = producer.list_topics(topic, timeout=10).topics[topic].partitions
                producer.produce(
                    topic, fed.value, key, partition=partition, headers=fed.headers, timestamp=fed.timestamp
                )
            self.produced += 1

        for index, fed in enumerate(islice(self._stream.records(self._stream.partitions, seed), count)):
            if not self._feeding.is_set():
                break
            give(fed)
            producer.poll(0)  # with time to wait it would return with the first report
            time.sleep(max(0.0, started + index / records_per_second - time.monotonic()))
        for fed in self._stream.last(self._stream.partitions):
            give(fed)
        assert producer.flush(60) == 0

    def _probe(self, problems: list[str]) -> float:
        (stage, (name, *_)), *_ = self._stages()
        topic = f"{self.pipeline.name}-join-dead-letters" if stage else self.pipeline.topics["dead_letters"]

        def probes() -> int:
            return sum(message.value() == PROBE for message in self.pipeline.read(topic))

        started = time.monotonic()
        self.pipeline.feed(((partition, PROBE) for partition in self.pipeline.inputs), topic=name)
        if not self.until(lambda: probes() == len(self.pipeline.inputs), STILL_SECONDS):
            problems.append(
                f"{probes()} of {len(self.pipeline.inputs)} probes came through within {STILL_SECONDS} s"
            )
        return time.monotonic() - started

    def _wrong_letters(self) -> list[str]:
        """Good records among the dead letters, where the stream marks its bad ones."""
        if not self._stream.marked:
            return []
        letters = self.pipeline.read(self.pipeline.topics["dead_letters"])
        good = [
            letter
            for letter in letters
            if letter.value() != PROBE and BAD not in dict(letter.headers() or ())
        ]
        return [f"{len(good)} good records are dead letters, such as {good[0].headers()}"] if good else []

    def _ends(self, name: str) -> list[int]:
        """The offset after the last record of each partition."""
        topic = self.pipeline.topics[name]
        if name not in self._stream.inputs:  # written in transactions: their markers have offsets too
            after = [
                (message.partition(), (message.offset() or 0) + 1) for message in self.pipeline.read(topic)
            ]
            return [
                max((end for p, end in after if p == partition), default=0)
                for partition in self.pipeline.inputs
            ]
        reader = Consumer({"bootstrap.servers": self.pipeline.broker.bootstrap_servers, "group.id": "ends"})
        ends = [
            reader.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1]
            for p in self.pipeline.inputs
        ]
        reader.close()
        return ends

    def _members(self) -> int:
        admin = AdminClient({"bootstrap.servers": self.pipeline.broker.bootstrap_servers})
        name = self.pipeline.name
        return len(admin.describe_consumer_groups([name])[name].result().members)
