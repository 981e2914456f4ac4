"""The command ``dashboard``."""

from __future__ import annotations

import click

from explain_sidecar.cli.root import cli, load


@cli.command()
@click.option("--open", "browser", is_flag=True, help="Open the dashboard in a browser.")
@click.pass_context
def dashboard(context: click.Context, browser: bool) -> None:
    """Serve the dashboard: what drives the model, in a browser.

    Reads only the output topics, of all instances. With http.enabled, `run` serves the dashboard too.
    """
    from explain_sidecar.http.dashboard import dashboard

    dashboard(load(context), browser=browser)
