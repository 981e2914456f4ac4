"""The labelled records of whatever holds them: a data frame, a file, or an iterable."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from explain_core.learners.named import Task
from explain_core.losses import MAX_NUMBER
from explain_core.stream.explainer import Dated
from explain_core.stream.given import scalar

PEEK = 1_000
"""Records of an iterator from which times and task are told."""

Pair = tuple[dict[str, Any], Any]
"""A record with its label; None where it has none."""


@dataclass(frozen=True)
class Source:
    """Records in their order. ``total`` is how many, None where that is not known; ``labels`` and ``features`` are those of all, or of the first ``PEEK``."""

    samples: Iterator[Dated]
    total: int | None
    labels: list[Any]
    features: list[str]
    dated: bool


def source_of(data: Any, label: str | None, time: str | None) -> Source:
    """The records of a data frame (pandas, polars, or anything with Arrow's stream), a path of a CSV or Parquet file, or an iterable of mappings,
    or of (features, label) as river's data sets are.

    ``label`` and ``time`` are columns; without ``time`` the only column of moments is taken, if only in ISO 8601. Empty cells are missing. Raises ``ValueError``.
    """
    label, time = (None if column is None else str(column) for column in (label, time))
    if isinstance(data, str | Path):
        data = _file(Path(data))
    rows, total = _rows(data)
    first = list(islice(rows, total or PEEK))
    if not first:
        raise ValueError("data: there are no records")
    pairs = [_pair(row, label) for row in first]
    moments = _moments(x for x, _ in pairs) if time is None else []
    if time is None and len(moments) > 1:
        raise ValueError(
            f"time: {', '.join(moments)} are moments; pass time={moments[0]!r}, and leave out the others"
        )
    time = time or next(iter(moments), None)
    if time is not None and not any(time in x for x, _ in pairs):
        raise ValueError(f"time: there is no column {time!r}; there are {_names(pairs)}")
    names = [name for name in dict.fromkeys(name for x, _ in pairs for name in x) if name != time]
    if not names:
        raise ValueError(
            "data: no record has a feature; give the columns that the label is predicted from, too"
        )
    every = chain(pairs, (_pair(row, label) for row in rows))
    kinds: dict[str, type] = {}
    samples = (_sample(number, *pair, time, kinds) for number, pair in enumerate(every))
    labels = [y for _, y in pairs if y is not None]
    if not labels:
        what = "a label, but None" if label is None else repr(label)
        raise ValueError(f"label: no record has {what}; the first has {_names(pairs)}")
    return Source(samples, total, labels, names, time is not None)


def _moments(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns that have moments alone."""
    found: dict[str, bool] = {}
    for x in rows:
        for name, value in x.items():
            if found.get(name, True) and scalar(value) is not None:
                found[name] = isinstance(value, date) or (isinstance(value, str) and _is_iso(value))
    return [name for name, moments in found.items() if moments]


def _is_iso(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return text.count("-") >= 2


def _names(pairs: Sequence[Pair]) -> str:
    return ", ".join(dict.fromkeys(name for x, _ in pairs for name in x))


def _file(path: Path) -> Any:
    """A file as a data frame of pandas."""
    name = path.name.removesuffix(".gz")
    if not name.endswith((".csv", ".parquet")):
        raise ValueError(f"data: {path}: the name must end in .csv, .csv.gz or .parquet")
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            f"watch needs pandas to read {path.name}: pip install 'explain-core[watch]'"
        ) from None
    try:
        return pd.read_parquet(path) if name.endswith(".parquet") else pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"data: {path}: cannot be read: {error}") from None


