"""How long a crash and a move last: ``python -m benchmarks.recovery --data DIR [--quix PYTHON]``.

One worker has eight partitions, each with a forest of ten trees, at the default snapshot settings, and a producer writes
all the time. The worker is killed by SIGKILL at a random moment and started again at once. Then a second worker joins and
leaves: how long is each partition that moves without an owner? Beside it, the same kills for an application of
Quix Streams with state of the same size (``benchmarks.quix_state``).
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
import orjson
import psutil
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks.figures import machine, p99, table_of
from benchmarks.processes import CASES, RESTORED, Bench, _committed
from benchmarks.service import _records
from experiments.options import data_or_none
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.kafka.clients import plain_producer, reading_consumer
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.pinned import worker_environment
from explain_sidecar.settings import Settings, load_settings

PARTITIONS = 8
PATIENCE = 300.0


class Event(NamedTuple):
    """A partition's step, at a time in seconds since 1970."""

    at: float
    partition: int
    what: str


class Recovery(NamedTuple):
    """Seconds of one recovery of all partitions, and the records that it replayed.

    ``session`` is from the kill to the assignment of partitions by the group, the start of the process in it; ``restore`` from
    there until the last snapshot is loaded, ``replay`` from there until the last partition runs. ``cpu``: what the process spent on
    the CPU for both; on a machine with nothing else to do they take little longer.
    """

    session: float
    restore: float
    replay: float
    cpu: float
    records: int = 0

    @property
    def own(self) -> float:
        return self.restore + self.replay


class Processes:
    """Worker processes of a sidecar, or the one of a Quix application, and their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._live: list[subprocess.Popen[bytes]] = []

    def start(
        self, command: Sequence[str], environment: dict[str, str]
    ) -> tuple[subprocess.Popen[bytes], Path]:
        log = Path(tempfile.mkstemp(dir=self.folder, suffix=".log")[1])
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, env={**worker_environment(), **environment},
                stdin=subprocess.PIPE, stdout=file, stderr=file,
            )  # fmt: skip
        self._live.append(process)
        return process, log

    def worker(self, environment: dict[str, str], slot: int = 0) -> tuple[subprocess.Popen[bytes], Path]:
        return self.start([sys.executable, "-m", "explain_sidecar.worker", "--slot", str(slot)], environment)

    def close(self) -> None:
        for process in self._live:
            process.kill()
            process.wait()


def events(log: Path) -> list[Event]:
    """What a worker's log says about its partitions."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("{") and '"partition"' in line:
            entry = json.loads(line)
            if "what" in entry:
                found.append(Event(entry["at"], entry["partition"], entry["what"]))
            else:
                at = datetime.fromisoformat(entry["time"]).timestamp()
                found.append(Event(at, entry["partition"], entry["message"].split()[0]))
    return found


Spent = list[tuple[float, float]]
"""At a time, in seconds since 1970: the seconds that a process has spent on the CPU."""


def until_running(
    process: subprocess.Popen[bytes], log: Path, partitions: int = PARTITIONS
) -> tuple[list[Event], Spent]:
    """The events of a worker, and its CPU time, once so many partitions run in it."""
    deadline, seen, spent = time.monotonic() + PATIENCE, psutil.Process(process.pid), []
    while process.poll() is None and time.monotonic() < deadline:
        spent.append((time.time(), sum(seen.cpu_times()[:2])))
        found = events(log)
        if len({event.partition for event in found if event.what == "running"}) == partitions:
            return found, spent
        time.sleep(0.02)
    raise click.ClickException(f"{partitions} partitions do not run:\n{log.read_text()[-3_000:]}")


@contextmanager
def feeding(
    settings: Settings, records: list[dict[str, Any]], rate: float, warm: int
) -> Iterator[threading.Event]:
    """Records round robin, each with a key of its partition's: so many at once, and then at a rate."""
    ended, producer = threading.Event(), plain_producer(settings)

    def feed() -> None:
        begun = time.monotonic()
        for index, record in enumerate(cycle(records)):
            if ended.is_set():
                return
            partition = index % PARTITIONS
            producer.produce(
                settings.topics.records, orjson.dumps(record), b"%d" % partition, partition=partition
            )
            if index < warm:
                begun = time.monotonic()
                producer.poll(0)
            else:
                producer.poll(max(0.0, begun + (index - warm) / rate - time.monotonic()))

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        ended.set()
        thread.join()
        producer.flush(30)


