"""The command ``reset``."""

import click

from explain_sidecar.cli.root import cli, runs


@cli.command()
@click.option(
    "--partition", type=click.IntRange(min=0), required=True, metavar="P", help="Partition to reset."
)
@click.option("--yes", is_flag=True, help="Do it; by default only say what would be lost.")
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "committed", "state", "latest"]),
    default="committed",
    show_default=True,
    help="Offset of the new epoch's first record; state: the one after those that the kept state has learnt.",
)
@click.option(
    "--keep",
    type=click.Choice(["nothing", "all"]),
    default="nothing",
    show_default=True,
    help="all: go on from the newest snapshot that is whole, with every part of it that these settings allow.",
)
@click.option(
    "--undo",
    is_flag=True,
    help="Go back to the epoch before, as long as the newest one has published nothing. Set the settings back before.",
)
@runs("commands.reset:reset")
def reset() -> None:
    """Begin a new epoch of a partition.

    By default with a new model and new explainers: the old state is lost. Published messages stay. Stop the sidecar first.
    """
