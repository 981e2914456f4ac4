"""A pipeline on the in-memory cluster of tests/driver: its workers and commands run in this process, a turn at a time, and nothing waits."""

import io
import logging
import runpy
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any
from unittest import mock

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

import explain_client.kafka
from benchmarks import oracle
from benchmarks.pipeline import Pipeline
from explain_sidecar.cli import main
from explain_sidecar.errors import AGAIN, UserError
from explain_sidecar.kafka import operators
from explain_sidecar.kafka.clients import KAFKA, Kafka
from explain_sidecar.kafka.errors import Fatal
from explain_sidecar.kafka.loop import Worker
from explain_sidecar.logs import set_up_logging
from explain_sidecar.settings import Settings, load_settings
from tests.driver import clients
from tests.driver.consumer import Consumer
from tests.driver.driver import PATIENCE, TURN_SECONDS
from tests.driver.log import Cluster, Entry, Killed, error
from tests.driver.process import Client, Process


class Member(Consumer):
    def subscribe(self, topics: list[str], *, on_assign: Any, **others: Any) -> None:
        told = {"on_revoke": _nothing, "on_lost": _nothing} | others
        super().subscribe(topics, on_assign=on_assign, **told)

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """By each place's offset, a time: the first message of then or later; -1, which is the end, where there is none."""
        found = []
        for place in places:
            entries = self.cluster.log(place.topic, place.partition).entries
            offset = next((at for at, entry in enumerate(entries) if entry.timestamp >= place.offset), -1)
            found.append(TopicPartition(place.topic, place.partition, offset))
        return found


class Feeder(Client):
    """A producer without transactions, whose messages wait until it is flushed."""

    def __init__(self, process: Process, config: dict[str, Any]) -> None:
        super().__init__(process, config)
        self._waiting: list[tuple[str, int, Entry]] = []

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        *,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.called("produce")
        if partition < 0:
            partition = zlib.crc32(key or b"") % len(self.cluster.topics[topic].logs)
        entry = Entry(key, value, tuple(headers), timestamp or int(1_000 * self.cluster.clock.time()))
        self._waiting.append((topic, partition, entry))

    def poll(self, timeout: float = 0) -> int:
        return 0

    def flush(self, timeout: float = 0) -> int:
        for topic, partition, entry in self._waiting:
            self.cluster.log(topic, partition).append(entry)
        self._waiting.clear()
        return 0


class Admin(clients.Admin):
    """With the calls of commands, and of operators in tests."""

    list_topics = Client.list_topics

    def describe_topics(
        self, topics: Any, *, request_timeout: float, include_authorized_operations: bool = False
    ) -> dict[str, Future[Any]]:
        found = super().describe_topics(topics, request_timeout=request_timeout)
        for future in found.values():
            if future.exception() is None:
                future.result().authorized_operations = list(AclOperation)
        return found

    def describe_consumer_groups(self, groups: list[str], **options: Any) -> dict[str, Future[Any]]:
        found = {}
        for name in groups:
            group = self.cluster.groups.get(name)
            if group is None or not (group.members or group.committed):
                found[name] = clients._done(None, error(KafkaError.GROUP_ID_NOT_FOUND))
            else:
                members = list(group.members.values())
                found[name] = clients._done(
                    SimpleNamespace(members=members, authorized_operations=list(AclOperation))
                )
        return found

    def delete_consumer_groups(self, groups: list[str]) -> dict[str, Future[Any]]:
        for name in groups:
            assert not self.cluster.groups[name].members
            self.cluster.groups[name].committed.clear()
        return {name: clients._done(None) for name in groups}

    def incremental_alter_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        for resource in resources:
            for entry in resource.incremental_configs:
                self.cluster.topics[resource.name].config[entry.name] = entry.value
        return {resource: clients._done(None) for resource in resources}

    def delete_topics(self, names: list[str]) -> dict[str, Future[Any]]:
        for name in names:
            del self.cluster.topics[name]
        return {name: clients._done(None) for name in names}

    def delete_records(self, places: list[Any]) -> dict[Any, Future[Any]]:
        for place in places:
            self.cluster.log(place.topic, place.partition).low = place.offset
        return {place: clients._done(None) for place in places}


def kafka_in(cluster: Cluster) -> Kafka:
    """For commands, and for programs beside the sidecar."""
    process = Process(cluster, {})
    made = clients.kafka_of(process)
    return replace(
        made,
        consumer=lambda config: Member(process, config),
        producer=lambda config: (
            made.producer(config) if "transactional.id" in config else Feeder(process, config)
        ),
        admin=lambda config: Admin(process, config),
    )


def _nothing(consumer: Any, places: Any) -> None:
    """What is revoked has been given back."""


