"""The command ``dbshap``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from explain_core.factorisations import FACTORISATIONS, FactorisationName
from explain_sidecar.cli.options import COUNT, FILE, json_option
from explain_sidecar.cli.root import cli

_DEFAULT: FactorisationName = "per_feature"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _factorisations(command: Callable[..., None]) -> Callable[..., None]:
    """A flag for each factorisation that has a name."""
    for name, known in reversed(FACTORISATIONS.items()):
        words = f"{known.words} The default." if name == _DEFAULT else known.words
        command = click.option(_flag(name), name, is_flag=True, help=words)(command)
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
    help="Of the model, such as brier; zero_one by default, or squared where the label is a number. A name that is none is answered with all.",
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
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random draws."
)
@json_option
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the change to this file, e.g. change.png.",
)
def dbshap(
    *,
    baseline: Path,
    target: Path,
    label: str,
    model: str | None,
    hypothesis: str | None,
    loss: str | None,
    groups: tuple[str, ...],
    ignore: tuple[str, ...],
    bootstrap: int,
    max_cells: int,
    max_samples: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
    **named: bool,
) -> None:
    """Say why a model errs more on one file than on another.

    Says whether the concept or the inputs changed, and which of the inputs.

    BASELINE and TARGET are files of labelled rows with the same columns, from two periods, regions or populations: CSV (.csv, .csv.gz), JSON
    lines (.jsonl, .jsonl.gz) or Parquet. Empty cells are missing values.
    """
    if model and hypothesis:
        raise click.UsageError("--model and --hypothesis exclude each other; give one")
    chosen = [name for name in FACTORISATIONS if named[name]]
    if len(chosen) + bool(groups) > 1:
        flags = ", ".join(map(_flag, FACTORISATIONS))
        raise click.UsageError(f"{flags} and --group exclude each other; give one kind")
    features_of = {}
    for group in groups:
        name, _, features = group.partition("=")
        if not name or not features or name in features_of:
            raise click.UsageError(f"--group {group}: write NAME=FEATURE,FEATURE,… with a name of its own")
        features_of[name] = features.split(",")
    from explain_sidecar.commands.dbshap import run

    run(
        baseline,
        target,
        label=label,
        model=model,
        loss=loss,
        factorisation=features_of or (chosen[0] if chosen else _DEFAULT),
        ignore=ignore,
        max_cells=max_cells,
        max_samples=max_samples,
        bootstrap=bootstrap,
        seed=seed,
        as_json=as_json,
        plot=plot,
    )
