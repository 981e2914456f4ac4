"""The command ``reset``."""

from __future__ import annotations

import click

from explain_sidecar.cli.root import cli, load


@cli.command()
@click.option(
    "--partition", type=click.IntRange(min=0), required=True, metavar="P", help="Partition to reset."
)
@click.option("--yes", is_flag=True, help="Do it; by default only say what would be lost.")
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "committed", "latest"]),
    default="committed",
    show_default=True,
    help="Offset of the new epoch's first record.",
)
@click.pass_context
def reset(context: click.Context, partition: int, yes: bool, start: str) -> None:
    """Begin a new epoch of a partition, with a new model.

    The explainers are new too. The old state is lost; published messages stay. Stop the sidecar first.
    """
    from explain_sidecar.commands.reset import reset

    reset(load(context), partition=partition, yes=yes, start=start)
