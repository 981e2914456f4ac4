"""Records as rows of numbers: what learners and evaluators read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.engine.rows import Encoder
from explain_core.models import Row
from explain_core.state import State, Value, check

NAN = float("nan")


class ColumnsState(State, frozen=True):
    """Features in order of appearance, those that are numbers, and the categories of the others in the order of their codes."""

    names: list[str]
    numeric: list[str]
    categories: dict[str, list[Value]]


class Columns:
    """The features met so far, in order of appearance, each numeric or nominal.

    In a row a number is itself (a whole number beyond 2⁵³ is rounded, a boolean is 0 or 1), and a category is its code in order of
    appearance. A missing value is NaN: absent, None and NaN are all missing. Strings are categories, and so are all values of
    the features named in ``nominal``.

    >>> columns = Columns()
    >>> columns.row({"a": 2, "b": "red"}).tolist(), columns.row({"b": "blue", "c": True}).tolist()
    ([2.0, 0.0], [nan, 1.0, 1.0])
    >>> columns.row({"a": "red"})
    Traceback (most recent call last):
    ValueError: feature 'a': 'red' is a str, and the feature was a number before
    """

    def __init__(self, nominal: Collection[str] = ()) -> None:
        self.nominal = frozenset(nominal)
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.codes: dict[str, dict[Any, int]] = {}
        """The categories of each nominal feature with their codes."""
        self.size = 0
        """Columns and categories; grows with each new one."""
        self.buffer: NDArray[np.float64]
        """The row that was asked for last."""
        self.rows: NDArray[np.float64]
        """The same as the only one of several rows."""
        self._numeric: set[str] = set()  # features that have had a number
        self._lay_out()

    def row(self, x: Row) -> NDArray[np.float64]:
        """The record as a row: ``buffer``, good until the next record is asked for.

        Raises ``ValueError`` for a value that is neither number nor string, and for a feature that was of the other kind before.
        """
        if type(x) is not dict or not self.encoder.row(x, self.buffer):
            self._encode(x)
        return self.buffer

    def matrix(self, records: Mapping[str, Sequence[Any]], n: int) -> NDArray[np.float64] | None:
        """n records, given as the values of each feature (an array of floats, NaN where missing, or a list with None), as rows of what is known
        already; None where something is new, or wrong.

        >>> columns = Columns()
        >>> columns.row({"a": 2, "b": "red"}).tolist()
        [2.0, 0.0]
        >>> columns.matrix({"b": ["red", None]}, 2).tolist(), columns.matrix({"b": ["blue"]}, 1)
        ([[nan, 0.0], [nan, nan]], None)
        """
        found = np.full((n, len(self.names)), NAN)
        for name, values in records.items():
            numbers = isinstance(values, np.ndarray)
            if np.isnan(values).all() if numbers else not any(value is not None for value in values):
                continue
            codes = self.codes.get(name)
            if numbers != (codes is None) or (numbers and name not in self._numeric):
                return None
            cells = (
                values if codes is None else [NAN if value is None else codes.get(value) for value in values]
            )
            if codes is not None and None in cells:
                return None
            found[:, self.index[name]] = cells
        return found

    def add(self, names: Iterable[str]) -> None:
        """Columns for the features that have none."""
        new = [name for name in dict.fromkeys(names) if name not in self.index]
        if not new:
            return
        for name in new:
            self.index[name] = len(self.names)
            self.names.append(name)
            if name in self.nominal:
                self.codes[name] = {}
        self.size += len(new)
        self._lay_out()

    def code(self, name: str, category: Any) -> float:
        """The code of a category, a new one where it was not met."""
        codes = self.codes[name]
        self.size += category not in codes
        return codes.setdefault(category, len(codes))

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "buffer": None,
            "rows": None,
            "encoder": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out()

    def _lay_out(self) -> None:
        self.buffer = np.full(len(self.names), NAN)
        self.rows = self.buffer.reshape(1, -1)
        self.encoder = Encoder(self.names, self.index, self.codes)

    def _encode(self, x: Row) -> None:
        self.add(x)
        cells: list[float] = [NAN] * len(self.names)
        for name, value in x.items():
            if value is not None and value == value:
                cells[self.index[name]] = self._cell(name, value)
        self.buffer[:] = cells

    def _cell(self, name: str, value: Any) -> float:
        if name in self.codes:
            if name in self.nominal or isinstance(value, str):
                return self.code(name, value)
        elif isinstance(value, str):
            if name not in self._numeric:
                self.codes[name] = {}
                self._lay_out()
                return self.code(name, value)
        else:
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"feature {name!r}: {value!r} is a {type(value).__name__}, neither a number nor a string"
                ) from None
            except OverflowError:
                raise ValueError(f"feature {name!r}: the number {value!r:.40} is too large") from None
            self._numeric.add(name)
            return number
        before = "a string" if name in self.codes else "a number"
        raise ValueError(
            f"feature {name!r}: {value!r} is a {type(value).__name__}, and the feature was {before} before"
        )

    def state(self) -> ColumnsState:
        return ColumnsState(
            list(self.names),
            [name for name in self.names if name in self._numeric],
            {name: list(codes) for name, codes in self.codes.items()},
        )

    def restore(self, state: ColumnsState) -> None:
        """Take a stored state on. Raises ``StateError`` where it is none."""
        known = set(state.names)
        check(len(known) == len(state.names), "columns: a feature twice")
        check(
            {*state.numeric, *state.categories} <= known and not known & self.nominal - {*state.categories},
            "columns: a kind of a feature that is no column, or a nominal one without categories",
        )
        check(
            set(state.numeric).isdisjoint(state.categories),
            "columns: a feature that is both number and nominal",
        )
        self.names, self.index = list(state.names), {name: i for i, name in enumerate(state.names)}
        self.codes = {
            name: {category: code for code, category in enumerate(known)}
            for name, known in state.categories.items()
        }
        for name, categories in state.categories.items():
            check(len(self.codes[name]) == len(categories), f"columns: feature {name!r} has a category twice")
        self.size = len(self.names) + sum(map(len, self.codes.values()))
        self._numeric = set(state.numeric)
        self._lay_out()
