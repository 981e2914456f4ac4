"""The command ``topics``."""

from __future__ import annotations

import click

from explain_sidecar.cli.options import COUNT, json_option
from explain_sidecar.cli.root import cli, load


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
    from explain_sidecar.commands.topics import create

    create(load(context), partitions=partitions)


@topics.command("show")
@json_option
@click.pass_context
def topics_show(context: click.Context, as_json: bool) -> None:
    """Show each topic's partitions, configuration and problems."""
    from explain_sidecar.commands.topics import show

    show(load(context), as_json=as_json)
