"""A window of a stream, or a population: its features as columns, its records as the model sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from explain_core.drift.arrays import Codes, Values
from explain_core.losses import Task


class Column(NamedTuple):
    """The values of a feature, None where it is missing. ``numbers`` are the same as floats, NaN where missing, if all are numbers
    or booleans that a float can hold.
    """

    values: Sequence[Any]
    kinds: frozenset[type]
    numbers: Values | None

    @classmethod
    def of(cls, values: Sequence[Any]) -> Column:
        if isinstance(values, np.ndarray):
            return cls(values, frozenset([float]), values)
        kinds = frozenset(map(type, values))
        numbers = None
        if all(issubclass(kind, int | float | NoneType) for kind in kinds):
            with suppress(OverflowError):
                numbers = np.array(values, dtype=float)
        return cls(values, kinds, numbers)

    @classmethod
    def read(cls, values: Sequence[Any]) -> Column:
        """The column of values where NaN and the like are missing too."""
        found = cls.of(values)
        if found.numbers is None or not found.kinds <= {int, float, bool} or np.isnan(found.numbers).any():
            return cls.of(_values(values))
        return found

    @property
    def cells(self) -> Values | Sequence[Any]:
        """The numbers, or else the values."""
        return self.values if self.numbers is None else self.numbers

    def at(self, codes: Codes) -> Values | Sequence[Any]:
        """The cells at these places."""
        cells = self.cells
        return cells[codes] if isinstance(cells, np.ndarray) else [cells[code] for code in codes.tolist()]

    def take(self, codes: Codes) -> Column:
        """The column of the rows at these places."""
        numbers = None if self.numbers is None else self.numbers[codes]
        return Column([self.values[code] for code in codes.tolist()], self.kinds, numbers)

    def followed_by(self, other: Column) -> Column:
        if self.numbers is None or other.numbers is None:
            return Column.of([*self.values, *other.values])
        numbers = np.concatenate([self.numbers, other.numbers])
        return Column([*self.values, *other.values], self.kinds | other.kinds, numbers)


@dataclass(frozen=True)
class Window:
    """n rows with these features: their records or columns of n values each, the n truths, and where it is known the n losses of a
    model as it learnt.
    """

    name: str
    features: tuple[str, ...]
    y: list[Any]
    records: Sequence[Mapping[str, Any]] | None = None
    given: Mapping[str, list[Any]] | None = None
    losses: Values | None = None

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """By feature, in their order."""
        if self.records is None:
            given = self.given or {}
            return {name: Column.of(given.get(name) or [None] * len(self)) for name in self.features}
        names, records = self.features, self.records
        same = bool(names) and {*map(type, records)} == {dict} and {*map(tuple, records)} == {names}
        cells = (
            zip(*(x.values() for x in records), strict=True)
            if same
            else ([x.get(name) for x in records] for name in names)
        )
        return {name: Column.read(values) for name, values in zip(names, cells, strict=True)}

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The records for a model; a feature that is missing is absent."""
        if self.records is not None:
            return self.records
        if not self.features:
            return [{} for _ in self.y]
        return [
            {name: value for name, value in zip(self.features, row, strict=True) if value is not None}
            for row in zip(*(column.values for column in self.columns.values()), strict=True)
        ]

    def take(self, order: Sequence[int]) -> Window:
        return Window(
            self.name,
            self.features,
            [self.y[i] for i in order],
            None if self.records is None else [self.records[i] for i in order],
            self.given and {name: [column[i] for i in order] for name, column in self.given.items()},
            None if self.losses is None else self.losses[order],
        )

    def with_column(self, name: str, values: Sequence[Any]) -> Window:
        """The same rows with other values of a feature."""
        given = {feature: list(column.values) for feature, column in self.columns.items()}
        return replace(self, records=None, given={**given, name: list(values)})

    def with_losses(self, losses: Sequence[float]) -> Window:
        """Raises ``ValueError`` unless there is a finite one for each row."""
        found = np.array(losses, dtype=float)
        if found.shape != (len(self),) or not np.isfinite(found).all():
            raise ValueError(
                f"prequential: {found.size} losses for the {len(self)} rows of {self.name}, or one is not finite; pass one for each row"
            )
        return replace(self, losses=found)


def read_pair(
    baseline: Any, target: Any, label: str | None, task: Task
) -> tuple[tuple[Window, Window], list[str]]:
    """The two windows with the same features in the same order, and warnings about features that only one has.

    Raises ``ValueError`` where one cannot be read, and for tables whose columns differ.
    """
    first, second = read("baseline", baseline, label, task), read("target", target, label, task)
    names = tuple(dict.fromkeys([*first.features, *second.features]))
    only = [
        (window.name, [name for name in window.features if name not in other.features])
        for window, other in ((first, second), (second, first))
    ]
    lonely = "; ".join(f"only {name} has {', '.join(map(str, own))}" for name, own in only if own)
    given = (baseline, first), (target, second)
    if lonely and any(window.records is None and not isinstance(data, Window) for data, window in given):
        raise ValueError(f"columns: {lonely}; both need the same: rename or remove a column")
    return (replace(first, features=names), replace(second, features=names)), [
        f"features: {lonely}"
    ] if lonely else []


