"""What the sidecar bears: ``python -m benchmarks.limits [--only NAME]``; all limits take some ten minutes.

Each row is one worker on an embedded broker, from a backlog to its end. Printed are the memory resident at the most, the records
folded in a second, the longest time between two polls (``max.poll.interval.ms`` is 300 s), and whether the outputs are those of the
oracle, byte for byte; those of the million records are counted.
"""

from __future__ import annotations

import json
import platform
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.pipeline import Pipeline, Process
from benchmarks.processes import TOTALS
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.broker.jars import KAFKA_VERSION
from explain_sidecar.pinned import worker_environment

SECONDS = 1_500
"""No row may take longer."""

Record = tuple[int, bytes]


class Line(Pipeline):
    """A pipeline whose workers say how they polled, with the default explainers."""

    def worker(self, slot: int = 0, until_caught_up: bool = False, **environment: str) -> Process:
        arguments = ["-m", "benchmarks.polled", "--slot", str(slot)]
        return Process(
            [*arguments, *(["--until-caught-up"] if until_caught_up else [])],
            {**self.environment, "EXPLAIN_LOG__FORMAT": "json", **environment},
        )


@dataclass(frozen=True)
class Limit:
    """A row: what comes in, and the settings that differ from the defaults."""

    what: str
    partitions: int
    records: Callable[[], Iterator[Record]]
    environment: dict[str, str]
    counted: bool = False  # rather than compared with the oracle: that would take as long again


def backlog(count: int = 1_000_000, partitions: int = 8) -> Iterator[Record]:
    """Records of eight features, as many bytes as those of elec2."""
    rng = random.Random(1)
    for index in range(count):
        x = [rng.random() for _ in range(7)]
        text = ",".join(f'"x{j}":{value:.6f}' for j, value in enumerate(x))
        yield index % partitions, f'{{{text},"day":{index % 7},"label":{int(x[0] + x[1] > 1)}}}'.encode()


def wide(count: int = 2_000, features: int = 500) -> Iterator[Record]:
    rng = random.Random(2)
    for _ in range(count):
        x: dict[str, Any] = {f"feature_{j}": round(rng.gauss(0, 1), 4) for j in range(features)}
        yield 0, _encoded({**x, "label": int(x["feature_0"] + x["feature_1"] > 0)})


def categorical(count: int = 20_000, categories: int = 10_000) -> Iterator[Record]:
    """Three features; each of their categories comes sooner or later."""
    rng = random.Random(3)
    for index in range(count):
        shop = index % categories
        x = {"shop": f"shop-{shop}", "city": f"city-{rng.randrange(categories)}", "item": f"item-{rng.randrange(categories)}"}  # fmt: skip
        yield 0, _encoded({**x, "label": int(shop % 3 == 0)})


