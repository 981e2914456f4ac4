"""The explanations of a partition as numbers, thinned out to a bounded number of points over all that was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explain_client.messages import Explanation, is_date

MAX_POINTS = 300

Column = tuple[str, str]
"""Estimator and loss."""


class Point(NamedTuple):
    """One explanation: ``losses`` are (model, empty) by loss, ``cells`` value and half of the band, columns × features × 2.

    ``timestamp`` is None where it is no date: there is no place for the point in a chart. Half of a band is NaN where it is not settled.
    """

    position: tuple[int, int]
    timestamp: int | None
    losses: dict[str, tuple[float | None, float | None]]
    cells: NDArray[np.float32]


class History:
    """Points in the order of the messages; every second one is dropped whenever there are too many."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.features: list[str] = []
        self.points: list[Point] = []
        self._known: dict[str, int] = {}
        self._stride = 1
        self._last_is_kept = False

    def add(self, message: Explanation) -> None:
        position = (message.epoch, message.seq)
        if self.points and position[0] != self.points[-1].position[0]:
            self.__init__()  # type: ignore[misc]  # another epoch is another model
        if self.points and not self._last_is_kept:
            self.points.pop()
        self._last_is_kept = message.seq % self._stride == 0
        self.points.append(self._point(position, message))
        if len(self.points) >= MAX_POINTS:
            self._stride *= 2
            last = self.points[-1]
            self.points = [point for point in self.points if point.position[1] % self._stride == 0]
            self._last_is_kept = self.points[-1:] == [last]
            if not self._last_is_kept:
                self.points.append(last)

    def after(self, position: tuple[int, int]) -> list[tuple[Point, float]]:
        """The points of a chart after a position, each with its time in seconds since 1970."""
        return [
            (point, point.timestamp / 1000)
            for point in self.points
            if point.position > position and point.timestamp is not None
        ]

    def series(
        self, column: Column, features: Sequence[str], after: tuple[int, int]
    ) -> list[list[list[float | None]]]:
        """Of each feature the values and the halves of their bands, at the points of a chart after a position."""
        where = self.columns.index(column)
        points = [point for point, _ in self.after(after)]
        found = []
        for feature in features:
            index = self._known.get(feature, -1)
            known = [
                point.cells[where, index].tolist()
                if 0 <= index < point.cells.shape[1]
                else (math.nan, math.nan)
                for point in points
            ]
            found.append([[_or_none(value) for value, _ in known], [_or_none(half) for _, half in known]])
        return found

    def column(self, column: Column, point: Point) -> NDArray[np.float32]:
        """Value and half of the band of every feature, features × 2; NaN for one that was not known yet."""
        cells = point.cells[self.columns.index(column)]
        missing = len(self.features) - len(cells)
        return cells if not missing else np.pad(cells, ((0, missing), (0, 0)), constant_values=np.nan)

    def _point(self, position: tuple[int, int], message: Explanation) -> Point:
        for estimator, by_loss in message.importances.items():
            for loss, features in by_loss.items():
                if (estimator, loss) not in self.columns:
                    self.columns.append((estimator, loss))
                for name in features:
                    if name not in self._known:
                        self._known[name] = len(self.features)
                        self.features.append(name)
        cells = np.full((len(self.columns), len(self.features), 2), np.nan, np.float32)
        for row, (estimator, loss) in enumerate(self.columns):
            for name, cell in message.importances.get(estimator, {}).get(loss, {}).items():
                if cell.value is not None:
                    half = math.nan if cell.low is None or cell.high is None else (cell.high - cell.low) / 2
                    cells[row, self._known[name]] = cell.value, half
        losses = {
            name: (performance.model, performance.empty) for name, performance in message.performance.items()
        }
        timestamp = message.timestamp if is_date(message.timestamp) else None
        before = next(
            (point.timestamp for point in reversed(self.points) if point.timestamp is not None), None
        )
        if timestamp is not None and before is not None:
            timestamp = max(timestamp, before)  # a chart's time goes one way, event time need not
        return Point(position, timestamp, losses, cells)


def positive(value: object, default: float) -> float:
    """A setting of an estimator as the topic has it; the default where that is no positive number."""
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else default


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
