"""The explanations of a partition as numbers, thinned out to a bounded number of points over all that was seen."""

from __future__ import annotations

import ctypes
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from explain_client import Explanation, Importance, Losses, SegmentLosses
from explain_client.fields import is_date

MAX_POINTS = 256

PIECE = 400
"""Bytes: Python has memory of its own for such small ones. A larger one, between what comes and goes, would hold a page of it each."""

SKEW = ("", "skew")
"""The name of the share of served predictions that differ, among those of losses and of importances."""

START = (-1, -1)
"""The position before the first message."""

Column = tuple[str, str]
"""Estimator and loss."""

Course = list[list[float | None]]
"""Two numbers at each of several points: the first of all points, then the second; None where there is none yet."""

Pairs = dict[tuple[str, ...], tuple[float | None, float | None]]
"""Two numbers of a message by name: a loss, ``SKEW``, or estimator, loss and feature."""


class History:
    """Points in the order of the messages; every second one is dropped whenever there are too many.

    ``positions`` has epoch and seq of each, ``timestamps`` None where the event time is no date: there is no place for it in a chart.
    The numbers of a point have four significant digits. Importances are kept compressed: a page asks for them seldom, and there are many.
    """

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.features: list[str] = []
        self.losses: list[str] = []
        self.positions: list[tuple[int, int]] = []
        self.timestamps: list[int | None] = []
        self._known: set[str] = set()
        self._places: dict[tuple[str, ...], int] = {}
        self._rows: list[tuple[bytes, ...]] = []
        self._risk_places: dict[tuple[str, ...], int] = {}
        self._risks: list[list[float | None]] = []
        self._skew = (0, 0)
        self._stride = 1
        self._last_is_kept = False

    def add(self, message: Explanation) -> None:
        position = (message.epoch, message.seq)
        if self.positions and position[0] != self.positions[-1][0]:
            self.__init__()  # type: ignore[misc]  # another epoch is another model
        if self.positions and not self._last_is_kept:
            for kept in (self.positions, self.timestamps, self._rows, self._risks):
                kept.pop()
        self._last_is_kept = message.seq % self._stride == 0
        row = packed(_row(self._places, self._importances(message)))
        self._rows.append(tuple(row[at : at + PIECE] for at in range(0, len(row), PIECE)))
        self._risks.append(_row(self._risk_places, self._losses(message)))
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
        rows = [unpacked(b"".join(self._rows[point])) for point in points]
        return [_pair(rows, self._places.get((*column, feature))) for feature in features]

    def risks(self, loss: str, points: Iterable[int]) -> Course:
        """The losses of the model and of no model at the points; None where there is none yet."""
        rows = [self._risks[point] for point in points]
        return _pair(rows, self._risk_places.get((loss,)))

    def skew(self, points: Iterable[int]) -> list[float | None]:
        """Of the served predictions since the message before, the share that the model does not make; None where there were none."""
        rows = [self._risks[point] for point in points]
        return _pair(rows, self._risk_places.get(SKEW))[0]

    def newest(self, column: Column) -> list[tuple[float | None, float | None]]:
        """The last value of every feature, and half of its band."""
        last = [len(self.positions) - 1]
        return [(values[0], halves[0]) for values, halves in self.courses(column, self.features, last)]

    def _importances(self, message: Explanation) -> Pairs:
        pairs: Pairs = {}
        for estimator, by_loss in message.importances.items():
            for loss, cells in by_loss.items():
                if (estimator, loss) not in self.columns:
                    self.columns.append((estimator, loss))
                for name, cell in cells.items():
                    if name not in self._known:
                        self._known.add(name)
                        self.features.append(name)
                    pairs[estimator, loss, name] = cell.value, half_of(cell)
        return pairs

    def _losses(self, message: Explanation) -> Pairs:
        self.losses += [loss for loss in message.performance if loss not in self.losses]
        pairs: Pairs = {(loss,): (one.model, one.empty) for loss, one in message.performance.items()}
        if message.skew is not None:
            counts = message.skew.checked, message.skew.differing
            checked, differing = (
                max(now - before, 0) for now, before in zip(counts, self._skew, strict=True)
            )
            self._skew = counts
            pairs[SKEW] = differing / checked if checked else None, None
        return pairs

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
        self._risks = [self._risks[row] for row in rows]


def _row(places: dict[tuple[str, ...], int], pairs: Pairs) -> list[float | None]:
    """The pairs, each in the place of its name; a new name has the next place."""
    for name in pairs:
        places.setdefault(name, 2 * len(places))
    row: list[float | None] = [None] * (2 * len(places))
    for name, (first, second) in pairs.items():
        row[places[name] : places[name] + 2] = rounded(first), rounded(second)
    return row


def _pair(rows: Sequence[list[float | None]], place: int | None) -> Course:
    """The pair in a place of each row; rows that are older than its name lack it."""
    if place is None:
        return [[None] * len(rows), [None] * len(rows)]
    pairs = [row[place : place + 2] or (None, None) for row in rows]
    return [[pair[0] for pair in pairs], [pair[1] for pair in pairs]]


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


def judged_by(newest: Explanation, loss: str) -> str:
    """The loss by which the model is judged beside an importance: the first one beside what needs no label."""
    return loss if loss in newest.performance else next(iter(newest.performance), loss)


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
