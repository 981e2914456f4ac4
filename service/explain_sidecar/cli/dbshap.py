"""The command ``dbshap``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from explain_core.factorisations import FACTORISATIONS
from explain_sidecar.cli.options import COUNT, FILE, json_option, missing_option, seed_option
from explain_sidecar.cli.root import cli, runs

_DEFAULT = "per_feature"


def _factorisations(command: Callable[..., None]) -> Callable[..., None]:
    """A flag for each factorisation that has a name."""
    for name, known in reversed(FACTORISATIONS.items()):
        words = f"{known.words} The default." if name == _DEFAULT else known.words
        command = click.option(f"--{name.replace('_', '-')}", is_flag=True, help=words)(command)
    return command


@cli.command()
@click.argument("baseline", type=FILE)
@click.argument("target", type=FILE)
@click.option("--label", required=True, metavar="COLUMN", help="Column of the label.")
@click.option(
    "--model",
    metavar="FACTORY",
    help="`module:function` that returns the fitted model, e.g. mine:load. It must not have learnt from these rows.",
)
@click.option(
    "--hypothesis",
    type=click.Choice(["tree"]),
    help="Instead of a model: learn a tree from one half of BASELINE, and explain the other half. The default.",
)
@click.option(
    "--loss",
    metavar="NAME",
    help="Of the model, such as brier; zero_one by default, or squared where the labels are more than 20 numbers, or fractions. A name that is none is answered with all.",
)
@_factorisations
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME=A,B",
    help="Like --per-feature, with these features as one cause. Can be repeated.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="COLUMN",
    help="No part of the inputs, such as a weekday, which tells the files apart whatever changes; the model still sees it. Can be repeated.",
)
@missing_option
@click.option(
    "--bootstrap",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Resamples for the intervals of single features; 0 for none.",
)
@click.option(
    "--max-cells",
    type=COUNT,
    default=100_000,
    show_default=True,
    help="Enumerate up to this many cells; sample if there are more.",
)
@click.option(
    "--max-samples",
    type=click.IntRange(min=100),
    default=200_000,
    show_default=True,
    help="Largest number of predictions, on rows and on samples each.",
)
@seed_option
@json_option
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the change to this file, e.g. change.png.",
)
@runs("commands.dbshap:run")
def dbshap() -> None:
    """Say why a model errs more on one file than on another.

    Says whether the concept or the inputs changed, and which of the inputs.

    BASELINE and TARGET are files of labelled rows with the same columns, from two periods, regions or populations: CSV (.csv, .csv.gz), JSON
    lines (.jsonl, .jsonl.gz) or Parquet. Empty cells are missing values.
    """
