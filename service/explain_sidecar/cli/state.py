"""The commands ``state``, ``model`` and ``warm-up``."""

from pathlib import Path

import click

from explain_sidecar.cli.options import COUNT, FILE
from explain_sidecar.cli.root import cli, runs

NEW_FILE = click.Path(path_type=Path, dir_okay=False)


@cli.group()
def state() -> None:
    """Move all states to another cluster."""


@state.command("export")
@click.argument("file", type=NEW_FILE)
@runs("commands.state:export_state")
def state_export() -> None:
    """Write all states to FILE.

    Stop the sidecar first, with SIGTERM."""


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
@runs("commands.state:import_state")
def state_import() -> None:
    """Begin with the states in FILE.

    FILE is from `state export`, and this cluster has a copy of the records topic. Its offsets may be others. Each partition begins a new epoch."""


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
@click.option(
    "--river",
    type=NEW_FILE,
    metavar="PICKLE",
    help="File to write the model to as an object of river's interface, which pickle.load reads.",
)
@click.argument("file", type=NEW_FILE)
@runs("commands.state:export_model")
def model_export() -> None:
    """Write a partition's model to FILE.

    It is that of the newest snapshot; the sidecar may run. model.initial names the file where it is to go on."""


@cli.command("warm-up")
@click.option(
    "--input",
    "file",
    type=FILE,
    metavar="FILE",
    help="File of rows: .csv with a header, .jsonl (a JSON object a line), each also .gz; or .parquet.",
)
@click.option(
    "--topic",
    metavar="TOPIC",
    help="Instead of a file a topic, read as the records topic is: what it has now, in the order of the records' timestamps.",
)
@click.option("--label", metavar="COLUMN", help="Column of the label; by default record.label.")
@click.option("--limit", type=COUNT, metavar="N", help="Stop after this many records.")
@click.option("--out", type=NEW_FILE, required=True, metavar="FILE", help="File to write the model to.")
@runs("commands.state:warm_up")
def warm_up() -> None:
    """Learn from a file or a topic, and write the model.

    model.initial names the model's file where it is to go on. With --input it does not connect to Kafka."""
