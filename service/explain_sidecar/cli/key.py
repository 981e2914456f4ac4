"""The command ``key``."""

from pathlib import Path

import click

from explain_sidecar.cli.root import cli, runs


@cli.group()
def key() -> None:
    """Make keys that sign snapshots, and name them."""


@key.command("new")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@runs("commands.key:new")
def key_new() -> None:
    """Make a key, in a new FILE or on stdout.

    Its owner alone can read the file. Name it in checkpoint.hmac_key_file, for every instance. To change keys, put the new one first and keep the old one below.
    """


@key.command("show")
@runs("commands.key:show")
def key_show() -> None:
    """Show the fingerprints of the keys in force."""
