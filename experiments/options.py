"""Options that several experiments take."""

from __future__ import annotations

from pathlib import Path

import click

data_option = click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Directory of the data sets.",
)
quick_option = click.option("--quick", is_flag=True, help="A small part, for a check that it runs.")