def behind(reader: Consumer, settings: Settings) -> int:
    """Records that are not committed."""
    ends = (
        reader.get_watermark_offsets(TopicPartition(settings.topics.records, partition), timeout=10)[1]
        for partition in range(PARTITIONS)
    )
    return sum(
        end - max(0, offset.offset)
        for end, offset in zip(ends, _committed(reader, settings, PARTITIONS), strict=True)
    )


def until_caught_up(settings: Settings, rate: float) -> None:
    """Wait until less than two seconds' records are not committed."""
    reader = reading_consumer(settings, group=settings.app_id)
    deadline = time.monotonic() + PATIENCE
    while behind(reader, settings) > 2 * rate:
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"{rate:g} records/s are more than the worker folds; give a lower --rate"
            )
        time.sleep(0.5)
    reader.close()


def kills(
    processes: Processes,
    settings: Settings,
    environment: dict[str, str],
    number: int,
    rate: float,
    settle: float,
) -> tuple[list[Recovery], int]:
    """SIGKILL a worker so many times, each a random while after it has caught up; also the bytes of a snapshot."""
    rng, recoveries, size = random.Random(0), [], 0
    process, log = processes.worker(environment)
    until_running(process, log)
    for _ in range(number):
        until_caught_up(settings, rate)
        time.sleep(rng.uniform(0.2, 1) * settle)
        process.kill()
        killed = time.time()
        process.wait()
        process, log = processes.worker(environment)
        found, spent = until_running(process, log)
        restored = [tuple(map(int, numbers)) for numbers in RESTORED.findall(log.read_text())]
        recoveries.append(_split(found, spent, killed)._replace(records=sum(count for _, count in restored)))
        size = max(bytes_ for bytes_, _ in restored)
    process.kill()
    process.wait()
    return recoveries, size


def quix_kills(
    processes: Processes,
    environment: dict[str, str],
    python: str,
    size: int,
    number: int,
    settle: float,
    lost: bool,
) -> list[Recovery]:
    """The same with Quix Streams; ``lost``: the folder of its state is lost with it."""
    folder = processes.folder / environment["EXPLAIN_APP_ID"]
    command = [python, "-m", "benchmarks.quix_state", "--bytes", str(size), "--folder", str(folder)]
    rng, recoveries = random.Random(0), []
    process, log = processes.start(command, environment)
    until_running(process, log)
    for _ in range(number):
        time.sleep(rng.uniform(0.2, 1) * settle)
        process.kill()
        killed = time.time()
        process.wait()
        if lost:
            shutil.rmtree(folder)
        process, log = processes.start(command, environment)
        recoveries.append(_split(*until_running(process, log), killed))
    process.kill()
    process.wait()
    return recoveries


def _split(found: list[Event], spent: Spent, killed: float) -> Recovery:
    last = {
        what: max((e.at for e in found if e.what == what), default=0.0) for what in ("restored", "running")
    }
    assigned = min(e.at for e in found if e.what == "assigned")
    restored, running = max(assigned, last["restored"]), last["running"]
    before, after = (max(cpu for at, cpu in spent if at <= moment) for moment in (assigned, running))
    return Recovery(assigned - killed, restored - assigned, running - restored, after - before)


