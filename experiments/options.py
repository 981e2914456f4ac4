"""Options that several experiments take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def data_or_none(
    help: str = "Directory of the data sets.", required: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """``--data``, a folder."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.option("--data", type=folder, required=required, help=help)


data_option = data_or_none(required=True)
quick_option = click.option("--quick", is_flag=True, help="A small part, for a check that it runs.")
