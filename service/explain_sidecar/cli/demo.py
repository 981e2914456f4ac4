"""The command ``demo``."""

import click

from explain_sidecar.cli.options import COUNT
from explain_sidecar.cli.root import cli, runs


@cli.command()
@click.option(
    "--follow", is_flag=True, help="Keep the broker and the sidecar running at the end, until Ctrl-C."
)
@click.option(
    "--late-labels",
    is_flag=True,
    help="Departures on one topic, in Avro, and whether they arrived late on another: `explain-sidecar join` joins them.",
)
@click.option("--limit", type=COUNT, metavar="N", help="Stop after this many flights.")
@click.option(
    "--no-browser",
    "browser",
    is_flag=True,
    default=True,
    flag_value=False,
    help="Print the dashboard's address instead of opening it.",
)
@runs("demo:demo")
def demo() -> None:
    """Explain real flights: who is late, and why.

    Reads a year of departures from New York in time order, in under three minutes. Starts a local broker unless EXPLAIN_KAFKA__BOOTSTRAP_SERVERS names one.
    """
