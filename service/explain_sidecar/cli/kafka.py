"""The command ``kafka``."""

from pathlib import Path

import click

from explain_sidecar.cli.root import cli, runs


@cli.group()
def kafka() -> None:
    """Run a local broker, for development."""


@kafka.command("run")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="P", help="Port on 127.0.0.1; by default a free one."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder that keeps the data; by default a temporary one.",
)
@click.option(
    "--kafka-version", "version", metavar="V", help="Apache Kafka's release; by default the pinned one."
)
@runs("broker.embedded:run_foreground")
def kafka_run() -> None:
    """Run Apache Kafka in the foreground, until Ctrl-C.

    Once the broker answers, the first line on stdout is bootstrap.servers=127.0.0.1:PORT.
    """
