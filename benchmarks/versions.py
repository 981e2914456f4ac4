"""``python -m benchmarks.versions``: the main job with a kill in the middle, on several brokers and Pythons. Are the bytes the same?

For each row records are produced, ``explain-sidecar run --workers 2`` is killed with its workers in the middle, and started again, to
the end. What readers of committed messages see of every output is compared with the oracle, which this Python computes, byte for
byte, headers included; where a Python's C library is another one, with the oracle that it computes itself. This Python meets
every broker, the others meet the last one, or with ``--all-pairs`` each. A Python that is not on this machine is taken from
Debian's packages; ``aarch64`` is one for another machine, emulated.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import psutil
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.debian import unpacked
from benchmarks.pipeline import Pipeline
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.broker.jars import KAFKA_VERSION
from explain_sidecar.errors import UserError
from explain_sidecar.pinned import worker_environment

ROOT = Path(__file__).parents[1]
RELEASES = ("3.3.2", "3.9.1", "4.0.0", KAFKA_VERSION)
PYTHONS = ("python3.12", "python3.13", "python3.14")
PARTITIONS = 2
EMULATED = "aarch64"
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


def main_job(line: Pipeline, python: str) -> tuple[int, str]:
    """How many messages were compared, and the first that differs. Raises ``UserError`` where a run does not end well."""
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
    count = sum(len(part) for parts in line.published().values() for part in parts.values())
    try:
        line.verify()
    except AssertionError as error:
        return count, str(error)
    return count, ""


@contextmanager
def server(name: str) -> Iterator[tuple[str, Broker]]:
    """A release of Apache Kafka, started; or with ``NAME=HOST:PORT`` a broker that runs already."""
    title, _, address = name.partition("=")
    if address:
        yield title, cast(Broker, SimpleNamespace(bootstrap_servers=address))
    else:
        with Broker(version=name) as broker:
            yield f"Apache Kafka {name}", broker


def emulated(folder: Path) -> str | None:
    """Debian's Python for aarch64, emulated, with a wheel of this checkout for that machine; None without Debian, or root."""
    if not shutil.which("apt-get") or os.geteuid():
        return None
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]  # fmt: skip
    subprocess.run(wheel, check=True, env={**os.environ, "ENGINE_PLATFORM": "manylinux_2_28_aarch64"})
    (made,) = folder.glob("explanation_sidecar-*.whl")
    home = folder / EMULATED
    subprocess.run([ROOT / ".ci" / "aarch64.sh", home, made, sys.executable], check=True, stdout=sys.stderr)
    (home / "site" / "benchmarks").symlink_to(ROOT / "benchmarks")
    return f"{home}/bin/python"


def installed(name: str, folder: Path) -> str | None:
    """A Python with this checkout, whose engine serves every Python, and the locked dependencies; None where there is no such Python."""
    if name == EMULATED:
        return emulated(folder)
    found: str | Path | None = shutil.which(name)
    if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
        found = unpacked(name, folder / f"debian-{name}")
    if found is None:
        return None
    home = folder / name
    subprocess.run([found, "-m", "venv", "--without-pip", home], check=True)
    python = f"{home}/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]
    locked = ROOT / "requirements" / "service.txt"
    subprocess.run([*pip, "install", "--only-binary=:all:", "--require-hashes", "--requirement", locked], check=True)  # fmt: skip
    (site,) = home.glob("lib/python*/site-packages")
    (site / "checkout.pth").write_text(f"{ROOT}\n{ROOT / 'service'}\n")
    (known,) = Path(sysconfig.get_path("purelib")).glob("explanation_sidecar-*.dist-info")
    shutil.copytree(known, site / known.name)
    return python


@cache
def about(python: str) -> tuple[str, str, str]:
    """Its version, its machine, and its C library, whose exp and log have a part in the bytes: another release of it may round the last bit otherwise."""
    code = """
import os, platform
print(platform.python_version())
print(platform.machine())
print(os.confstr(name) if (name := "CS_GNU_LIBC_VERSION") in os.confstr_names else "")
"""
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    version, machine, library = done.stdout.split("\n")[:3]
    return version, machine, library


def own_oracle(line: Pipeline, python: str) -> list[str]:
    """The differences that the oracle finds under that Python, with its C library."""
    done = subprocess.run(
        [python, "-P", "-m", "benchmarks.oracle"],
        env=worker_environment() | line.environment,
        capture_output=True,
        text=True,
    )
    return list(json.loads(done.stdout)["differences"]) if done.stdout else [done.stderr]


def outcome(broker: Broker, python: str) -> tuple[bool, str]:
    """Whether all bytes are equal, and what is to be said of it."""
    line = Pipeline(broker, f"versions-{time.time_ns()}", PARTITIONS, dict(SETTINGS))
    try:
        count, difference = main_job(line, python)
        if not difference:
            return True, f"{count:,} messages, equal bytes"
        if about(python)[1:] == about(sys.executable)[1:]:
            return False, difference
        differences = own_oracle(line, python)
        return not differences, (
            differences or [f"{count:,} messages, equal bytes to its own oracle's, not to this Python's"]
        )[0]
    except UserError as error:
        errors = [text for text in str(error).splitlines() if text.startswith("error: ")]
        return False, (errors or [str(error).strip()[-300:]])[-1]


@click.command(help=__doc__)
@click.option("--broker", "brokers", multiple=True, default=RELEASES, show_default=True, help="A release of Apache Kafka, or NAME=HOST:PORT for a broker that runs.")  # fmt: skip
@click.option("--python", "pythons", multiple=True, default=PYTHONS, show_default=True, help="Another Python; aarch64 for one that is emulated (Debian, as root).")  # fmt: skip
@click.option("--all-pairs", is_flag=True, help="Let every Python meet every broker.")
def main(brokers: tuple[str, ...], pythons: tuple[str, ...], all_pairs: bool) -> None:
    table = Table("broker", "Python", "machine", "C library", "with a kill in the middle", box=MARKDOWN)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor() as pool:
            found = pool.map(partial(installed, folder=Path(folder)), pythons)
            others = dict(zip(pythons, found, strict=True))
        for number, name in enumerate(brokers):
            with server(name) as (title, broker):
                last = others if all_pairs or number == len(brokers) - 1 else {}
                for wanted, python in {"this one": sys.executable, **last}.items():
                    fine, said = (
                        outcome(broker, python)
                        if python
                        else (True, "not run: there is none here, nor in Debian")
                    )
                    failed |= not fine
                    table.add_row(title, *(about(python) if python else (wanted, "", "")), said)
                    sys.stderr.write(f"{title}, {wanted}: {said}\n")
    Console(width=160).print(table)
    sys.exit(failed)


if __name__ == "__main__":
    main()
