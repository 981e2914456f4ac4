"""The command ``tail``."""

from __future__ import annotations

import click

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, load


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
@click.pass_context
def tail(
    context: click.Context,
    as_json: bool,
    until_caught_up: bool,
    from_beginning: bool,
    drift: bool,
    alarms: bool,
    predictions: bool,
    periods: str | None,
) -> None:
    """Show the newest explanations, and those that come.

    Prints a table that refreshes; with --json one message per line.
    """
    from explain_sidecar.commands.tail import tail

    asked = {"drift": drift, "alarms": alarms, "predictions": predictions}
    if sum(asked.values()) + (periods is not None) > 1:
        raise click.UsageError(
            "--drift, --alarms, --predictions and --periods show different things; choose one of them"
        )
    tail(
        load(context),
        as_json=as_json,
        until_caught_up=until_caught_up,
        from_beginning=from_beginning,
        periods=periods,
        output=next((name for name, wanted in asked.items() if wanted), "explanations"),
    )
