"""The command ``checkpoint``."""

from __future__ import annotations

import click

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, load


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
@click.pass_context
def checkpoint_show(context: click.Context, as_json: bool, clean: bool) -> None:
    """Show the snapshot of each partition.

    Prints its size, age and offsets, and whether it verifies."""
    from explain_sidecar.commands.checkpoint import show

    show(load(context), as_json=as_json, clean=clean)
