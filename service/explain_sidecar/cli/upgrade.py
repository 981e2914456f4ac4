"""The command ``upgrade``."""

import click

from explain_sidecar.cli.options import COUNT
from explain_sidecar.cli.root import cli, runs


@cli.group()
def upgrade() -> None:
    """Know what an upgrade changes."""


@upgrade.command("check")
@click.option("--last", type=COUNT, default=10_000, show_default=True, help="Records of each partition to fold.")  # fmt: skip
@runs("commands.upgrade:check")
def upgrade_check() -> None:
    """Say whether this version gives the bytes that were published.

    Folds the last records of each partition from a snapshot before them, and publishes nothing. The sidecar may run. Fails where a byte differs, and names the first
    offset and digit."""