def moves(
    processes: Processes, settings: Settings, environment: dict[str, str], number: int, rate: float
) -> list[float]:
    """Seconds between an owner that has let go of a partition and the next that runs it, for workers that join and leave."""
    dark: list[float] = []
    first, first_log = processes.worker(environment)
    until_running(first, first_log)
    for _ in range(number):
        until_caught_up(settings, rate)
        second, second_log = processes.worker(environment, slot=1)
        found, _ = until_running(second, second_log, PARTITIONS // 2)
        released = {e.partition: e.at for e in events(first_log) if e.what == "released"}
        dark += [e.at - released[e.partition] for e in found if e.what == "running"]
        until_caught_up(settings, rate)
        second.terminate()
        second.wait()
        deadline = time.monotonic() + PATIENCE
        while (
            sum(e.what == "running" for e in events(first_log))
            - sum(e.what == "released" for e in events(first_log))
            < PARTITIONS
        ):
            if time.monotonic() > deadline:
                raise click.ClickException("the partitions did not come back")
            time.sleep(0.2)
    first.kill()
    first.wait()
    return dark


@click.command(help=__doc__)
@data_or_none("Folder of elec2.csv.gz; without it river's Phishing.")
@click.option("--kills", "number", default=10, show_default=True)
@click.option("--rate", default=200.0, show_default=True, help="Records a second, of all partitions.")
@click.option(
    "--warm", default=16_000, show_default=True, help="Records that are folded before the first kill."
)
@click.option(
    "--settle", default=60.0, show_default=True, help="Most seconds between catching up and a kill."
)
@click.option("--quix", metavar="PYTHON", help="Interpreter of an environment with quixstreams.")
@click.option("--replay", type=float, help="checkpoint.max_replay_seconds, in place of the default.")
def main(
    data: Path | None,
    number: int,
    rate: float,
    warm: int,
    settle: float,
    quix: str | None,
    replay: float | None,
) -> None:
    name, records = _records(data)
    console = Console(width=240)
    console.print(machine())
    console.print(
        f"{name}, {rate:g} records/s on {PARTITIONS} partitions after {warm:,} at once; ARF of 10 trees"
    )
    with tempfile.TemporaryDirectory() as folder, Broker() as broker, ExitStack() as stack:
        bench, processes = Bench(broker, records, Path(folder)), Processes(Path(folder))
        stack.callback(processes.close)
        environment = bench.environment(CASES[2], PARTITIONS, 0)
        del environment["EXPLAIN_KAFKA__GROUP_INSTANCE_ID"]
        settings = load_settings(environ=environment)
        topics = Topics(settings)
        topics.create_topics([(settings.topics.records, PARTITIONS, {})])
        topics.until_described(settings.topics.records)
        stack.enter_context(feeding(settings, records, rate, warm))
        if replay is not None:
            environment["EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS"] = str(replay)
        recoveries, size = kills(processes, settings, environment, number, rate, settle)
        table = table_of(
            f"SIGKILL, {number} times each; a snapshot has {size / 1e3:.0f} kB", "", "until assigned, s: p50", "p99",
            "restore, s: p50", "p99", "replay, s: p50", "p99", "restore and replay, s: p50", "p99", "of it CPU, s: p50", "p99", "records replayed", "goal",
        )  # fmt: skip
        _row(table, "sidecar", recoveries, "≤ 0.7 s")
        console.print(table)
        dark = moves(processes, settings, environment, max(2, number // 3), rate)
        moved = table_of("A second worker joins: dark for", "partitions", "p50, s", "p99, s", "goal")
        moved.add_row(str(len(dark)), f"{median(dark):.2f}", f"{p99(dark):.2f}", "≤ 1.5 s")
        console.print(moved)
        for lost in (False, True) if quix is not None else ():
            own = environment | {
                "EXPLAIN_APP_ID": f"quix-{lost}",
                "EXPLAIN_TOPICS__EXPLANATIONS": f"quix-{lost}",
            }
            found = quix_kills(processes, own, str(quix), size, number, settle, lost)
            _row(table, f"Quix Streams, its folder {'lost' if lost else 'kept'}", found, "")
        if quix is not None:
            console.print(table)


def _row(table: Table, name: str, recoveries: list[Recovery], goal: str) -> None:
    columns = ("session", "restore", "replay", "own", "cpu")
    cells = [[getattr(recovery, column) for recovery in recoveries] for column in columns]
    seconds = [f"{value:.2f}" for values in cells for value in (median(values), p99(values))]
    replayed = [recovery.records for recovery in recoveries]
    table.add_row(name, *seconds, f"{median(replayed):,.0f}" if any(replayed) else "–", goal)


if __name__ == "__main__":
    main()
