"""``python -m benchmarks.versions``: the main job with a kill in the middle, on several brokers and Pythons. Are the bytes the same?

For each row records are produced, ``explain-sidecar run --workers 2`` is killed with its workers in the middle, and started again, to
the end. What readers of committed messages see of every output is compared with the oracle, which this Python computes, byte for
byte, headers included. This Python meets every broker, the others meet the last one.
"""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import psutil
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.pipeline import Pipeline
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.broker.jars import KAFKA_VERSION
from explain_sidecar.errors import UserError
from explain_sidecar.pinned import worker_environment

ROOT = Path(__file__).parents[1]
RELEASES = ("3.3.2", "3.9.1", "4.0.0", KAFKA_VERSION)
PYTHONS = ("python3.12", "python3.13", "python3.14")
PARTITIONS = 2
HALF = 600
"""Records before the kill, and after it."""

SEEN = 20
"""Explanations that are visible when the kill comes."""

SECONDS = 300.0
"""The most that a machine under load may take for a half."""

SETTINGS = {"EXPLAIN_ALARMS__ENABLED": "true", "EXPLAIN_EMIT__EVERY": "10", "EXPLAIN_MODEL__NAME": "mixture"}


def records(count: int) -> Iterator[tuple[int, bytes]]:
    generator = random.Random(7)
    for index in range(count):
        x: dict[str, Any] = {
            "a": generator.gauss(0, 1),
            "b": generator.randrange(5),
            "c": generator.choice("xyz"),
        }
        x["label"] = x["a"] + 0.3 * generator.gauss(0, 1) > 0.3
        yield index % PARTITIONS, json.dumps(x).encode()


def start(line: Pipeline, python: str, *arguments: str) -> subprocess.Popen[str]:
    environment = worker_environment() | line.environment
    command = [python, "-P", "-m", "explain_sidecar.cli", "run", "--workers", "2", *arguments]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, for the supervisor first, so that it starts no other worker."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for one in family:
        one.kill()
    process.communicate()
    psutil.wait_procs(family)


def explanations(line: Pipeline) -> int:
    return sum(map(len, line.published()["explanations"].values()))


def main_job(line: Pipeline, python: str) -> int:
    """How many messages were compared. Raises ``UserError`` where a run does not end well, ``AssertionError`` where a byte differs."""
    given = list(records(2 * HALF))
    line.feed(given[:HALF])
    first, deadline = start(line, python), time.monotonic() + SECONDS
    while first.poll() is None and explanations(line) < SEEN and time.monotonic() < deadline:
        time.sleep(0.2)
    if first.poll() is not None:
        raise UserError(first.communicate()[1])
    line.feed(given[HALF:])
    kill(first)
    second = start(line, python, "--until-caught-up")
    try:
        said = second.communicate(timeout=SECONDS)[1]
    except subprocess.TimeoutExpired:
        kill(second)
        raise UserError(f"error: not caught up within {SECONDS:g} s") from None
    if second.returncode:
        raise UserError(said)
    line.verify()
    return sum(len(part) for parts in line.published().values() for part in parts.values())


@contextmanager
def server(name: str) -> Iterator[tuple[str, Broker]]:
    """A release of Apache Kafka, started; or with ``NAME=HOST:PORT`` a broker that runs already."""
    title, _, address = name.partition("=")
    if address:
        yield title, cast(Broker, SimpleNamespace(bootstrap_servers=address))
    else:
        with Broker(version=name) as broker:
            yield f"Apache Kafka {name}", broker


def wheel(folder: Path) -> Path:
    """That of this checkout, which serves every Python."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(command, env=os.environ | {"SIDECAR_CHARTS": "none"}, check=True)
    return next(folder.glob("*.whl"))


def installed(name: str, folder: Path, product: Path) -> str | None:
    """A Python with the wheel and the locked dependencies, in a virtual environment; None where there is no such Python here."""
    found = shutil.which(name)
    if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
        return None
    python = f"{folder / name}/bin/python"
    subprocess.run([found, "-m", "venv", folder / name], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    locked = ROOT / "requirements" / "service.txt"
    subprocess.run([*pip, "--require-hashes", "--requirement", locked], check=True)
    subprocess.run([*pip, "--no-deps", product], check=True)
    return python


def outcome(broker: Broker, python: str) -> tuple[bool, str]:
    """Whether all bytes are equal, and what is to be said of it."""
    line = Pipeline(broker, f"versions-{time.time_ns()}", PARTITIONS, dict(SETTINGS))
    try:
        return True, f"{main_job(line, python):,} messages, equal bytes"
    except AssertionError as error:
        return False, str(error)
    except UserError as error:
        errors = [text for text in str(error).splitlines() if text.startswith("error: ")]
        return False, (errors or [str(error).strip()[-300:]])[-1]


@click.command(help=__doc__)
@click.option("--broker", "brokers", multiple=True, default=RELEASES, show_default=True, help="A release of Apache Kafka, or NAME=HOST:PORT for a broker that runs.")  # fmt: skip
@click.option("--python", "pythons", multiple=True, default=PYTHONS, show_default=True, help="Another Python.")  # fmt: skip
def main(brokers: tuple[str, ...], pythons: tuple[str, ...]) -> None:
    table, failed = Table("broker", "Python", "machine", "with a kill in the middle", box=MARKDOWN), False
    with tempfile.TemporaryDirectory() as folder:
        product = wheel(Path(folder))
        others = {name: installed(name, Path(folder), product) for name in pythons}
        for number, name in enumerate(brokers):
            with server(name) as (title, broker):
                last = others if number == len(brokers) - 1 else {}
                for title_of_python, python in {
                    f"python{platform.python_version()}": sys.executable,
                    **last,
                }.items():
                    fine, said = (
                        outcome(broker, python) if python else (True, "not run: it is not on this machine")
                    )
                    failed |= not fine
                    table.add_row(title, title_of_python.removeprefix("python"), platform.machine(), said)
                    sys.stderr.write(f"{title}, {title_of_python}: {said}\n")
    Console(width=160).print(table)
    sys.exit(failed)


if __name__ == "__main__":
    main()
