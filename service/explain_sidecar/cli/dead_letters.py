"""The command ``dead-letters``."""

import click

from explain_sidecar.cli.options import COUNT, json_option
from explain_sidecar.cli.root import cli, runs


@cli.group("dead-letters")
def dead_letters() -> None:
    """Show dead letters, or write them to the records topic again."""


_error_class = click.option("--class", "error_class", metavar="CLASS", help="Only those of this error class.")


@dead_letters.command("show")
@json_option
@_error_class
@click.option("--limit", type=COUNT, default=20, show_default=True, metavar="N", help="Show the newest N.")
@runs("commands.dead_letters:show")
def dead_letters_show() -> None:
    """Count dead letters by error class, and show the newest.

    With --json, print all of them with their payloads, one per line.
    """


@dead_letters.command("replay")
@_error_class
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Replay all that the topic holds, including what was replayed before.",
)
@click.option("--yes", is_flag=True, help="Do it; by default only say what would be written.")
@runs("commands.dead_letters:replay")
def dead_letters_replay() -> None:
    """Write dead letters to the records topic again, exactly once.

    Begins where the last replay ended. Records that still cannot be used become dead letters again.
    """
