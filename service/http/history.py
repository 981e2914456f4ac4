"""The explanations of a partition as numbers, thinned out to a bounded number of points over all that was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_client.messages import Explanation, Importance, Losses, SegmentLosses, is_date

MAX_POINTS = 256

START = (-1, -1)
"""The position before the first message."""

Column = tuple[str, str]
"""Estimator and loss."""


class History:
    """Points in the order of the messages; every second one is dropped whenever there are too many.

    ``positions`` has epoch and seq of each, ``timestamps`` None where the event time is no date: there is no place for it in a chart.
    """

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.features: list[str] = []
        self.losses: list[str] = []
        self.positions: list[tuple[int, int]] = []
        self.timestamps: list[int | None] = []
        self._known: dict[str, int] = {}
        self._cells: NDArray[np.float32] = np.empty((0, 0, 0, 2), np.float32)
        self._risks: NDArray[np.float32] = np.empty((0, 0, 2), np.float32)
        self._stride = 1
        self._last_is_kept = False

    def add(self, message: Explanation) -> None:
        position = (message.epoch, message.seq)
        if self.positions and position[0] != self.positions[-1][0]:
            self.__init__()  # type: ignore[misc]  # another epoch is another model
        if self.positions and not self._last_is_kept:
            self.positions.pop()
            self.timestamps.pop()
        self._last_is_kept = message.seq % self._stride == 0
        self._grow(message)
        self._write(len(self.positions), message)
        self.timestamps.append(self._moment(message))
        self.positions.append(position)
        if len(self.positions) >= MAX_POINTS:
            self._thin()

    def cells(self, column: Column) -> NDArray[np.float32]:
        """Values and halves of their bands, points × features × 2; NaN where there is none yet."""
        return self._cells[: len(self.positions), self.columns.index(column)]

    def risks(self, loss: str) -> NDArray[np.float32]:
        """The losses of the model and of no model, points × 2; NaN where there is none yet."""
        if loss not in self.losses:
            return np.full((len(self.positions), 2), np.nan, np.float32)
        return self._risks[: len(self.positions), self.losses.index(loss)]

    def charted(self, after: tuple[int, int] = START) -> list[int]:
        """The points after a position that have a place in a chart."""
        return [
            point
            for point, (position, timestamp) in enumerate(zip(self.positions, self.timestamps, strict=True))
            if position > after and timestamp is not None
        ]

    def times(self, points: Sequence[int]) -> list[float]:
        """Seconds since 1970 of charted points."""
        return [(self.timestamps[point] or 0) / 1000 for point in points]

    def courses(self, column: Column, features: Sequence[str], points: Sequence[int]) -> list[list[Any]]:
        """Of each feature the values and the halves of their bands at the points."""
        numbers = figures(self.cells(column)[points])
        return [numbers[:, self._known[feature]].T.tolist() for feature in features]

    def _grow(self, message: Explanation) -> None:
        """Make room for a point, and for what the message is the first to name."""
        for estimator, by_loss in message.importances.items():
            for loss, features in by_loss.items():
                if (estimator, loss) not in self.columns:
                    self.columns.append((estimator, loss))
                for name in features:
                    if name not in self._known:
                        self._known[name] = len(self.features)
                        self.features.append(name)
        self.losses += [loss for loss in message.performance if loss not in self.losses]
        room = len(self._cells)
        if len(self.positions) == room:
            room = min(max(16, 2 * room), MAX_POINTS)
        self._cells = _widened(self._cells, (room, len(self.columns), len(self.features), 2))
        self._risks = _widened(self._risks, (room, len(self.losses), 2))

    def _write(self, row: int, message: Explanation) -> None:
        self._cells[row], self._risks[row] = np.nan, np.nan
        for number, (estimator, loss) in enumerate(self.columns):
            for name, cell in message.importances.get(estimator, {}).get(loss, {}).items():
                if cell.value is not None:
                    half = half_of(cell)
                    self._cells[row, number, self._known[name]] = (
                        cell.value,
                        math.nan if half is None else half,
                    )
        for number, loss in enumerate(self.losses):
            known = message.performance.get(loss)
            if known is not None:
                self._risks[row, number] = [math.nan if value is None else value for value in (known.model, known.empty)]  # fmt: skip

    def _moment(self, message: Explanation) -> int | None:
        if not is_date(message.timestamp):
            return None
        before = next((known for known in reversed(self.timestamps) if known is not None), message.timestamp)
        return max(message.timestamp, before)  # a chart's time goes one way, event time need not

    def _thin(self) -> None:
        self._stride *= 2
        last = len(self.positions) - 1
        rows = [row for row, (_, seq) in enumerate(self.positions) if seq % self._stride == 0]
        self._last_is_kept = rows[-1:] == [last]
        if not self._last_is_kept:
            rows.append(last)
        self.positions = [self.positions[row] for row in rows]
        self.timestamps = [self.timestamps[row] for row in rows]
        self._cells[: len(rows)] = self._cells[rows]
        self._risks[: len(rows)] = self._risks[rows]


def column_of(history: History, wanted: Column) -> Column:
    """The column that is wanted, else the first of its estimator, else the first."""
    same = [column for column in history.columns if column[0] == wanted[0]]
    return wanted if wanted in history.columns else (same or history.columns or [("", "")])[0]


def ranking(cells: NDArray[np.float32]) -> list[int]:
    """Features by importance, the largest first, unknown ones last; equal ones in their order."""
    return sorted(range(len(cells)), key=lambda i: -cells[i][0] if not math.isnan(cells[i][0]) else math.inf)


def figures(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers of four significant digits; None for what is no finite number.

    >>> figures(np.array([0.0123456, -98765.4, 0.0, np.nan, np.inf])).tolist()
    [0.01235, -98770.0, 0.0, None, None]
    """
    values = np.where(np.isfinite(values), values, np.nan).astype(float)
    size = np.log10(np.abs(values), where=(values != 0.0) & ~np.isnan(values), out=np.zeros_like(values))
    scale = 10.0 ** np.clip(3.0 - np.floor(size), -300.0, 300.0)
    found = np.round(values * scale) / scale
    return np.where(np.isnan(found), None, found)  # type: ignore[return-value]


def rounded(value: float | None) -> float | None:
    """Four significant digits."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def half_of(cell: Importance | None) -> float | None:
    """Half of the band's width; None without a band."""
    return None if cell is None or cell.low is None or cell.high is None else (cell.high - cell.low) / 2


def losses_of(known: Losses | SegmentLosses | None) -> list[float | None]:
    """The losses of the model and of no model, to four significant digits; None where there is none yet."""
    return [None, None] if known is None else [rounded(known.model), rounded(known.empty)]


def positive(value: object, default: float) -> float:
    """A setting of an estimator as the topic has it; the default where that is no positive number."""
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else default


def _widened(array: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The array with room for more, NaN there."""
    if array.shape == shape:
        return array
    wider = np.full(shape, np.nan, np.float32)
    wider[tuple(slice(length) for length in array.shape)] = array
    return wider
