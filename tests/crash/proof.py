"""``python -m tests.crash.proof``: every check that has not run yet, one after the other, and one report of them all.

The state's folder keeps what each check printed (``CHECK.log``) and when and at which commit it ran (``CHECK.json``), so that the same command goes on
where it was broken off; a check is run anew when its ``CHECK.json`` is removed. A ``note`` that whoever ran it puts there is shown in the report.
"""

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from explain_sidecar.broker.jars import KAFKA_VERSION

INPUTS = 1_000_000
GUIDED_INPUTS = 300_000
FAULTS, SUPERVISED_FAULTS = 500, 308


@dataclass(frozen=True)
class Check:
    """A command, run with this interpreter; ``{state}`` is the folder for its files, ``report`` the one that it writes there."""

    title: str
    command: Sequence[str]
    report: str | None = None


CHECKS = {
    "tests": Check("Tests on real brokers, and with each protection switched off", ["pytest", "tests/crash", "tests/broker"]),
    "fuzz": Check(f"Bad input: {INPUTS:,} random inputs", ["pytest", "tests/fuzz"]),
    "guided": Check(
        f"Bad input: {GUIDED_INPUTS:,} inputs, guided to reach new code",
        ["tests.fuzz.guided", "--inputs", str(GUIDED_INPUTS), "--state", "{state}/guided"],
    ),
    "campaign": Check(
        f"Crash campaign: {FAULTS} faults", ["tests.crash", "--seed", "2026", "--faults", str(FAULTS), "--state", "{state}"], "report.md"
    ),
    "supervised": Check(
        f"Supervisors and their workers killed on the default model: {SUPERVISED_FAULTS} faults",
        ["tests.crash", "--stream", "default-model", "--seed", "2026", "--faults", str(SUPERVISED_FAULTS), "--state", "{state}/supervised"],
        "supervised/report.md",
    ),
    "cluster": Check("Three brokers", ["tests.crash.cluster", "--report", "{state}/cluster.md"], "cluster.md"),
    "soak": Check("Soak: 30 minutes", ["tests.crash.soak", "--report", "{state}/soak.md"], "soak.md"),
}  # fmt: skip


@click.command(help=__doc__)
@click.option("--state", default=Path("build/proof"), show_default=True, type=click.Path(path_type=Path))
@click.option("--report", default=Path("docs/proof.md"), show_default=True, type=click.Path(path_type=Path))
@click.option("--gather", is_flag=True, help="Run nothing: write the report of what there is.")
def main(state: Path, report: Path, gather: bool) -> None:
    state.mkdir(parents=True, exist_ok=True)
    for name, check in CHECKS.items():
        if not gather and not (state / f"{name}.json").exists():
            click.echo(f"{name}: {check.title}", err=True)
            run(name, check, state)
        report.write_text(markdown(state))
    ran = [_record(state, name) for name in CHECKS]
    sys.exit(0 if gather or all(record and record["status"] == 0 for record in ran) else 1)


def run(name: str, check: Check, state: Path) -> None:
    started, clock = datetime.now(UTC), time.monotonic()
    command = [word.format(state=state) for word in check.command]
    with (state / f"{name}.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env={**os.environ, "FUZZ_INPUTS": str(INPUTS)} if name == "fuzz" else None,
            stdout=log,
            stderr=log,
            check=False,
        )
    record = {
        "commit": _commit(),
        "started": f"{started:%Y-%m-%d %H:%M} UTC",
        "minutes": (time.monotonic() - clock) / 60,
        "status": done.returncode,
    }
    (state / f"{name}.json").write_text(json.dumps(record) + "\n")


def markdown(state: Path) -> str:
    """The report: a row for each check, and then what some of them wrote."""
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("river", "numpy", "confluent-kafka", "hypothesis")
    )
    rows, notes, sections = [], [], []
    for name, check in CHECKS.items():
        record = _record(state, name)
        if record is None:
            rows.append(f"| {check.title} | not run | | | |")
            continue
        rows.append(
            f"| {check.title} | {record['started']} | {record['commit']} | {record['minutes']:.0f} min | {_result(state, name, record)} |"
        )
        if "note" in record:
            notes.append(f"{check.title}: {record['note']}")
        if check.report and (state / check.report).exists():
            text = (state / check.report).read_text().strip()
            sections.append(re.sub(r"^(#+) ", r"#\1 ", text, flags=re.MULTILINE))
    lines = [
        "# Proof",
        "",
        "`make proof` runs everything that shows [the guarantees](guarantees.md) to hold, and writes this report. Each check names the commit at which it "
        f"ran. The campaign's seed is 2026; the tests name their own. Python {platform.python_version()}, Kafka {KAFKA_VERSION}, {packages}; {os.cpu_count()} cores, {platform.machine()}.",
        "",
        "| check | started | commit | took | result |",
        "| --- | --- | --- | ---: | --- |",
        *rows,
    ]
    return "\n\n".join(["\n".join(lines), *notes, *sections]) + "\n"


def _result(state: Path, name: str, record: dict[str, Any]) -> str:
    """The sentence that a check ends with, or its report begins with."""
    check = CHECKS[name]
    if check.report:
        bold = re.search(r"\*\*(.+?)\*\*", (state / check.report).read_text())
        verdict = bold[1] if bold else "see below"
    else:
        last = [line for line in (state / f"{name}.log").read_text().splitlines() if line.strip()][-1]
        verdict = last.strip("= ")
    return verdict if record["status"] == 0 else f"**failed**: {verdict}"


def _record(state: Path, name: str) -> dict[str, Any] | None:
    path = state / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _commit() -> str:
    git = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
