"""The rows of a file as records of JSON types: CSV, JSON lines or Parquet, by the file's name."""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import orjson

from explain_sidecar.commands.csv_rows import CONVERTERS, check_once, converters_of, read_rows
from explain_sidecar.errors import UserError
from explain_sidecar.formats.inferred import Columns, kinds_of
from explain_sidecar.formats.writing import value_writer
from explain_sidecar.settings.records import RecordSettings
from explain_sidecar.settings.wire import RegistrySettings

FileKind = Literal["csv", "jsonl", "parquet"]
Row = dict[str, Any]

_SUFFIXES: dict[str, FileKind] = {
    ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"
}  # fmt: skip


@dataclass(frozen=True)
class RowFile:
    """``count`` rows with the kinds of their columns. ``rows()`` reads the file anew: of each row its cells as they are, and its record."""

    name: str
    columns: Columns
    count: int
    rows: Callable[[], Iterator[tuple[Row, Row]]]

    def check(self, option: str, column: str) -> None:
        """Raise ``UserError`` where there is no such column, which the option names."""
        if column not in self.columns:
            raise UserError(
                f"{option} {column}: {self.name} has no such column; it has {', '.join(self.columns)}"
            )

    def writer(
        self, label: str, settings: RecordSettings, registry: RegistrySettings, topic: str
    ) -> Callable[[Row], bytes]:
        """Writes records of these rows for ``settings`` to read, with the column ``label`` as their label. Raises as ``value_writer``."""
        names = {name: settings.label if name == label else name for name in self.columns}
        columns = {names[name]: kind for name, kind in self.columns.items()}
        write = value_writer(settings, registry, topic, columns)
        return lambda record: write({names[name]: cell for name, cell in record.items()})


def read_table(argument: str, file: Path, limit: int | None, missing: Collection[str]) -> RowFile:
    """The first ``limit`` rows. Empty cells, nulls and texts of ``missing`` are not in a record.

    A column of CSV whose cells are all numbers is of numbers, one of true and false of booleans, any other of strings. Moments and dates of
    Parquet become milliseconds since 1970, times and lengths of time milliseconds, decimals numbers, bytes Base64, as in the formats of records.
    Raises ``UserError`` that begins with the argument and the file's name.
    """
    kind = _kind_of(argument, file)
    if kind == "csv":
        absent = {"", *missing}
        converters, count = converters_of(read_rows(argument, file, limit), absent)

        def of_csv() -> Iterator[tuple[Row, Row]]:
            for row in read_rows(argument, file, limit):
                yield row, {name: converters[name](cell) for name, cell in row.items() if cell not in absent}

        kinds = {name: CONVERTERS[convert] for name, convert in converters.items()}
        return RowFile(file.name, kinds, count, of_csv)

    def rows() -> Iterator[tuple[Row, Row]]:
        found = _json_lines(argument, file) if kind == "jsonl" else _parquet(argument, file)
        for row in islice(found, limit):
            kept = row.items()
            yield row, {n: c for n, c in kept if c is not None and not (isinstance(c, str) and c in missing)}

    columns, count = kinds_of(record for _, record in rows())
    return RowFile(file.name, columns, count, rows)


def _kind_of(argument: str, file: Path) -> FileKind:
    """What a file holds, by its name. Raises ``UserError``."""
    suffix = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if suffix not in _SUFFIXES or (suffix == ".parquet" and file.suffix == ".gz"):
        raise UserError(
            f"{argument} {file}: the name must end in .csv, .csv.gz, .jsonl, .jsonl.gz (a JSON object a line) or .parquet"
        )
    return _SUFFIXES[suffix]


def _json_lines(argument: str, file: Path) -> Iterator[Row]:
    """The object of each line."""
    number = 0
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                record = orjson.loads(line)
                if not isinstance(record, dict):
                    raise UserError(f"{argument} {file}: line {number} is no JSON object")
                yield record
    except orjson.JSONDecodeError as error:
        raise UserError(f"{argument} {file}: line {number} is no JSON: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{argument} {file}: cannot be read: {error}") from None


def _parquet(argument: str, file: Path) -> Iterator[Row]:
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            f'{argument} {file}: Parquet needs pyarrow; pip install "explanation-sidecar[parquet]"'
        ) from None
    try:
        with parquet.ParquetFile(file) as opened:
            check_once(f"{argument} {file}: it", opened.schema_arrow.names)
            for batch in opened.iter_batches():
                for row in batch.to_pylist():
                    yield {name: _plain(cell) for name, cell in row.items()}
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{argument} {file}: cannot be read as Parquet: {error}") from None


def _plain(cell: Any) -> Any:
    """A cell in JSON's types."""
    if isinstance(cell, dict):
        return {name: _plain(value) for name, value in cell.items()}
    if isinstance(cell, list):
        return [_plain(value) for value in cell]
    if isinstance(cell, datetime):
        return _milliseconds((cell if cell.tzinfo else cell.replace(tzinfo=UTC)) - _1970)
    if isinstance(cell, date):
        return _milliseconds(datetime(cell.year, cell.month, cell.day, tzinfo=UTC) - _1970)
    if isinstance(cell, time):
        return _milliseconds(datetime.combine(_1970, cell, tzinfo=UTC) - _1970)
    if isinstance(cell, timedelta):
        return _milliseconds(cell)
    if isinstance(cell, Decimal):
        return float(cell)
    return base64.b64encode(cell).decode() if isinstance(cell, bytes) else cell


_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def _milliseconds(length: timedelta) -> int | float:
    whole, rest = divmod(length, timedelta(milliseconds=1))
    return whole + rest / timedelta(milliseconds=1) if rest else whole