def read(name: str, data: Any, label: str | None, task: Task) -> Window:
    """The window of a sequence of (record, truth); or, with the name of the label, of columns (a mapping or a data frame)
    or of a sequence of records. A ``Window`` is taken as it is.

    Raises ``ValueError`` where there are fewer than two rows, a label is missing, or columns differ in length.
    """
    if not isinstance(data, Window) and hasattr(data, "columns") and hasattr(data, "iloc"):
        data = {str(column): data[column].to_numpy() for column in data.columns}
    if isinstance(data, Window):
        window = replace(data, name=name)
    elif isinstance(data, Mapping):
        window = _from_columns(name, data, label)
    elif label is not None:
        window = _from_columns(name, _columns(name, data), label)
    else:
        window = _from_pairs(name, data)
    if len(window) < 2:
        raise ValueError(f"{name}: {len(window) or 'no'} row; a window needs at least two")
    if not _sound(window.y, task):
        _refuse(name, window.y, task)
    return window


def _sound(truths: list[Any], task: Task) -> bool:
    """Whether all are plain labels, or finite numbers."""
    kinds = {*map(type, truths)}
    return kinds <= ({int, float} if task == "regression" else {int, float, str, bool}) and (
        float not in kinds or all(math.isfinite(y) for y in truths if type(y) is float)
    )


def _refuse(name: str, truths: list[Any], task: Task) -> None:
    """Raise ``ValueError`` for the first row without a label that the task takes."""
    for i, y in enumerate(truths):
        if y is None or (isinstance(y, float) and not math.isfinite(y)):
            raise ValueError(f"{name}: row {i} has the label {y!r}; leave rows without a label out")
        if task == "regression" and (isinstance(y, bool) or not isinstance(y, int | float)):
            raise ValueError(
                f"{name}: row {i} has the label {y!r} and a regression needs a number; use a loss for classification"
            )
        try:
            hash(y)
        except TypeError:
            raise ValueError(
                f"{name}: row {i} has the label {y!r}; a label is a number or a string"
            ) from None


def _columns(name: str, data: Any) -> dict[str, list[Any]]:
    """A sequence of records as columns."""
    try:
        records = list(data)
        names = list(dict.fromkeys(column for record in records for column in record.keys()))  # noqa: SIM118
        return {column: [record.get(column) for record in records] for column in names}
    except (TypeError, AttributeError):
        raise ValueError(f"{name}: is neither columns by name nor a sequence of records") from None


def _from_columns(name: str, data: Mapping[str, Any], label: str | None) -> Window:
    if label is None:
        raise ValueError(
            f"label: name the column of {name} that holds the truth, one of {', '.join(map(str, data))}"
        )
    if label not in data:
        known = f"there are {', '.join(map(str, data))}" if data else "there are no rows"
        raise ValueError(f"label: {name} has no column {label!r}; {known}")
    columns = {column: _values(values) for column, values in data.items()}
    y = columns.pop(label)
    for column, values in columns.items():
        if len(values) != len(y):
            raise ValueError(f"{name}: column {column!r} has {len(values)} values and {label!r} has {len(y)}")
    return Window(name, tuple(columns), y, given=columns)


def _from_pairs(name: str, data: Any) -> Window:
    try:
        pairs = [(x, y) for x, y in data]
        records = [x for x, _ in pairs]
        plain = {*map(type, records)} == {dict}
        orders = dict.fromkeys(map(tuple, records) if plain else (tuple(x.keys()) for x in records))
        names = tuple(dict.fromkeys(feature for order in orders for feature in order))
    except (TypeError, ValueError, AttributeError):
        raise ValueError(
            f"{name}: is neither a sequence of (record, label) nor columns or records with label=… named"
        ) from None
    return Window(name, names, _values([y for _, y in pairs]), records)


def _values(column: Any) -> list[Any]:
    """A list of Python values; NaN, NaT and NA are None."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuUS":
        return column.tolist()  # type: ignore[no-any-return]
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    kinds = set(map(type, values))
    if kinds <= {int, str, bool}:
        return values
    if kinds <= {int, float, str, bool, type(None)}:
        return [None if value is None or value != value else value for value in values]
    return [
        None if _missing(value) else value.item() if isinstance(value, np.generic) else value
        for value in values
    ]


def _missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA has no truth
        return type(value).__name__ == "NAType"
