"""The command ``mcp``."""

from __future__ import annotations

import click

from explain_sidecar.cli.root import cli, load


@cli.command()
@click.pass_context
def mcp(context: click.Context) -> None:
    """Answer an assistant's questions (Model Context Protocol).

    It is spoken to over stdin and stdout. Reads only the output topics, as the dashboard does, and writes nothing. Needs the extra `mcp`.
    """
    from explain_sidecar.http.assistant import serve

    serve(load(context))
