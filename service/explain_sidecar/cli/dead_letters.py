"""The command ``dead-letters``."""

from __future__ import annotations

import click

from explain_sidecar.cli.options import COUNT, json_option
from explain_sidecar.cli.root import cli, load


@cli.group("dead-letters")
def dead_letters() -> None:
    """Show dead letters, or write them to the records topic again."""


_error_class = click.option("--class", "error_class", metavar="CLASS", help="Only those of this error class.")


@dead_letters.command("show")
@json_option
@_error_class
@click.option("--limit", type=COUNT, default=20, show_default=True, metavar="N", help="Show the newest N.")
@click.pass_context
def dead_letters_show(context: click.Context, as_json: bool, error_class: str | None, limit: int) -> None:
    """Count dead letters by error class, and show the newest.

    With --json, print all of them with their payloads, one per line.
    """
    from explain_sidecar.commands.dead_letters import show

    show(load(context), error_class=error_class, limit=limit, as_json=as_json)


@dead_letters.command("replay")
@_error_class
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Replay all that the topic holds, including what was replayed before.",
)
@click.option("--yes", is_flag=True, help="Do it; by default only say what would be written.")
@click.pass_context
def dead_letters_replay(
    context: click.Context, error_class: str | None, from_beginning: bool, yes: bool
) -> None:
    """Write dead letters to the records topic again, exactly once.

    Begins where the last replay ended. Records that still cannot be used become dead letters again.
    """
    from explain_sidecar.commands.dead_letters import replay

    replay(load(context), error_class=error_class, from_beginning=from_beginning, yes=yes)
