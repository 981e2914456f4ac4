"""``python -m tests.crash --seed S --faults N --state DIR``: the crash campaign, taken up where it was broken off."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.crash.campaign import run_slice
from tests.crash.faults import KINDS
from tests.crash.late import late_labels, predictions
from tests.crash.report import Report
from tests.crash.rollouts import rollouts
from tests.crash.streams import MIXED, Stream, all_models, all_options, default_model, formats, new_protocol
from tests.crash.versions import versions

FULL_DISK = "full disk"

STREAMS: dict[str, Callable[[Path | None], Stream]] = {
    "all-models": lambda data: all_models(),
    "all-options": lambda data: all_options(),
    "rollouts": lambda data: rollouts(),
    "formats": lambda data: formats(),
    "mixed": lambda data: MIXED,
    "new-protocol": lambda data: new_protocol(),
    "default-model": default_model,
    "late-labels": lambda data: late_labels(),
    "predictions": lambda data: predictions(),
    "versions": lambda data: versions(),
}


@click.command()
@click.option("--seed", default=1, show_default=True, help="Decides every fault and every record.")
@click.option("--faults", default=100, show_default=True, help="How many faults in all.")
@click.option(
    "--kind",
    "only",
    multiple=True,
    type=click.Choice(list(KINDS)),
    help="These faults only; else every kind.",
)
@click.option("--stream", "name", default="all-models", show_default=True, type=click.Choice(list(STREAMS)))
@click.option(
    "--rate",
    type=float,
    help="Records a second; by default as many as the stream has. A busy machine needs fewer.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="CSV file with a column class, for the stream default-model; else a table of river's.",
)
@click.option("--state", default=Path("build/crash"), show_default=True, type=click.Path(path_type=Path))
def main(
    seed: int,
    faults: int,
    only: tuple[str, ...],
    name: str,
    data: Path | None,
    rate: float | None,
    state: Path,
) -> None:
    """Inject faults, compare every byte with the oracle, and write report.md and report.json to the state's folder."""
    state.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    stream = STREAMS[name](data)
    if rate is not None:
        stream = replace(stream, rate=rate)
    with _disk(state / "disk") as (disk, why):
        kinds = [kind for kind in only or stream.kinds if disk or kind != FULL_DISK]
        try:
            report = Report.load(state, seed, name, {} if disk else {FULL_DISK: why})
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        columns = (
            TextColumn("{task.description:60}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=faults, completed=len(report.faults))
            while len(report.faults) < faults and not report.problems:
                first = len(report.faults)
                done, verdict = run_slice(
                    seed,
                    range(first, min(faults, first + stream.slice)),
                    kinds,
                    disk,
                    lambda text: progress.update(task, description=text[:60], advance=1 if text else 0),
                    stream,
                    state,
                )
                report.faults += done
                report.verdicts.append(verdict)
                report.save(state)
    console.print(report.markdown())
    sys.exit(1 if report.problems else 0)


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[tuple[Path | None, str]]:
    """A disk of its own for the broker, so small that it can be filled; or None and why the machine forbids it."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        yield None, str(error)
        return
    if done.returncode:
        yield None, done.stderr.strip()
        return
    try:
        yield path, ""
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=False)


if __name__ == "__main__":
    main()
