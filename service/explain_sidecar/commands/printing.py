"""Rows on stdout: a table for people, or JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import orjson
from rich.console import Console

_PIPE_WIDTH = 10_000


def console() -> Console:
    """The console of stdout. A terminal folds long cells; in a pipe a row is a line."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def print_rows(rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Print rows that have the same keys."""
    if as_json:
        sys.stdout.write(orjson.dumps(list(rows), option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in rows[0] if rows else ():
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text("–" if value is None else str(value)) for value in row.values()))
    console().print(table)
