"""The command ``tail``."""

import click

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, runs


@cli.command()
@json_option
@click.option(
    "--until-caught-up", is_flag=True, help="Stop at the end offsets seen at the start; by default follow."
)
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the oldest message instead of the newest ones."
)
@click.option("--drift", is_flag=True, help="Follow the drift topic instead: why the risk changed, in words.")
@click.option(
    "--alarms", is_flag=True, help="Follow the alarms topic instead: what changed since when, in words."
)
@click.option(
    "--predictions",
    is_flag=True,
    help="Follow the predictions topic instead: each prediction and its reasons.",
)
@click.option(
    "--periods",
    help="What drove the model over each period of this length that ended (1000, day, week or what emit.periods says), in words; "
    "with --json its means, one row per feature, as a table in SQL has them.",
)
@runs("commands.tail:tail")
def tail() -> None:
    """Show the newest explanations, and those that come.

    Prints a table that refreshes; with --json one message per line.
    """