def large(count: int = 300, size: int = 999_000) -> Iterator[Record]:
    """A document of 1 MB around three features."""
    rng = random.Random(4)
    for _ in range(count):
        a = rng.gauss(0, 1)
        document = {"payload": rng.randbytes(size // 2 - 100).hex()}
        yield (
            0,
            _encoded({"a": a, "b": rng.random(), "c": rng.choice("xyz"), "label": int(a > 0), **document}),
        )


def large_features(count: int = 300) -> Iterator[Record]:
    """All of 1 MB is features: 990 strings of 990 characters, one of ten each."""
    rng = random.Random(5)
    cells = [chr(97 + k) * 990 for k in range(10)]
    for _ in range(count):
        x = {f"f{j}": rng.choice(cells) for j in range(990)}
        yield 0, _encoded({**x, "label": int(x["f0"] < "f")})


def leaping(count: int = 20_000) -> Iterator[Record]:
    """Event time that goes on by a second a record, and leaps: a year ahead, back to 1970, back to where it was."""
    rng = random.Random(6)
    for index in range(count):
        leap = {1: 31_536_000, 2: -1_600_000_000, 3: 0}.get(index * 5 // count, 0)
        moment = 1_000 * (1_700_000_000 + index + leap)
        a = rng.gauss(0, 1)
        yield 0, _encoded({"a": a, "b": rng.random(), "when": moment, "label": int(a > 0)})


def _encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


LIMITS = {
    "backlog": Limit("a backlog of 1,000,000 records, 8 partitions, every 50th explained", 8, backlog, {"EXPLAIN_EXPLAIN__EVERY": "50"}, counted=True),
    "partitions": Limit("64 partitions on one worker", 64, lambda: backlog(32_000, 64), {}),
    "features": Limit("500 features", 1, wide, {}),
    "categories": Limit("3 features of 10,000 categories", 1, categorical, {}),
    "megabyte": Limit("records of 1 MB, few of it features", 1, large, {"EXPLAIN_RECORD__FEATURES": '["a","b","c"]'}),
    "strings": Limit("records of 1 MB, 990 features of 990 characters", 1, large_features, {"EXPLAIN_EXPLAIN__EVERY": "10"}),
    "event-time": Limit("event time leaps a year ahead, to 1973, and back; drift windows of an hour", 1, leaping,
                        {"EXPLAIN_RECORD__TIMESTAMP": "when", "EXPLAIN_DRIFT__ENABLED": "true", "EXPLAIN_DRIFT__PERIOD": "3600"}),
}  # fmt: skip


def measure(broker: Broker, name: str, limit: Limit) -> list[str]:
    """Memory, rate, longest time between two polls, and what is to be said of the outputs."""
    defaults = {"EXPLAIN_EXPLAINERS": '[{"kind": "ipfi"}, {"kind": "isage"}]', "EXPLAIN_EMIT__EVERY": "100"}
    line = Line(broker, f"limit-{name}", limit.partitions, {**defaults, **limit.environment})
    line.feed(limit.records())
    total = sum(map(len, line.inputs.values()))
    process = line.worker(until_caught_up=True)
    if process.wait(SECONDS):
        return ["–", "–", "–", "failed: " + process.log().strip().splitlines()[-2][:200]]
    log = process.log()
    found = TOTALS.search(log)
    assert found is not None
    own = json.loads(log.strip().splitlines()[-1])
    return [
        f"{own['resident'] / 1e6:,.0f} MB",
        f"{int(found[1]) / float(found[2]):,.0f}/s of {total:,}",
        f"{own['longest_between_polls']:.2f} s",
        _counted(line) if limit.counted else _compared(line),
    ]


def _counted(line: Line) -> str:
    expected = sum(len(log) // 100 for log in line.inputs.values())
    found = len(line.read(line.topics["explanations"]))
    return f"{found:,} of {expected:,} explanations"


def _compared(line: Line) -> str:
    # In a process of its own: the last bits are those of the environment that the service's workers have.
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.oracle"],
        env={**worker_environment(), **line.environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    verdict = json.loads(done.stdout)
    if verdict["differences"]:
        return f"DIFFERS: {verdict['differences'][0][:100]}"
    return f"{verdict['messages']:,} messages, {verdict['bytes']:,} bytes: those of the oracle"


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(LIMITS)))
def main(only: tuple[str, ...]) -> None:
    console = Console(width=200)
    model = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    console.print(
        f"{datetime.now(UTC):%Y-%m-%d}, {len(model)} × {model[0]}, Python {platform.python_version()}, Apache Kafka {KAFKA_VERSION}"
    )
    table = Table(box=MARKDOWN)
    for column in ("limit", "resident at most", "rate", "longest between polls", "outputs"):
        table.add_column(column)
    # A record of 1 MB with its frame is larger than the default.
    with Broker(config={"message.max.bytes": "1100000"}) as broker:
        for name in only or LIMITS:
            row = measure(broker, name, LIMITS[name])
            table.add_row(LIMITS[name].what, *row)
            console.print(f"{name}: {'; '.join(row)}")
    console.print(table)


if __name__ == "__main__":
    main()
