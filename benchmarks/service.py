"""What the service costs beside its fold: ``python -m benchmarks.service --data DIR``, in about ten minutes.

One worker process on the embedded broker, with the default settings, against the same fold in a plain loop in a process
with the same environment. All that is compared runs in one rotated block; blocks are summed up by medians. The service
is timed by the worker's own last log line: first fold to last commit, all snapshots in it. Not in it are the start of the
process, the join, and what the worker spends on finding the past of each partition.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import click
import orjson
from confluent_kafka import Consumer, TopicPartition
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from river.datasets import Phishing

from experiments.data import load
from service.kafka.broker import Broker
from service.kafka.checkpoints import Pointer
from service.kafka.clients import reading_consumer
from service.kafka.jars import KAFKA_VERSION
from service.produce import write
from service.run import worker_environment
from service.settings import Settings, load_settings

TOTALS = re.compile(
    r"folded (\d+) records; ([\d.]+) s .*: ([\d.]+) s folding, ([\d.]+) s committing, "
    r"([\d.]+) s for (\d+) snapshots, ([\d.]+) s recovering"
)
RESTORED = re.compile(r"restored a snapshot of (\d+) bytes; (\d+) offsets to replay")
KILL_AT = 0.8
"""Share of the records after whose commit a worker is killed."""


@dataclass(frozen=True)
class Case:
    """A model, the least ratio wanted of it, and how many records are folded with it: in a few seconds, and in about thirty."""

    name: str
    model: dict[str, str]
    goal: float
    records: int
    many_records: int
    quick_records: int
    held: int  # partitions in the memory measurement


TREE = {"EXPLAIN_MODEL__FACTORY": "river.tree:HoeffdingAdaptiveTreeClassifier"}
FOREST = {"EXPLAIN_MODEL__FACTORY": "river.forest:ARFClassifier", "EXPLAIN_MODEL__PARAMS": '{"n_models": 10}'}
CASES = (
    Case("logistic pipeline", {}, 0.7, 5_000, 40_000, 2_000, held=4),
    Case("Hoeffding adaptive tree", TREE, 0.9, 4_000, 20_000, 1_500, held=4),
    Case("ARF, 10 trees", FOREST, 0.9, 1_000, 5_000, 400, held=2),
)


@dataclass(frozen=True)
class Run:
    """Seconds of one run over all records, and the fold digest of every partition at its end."""

    seconds: float
    digests: list[str]
    fold_seconds: float = 0.0
    commit_seconds: float = 0.0
    snapshot_seconds: float = 0.0
    snapshots: int = 0


class Bench:
    """Runs the service and the plain loop over the same records."""

    def __init__(self, broker: Broker, records: list[dict[str, Any]], folder: Path) -> None:
        self._broker = broker
        self._records = records
        self._folder = folder
        self._numbers = count()
        self._topics: set[str] = set()

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
        if topic not in self._topics:
            self._topics.add(topic)
            settings = load_settings(environ=environment)
            first = ((None, None, record) for record in self._records[:records])
            write(settings, first, count=records, partitions=partitions, progress=False)
        return environment

    def fold(
        self, what: str, environment: dict[str, str], partitions: int, records: int, **more: str
    ) -> dict[str, Any]:
        """What ``benchmarks.fold`` measures in a process of its own."""
        file = self._folder / f"{records}.jsonl"
        if not file.exists():
            file.write_bytes(b"\n".join(map(orjson.dumps, self._records[:records])))
        command = [sys.executable, "-m", "benchmarks.fold", what, "--records", str(file)]
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
        with self._worker(environment) as (process, log):
            process.wait(600)
        lines = _read(log)
        found = TOTALS.search(lines[-1]["message"]) if lines else None
        if process.returncode or found is None:
            raise click.ClickException(f"the worker ended with {process.returncode}:\n{log.read_text()}")
        folded, seconds, folding, committing, snapshotting, snapshots, recovering = map(float, found.groups())
        with _asking(environment) as (reader, settings):
            committed = _committed(reader, settings, partitions)
        if sum(one.offset for one in committed) != records:
            raise click.ClickException(f"{folded:g} of {records} records were folded")
        pointers = [Pointer.decode(one.metadata) for one in committed]
        digests = [pointer.fold_digest for pointer in pointers if pointer]
        return Run(seconds - recovering, digests, folding, committing, snapshotting, int(snapshots))

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
        if process.returncode or len(at) < 3 or not replayed:
            raise click.ClickException(f"the worker did not recover:\n{log.read_text()}")
        return {
            "size": size,
            "replayed": replayed,
            "restore": (at["restored"] - at["assigned"]).total_seconds(),
            "replay": (at["running"] - at["restored"]).total_seconds(),
        }

    @contextmanager
    def _worker(self, environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        log = self._folder / f"{next(self._numbers)}.log"
        with log.open("wb") as file:
            # A worker ends with the process that holds its stdin.
            process = subprocess.Popen(
                [sys.executable, "-m", "service.worker", "--slot", "0", "--until-caught-up"],
                env={**worker_environment(), **environment},
                stdin=subprocess.PIPE,
                stderr=file,
            )
        try:
            yield process, log
        finally:
            process.kill()
            process.wait()


@contextmanager
def _asking(environment: dict[str, str]) -> Iterator[tuple[Consumer, Settings]]:
    settings = load_settings(environ=environment)
    reader = reading_consumer(settings, group=settings.app_id)
    try:
        yield reader, settings
    finally:
        reader.close()


def _committed(reader: Consumer, settings: Settings, partitions: int) -> list[TopicPartition]:
    wanted = [TopicPartition(settings.topics.records, partition) for partition in range(partitions)]
    return reader.committed(wanted, timeout=10)


def _read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def throughput(
    bench: Bench, case: Case, records: int, blocks: int, each: Sequence[int]
) -> dict[int, list[tuple[Run, Run]]]:
    """Pairs of (plain, service), run one after the other, by number of partitions; four blocks have every order once."""
    pairs: dict[int, list[tuple[Run, Run]]] = {partitions: [] for partitions in each}
    for block in range(blocks):
        for partitions in each if block % 2 else reversed(each):
            arguments = bench.environment(case, partitions, records), partitions, records
            if block // 2 % 2:
                service, plain = bench.service(*arguments), bench.plain(*arguments)
            else:
                plain, service = bench.plain(*arguments), bench.service(*arguments)
            if plain.digests != service.digests:
                raise click.ClickException(f"{case.name}: the service folded something else than the loop")
            pairs[partitions].append((plain, service))
    return pairs


def _spread(values: list[float], digits: int = 2) -> str:
    middle, least, most = (f"{value:.{digits}f}" for value in (median(values), min(values), max(values)))
    return f"{middle} ({least}–{most})" if len(values) > 1 else middle


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=MARKDOWN)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    return table


def _machine() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("river", "numpy", "confluent-kafka", "explanation-sidecar")
    )
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {len(names)} × {names[0] if names else platform.machine()}, "
        f"Python {platform.python_version()}, {packages}, Apache Kafka {KAFKA_VERSION}"
    )


def _records(data: Path | None) -> tuple[str, list[dict[str, Any]]]:
    if data is not None:
        elec2 = load("elec2", data)
        rows = zip(elec2.rows(), elec2.y.tolist(), strict=True)
        return "elec2", [{**x, "label": y} for x, y in rows]
    repeated = islice(cycle(Phishing()), 45_312)
    return "river's Phishing, repeated to 45,312 records", [{**x, "label": int(y)} for x, y in repeated]


@click.command(help=__doc__)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of elec2.csv.gz; without it river's Phishing, repeated.",
)
@click.option("--quick", is_flag=True, help="One block, fewer records: within a minute.")
def main(data: Path | None, quick: bool) -> None:
    console = Console(width=160)
    name, records = _records(data)
    blocks, each = (1, (1,)) if quick else (4, (1, 4))
    console.print(_machine())
    console.print(f"{name}; {blocks} rotated blocks, median (least–most)")
    throughputs = _table(
        "Throughput of one worker", "model", "partitions", "records", "loop, 1/s", "service, 1/s", "ratio", "goal",
        "not folding", "committing",
    )  # fmt: skip
    snapshots = _table(
        "Snapshots of four partitions", "model", "records", "seconds", "snapshots", "time of one, ms", "share", "goal"
    )  # fmt: skip
    recoveries = _table(
        "kill -9 near the end, one partition", "model", "snapshot, kB", "replayed records", "restore, s", "replay, s"
    )  # fmt: skip
    memory = _table(
        "A partition", "model", "after records", "resident, MB", "snapshot, kB", "taking it, ms", "loading it, ms"
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        bench = Bench(broker, records, Path(folder))
        for case in CASES:
            few, many = (case.quick_records,) * 2 if quick else (case.records, case.many_records)
            for partitions, pairs in throughput(bench, case, few, blocks, each).items():
                throughputs.add_row(
                    case.name,
                    str(partitions),
                    f"{few:,}",
                    f"{median(few / plain.seconds for plain, _ in pairs):,.0f}",
                    f"{median(few / service.seconds for _, service in pairs):,.0f}",
                    _spread([plain.seconds / service.seconds for plain, service in pairs]),
                    f"≥ {case.goal}",
                    f"{median(1 - service.fold_seconds / service.seconds for _, service in pairs):.1%}",
                    f"{median(service.commit_seconds / service.seconds for _, service in pairs):.1%}",
                )
            run = bench.service(bench.environment(case, 4, many), 4, many)
            snapshots.add_row(
                case.name,
                f"{many:,}",
                f"{run.seconds:.1f}",
                str(run.snapshots),
                f"{1e3 * run.snapshot_seconds / run.snapshots:.1f}",
                f"{run.snapshot_seconds / run.seconds:.2%}",
                "≤ 5 %",
            )
            found = bench.recovery(bench.environment(case, 1, many), many)
            recoveries.add_row(
                case.name,
                f"{found['size'] / 1e3:.1f}",
                f"{found['replayed']:,}",
                f"{found['restore']:.2f}",
                f"{found['replay']:.1f}",
            )
            # The state is as large however often its records are explained: explaining seldom saves minutes.
            held, rows = (2, 1_000) if quick else (case.held, len(records))
            of_one = bench.fold("held", case.model, held, rows, EXPLAIN_EXPLAIN__EVERY="50")
            memory.add_row(
                case.name,
                f"{rows:,}",
                f"{of_one['resident'] / 1e6:.2f}",
                f"{of_one['snapshot'] / 1e3:.1f}",
                f"{1e3 * of_one['take_seconds']:.1f}",
                f"{1e3 * of_one['load_seconds']:.1f}",
            )
    for table in (throughputs, snapshots, recoveries, memory):
        console.print(table)


if __name__ == "__main__":
    main()
