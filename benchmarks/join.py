"""The join of events and late labels: throughput with many events pending, memory, disk, and how long a restore takes.

    python -m benchmarks.join --pending 1000000 --events 300000 [--quix PYTHON]

One partition, one worker process, a broker on the same machine. ``--pending`` events without a label are joined first. Then come
``--events`` more in blocks, each with the label of an earlier one, whose delay is exponential, so that about as many stay pending.
With ``--quix`` a join written with Quix Streams, exactly-once (``benchmarks.quix_join``), reads the same topics, block by block by turns.
At the end the worker is restarted with its local store, and without.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.pinned import worker_environment

BLOCKS = 3

Seconds = tuple[float, float]
"""Of the clock, and of the thread on the CPU."""


class Bench:
    """Two topics of one partition, and what joins them."""

    def __init__(self, broker: Broker, folder: Path, size: int, quix: str | None) -> None:
        self.state, self.size, self._quix = folder / "state", size, quix
        self._quix_state = folder / "quix"
        self._servers = broker.bootstrap_servers
        servers = {"bootstrap.servers": self._servers}
        admin = AdminClient(servers)
        for made in admin.create_topics([NewTopic("events", 1), NewTopic("labels", 1)]).values():
            made.result()
        self._producer = Producer(
            servers | {"enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4"}
        )
        self._rng = random.Random(0)
        settings = {
            "KAFKA__BOOTSTRAP_SERVERS": self._servers,
            "APP_ID": "bench",
            "INSTANCE_ID": "bench",
            "LOG__LEVEL": "info",
            "JOIN__EVENTS__TOPIC": "events",
            "JOIN__EVENTS__TIMESTAMP": "at",
            "JOIN__LABELS__TOPIC": "labels",
            "JOIN__LABELS__TIMESTAMP": "at",
            "JOIN__WAIT": "300000000",
            "JOIN__MAX_PENDING": "100000000",
            "JOIN__STATE_DIR": str(self.state),
            "COMMIT__INTERVAL_MS": "1000",
            "COMMIT__MAX_RECORDS": "100000",
        }
        self._environment = worker_environment() | {
            f"EXPLAIN_{name}": value for name, value in settings.items()
        }
        self._events = 0

    def feed(self, count: int, labelled: bool) -> None:
        for number in range(self._events, self._events + count):
            self._give("events", number, self._event(number))
            if labelled:
                before = int(self._rng.expovariate(1 / (self._events / 4)))
                self._give("labels", max(0, number - before), orjson.dumps({"at": number, "label": 1}))
        self._producer.flush()
        self._events += count

    def _event(self, number: int) -> bytes:
        fields = {"at": number, "x": self._rng.random(), "text": ""}
        text = self._rng.randbytes(self.size // 2).hex()[: self.size - len(orjson.dumps(fields))]
        return orjson.dumps(fields | {"text": text})

    def _give(self, topic: str, key: int, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(topic, value, b"%012d" % key, partition=0)
                break
            except BufferError:
                self._producer.poll(0.1)

    def run(self, what: str) -> Seconds:
        """A worker until it has caught up; prints what it says of itself."""
        command = ["-m", "explain_sidecar.worker", "--slot", "0", "--stage", "join", "--until-caught-up"]
        process = subprocess.Popen(
            [sys.executable, *command],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        restored = re.search(r"restored in ([\d.]+) s", output)
        if status or restored is None:
            raise SystemExit(output)
        disk = sum(file.stat().st_size for file in self.state.rglob("*") if file.is_file())
        report(
            f"{what}: {usage.ru_maxrss / 1024:.0f} MB resident at most, {disk / 2**20:.0f} MB on disk, restored in {restored.group(1)} s"
        )
        return _seconds(output)

    def run_quix(self, count: int) -> Seconds:
        command = ["--servers", self._servers, "--folder", str(self._quix_state), "--count", str(count)]
        done = subprocess.run(
            [str(self._quix), "-m", "benchmarks.quix_join", *command],
            env=worker_environment(),
            capture_output=True,
            text=True,
        )
        if done.returncode or not done.stdout:
            raise SystemExit(done.stdout + done.stderr)
        return _seconds(done.stdout)


def _seconds(output: str) -> Seconds:
    found = re.search(r"([\d.]+) s, ([\d.]+) s of them on the CPU", output)
    return (float(found.group(1)), float(found.group(2))) if found else (0.0, 0.0)


def report(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@click.command(help=__doc__)
@click.option("--pending", default=1_000_000, show_default=True)
@click.option("--events", default=300_000, show_default=True)
@click.option("--size", default=300, show_default=True, help="Bytes of an event.")
@click.option("--quix", metavar="PYTHON", help="Interpreter of an environment with quixstreams.")
def main(pending: int, events: int, size: int, quix: str | None) -> None:
    block = events // BLOCKS
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        bench = Bench(broker, Path(folder), size, quix)
        bench.feed(pending, labelled=False)
        rates("sidecar", "events without a label", pending, bench.run(f"{pending:,} events without a label"))
        if quix:
            rates("Quix Streams", "events without a label", pending, bench.run_quix(pending))
        ratios: list[Seconds] = []
        for number in range(BLOCKS):
            bench.feed(block, labelled=True)
            other = bench.run_quix(2 * block) if quix and number % 2 else None
            own = bench.run(f"{block:,} events, each with the label of one before")
            other = bench.run_quix(2 * block) if quix and other is None else other
            rates("sidecar", "events with a label each", block, own)
            if other:
                rates("Quix Streams", "events with a label each", block, other)
                ratios.append((other[0] / own[0], other[1] / own[1]))
        bench.run("restart with the local store")
        shutil.rmtree(bench.state)
        bench.run("restart without it")
        if ratios:
            wall, cpu = (statistics.median(ratio) for ratio in zip(*ratios, strict=True))
            report(
                f"sidecar to Quix Streams, median of {BLOCKS} blocks: {wall:.2f} × by the clock, {cpu:.2f} × by the CPU"
            )


def rates(who: str, what: str, count: int, seconds: Seconds) -> None:
    wall, cpu = seconds
    report(
        f"  {who}: {count / wall:,.0f} {what} a second, {count / cpu:,.0f} by the thread's time on the CPU"
    )


if __name__ == "__main__":
    main()
