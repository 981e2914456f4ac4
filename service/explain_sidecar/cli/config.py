"""The command ``config``."""

import click

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, runs


@cli.group()
def config() -> None:
    """Show the settings in force, or check them."""


@config.command("show")
@json_option
@runs("commands.config:show")
def config_show() -> None:
    """Show every setting with its source.

    Passwords, keys and tokens are hidden.
    """


@config.command("check")
@json_option
@click.option(
    "--against-running",
    is_flag=True,
    help="Also say what a restart with these settings keeps of each partition's state, and what begins anew. Connects to Kafka.",
)
@runs("commands.config:check")
def config_check() -> None:
    """As show, and make the model once.

    Fails where `run` could not start for a setting or the model. Does not connect to Kafka, unless it is to compare.
    """
