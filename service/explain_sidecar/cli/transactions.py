"""The command ``transactions``."""

import click

from explain_sidecar.cli.root import cli, runs


@cli.group()
def transactions() -> None:
    """Show open transactions, end forgotten ones."""


@transactions.command("show")
@runs("commands.transactions:show")
def transactions_show() -> None:
    """Show what is open on the sidecar's topics, and whose it is."""


@transactions.command("abort")
@click.option("--yes", is_flag=True, help="Do it; by default only show them.")
@runs("commands.transactions:abort_torn")
def transactions_abort() -> None:
    """End transactions that Kafka left open for good.

    A broker that dies amid their end leaves such. Nothing is lost: the sidecar publishes again what readers did not see. Needs ALTER or CLUSTER_ACTION on the cluster.
    """
