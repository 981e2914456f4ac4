"""Rows on stdout: a table for people, or JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime

import orjson
from rich.console import Console

from explain_client.words import second
from explain_sidecar.terminal import plain

_PIPE_WIDTH = 10_000


def console() -> Console:
    """The console of stdout, which takes no text for markup. A terminal folds long cells; in a pipe a row is a line."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(file=sys.stdout, width=width, markup=False, emoji=False)


def print_rows(rows: Sequence[Mapping[str, object]], as_json: bool, keep: str = "") -> None:
    """Print rows that have the same keys. Cells may be times, in JSON those of ISO 8601, and texts of others; ``keep``: see ``plain``."""
    if as_json:
        sys.stdout.write(orjson.dumps(list(rows), option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in rows[0] if rows else ():
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(_told(value), keep)) for value in row.values()))
    console().print(table)


def _told(value: object) -> str:
    return "–" if value is None else second(value) if isinstance(value, datetime) else str(value)
