"""The command ``topics``."""

import click

from explain_sidecar.cli.options import COUNT, json_option
from explain_sidecar.cli.root import cli, runs


@cli.group()
def topics() -> None:
    """Create the topics, or show them."""


@topics.command("create")
@click.option(
    "--partitions", type=COUNT, metavar="N", help="Partitions of the records topic, if it is missing."
)
@runs("commands.topics:create")
def topics_create() -> None:
    """Create missing topics with the right configuration."""


@topics.command("show")
@json_option
@runs("commands.topics:show")
def topics_show() -> None:
    """Show each topic's partitions, configuration and problems."""
