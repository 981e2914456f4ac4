"""A sidecar as processes on a real broker, for benchmarks and tests, and the oracle: the same fold in a plain loop."""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from benchmarks.forks import Fork, forkable
from benchmarks.oracle import first
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.kafka.clients import KAFKA, NO_COORDINATOR, Kafka
from explain_sidecar.pinned import worker_environment
from explain_sidecar.settings import Settings, load_settings
from explain_sidecar.settings.kafka import TopicSettings
from explain_sidecar.wire.envelope import Envelope

SMALL = [
    {"kind": "ipfi", "alpha": 0.01, "reservoir": {"size": 20}},
    {"kind": "isage", "alpha": 0.01, "n_samples": 2, "reservoir": {"size": 20}},
]

Published = list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]


@dataclass
class Pipeline:
    """Topics and settings of one test: an input of some partitions, and a sidecar configured for it."""

    broker: Broker
    name: str
    partitions: int = 4
    environment: dict[str, str] = field(default_factory=dict)
    inputs: dict[int, list[InputRecord]] = field(default_factory=dict)
    kafka: Kafka = KAFKA
    _readers: dict[str, Consumer] = field(default_factory=dict)
    """Of committed offsets, by stage: who waits asks again and again, and a new client takes thirty times as much of the broker as its answer."""

    def __post_init__(self) -> None:
        topics = {key: f"{key}-{self.name}" for key in TopicSettings().names}
        self.topics = topics
        self.environment = {
            "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": self.broker.bootstrap_servers,
            "EXPLAIN_APP_ID": self.name,
            "EXPLAIN_INSTANCE_ID": "test",
            "EXPLAIN_EXPLAINERS": json.dumps(SMALL),
            "EXPLAIN_EMIT__EVERY": "10",
            **{f"EXPLAIN_TOPICS__{key.upper()}": name for key, name in topics.items()},
            **self.environment,
        }
        self.inputs = {partition: [] for partition in range(self.partitions)}
        self.admin = self.kafka.admin({"bootstrap.servers": self.broker.bootstrap_servers})
        # Their timestamps are of 2023: the oracle has to know them, and retention by age must not see them.
        self.create(topics["records"], retention_ms="-1")

    def create(self, topic: str, partitions: int | None = None, **config: str) -> None:
        new = NewTopic(
            topic,
            partitions or self.partitions,
            -1,
            config={k.replace("_", "."): v for k, v in config.items()},
        )
        for attempt in itertools.count():
            try:
                self.admin.create_topics([new], request_timeout=10)[topic].result()
                return
            except (
                KafkaException
            ) as error:  # a client that is new may wait in vain for the controller's address
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS and attempt:
                    return
                retried = (KafkaError._TIMED_OUT, KafkaError._DESTROY_BROKER)
                if error.args[0].code() not in retried or attempt == 3:
                    raise

    @property
    def settings(self) -> Settings:
        return load_settings(environ=self.environment)

    @property
    def topic_id(self) -> str:
        """Kafka's id of the records topic."""
        name = self.topics["records"]
        described = self.admin.describe_topics(TopicCollection([name]), request_timeout=10)
        return str(described[name].result().topic_id)

    def feed(
        self,
        records: Iterable[tuple[int, bytes | None]],
        headers: Sequence[tuple[str, bytes]] = (),
        topic: str = "records",
    ) -> None:
        """Produce (partition, value) pairs, each with a key and a timestamp that the oracle knows."""
        self._send(self.topics[topic], self._taken(records, headers))

    def _send(self, topic: str, records: Iterable[tuple[int, InputRecord]]) -> None:
        # Without idempotence a retry, as on a topic that is seconds old, puts a batch behind its successors.
        producer = self.kafka.producer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "linger.ms": 5,
                "enable.idempotence": True,
                "message.max.bytes": 2_000_000,
            }
        )
        for partition, record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=partition,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
            producer.poll(0)
        assert producer.flush(30) == 0

    def _taken(
        self, records: Iterable[tuple[int, bytes | None]], headers: Sequence[tuple[str, bytes]]
    ) -> Iterator[tuple[int, InputRecord]]:
        """What ``feed`` produces, from here on part of the input."""
        for partition, value in records:
            log = self.inputs[partition]
            at = len(log)
            record = InputRecord(
                at, 1_700_000_000_000 + 1_000 * at, b"k%d" % partition, value, tuple(headers)
            )
            log.append(record)
            yield partition, record

    def oracle(self, epoch: int = 0, start: int = 0) -> dict[str, dict[int, Published]]:
        """What each output topic must contain, from the input alone."""
        expected: dict[str, dict[int, Published]] = {
            name: {p: [] for p in self.inputs} for name in self.settings.outputs
        }
        envelope = Envelope(self.settings, self.topic_id)
        explanations = self.published()["explanations"]
        for partition, log in self.inputs.items():
            state = (
                PartitionState(self.settings, partition, epoch=epoch, start=start)
                if epoch or start
                else first(self.settings, partition, explanations, self.inputs)
            )
            models = VersionSource(self.settings).find
            for record in log[start:]:
                outputs = state.supplied(record, lambda key: None, models)
                for output in (envelope.wrap(partition, output) for output in outputs):
                    expected[output.destination][partition].append((output.key, output.value, output.headers))
        return expected

    def published(self) -> dict[str, dict[int, Published]]:
        """What the output topics contain, for a reader of committed records."""
        found: dict[str, dict[int, Published]] = {}
        for name in self.settings.outputs:
            found[name] = {partition: [] for partition in self.inputs}
            for message in self.read(self.topics[name]):
                headers = tuple((key, value) for key, value in message.headers() or ())
                found[name][message.partition()].append((message.key(), message.value(), headers))
        return found

    def verify(self) -> None:
        """Assert that the output topics contain what the oracle says, byte for byte; names the first difference."""
        published, oracle = self.published(), self.oracle()
        for name, expected in oracle.items():
            for partition, messages in expected.items():
                found = published[name][partition]
                for index, (here, there) in enumerate(itertools.zip_longest(found, messages)):
                    assert here == there, (
                        f"{name} {partition}: message {index} of {len(found)} published, {len(messages)} expected:\n{here}\n{there}"
                    )

    def explanations(self) -> list[dict[str, Any]]:
        return [json.loads(value) for log in self.published()["explanations"].values() for _, value, _ in log]

    def read(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """All messages of a topic; none where it does not exist."""
        metadata = self.admin.list_topics(timeout=10).topics
        if topic not in metadata:
            return []
        reader = self.kafka.consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "harness",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        left = len(metadata[topic].partitions)
        reader.assign([TopicPartition(topic, partition, 0) for partition in range(left)])
        messages, deadline = [], time.monotonic() + 30
        while left:
            message = reader.poll(1.0)
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            if message is not None and message.error() is None:
                messages.append(message)
            elif message is not None and message.error().code() == KafkaError._PARTITION_EOF:
                left -= 1
        reader.close()
        return messages

    def committed(self, name: str = "records", stage: str = "") -> dict[int, TopicPartition]:
        """Committed offsets of the sidecar's group, or of that of another stage, with their metadata."""
        if stage not in self._readers:
            self._readers[stage] = self._group_member(stage)
        reader = self._readers[stage]
        places = [TopicPartition(self.topics[name], p) for p in self.inputs]
        for attempt in itertools.count():
            try:
                found = reader.committed(places, timeout=40)  # Kafka ends a transaction of ours after 20 s
                for place in found:
                    if place.error is not None:
                        raise KafkaException(place.error)
                break
            except KafkaException as error:  # a broker that has just started moves its coordinators
                if attempt == 50 or error.args[0].code() not in (
                    *NO_COORDINATOR,
                    KafkaError.UNSTABLE_OFFSET_COMMIT,
                ):
                    raise
                time.sleep(0.2)
        return {offset.partition: offset for offset in found}

    def folded(self) -> bool:
        """Whether all records are committed."""
        total = sum(map(len, self.inputs.values()))
        return sum(place.offset for place in self.committed().values()) == total

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        """Commit an offset by hand, as an operator would with the group stopped."""
        reader = self._group_member()
        reader.commit(
            offsets=[TopicPartition(self.topics["records"], partition, offset, metadata=metadata)],
            asynchronous=False,
        )
        reader.close()

    def _group_member(self, stage: str = "") -> Consumer:
        return self.kafka.consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": self.name + stage,
                "enable.auto.commit": False,
            }
        )

    def worker(self, slot: int = 0, until_caught_up: bool = False, **environment: str) -> "Process":
        arguments = [
            "-m",
            "explain_sidecar.worker",
            "--slot",
            str(slot),
            *(["--until-caught-up"] if until_caught_up else []),
        ]
        return Process(arguments, {**self.environment, **environment})

    def run_to_end(self, **environment: str) -> "Process":
        """Run one worker until it has caught up; the test fails where it does not end well."""
        process = self.worker(until_caught_up=True, **environment)
        status = process.wait()
        assert status == 0, f"status {status}\n{process.log()}"
        return process

    def fails(self, **environment: str) -> str:
        """Run one worker, which must end with a message and status 1, and publish nothing; returns its log."""
        before = self.published()
        process = self.worker(until_caught_up=True, **environment)
        assert process.wait(60) == 1, process.log()
        assert "Traceback" not in process.log()
        assert "error: " in process.log()
        assert self.published() == before
        return process.log()

    def cli(self, *arguments: str, status: int = 0, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the command line with this pipeline's settings."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("EXPLAIN_")}
        command = ["-m", "explain_sidecar.cli", *arguments]
        with tempfile.TemporaryDirectory(prefix="explain-test-") as folder:
            stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
            process = _start(command, {**clean, **self.environment, **environment}, stdout, stderr)
            try:
                code = process.wait(120)
            finally:
                process.kill()
            done = subprocess.CompletedProcess(command, code, stdout.read_text(), stderr.read_text())
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def wait_for(self, condition: Callable[[], bool], seconds: float = 180) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "\n".join(
                ["the condition did not come true in time", *map(Process.log, Process.started)]
            )
            time.sleep(0.1)


class Process:
    """A child process whose stdin stays open, as its supervisor would hold it; its stderr goes to a file."""

    started: ClassVar[list["Process"]] = []

    def __init__(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self.started.append(self)
        self._file = tempfile.NamedTemporaryFile(prefix="explain-test-")  # noqa: SIM115  deleted with this object
        self._log = Path(self._file.name)
        clean = {
            name: value for name, value in worker_environment().items() if not name.startswith("EXPLAIN_")
        }
        self._process = _start(arguments, {**clean, **environment}, self._log, self._log)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self, seconds: float = 240) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {seconds:g} s\n{self.log()}") from None
        finally:
            if self._process.poll() is None:
                self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()


def _start(
    arguments: Sequence[str], environment: dict[str, str], stdout: Path, stderr: Path
) -> "Fork | subprocess.Popen[bytes]":
    """``python ARGUMENTS``, as a fork where that does the same."""
    if arguments[0] == "-m" and forkable(environment):
        return Fork(arguments[1], arguments[2:], environment, stdout, stderr)
    with stdout.open("ab") as out, stderr.open("ab") as err:
        return subprocess.Popen(
            [sys.executable, *arguments], env=environment, stdin=subprocess.PIPE, stdout=out, stderr=err
        )
