"""The command ``produce``."""

import click

from explain_sidecar.cli.options import COUNT, FILE
from explain_sidecar.cli.root import cli, runs


@cli.command()
@click.option(
    "--input",
    "file",
    type=FILE,
    required=True,
    metavar="FILE",
    help="File of rows: .csv with a header, .jsonl (a JSON object a line), each also .gz; or .parquet.",
)
@click.option(
    "--label",
    required=True,
    metavar="COLUMN",
    help="Column of the label; it is written to the field record.label.",
)
@click.option("--topic", metavar="T", help="Topic to write to; by default topics.records.")
@click.option("--key", metavar="COLUMN", help="Column of the Kafka key; by default records have no key.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="R",
    help="Records per second; by default as fast as possible.",
)
@click.option("--limit", type=COUNT, metavar="N", help="Stop after this many records.")
@click.option("--partitions", type=COUNT, metavar="N", help="Partitions of the topic, if it must be created.")
@click.option(
    "--missing",
    multiple=True,
    metavar="TEXT",
    help="Cells of this text are missing values, as empty ones are; repeatable.",
)
@runs("commands.produce:produce")
def produce() -> None:
    """Write the rows of a file to a topic, in order.

    Each row becomes a labelled record with a field for each column, in record.format. Empty cells and nulls are missing values. Where the format needs a
    schema and record.schema_file names none it is inferred; schemas are registered at registry.url.
    """
