"""The command ``check``."""

from __future__ import annotations

import click

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, load


@cli.command()
@json_option
@click.pass_context
def check(context: click.Context, as_json: bool) -> None:
    """Check whether `run` can work here.

    Changes nothing. Looks at the broker, the topics, the rights and the model, and decodes the newest 100 records to show their features.
    """
    from explain_sidecar.commands.check import check

    check(load(context), as_json=as_json)
