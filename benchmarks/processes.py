"""The processes that the benchmarks time, on one embedded broker: the service, the same fold in a plain loop, rivals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import click
import orjson
from confluent_kafka import Consumer, TopicPartition

from benchmarks.visitor import Visitor, address_of, cpu_seconds, stream
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.commands.produce import write
from explain_sidecar.kafka.checkpoints import Pointer
from explain_sidecar.kafka.clients import reading_consumer
from explain_sidecar.pinned import worker_environment
from explain_sidecar.settings import Settings, load_settings

TOTALS = re.compile(
    r"folded (\d+) records; ([\d.]+) s, ([\d.]+) s of them on the CPU, .*: ([\d.]+) s folding, ([\d.]+) s committing, "
    r"([\d.]+) s for (\d+) snapshots, ([\d.]+) s recovering"
)
RESTORED = re.compile(r"restored a snapshot of (\d+) bytes; (\d+) offsets to replay")
SAMPLES_PER_SECOND = 250
HTTP = {"EXPLAIN_HTTP__ENABLED": "true", "EXPLAIN_HTTP__PORT": "0"}
KILL_AT = 0.8
"""Share of the records after whose commit a worker is killed."""


@dataclass(frozen=True)
class Case:
    """A model, the least ratio wanted of it, and how many records are folded with it."""

    name: str
    model: dict[str, str]
    goal: float
    records: int
    quick_records: int
    rival_goal: int  # least ratio against Quix Streams and ixai
    held: int  # partitions in the memory measurement


LINEAR = {"EXPLAIN_MODEL__NAME": "linear"}
TREE = {"EXPLAIN_MODEL__FACTORY": "river.tree:HoeffdingAdaptiveTreeClassifier"}
FOREST = {"EXPLAIN_MODEL__FACTORY": "river.forest:ARFClassifier", "EXPLAIN_MODEL__PARAMS": '{"n_models": 10}'}
CASES = (
    Case("logistic pipeline", LINEAR, 0.7, 40_000, 2_000, 40, held=4),
    Case("Hoeffding adaptive tree", TREE, 0.9, 20_000, 1_500, 30, held=4),
    Case("ARF, 10 trees", FOREST, 0.9, 5_000, 400, 40, held=2),
)


ONE_DRAW = {
    "EXPLAIN_EXPLAINERS": json.dumps([{"kind": "ipfi", "n_samples": 1}, {"kind": "isage", "n_samples": 1}])
}
"""Both estimators with one draw per copy, as ixai has them."""


@dataclass(frozen=True)
class Run:
    """Seconds of one run over all records, those of its thread on the CPU, and the fold digest of each partition at its end."""

    seconds: float
    cpu_seconds: float
    digests: list[str]
    fold_seconds: float = 0.0
    commit_seconds: float = 0.0
    snapshot_seconds: float = 0.0
    snapshots: int = 0
    recovery_seconds: float = 0.0


class Runs(NamedTuple):
    """The runs of several workers: seconds from the first fold of any to the last commit of any, and the CPU seconds meanwhile."""

    seconds: float
    cpu_seconds: float
    broker_seconds: float
    runs: list[Run]


class Bench:
    """Runs the service and the plain loop over the same records."""

    def __init__(self, broker: Broker, records: list[dict[str, Any]], folder: Path) -> None:
        self._broker = broker
        self._records = records
        self._folder = folder
        self._numbers = count()
        self._topics: set[str] = set()

    @property
    def size(self) -> int:
        return len(self._records)

    @property
    def broker_seconds(self) -> float:
        """What the broker has spent on the CPU since its start."""
        return cpu_seconds(self._broker.pid)

    def environment(self, case: Case, partitions: int, records: int) -> dict[str, str]:
        """Settings of a new sidecar on an input topic of so many records, which is filled at its first use."""
        name, topic = f"bench-{next(self._numbers)}", f"records-{records}-{partitions}"
        outputs = ("explanations", "drift", "checkpoints", "dead_letters")
        environment = {
            "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": self._broker.bootstrap_servers,
            "EXPLAIN_APP_ID": name,
            "EXPLAIN_INSTANCE_ID": "bench",
            # So that a killed worker's successor does not wait for the session timeout of 10 s.
            "EXPLAIN_KAFKA__GROUP_INSTANCE_ID": "bench",
            "EXPLAIN_LOG__FORMAT": "json",
            "EXPLAIN_TOPICS__RECORDS": topic,
            **{f"EXPLAIN_TOPICS__{output.upper()}": f"{output}-{name}" for output in outputs},
            **case.model,
        }
        if records and topic not in self._topics:
            self._topics.add(topic)
            settings = load_settings(environ=environment)
            first = ((None, None, orjson.dumps(record)) for record in self._records[:records])
            write(settings, first, count=records, partitions=partitions, progress=False)
        return environment

    def fold(
        self, what: str, environment: dict[str, str], partitions: int, records: int, **more: str
    ) -> dict[str, Any]:
        """What ``benchmarks.fold`` measures in a process of its own."""
        command = [sys.executable, "-m", "benchmarks.fold", what, "--records", str(self._file(records))]
        done = subprocess.run(
            [*command, "--partitions", str(partitions)],
            env={**worker_environment(), **environment, **more},
            stdout=subprocess.PIPE,
            check=True,
        )
        measured: dict[str, Any] = json.loads(done.stdout)
        return measured

    def plain(self, environment: dict[str, str], partitions: int, records: int) -> Run:
        return Run(**self.fold("timed", environment, partitions, records))

    def service(self, environment: dict[str, str], partitions: int, records: int) -> Run:
        return self.services(1, environment, partitions, records).runs[0]

    def services(self, workers: int, environment: dict[str, str], partitions: int, records: int) -> Runs:
        """Workers that start together, up to the end of the input."""
        spent: list[tuple[float, float, float]] = []
        with ExitStack() as stack:
            started = [stack.enter_context(self._worker(environment, slot)) for slot in range(workers)]
            # What a process that has ended spent is known until somebody waits for it.
            how = os.WEXITED | os.WNOWAIT | os.WNOHANG
            while any(os.waitid(os.P_PID, process.pid, how) is None for process, _ in started):
                of_workers = sum(cpu_seconds(process.pid) for process, _ in started)
                spent.append((time.time(), of_workers, self.broker_seconds))
                time.sleep(0.02)
        runs = [_run(process, log) for process, log in started]
        ends = [datetime.fromisoformat(_read(log)[-1]["time"]).timestamp() for _, log in started]
        begin = min(end - run.seconds - run.recovery_seconds for end, run in zip(ends, runs, strict=True))
        digests = _digests(environment, partitions, records)
        during = [(mine, brokers) for at, mine, brokers in spent if begin <= at <= max(ends)]
        mine, brokers = (last - first for first, last in zip(during[0], during[-1], strict=True))
        return Runs(max(ends) - begin, mine, brokers, [replace(run, digests=digests) for run in runs])

    def watched(self, environment: dict[str, str], partitions: int, records: int) -> tuple[Run, float]:
        """``run`` with HTTP, scraped and looked at: its worker's run, and the supervisor's CPU as a share of a core."""
        with self.supervisor(environment | HTTP, "--until-caught-up") as (process, log):
            visitor = Visitor(process.pid, log)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            share = visitor.share()
        return replace(_run(process, log), digests=_digests(environment, partitions, records)), share

    def unwatched(self, environment: dict[str, str], partitions: int, records: int) -> Run:
        """``run`` without HTTP."""
        with self.supervisor(environment, "--until-caught-up") as (process, log):
            process.wait(600)
        return replace(_run(process, log), digests=_digests(environment, partitions, records))

    def stop_with_streams(self, environment: dict[str, str], command: str, streams: int) -> float:
        """Seconds from SIGTERM to the end of ``run`` or ``dashboard`` with so many open event streams."""
        with self.supervisor(environment | HTTP, command=command) as (process, log):
            address = address_of(process, log)
            while command == "run" and "running from" not in log.read_text():
                time.sleep(0.1)
            opened = [stream(address) for _ in range(streams)]
            started = time.monotonic()
            process.terminate()
            if process.wait(60):
                raise click.ClickException(f"{command} ended with {process.returncode}:\n{log.read_text()}")
            seconds = time.monotonic() - started
            for answer in opened:
                answer.close()
        return seconds

    def rival(self, what: str, environment: dict[str, str], records: int, quix: str | None) -> float:
        """Seconds that river and ixai take for the same records, in a plain ``loop`` or under ``quix``."""
        command = [
            quix or sys.executable,
            "-m",
            "benchmarks.rivals",
            what,
            "--records",
            str(self._file(records)),
        ]
        done = subprocess.run(
            command, env={**worker_environment(), **environment}, stdout=subprocess.PIPE, check=True
        )
        return float(json.loads(done.stdout)["seconds"])

    def sampled(self, environment: dict[str, str]) -> tuple[Run, dict[str, int]]:
        """A worker's run under py-spy, and in how many samples it was in each stack."""
        with self._worker(environment, spy=True) as (process, log):
            process.wait(600)
        stacks = (line.rsplit(" ", 1) for line in log.with_suffix(".stacks").read_text().splitlines())
        return _run(process, log), {stack: int(samples) for stack, samples in stacks}

    def recovery(self, environment: dict[str, str], records: int) -> dict[str, float]:
        """Kill -9 near the end of one partition, start again: what is restored and replayed, and how long that takes."""
        with self._worker(environment) as (process, _), _asking(environment) as (reader, settings):
            while _committed(reader, settings, 1)[0].offset < KILL_AT * records:
                if process.poll() is not None:
                    raise click.ClickException("the worker ended before it could be killed")
                time.sleep(0.02)
            process.kill()
        with self._worker(environment) as (process, log):
            process.wait(600)
        at = {}
        size = replayed = 0
        for line in _read(log):
            message = line["message"]
            if found := RESTORED.match(message):
                size, replayed = map(int, found.groups())
            for name in ("assigned", "restored", "running"):
                if message.startswith(name):
                    at[name] = datetime.fromisoformat(line["time"])
        if process.returncode or len(at) < 3 or not size:
            raise click.ClickException(f"the worker did not recover:\n{log.read_text()}")
        return {
            "size": size,
            "replayed": replayed,
            "restore": (at["restored"] - at["assigned"]).total_seconds(),
            "replay": (at["running"] - at["restored"]).total_seconds(),
        }

    def _file(self, records: int) -> Path:
        file = self._folder / f"{records}.jsonl"
        if not file.exists():
            file.write_bytes(b"\n".join(map(orjson.dumps, self._records[:records])))
        return file

    @contextmanager
    def supervisor(
        self, environment: dict[str, str], *options: str, command: str = "run"
    ) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        """A command of the command line that serves, and the file of what it says."""
        log = self._log()
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "explain_sidecar.cli", command, *options],
                env={**os.environ, **environment},
                stdout=file,
                stderr=file,
            )
        with _ended_with(process):
            yield process, log

    @contextmanager
    def _worker(
        self, environment: dict[str, str], slot: int = 0, spy: bool = False
    ) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        log = self._log()
        stacks = str(log.with_suffix(".stacks"))
        sampling = [
            str(Path(sys.executable).with_name("py-spy")),
            "record",
            "--rate",
            str(SAMPLES_PER_SECOND),
            "--format",
            "raw",
            "--output",
            stacks,
        ]
        command = [sys.executable, "-m", "explain_sidecar.worker", "--slot", str(slot), "--until-caught-up"]
        with log.open("wb") as file:
            # A worker ends with the process that holds its stdin.
            process = subprocess.Popen(
                [*sampling, "--", *command] if spy else command,
                env={**worker_environment(), **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
            )
        with _ended_with(process):
            yield process, log

    def _log(self) -> Path:
        return self._folder / f"{next(self._numbers)}.log"


@contextmanager
def _ended_with(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The process ends with the block at the latest."""
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _run(process: subprocess.Popen[bytes], log: Path) -> Run:
    """What a worker that has ended says of itself in its last line."""
    lines = _read(log)
    found = next((totals for line in reversed(lines) if (totals := TOTALS.search(line["message"]))), None)
    if process.returncode or found is None:
        raise click.ClickException(f"a worker ended with {process.returncode}:\n{log.read_text()}")
    _, seconds, cpu, folding, committing, snapshotting, snapshots, recovering = map(float, found.groups())
    return Run(seconds - recovering, cpu, [], folding, committing, snapshotting, int(snapshots), recovering)


@contextmanager
def _asking(environment: dict[str, str]) -> Iterator[tuple[Consumer, Settings]]:
    settings = load_settings(environ=environment)
    reader = reading_consumer(settings, group=settings.app_id)
    try:
        yield reader, settings
    finally:
        reader.close()


def _digests(environment: dict[str, str], partitions: int, records: int) -> list[str]:
    """The fold digest of each partition, all of whose records must have been folded."""
    with _asking(environment) as (reader, settings):
        committed = _committed(reader, settings, partitions)
    folded = sum(offset.offset for offset in committed)
    if folded != records:
        raise click.ClickException(f"{folded} of {records} records were folded")
    return [pointer.fold_digest for offset in committed if (pointer := Pointer.decode(offset.metadata))]


def _committed(reader: Consumer, settings: Settings, partitions: int) -> list[TopicPartition]:
    wanted = [TopicPartition(settings.topics.records, partition) for partition in range(partitions)]
    return reader.committed(wanted, timeout=10)


def _read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