class MemoryWorker:
    """With the interface of ``harness.Process``; it moves while somebody waits, see ``MemoryPipeline.wait_for``. What it says goes to its log."""

    def __init__(self, line: "MemoryPipeline", settings: Settings, slot: int, until_caught_up: bool) -> None:
        self._line, self._text = line, io.StringIO()
        self._process, self.status = Process(line.cluster, {}), -1
        self._turns: Generator[None] | None = None
        self._guarded(lambda: self._begin(settings, slot, until_caught_up))

    def _begin(self, settings: Settings, slot: int, until_caught_up: bool) -> None:
        set_up_logging(settings.log, worker=slot)
        self._logging = logging.getLogger().handlers[:], logging.getLogger().level
        self._worker = Worker(settings, slot, lambda: None, clients.kafka_of(self._process))
        self._turns = self._worker.turns(until_caught_up)

    def _guarded(self, action: Callable[[], Any]) -> None:
        with logs_kept(), mock.patch.object(sys, "stderr", self._text):
            try:
                if self._turns is not None:
                    root = logging.getLogger()
                    root.handlers[:], level = self._logging
                    root.setLevel(level)
                action()
                return
            except (StopIteration, Killed) as ended:
                self.status = 0 if isinstance(ended, StopIteration) else -9
            except UserError as failed:
                self._text.write(f"error: {failed}\n")
                self.status, self._process.killed = AGAIN if isinstance(failed, Fatal) else 1, True
        self._turns = None

    def turn(self) -> None:
        if self._turns is not None:
            self._guarded(lambda: next(self._turns))  # type: ignore[arg-type]

    def running(self) -> bool:
        return self._turns is not None

    def log(self) -> str:
        return self._text.getvalue()

    def wait(self, seconds: float = 0) -> int:
        self._line.wait_for(lambda: not self.running())
        return self.status

    def stop(self) -> int:
        self._worker.stopping = True
        return self.wait()

    def kill(self) -> None:
        """As by SIGKILL, and the time of its session goes by."""
        self._process.killed = True
        if self._turns is not None:
            self._guarded(self._turns.close)
            self._turns = None
        self._line.cluster.clock.sleep(11)
        self._line.cluster.pass_time()


@contextmanager
def logs_kept() -> Iterator[None]:
    """What a worker or a command sets up of logging ends with it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@dataclass
class MemoryPipeline(Pipeline):
    cluster: Cluster = field(default_factory=Cluster)
    workers: list[MemoryWorker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kafka = kafka_in(self.cluster)
        super().__post_init__()

    def append(self, topic: str, key: bytes | None, value: bytes | None) -> int:
        """Write a message to partition 0 of a topic, as any program may, and return its offset."""
        return self.cluster.log(self.topics[topic], 0).append(Entry(key, value, (), 1_700_000_000_000))

    def worker(self, slot: int = 0, until_caught_up: bool = False, **environment: str) -> Any:
        settings = load_settings(environ={**self.environment, **environment})
        self.workers = [worker for worker in self.workers if worker.running()]
        self.workers.append(MemoryWorker(self, settings, slot, until_caught_up))
        return self.workers[-1]

    def wait_for(self, condition: Callable[[], bool], seconds: float = 0) -> None:
        for _ in range(PATIENCE):
            if condition():
                return
            for worker in self.workers:
                worker.turn()
            self.cluster.clock.sleep(TURN_SECONDS)
        raise AssertionError("\n".join(["the condition did not come true", *(w.log() for w in self.workers)]))

    def in_place_of_kafka(self) -> Any:
        """Within the block, what asks for no other Kafka gets this one."""
        return mock.patch.dict(vars(KAFKA), vars(self.kafka))

    def cli(self, *arguments: str, status: int = 0, **environment: str) -> "CompletedProcess[str]":
        given = {**self.environment, **environment}
        command = ["explain-sidecar", *arguments]
        with (
            logs_kept(),
            self.in_place_of_kafka(),
            mock.patch.object(sys, "argv", command),
            CliRunner().isolation(env=given) as (stdout, stderr, _),
        ):
            with pytest.raises(SystemExit) as ended:
                main()
            sys.stdout.flush()
        code = ended.value.code or 0
        done = CompletedProcess(command, code, stdout.getvalue().decode(), stderr.getvalue().decode())
        assert code == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done


EXAMPLES = Path(explain_client.__file__).with_name("examples")

MEMORY: Any = SimpleNamespace(bootstrap_servers="memory:9092")
"""In place of a broker."""


def alone(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    """No client reaches beyond the memory: neither explain_client's, nor the oracle's, nor those of ``run_example``."""
    kafka = kafka_in(cluster)
    monkeypatch.setattr(operators, "find_open", lambda settings, places: [])
    for module in (explain_client.kafka, oracle, confluent_kafka):
        monkeypatch.setattr(module, "Consumer", kafka.consumer)
    monkeypatch.setattr(oracle, "AdminClient", kafka.admin)


def run_example(name: str, *arguments: str) -> None:
    """One of explain_client's, in this process."""
    with mock.patch.object(sys, "argv", [name, *arguments]):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
