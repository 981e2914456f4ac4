"""``python -m benchmarks.dark``: how long a partition's explanations stand still at a crash, a rollout and a scale-in.

Two instances share four partitions of a topic that is written all the time; one of them is ended. A reader of committed
messages takes the time between two messages of a partition: a break is one that is longer than ``BREAK_SECONDS``.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle, pairwise
from statistics import median

import orjson
import psutil
from confluent_kafka import KafkaException, TopicPartition
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from river.datasets import Phishing

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.commands.supervisor import STEADY_SECONDS
from explain_sidecar.kafka.clients import admin_client, plain_producer, reading_consumer
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.pinned import worker_environment
from explain_sidecar.settings import Settings, load_settings

PARTITIONS = 4
RECORDS_PER_SECOND = 400
BREAK_SECONDS = 1.0
BEFORE_SECONDS, AFTER_SECONDS = 5.0, 25.0
INSTANCES = ("a", "b")
ENDS = {
    "crash: SIGKILL, started again": (signal.SIGKILL, True),
    "rollout: SIGTERM, started again": (signal.SIGTERM, True),
    "scale-in: SIGTERM": (signal.SIGTERM, False),
}

ROLLED: dict[str, tuple[str, dict[str, str]]] = {
    "settings change (explain.every)": ("explain_sidecar.worker", {"EXPLAIN_EXPLAIN__EVERY": "2"}),
    "upgrade to a version with another shape of a part": ("benchmarks.later", {}),
}


class Line:
    """A topic that is written all the time, the instances on it, and when each explanation could be read."""

    def __init__(self, broker: Broker, name: str, static: bool) -> None:
        self._static = static
        self._environment = {
            "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "EXPLAIN_APP_ID": name,
            "EXPLAIN_EMIT__EVERY": "10",
            **{f"EXPLAIN_TOPICS__{key.upper()}": f"{key}-{name}" for key in
               ("records", "explanations", "drift", "checkpoints", "dead_letters")},
        }  # fmt: skip
        self.settings: Settings = load_settings(environ=self._environment)
        self.arrivals: dict[int, list[float]] = {partition: [] for partition in range(PARTITIONS)}
        self._admin = admin_client(self.settings)
        self._ended = threading.Event()

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Records are written and explanations read within the block."""
        topics = Topics(self.settings, self._admin)
        topics.create_topics([(self.settings.topics.records, PARTITIONS, {})])
        topics.until_described(self.settings.topics.records)
        topics.prepare()
        threads = [threading.Thread(target=target) for target in (self._write, self._read)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    @contextmanager
    def instance(
        self, name: str, module: str = "explain_sidecar.worker", **changes: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A worker, with these settings in place of those of the line; it ends with the block at the latest."""
        environment = self._environment | {"EXPLAIN_INSTANCE_ID": name} | changes
        if self._static:
            environment["EXPLAIN_KAFKA__GROUP_INSTANCE_ID"] = name
        process = subprocess.Popen(
            [sys.executable, "-m", module, "--slot", "0"],
            env={**worker_environment(), **environment},
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def supervised(self, workers: int) -> Iterator[psutil.Process]:
        """``explain-sidecar run``; it ends with the block at the latest."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "explain_sidecar.cli", "run", "--workers", str(workers)],
            env={**os.environ, **self._environment, "EXPLAIN_WORKERS__RESTARTS": "1000"},
            stderr=subprocess.DEVNULL,
        )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)

    def wait_until_shared(self, members: int = len(INSTANCES)) -> None:
        """Until each member of the group has as many partitions as the others."""
        deadline = time.monotonic() + 180
        while self._shares() != [PARTITIONS // members] * members:
            if time.monotonic() > deadline:
                raise SystemExit(f"the instances did not share the partitions: {self._shares()}")
            time.sleep(0.2)

    def wait_until_steady(self) -> None:
        """Until there was no break for ``BEFORE_SECONDS``."""
        deadline = time.monotonic() + 180
        time.sleep(BEFORE_SECONDS)
        while any(self.breaks(time.monotonic() - BEFORE_SECONDS).values()):
            if time.monotonic() > deadline:
                raise SystemExit("the explanations do not flow steadily; the machine is too busy")
            time.sleep(0.2)

    def breaks(
        self, since: float, least: float = BREAK_SECONDS, until: float | None = None
    ) -> dict[int, list[float]]:
        """The breaks of each partition since a moment, in seconds; one that has not ended counts as it stands."""
        now = time.monotonic() if until is None else until
        found = {}
        for partition, moments in self.arrivals.items():
            begin = max((moment for moment in moments if moment <= since), default=since)
            spans = [
                b - a
                for a, b in pairwise([begin, *(moment for moment in moments if since < moment < now), now])
            ]
            found[partition] = [span for span in spans if span > least]
        return found

    def _shares(self) -> list[int]:
        name = self.settings.app_id
        try:
            group = self._admin.describe_consumer_groups([name], request_timeout=2)[name].result()
        except KafkaException:  # a broker that has just started does not know the group's coordinator yet
            return []
        return [len(member.assignment.topic_partitions) for member in group.members if member.assignment]

    def _write(self) -> None:
        producer, records = plain_producer(self.settings), cycle(Phishing())
        partitions, started, written = cycle(range(PARTITIONS)), time.monotonic(), 0
        while not self._ended.is_set():
            while written < RECORDS_PER_SECOND * (time.monotonic() - started):
                x, y = next(records)
                value = orjson.dumps({**x, "label": int(y)})
                producer.produce(self.settings.topics.records, value, partition=next(partitions))
                written += 1
            producer.poll(0.01)
        producer.flush(10)

    def _read(self) -> None:
        consumer = reading_consumer(self.settings)
        topic = self.settings.topics.explanations
        consumer.assign([TopicPartition(topic, partition, 0) for partition in self.arrivals])
        while not self._ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.arrivals[message.partition() or 0].append(time.monotonic())
        consumer.close()


def measure(broker: Broker, name: str, how: signal.Signals, again: bool, static: bool, restart: float) -> tuple[int, float, float]:  # fmt: skip
    """Partitions that stood still, the longest break of one, and the most that one stood still in all; seconds."""
    line = Line(broker, name, static)
    first, second = INSTANCES
    with line.flowing(), line.instance(second):
        with line.instance(first) as process:
            line.wait_until_shared()
            line.wait_until_steady()
            ended = time.monotonic()
            process.send_signal(how)
            process.wait(60)
        if again:
            time.sleep(restart)
            with line.instance(first):
                time.sleep(AFTER_SECONDS)
                found = line.breaks(ended)
        else:
            time.sleep(AFTER_SECONDS)
            found = line.breaks(ended)
    breaks = [spans for spans in found.values() if spans]
    return (
        len(breaks),
        max((max(lengths) for lengths in breaks), default=0.0),
        max(map(sum, breaks), default=0.0),
    )


def kill_again(broker: Broker, workers: int, kills: int) -> list[float]:
    """SIGKILL one worker of ``explain-sidecar run`` after another; the longest break of a partition after each, in seconds."""
    line, found, rng = Line(broker, f"supervised-{workers}", static=False), [], random.Random(workers)
    with line.flowing(), line.supervised(workers) as supervisor:
        for _ in range(kills):
            line.wait_until_shared(workers)
            line.wait_until_steady()
            time.sleep(STEADY_SECONDS - BEFORE_SECONDS)
            killed = time.monotonic()
            (parent,) = supervisor.children()
            rng.choice(parent.children()).kill()
            time.sleep(1.0)
            line.wait_until_shared(workers)
            line.wait_until_steady()
            lengths = [max(spans) for spans in line.breaks(killed).values() if spans]
            found.append(max(lengths, default=0.0))
            print(workers, f"{found[-1]:.2f} s", file=sys.stderr, flush=True)
    return found


def supervised(kills: int) -> None:
    """A worker is killed and its supervisor lives."""
    table = Table(box=MARKDOWN)
    for column in ("workers", "kills", "longest break of a partition: median, s", "90 %", "worst"):
        table.add_column(column, no_wrap=True)
    with Broker() as broker:
        for workers in (1, 2):
            found = sorted(kill_again(broker, workers, kills))
            high = found[int(0.9 * (len(found) - 1))]
            table.add_row(str(workers), str(kills), f"{median(found):.1f}", f"{high:.1f}", f"{found[-1]:.1f}")
    Console(width=160).print(table)


def rolled(broker: Broker, name: str, module: str, changes: dict[str, str], restart: float) -> list[float]:
    """Two instances are replaced one after the other, as a StatefulSet does: each stops, and comes with other settings or of a later version.

    Returns the longest time between two messages of each partition, in seconds, and of any of them in the ten seconds before.
    """
    line = Line(broker, name, static=False)
    with line.flowing(), ExitStack() as later:
        with ExitStack() as before:
            running = {instance: before.enter_context(line.instance(instance)) for instance in INSTANCES}
            line.wait_until_shared()
            line.wait_until_steady()
            began = time.monotonic()
            for instance, process in running.items():
                process.send_signal(signal.SIGTERM)
                process.wait(60)
                time.sleep(restart)
                later.enter_context(line.instance(instance, module, **changes))
                line.wait_until_shared()
        time.sleep(AFTER_SECONDS / 2)
        found = [max(spans, default=0.0) for spans in line.breaks(began, 0.0).values()]
        usual = line.breaks(began - 2 * BEFORE_SECONDS, 0.0, began)
    return [*found, max(max(spans, default=0.0) for spans in usual.values())]


def rolling(rounds: int, restart: float) -> None:
    """A change of settings, and an upgrade, with two instances."""
    table = Table(box=MARKDOWN)
    of_partitions = [f"partition {partition}" for partition in range(PARTITIONS)]
    for column in ("longest break, s", *of_partitions, "of all, at worst", "before"):
        table.add_column(column, no_wrap=True)
    with Broker() as broker:
        for what, (module, changes) in ROLLED.items():
            found = [rolled(broker, f"rolled-{what.split()[0]}-{number}", module, changes, restart) for number in range(rounds)]  # fmt: skip
            *each, before = zip(*found, strict=True)
            worst = max(map(max, each))
            table.add_row(what, *(_spread(spans, 1) for spans in each), f"{worst:.1f}", _spread(before, 1))
            print(what, found, file=sys.stderr, flush=True)
    load = os.getloadavg()[0]
    Console(width=180).print(table, f"load of {load:.0f} on {os.cpu_count()} cores")


def main(rounds: int, restart: float) -> None:
    table = Table(box=MARKDOWN)
    for column in ("what happens", "membership", "partitions that stand still", "longest break, s", "of one partition in all, s"):  # fmt: skip
        table.add_column(column, no_wrap=True)
    with Broker() as broker:
        for end, (how, again) in ENDS.items():
            for membership in ("dynamic", "static"):
                found = [
                    measure(broker, f"{how.name}-{again}-{membership}-{number}", how, again, membership == "static", restart)
                    for number in range(rounds)
                ]  # fmt: skip
                touched, longest, total = zip(*found, strict=True)
                table.add_row(
                    end, membership, _spread(touched, 0), _spread(longest, 1), _spread(total, 1)
                )  # fmt: skip
                print(end, membership, found, file=sys.stderr, flush=True)
    Console(width=160).print(table)


def _spread(values: tuple[float, ...], digits: int) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--restart", type=float, default=2.0, help="seconds until the platform starts it again"
    )
    parser.add_argument("--kills", type=int, help="kill workers of one supervisor so often, and nothing else")
    parser.add_argument("--rolling", action="store_true", help="change settings and versions, and nothing else")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.rolling:
        rolling(arguments.rounds, arguments.restart)
    elif arguments.kills:
        supervised(arguments.kills)
    else:
        main(arguments.rounds, arguments.restart)