def _rows(data: Any) -> tuple[Iterator[Any], int | None]:
    """Rows as mappings or pairs, and how many."""
    if hasattr(data, "itertuples"):  # pandas
        names = _once([str(name) for name in data.columns])
        return (dict(zip(names, row, strict=True)) for row in data.itertuples(index=False, name=None)), len(
            data
        )
    if hasattr(data, "__arrow_c_stream__"):
        try:
            import pyarrow as pa
        except ImportError:
            raise ImportError(
                f"watch needs pyarrow to read a {type(data).__name__}: pip install pyarrow"
            ) from None
        try:
            table = pa.table(data)
        except pa.ArrowInvalid:
            raise ValueError(f"data: a {type(data).__name__} is no table; pass a data frame") from None
        _once(table.column_names)
        return (row for batch in table.to_batches() for row in batch.to_pylist()), table.num_rows
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise ValueError(
            f"data: a {type(data).__name__} has no rows; pass a data frame, the path of a CSV or Parquet file, or an iterable of "
            "dicts or of (features, label)"
        )
    return iter(data), len(data) if isinstance(data, Sequence) else None


def _once(names: list[str]) -> list[str]:
    """Columns that have a name each."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"data: there is more than one column {', '.join(twice)}; rename one")
    return names


def _pair(row: Any, label: str | None) -> Pair:
    if label is None:
        if isinstance(row, Sequence) and not isinstance(row, str) and len(row) == 2:
            x, y = row
            if isinstance(x, Mapping):
                return dict(x), _label(y)
        raise ValueError("label: pass label='column', the name of the column to be predicted")
    if not isinstance(row, Mapping):
        raise ValueError(
            f"data: a record is a {type(row).__name__}, and has to be a dict; with (features, label) pass no label"
        )
    x = {str(name): value for name, value in row.items()}
    return x, _label(x.pop(label, None))


def _label(value: Any) -> Any:
    found = scalar(value)
    if isinstance(found, Mapping | list | set | np.ndarray):
        raise ValueError(
            f"label: {found!r:.40} is a {type(found).__name__}; a label is a number, a boolean or a text: name the column of one"
        )
    return found


def _sample(number: int, x: dict[str, Any], y: Any, time: str | None, kinds: dict[str, type]) -> Dated:
    timestamp = None if time is None else _milliseconds(number, time, x.pop(time, None))
    found: dict[str, Any] = {}
    for name, cell in x.items():
        value = cell if type(cell) in (float, int, str, bool) else scalar(cell)
        if value is None or value != value:
            continue
        kind = str if isinstance(value, str) else float
        if not isinstance(value, str | int | float):
            raise ValueError(
                f"row {number}: {name} is a {type(value).__name__}; a feature is a number, a boolean or a text: "
                "convert the column, or leave it out"
            )
        if kinds.setdefault(name, kind) is not kind:
            raise ValueError(
                f"row {number}: {name} is {value!r:.40}, and was a {'text' if kind is float else 'number'} before; give the column one type"
            )
        if not isinstance(value, str) and not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise ValueError(
                f"row {number}: {name} is {'infinite' if value in (math.inf, -math.inf) else f'{value!r:.40}'}; "
                f"replace it by a number between ±{MAX_NUMBER:g}, or by None where it is missing"
            )
        found[name] = value
    return found, y, timestamp


_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def _milliseconds(number: int, name: str, value: Any) -> int:
    """Milliseconds since 1970; a moment without a zone is in UTC."""
    value = scalar(value)
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return round((moment - _1970).total_seconds() * 1000)
        if isinstance(value, date):
            return _milliseconds(number, name, datetime(value.year, value.month, value.day))
        if isinstance(value, int | float) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise ValueError(
        f"row {number}: {name} is {value!r:.40}; a time is a moment, ISO 8601 such as 2013-05-14T06:05, or milliseconds since 1970"
    )


def task_of(labels: Iterable[Any]) -> Task:
    """What such labels ask for: texts, booleans and up to 20 whole numbers are classes, other numbers are to be predicted as they are.

    >>> task_of(["a", "b"]), task_of([0, 1, 2]), task_of([0.5, 1.25])
    ('binary', 'multiclass', 'regression')
    """
    known = dict.fromkeys(labels)
    numbers = [value for value in known if isinstance(value, int | float) and not isinstance(value, bool)]
    if numbers and (len(known) > 20 or any(value != int(value) for value in numbers if math.isfinite(value))):
        return "regression"
    return classes_of(known)


def classes_of(labels: Collection[Any]) -> Task:
    """The task of a model with these classes."""
    return "binary" if len(labels) <= 2 else "multiclass"
