"""The command ``join``."""

from __future__ import annotations

import click

from explain_sidecar.cli.options import json_option, until_caught_up_option, workers_option
from explain_sidecar.cli.root import cli, runs, start


@cli.group(invoke_without_command=True)
@workers_option
@until_caught_up_option
@click.pass_context
def join(context: click.Context, workers: int, until_caught_up: bool) -> int | None:
    """Join events and late labels into records.

    An event waits for its label as long as join.wait; every event has one outcome, exactly once.
    """
    if context.invoked_subcommand is not None:
        return None
    return start(context, (), workers=workers, until_caught_up=until_caught_up, stages=("join",))


@join.command("show")
@json_option
@runs("commands.join:show")
def join_show() -> None:
    """Show what became of every event.

    matched + expired + dropped + pending = events, in each partition.
    """
