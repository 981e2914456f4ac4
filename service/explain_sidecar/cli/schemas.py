"""The command ``schemas``."""

from __future__ import annotations

import click

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, load


@cli.group()
def schemas() -> None:
    """Manage the messages' schemas in a Schema Registry."""


@schemas.command("register")
@json_option
@click.pass_context
def schemas_register(context: click.Context, as_json: bool) -> None:
    """Register the schemas of explanations and drift messages.

    Registers them at registry.url, in registry.format, under the subjects TOPIC-value. A schema that is registered already stays as it is.
    """
    from explain_sidecar.commands.schemas import register

    register(load(context), as_json=as_json)
