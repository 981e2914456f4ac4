"""The command ``dashboard``."""

import click

from explain_sidecar.cli.root import cli, runs


@cli.command()
@click.option("--open", "browser", is_flag=True, help="Open the dashboard in a browser.")
@runs("http.dashboard:dashboard")
def dashboard() -> None:
    """Serve the dashboard: what drives the model, in a browser.

    Reads only the output topics, of all instances. With http.enabled, `run` serves the dashboard too.
    """
