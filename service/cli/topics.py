"""The command ``topics``."""

from __future__ import annotations

import click

from service.cli.options import COUNT, json_option
from service.cli.root import cli, load


@cli.group()
def topics() -> None:
    """Create the topics, or show them."""


@topics.command("create")
@click.option(
    "--partitions", type=COUNT, metavar="N", help="Partitions of the records topic, if it is missing."
)
@click.pass_context
def topics_create(context: click.Context, partitions: int | None) -> None:
    """Create missing topics with the right configuration."""
    from service.commands.topics import create

    create(load(context), partitions=partitions)


@topics.command("show")
@json_option
@click.pass_context
def topics_show(context: click.Context, as_json: bool) -> None:
    """Show each topic's partitions, configuration and problems."""
    from service.commands.topics import show

    show(load(context), as_json=as_json)
