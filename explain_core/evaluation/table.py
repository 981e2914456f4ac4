"""Records as rows of numbers: what compiled kernels read."""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterable, Sequence
from itertools import chain, compress, count

import numpy as np
from numpy.typing import NDArray

from explain_core.models import Row
from explain_core.reservoirs import GeometricReservoir, Reservoir, UniformReservoir

Array = NDArray[np.float64]

_PLAIN = {float, int, bool}
_EXACT = 2**53
_NAN = float("nan")
_OWN = {GeometricReservoir, UniformReservoir}


class Table:
    """The columns of the records met so far. A category is its index in order of appearance; an absent value is NaN.

    What cannot be told apart from another value as a float (None, NaN, large integers, a column of both numbers and
    categories) has no row.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.codes: dict[str, dict[str, int]] = {}
        self.size = 0
        """Columns and categories: what an image is laid out for."""
        self._numbers: set[str] = set()
        self._order: tuple[str, ...] = ()
        self._plain: tuple[str, ...] = ()  # features that were numbers together before
        self._last_x: Row | None = None
        self.buffer: Array = np.empty(0)
        """The record that ``row`` was asked for last."""
        self._view, self._format = self.buffer.data, struct.Struct("")
        self._last: tuple[Array | None, bool] = (None, False)

    def column(self, name: str) -> int:
        """The column of a feature, a new one where it was not met."""
        found = self.index.get(name)
        if found is None:
            found = self.index[name] = len(self.names)
            self.names.append(name)
            self.size += 1
            self._order = tuple(self.names)
            self.buffer = np.empty(len(self.names))
            self._view = self.buffer.data
            self._format = struct.Struct(f"{len(self.names)}d")
            self._last_x = None
        return found

    def code(self, name: str, category: str) -> int:
        """The number of a category, a new one where it was not met."""
        codes = self.codes.setdefault(name, {})
        self.size += category not in codes
        return codes.setdefault(category, len(codes))

    def row(self, x: Row) -> tuple[Array | None, bool]:
        """The record as a row, and whether its features are in the order of the columns; None where it has no row.

        The row is ``buffer``: good until the next record is asked for, or a column is new.
        """
        if self._last_x is not x:
            names = tuple(x)
            if names != self._plain:
                for name in names:
                    if name not in self.index:
                        self.column(name)
            ordered = names == self._order
            self._last = self._encoded(x, names, ordered), ordered
            self._last_x = x
        return self._last

    def _encoded(self, x: Row, names: tuple[str, ...], ordered: bool) -> Array | None:
        values = x.values()
        types = set(map(type, values))
        row = self.buffer
        if types <= _PLAIN and (names == self._plain or not any(name in self.codes for name in names)):
            if names != self._plain:
                self._numbers.update(names)
                self._plain = names
            if int in types and any(type(value) is int and abs(value) > _EXACT for value in values):
                return None
            if ordered:
                self._format.pack_into(self._view, 0, *values)
            else:
                self._format.pack_into(self._view, 0, *[x.get(name, _NAN) for name in self.names])
            whole = sum(values)
            return row if whole == whole or not any(map(operator.ne, values, values)) else None
        row.fill(_NAN)
        for name, value in x.items():
            if type(value) is str and name not in self._numbers:
                row[self.index[name]] = self.code(name, value)
            elif type(value) in _PLAIN and name not in self.codes and value == value and abs(value) <= _EXACT:
                self._numbers.add(name)
                row[self.index[name]] = value
            else:
                return None
        return row

    def matrix(self, rows: Sequence[Row]) -> tuple[Array | None, bool]:
        """``row`` of each of the records, n × columns; None where one has none."""
        for name in dict.fromkeys(chain.from_iterable(rows)):
            self.column(name)
        matrix, all_ordered = np.empty((len(rows), len(self.names))), True
        for i, x in enumerate(rows):
            row, ordered = self.row(x)
            if row is None:
                return None, False
            matrix[i], all_ordered = row, all_ordered and ordered
        return matrix, all_ordered


class Rows:
    """A reservoir's rows in a table."""

    def __init__(self, reservoir: Reservoir, table: Table) -> None:
        self._reservoir, self._table = reservoir, table
        self._known: list[Row | None] = []
        self._replaced: int | None = None
        self._bad: set[int] = set()
        self._loose: set[int] = set()
        self.matrix: Array = np.empty((0, 0))

    def sync(self) -> bool:
        """Bring ``matrix`` up to date; False where a row cannot be encoded."""
        reservoir, table = self._reservoir, self._table
        rows = reservoir.rows
        if len(rows) != len(self._known) or len(table.names) != self.matrix.shape[1]:
            self._known = [None] * len(rows)
            for row in rows:
                table.row(row)  # the columns
            self.matrix = np.empty((len(rows), len(table.names)))
            self._replaced = None
        slots: Iterable[int]
        replaced = reservoir.replaced if type(reservoir) in _OWN else None  # type: ignore[attr-defined]
        if replaced is not None and self._replaced is not None and replaced - self._replaced < 2:
            if replaced == self._replaced:
                return not self._bad
            slots = (reservoir.slot,)  # type: ignore[attr-defined]
        else:
            slots = list(compress(count(), map(operator.is_not, rows, self._known)))
        for slot in slots:
            numbers, ordered = table.row(rows[slot])
            (self._loose.discard if ordered else self._loose.add)(slot)
            if numbers is None:
                self._bad.add(slot)
            else:
                self._bad.discard(slot)
                if len(numbers) != self.matrix.shape[1]:
                    return self.sync()
                self.matrix[slot] = numbers
            self._known[slot] = rows[slot]
        self._replaced = replaced
        return not self._bad

    @property
    def ordered(self) -> bool:
        """Whether all rows have their features in the order of the columns."""
        return not self._loose
