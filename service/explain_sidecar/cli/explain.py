"""The command ``explain``."""

from pathlib import Path

import click

from explain_sidecar.cli.options import FILE, missing_option, seed_option
from explain_sidecar.cli.root import cli, runs


@cli.command()
@click.argument("file", type=FILE)
@click.option("--label", required=True, metavar="COLUMN", help="Column to be predicted.")
@click.option(
    "--time",
    metavar="COLUMN",
    help="Column of event times: ISO 8601, or milliseconds since 1970. By default the only column of moments.",
)
@click.option(
    "--model",
    metavar="MODEL",
    help="mixture (the default), linear, tree or forest, which learn; or the file of a trained model, which is explained as it is.",
)
@click.option(
    "--task",
    type=click.Choice(["binary", "multiclass", "regression"]),
    help="By default told from the model or the labels.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="COLUMN",
    help="No part of the inputs when a change is attributed, such as a date. Can be repeated.",
)
@missing_option
@seed_option
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT",
    help="Also write the report, with pictures, to this file.",
)
@runs("commands.explain:run")
def explain() -> None:
    """Say what drives a model on the rows of a file.

    It says what changed and why, too, and needs no Kafka. A model predicts each row of FILE before it learns from it, as a sidecar does with the
    records of a topic: numbers and digest are the same. FILE is CSV (.csv, .csv.gz), JSON lines (.jsonl, .jsonl.gz) or Parquet. Empty cells are missing values.
    """
