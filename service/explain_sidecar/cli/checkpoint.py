"""The command ``checkpoint``."""

import click

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, runs


@cli.group()
def checkpoint() -> None:
    """Show the snapshots."""


@checkpoint.command("show")
@json_option
@click.option(
    "--clean",
    is_flag=True,
    help="Fail unless every snapshot is at its committed offset, so that a new version can be deployed.",
)
@runs("commands.checkpoint:show")
def checkpoint_show() -> None:
    """Show the snapshot of each partition.

    Prints its size, age and offsets, and whether it verifies."""
