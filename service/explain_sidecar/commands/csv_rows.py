"""The rows of a CSV file, and what turns their cells into values."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from explain_core.losses import fits_64_bits
from explain_sidecar.errors import UserError


def check_once(what: str, names: Sequence[str]) -> None:
    """Raises ``UserError`` where columns share a name."""
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"{what} has {', '.join(sorted(twice))} more than once; rename one")


def read_rows(argument: str, file: Path, limit: int | None = None) -> Iterator[dict[str, str]]:
    """Each row as a mapping from column to cell; ``.gz`` is decompressed.

    Raises ``UserError`` that begins with the argument, the file's name and the row.
    """
    how: Any = {"newline": "", "encoding": "utf-8-sig"}
    try:
        with gzip.open(file, "rt", **how) if file.suffix == ".gz" else file.open(**how) as text:
            reader = csv.DictReader(text)
            names = list(reader.fieldnames or ())
            check_once(f"{argument} {file}: the header", names)
            for number, row in enumerate(islice(reader, limit), start=2):
                if None in row or None in row.values():
                    raise UserError(
                        f"{argument} {file}: row {number} has not as many cells as the header has columns"
                    )
                yield row
    except (OSError, UnicodeDecodeError, csv.Error, EOFError, zlib.error) as error:
        raise UserError(f"{argument} {file}: cannot be read as CSV: {error}") from None


def converters_of(
    rows: Iterable[dict[str, str]], missing: Collection[str] = ("",)
) -> tuple[dict[str, Callable[[str], Any]], int]:
    """Converters from the cells of each column to values, and the number of rows.

    A column whose cells are all numbers becomes numbers, one of true and false booleans, any other strings; ``missing`` cells
    are ignored.
    """
    kinds: dict[str, list[Callable[[str], Any]]] = {}
    count = 0
    for row in rows:
        count += 1
        for name, cell in row.items():
            left = kinds.setdefault(name, list(CONVERTERS))
            while cell not in missing and not _fits(left[0], cell):
                left.pop(0)
    return {name: left[0] for name, left in kinds.items()}, count


def _fits(convert: Callable[[str], Any], cell: str) -> bool:
    try:
        convert(cell)
    except ValueError:
        return False
    return True


def _plain(cell: str) -> str:
    """The cell, if it is no text that Python alone takes for a number: 1_2 is a name, not 12."""
    if "_" in cell:
        raise ValueError(cell)
    return cell


def _whole(cell: str) -> int:
    value = int(_plain(cell))
    if not fits_64_bits(value):
        raise ValueError(cell)
    return value


def _finite(cell: str) -> float:
    value = float(_plain(cell))
    if not math.isfinite(value):
        raise ValueError(cell)
    return value


def _boolean(cell: str) -> bool:
    if cell.lower() not in ("true", "false"):
        raise ValueError(cell)
    return cell.lower() == "true"


CONVERTERS: dict[Callable[[str], Any], str] = {
    _whole: "integer",
    _finite: "number",
    _boolean: "boolean",
    str: "string",
}
"""The first type that fits all cells of a column; with JSON's name for it."""
