"""The commands ``state``, ``model`` and ``warm-up``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from explain_sidecar.cli.options import COUNT, FILE
from explain_sidecar.cli.root import cli, load

NEW_FILE = click.Path(path_type=Path, dir_okay=False)


@cli.group()
def state() -> None:
    """Move all states to another cluster."""


@state.command("export")
@click.argument("file", type=NEW_FILE)
@click.pass_context
def state_export(context: click.Context, file: Path) -> None:
    """Write all states to FILE.

    Stop the sidecar first, with SIGTERM."""
    from explain_sidecar.commands.state import export_state

    export_state(load(context), file=file)


@state.command("import")
@click.argument("file", type=FILE)
@click.option("--yes", is_flag=True, help="Do it; by default only say where each partition would go on.")
@click.option(
    "--from",
    "start",
    type=click.Choice(["same", "earliest", "latest"]),
    default="same",
    show_default=True,
    help="Where each partition goes on; same: after the last record that it has learnt, which is found by its content.",
)
@click.pass_context
def state_import(
    context: click.Context, file: Path, yes: bool, start: Literal["same", "earliest", "latest"]
) -> None:
    """Begin with the states in FILE.

    FILE is from `state export`, and this cluster has a copy of the records topic. Its offsets may be others. Each partition begins a new epoch."""
    from explain_sidecar.commands.state import import_state

    import_state(load(context), file=file, yes=yes, start=start)


@cli.group()
def model() -> None:
    """Take a partition's model elsewhere."""


@model.command("export")
@click.option(
    "--partition",
    type=click.IntRange(min=0),
    required=True,
    metavar="P",
    help="Partition whose model to write.",
)
@click.argument("file", type=NEW_FILE)
@click.pass_context
def model_export(context: click.Context, partition: int, file: Path) -> None:
    """Write a partition's model to FILE.

    It is that of the newest snapshot; the sidecar may run. model.initial names the file where it is to go on."""
    from explain_sidecar.commands.state import export_model

    export_model(load(context), partition=partition, file=file)


@cli.command("warm-up")
@click.option(
    "--input",
    "file",
    type=FILE,
    required=True,
    metavar="FILE",
    help="File of rows: .csv with a header, .jsonl (a JSON object a line), each also .gz; or .parquet.",
)
@click.option("--label", metavar="COLUMN", help="Column of the label; by default record.label.")
@click.option("--limit", type=COUNT, metavar="N", help="Stop after this many rows.")
@click.option("--out", type=NEW_FILE, required=True, metavar="FILE", help="File to write the model to.")
@click.pass_context
def warm_up(context: click.Context, file: Path, label: str | None, limit: int | None, out: Path) -> None:
    """Learn from a file, and write the model.

    model.initial names the model's file where it is to go on. Does not connect to Kafka."""
    from explain_sidecar.commands.state import warm_up

    warm_up(load(context), file=file, out=out, label=label, limit=limit)
