"""The explanations of a partition as numbers, thinned out to a bounded number of points over all that was seen."""

from __future__ import annotations

import ctypes
import math
import sys
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from explain_client.messages import Explanation, Importance, Losses, SegmentLosses, is_date

MAX_POINTS = 256

SKEW = ("", "skew")
"""The name of the share of served predictions that differ, among those of losses and of importances."""

START = (-1, -1)
"""The position before the first message."""

Column = tuple[str, str]
"""Estimator and loss."""

Course = list[list[float | None]]
"""Two numbers at each of several points: the first of all points, then the second; None where there is none yet."""


class History:
    """Points in the order of the messages; every second one is dropped whenever there are too many.

    ``positions`` has epoch and seq of each, ``timestamps`` None where the event time is no date: there is no place for it in a chart.
    The numbers of a point have four significant digits, and are kept compressed: a page asks for them seldom, and there are many.
    """

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.features: list[str] = []
        self.losses: list[str] = []
        self.positions: list[tuple[int, int]] = []
        self.timestamps: list[int | None] = []
        self._known: set[str] = set()
        self._places: dict[tuple[str, ...], int] = {}
        self._rows: list[bytes] = []
        self._skew = (0, 0)
        self._stride = 1
        self._last_is_kept = False

    def add(self, message: Explanation) -> None:
        position = (message.epoch, message.seq)
        if self.positions and position[0] != self.positions[-1][0]:
            self.__init__()  # type: ignore[misc]  # another epoch is another model
        if self.positions and not self._last_is_kept:
            for kept in (self.positions, self.timestamps, self._rows):
                kept.pop()
        self._last_is_kept = message.seq % self._stride == 0
        self._rows.append(self._row(message))
        self.timestamps.append(self._moment(message))
        self.positions.append(position)
        if len(self.positions) >= MAX_POINTS:
            self._thin()

    def charted(self, after: tuple[int, int] = START) -> list[int]:
        """The points after a position that have a place in a chart."""
        return [
            point
            for point, (position, timestamp) in enumerate(zip(self.positions, self.timestamps, strict=True))
            if position > after and timestamp is not None
        ]

    def times(self, points: Iterable[int]) -> list[float]:
        """Seconds since 1970 of charted points."""
        return [(self.timestamps[point] or 0) / 1000 for point in points]

    def courses(self, column: Column, features: Sequence[str], points: Iterable[int]) -> list[Course]:
        """Of each feature the values and the halves of their bands at the points; None where there is none yet."""
        return self._pairs([(*column, feature) for feature in features], points)

    def risks(self, loss: str, points: Iterable[int]) -> Course:
        """The losses of the model and of no model at the points; None where there is none yet."""
        return self._pairs([(loss,)], points)[0]

    def skew(self, points: Iterable[int]) -> list[float | None]:
        """Of the served predictions since the message before, the share that the model does not make; None where there were none."""
        return self._pairs([SKEW], points)[0][0]

    def newest(self, column: Column) -> list[tuple[float | None, float | None]]:
        """The last value of every feature, and half of its band."""
        last = [len(self.positions) - 1]
        return [(values[0], halves[0]) for values, halves in self.courses(column, self.features, last)]

    def _pairs(self, names: Sequence[tuple[str, ...]], points: Iterable[int]) -> list[Course]:
        """What two numbers each the points have under these names."""
        rows = [unpacked(self._rows[point]) for point in points]
        courses: list[Course] = []
        for name in names:
            place = self._places.get(name, sys.maxsize)
            pairs = [row[place : place + 2] or (None, None) for row in rows]
            courses.append([[pair[0] for pair in pairs], [pair[1] for pair in pairs]])
        return courses

    def _row(self, message: Explanation) -> bytes:
        """The numbers of a message, each pair in the place of its name; a new name has the next place."""
        pairs: dict[int, tuple[float | None, float | None]] = {}
        for loss, losses in message.performance.items():
            if (loss,) not in self._places:
                self.losses.append(loss)
            pairs[self._place((loss,))] = losses.model, losses.empty
        if message.skew is not None:
            checked, differing = (
                max(now - before, 0)
                for now, before in zip(
                    (message.skew.checked, message.skew.differing), self._skew, strict=True
                )
            )
            self._skew = message.skew.checked, message.skew.differing
            pairs[self._place(SKEW)] = differing / checked if checked else None, None
        for estimator, by_loss in message.importances.items():
            for loss, cells in by_loss.items():
                if (estimator, loss) not in self.columns:
                    self.columns.append((estimator, loss))
                for name, cell in cells.items():
                    if name not in self._known:
                        self._known.add(name)
                        self.features.append(name)
                    pairs[self._place((estimator, loss, name))] = cell.value, half_of(cell)
        row: list[float | None] = [None] * (2 * len(self._places))
        for place, (first, second) in pairs.items():
            row[place : place + 2] = rounded(first), rounded(second)
        return packed(row)

    def _place(self, name: tuple[str, ...]) -> int:
        return self._places.setdefault(name, 2 * len(self._places))

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
        self._rows = [self._rows[row] for row in rows]


def column_of(history: History, wanted: Column) -> Column:
    """The column that is wanted, else the first of its estimator, else the first."""
    same = [column for column in history.columns if column[0] == wanted[0]]
    return wanted if wanted in history.columns else (same or history.columns or [("", "")])[0]


def ranking(cells: Sequence[tuple[float | None, float | None]]) -> list[int]:
    """Features by importance, the largest first, unknown ones last; equal ones in their order."""
    return sorted(range(len(cells)), key=lambda i: math.inf if (value := cells[i][0]) is None else -value)


def rounded(value: float | None) -> float | None:
    """Four significant digits; None for what is no finite number.

    >>> [rounded(value) for value in (0.0123456, -98765.4, 0.0, math.nan, math.inf)]
    [0.01235, -98770.0, 0.0, None, None]
    """
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def half_of(cell: Importance | None) -> float | None:
    """Half of the band's width; None without a band."""
    return None if cell is None or cell.low is None or cell.high is None else (cell.high - cell.low) / 2


def losses_of(known: Losses | SegmentLosses | None) -> list[float | None]:
    """The losses of the model and of no model, to four significant digits; None where there is none yet."""
    return [None, None] if known is None else [rounded(known.model), rounded(known.empty)]


def packed(value: Any) -> bytes:
    """What a page seldom asks for, in little memory: compressed JSON."""
    return zlib.compress(orjson.dumps(value))


def unpacked(value: bytes) -> Any:
    return orjson.loads(zlib.decompress(value))


def release() -> None:
    """Give back the memory that reading a backlog took: glibc keeps it, with a heap for each thread."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def positive(value: object, default: float) -> float:
    """A setting of an estimator as the topic has it; the default where that is no positive number."""
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else default
