"""The command ``transactions``."""

from __future__ import annotations

import click

from explain_sidecar.cli.root import cli, load


@cli.group()
def transactions() -> None:
    """Show open transactions, end forgotten ones."""


@transactions.command("show")
@click.pass_context
def transactions_show(context: click.Context) -> None:
    """Show what is open on the sidecar's topics, and whose it is."""
    from explain_sidecar.commands.transactions import show

    show(load(context))


@transactions.command("abort")
@click.option("--yes", is_flag=True, help="Do it; by default only show them.")
@click.pass_context
def transactions_abort(context: click.Context, yes: bool) -> None:
    """End transactions that Kafka left open for good.

    A broker that dies amid their end leaves such. Nothing is lost: the sidecar publishes again what readers did not see. Needs ALTER or CLUSTER_ACTION on the cluster.
    """
    from explain_sidecar.commands.transactions import abort_torn

    abort_torn(load(context), yes=yes)
