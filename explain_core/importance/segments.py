"""Performance and importance by the values of a feature, from the increments that an estimator has anyway."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explain_core.engine import smoothing as engine
from explain_core.engine.smoothing import BLOCK, COLUMN_ROWS, ROWS
from explain_core.explanation import Explanation
from explain_core.importance.base import IncrementalEstimator
from explain_core.models import Row
from explain_core.smoothing import Array, Smoother, SmootherState
from explain_core.state import Count, State, check

OWN = 2
"""Columns before those of the players: the losses of the model and of the labels' frequencies."""


BATCH = 50
"""Records that wait to be smoothed together."""


class SegmentState(State, frozen=True):
    """A segment; ``unread`` are its records since ``due`` gave it."""

    value: str | None
    records: Count
    unread: Count
    values: SmootherState


class SegmentsState(State, frozen=True):
    """The segments, in order of appearance."""

    segments: list[SegmentState]


class SegmentReport(NamedTuple):
    """What is known of a segment: its records, losses × (model, empty), and the importances."""

    value: str | None
    records: int
    losses: Array
    importance: Explanation


class _Segment(NamedTuple):
    """``smoother`` has its arrays within those of all segments, at place ``at``."""

    smoother: Smoother
    at: int


class Segments:
    """What ``estimator`` finds, apart for each of the first ``most`` values of ``feature``; None is all others and no value.

    A segment smooths over its own records as the estimator does over all; the bands are made alike. No prediction is made for it. Memory:
    56 numbers for each of at most ``most`` + 1 segments, losses and columns. An estimator of ratios has its differences here.

    ``rows`` are the places of the estimator's losses among those that ``add`` is given, in their order.

    >>> from explain_core.importance.ipfi import IncrementalPFI
    >>> pfi = IncrementalPFI(lambda x: x["a"] if x["plan"] == "big" else 0.0, task="regression", size=10)
    >>> segments = Segments(pfi, "plan", 10)
    >>> for i in range(400):
    ...     x = {"plan": ("big", "small")[i % 2], "a": float(i % 7)}
    ...     if pfi.explain_one(x, x["a"]).increments is not None:
    ...         _ = segments.add(x, np.array([[0.0], [1.0]]), pfi.increments)
    >>> {report.value: report.importance.importance()["a"].value > 0.0 for report in segments}
    {'big': True, 'small': False}
    """

    def __init__(
        self, estimator: IncrementalEstimator, feature: str, most: int, rows: Sequence[int] = (0,)
    ) -> None:
        self.feature = feature
        self._estimator = estimator
        self._most = most
        self._rows: NDArray[np.int64] = np.array(rows)
        self.newest: str | None = None
        """The segment of the record that was taken in last, where there was one."""
        self._segments: dict[str | None, _Segment] = {}
        self._cells: Array = np.zeros((0, ROWS, len(estimator.losses), OWN))
        self._sums: Array = np.zeros((0, COLUMN_ROWS, OWN))
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self._told: NDArray[np.int64] = np.zeros(0, np.int64)
        self._losses: Array = np.zeros((BATCH, OWN, 0))
        self._increments: Array = np.zeros((BATCH, len(estimator.losses), 0))
        self._places: NDArray[np.int64] = np.zeros(BATCH, np.int64)
        self._players = -1
        self._waiting = 0
        self._decay = estimator._smoother.decay

    def add(self, x: Row, losses: Array, increments: Array) -> str | None:
        """Take in a record that the estimator has explained, with the losses of the model and of the empty one (2 × losses) and the estimator's
        increments; returns its segment.
        """
        if increments.shape[1] != self._players:
            self._grow(losses.shape[1], increments.shape[1])
        value = x.get(self.feature)
        if type(value) is not str:
            value = key_of(value)
        segment = self._segments.get(value)
        if segment is None:
            known = len(self._segments) - (None in self._segments)
            value = value if known < self._most else None
            segment = self._segments.get(value)
            if segment is None:
                segment = self._new(value)
        waiting = self._waiting
        self._losses[waiting], self._increments[waiting] = losses, increments
        self._places[waiting] = segment.at
        self._waiting = waiting + 1
        if waiting + 1 == BATCH:
            self._settle()
        self.newest = value
        return value

    def _settle(self) -> None:
        """Smooth what waits; when that happens makes no difference."""
        begin, end, segments = 0, self._waiting, list(self._segments.values())
        self._waiting = 0
        while begin < end:
            begin = engine.update_apart(
                self._cells, self._sums, self._decay, self._counts, self._losses, self._rows, self._increments,
                self._places, begin, end, BLOCK,
            )  # fmt: skip
            segment = segments[int(self._places[begin - 1])]
            if self._counts[segment.at] % BLOCK == 0:
                segment.smoother.end_block()

    def _new(self, value: str | None) -> _Segment:
        self._settle()
        found = self._segments[value] = _Segment(
            self._estimator._new_smoother(OWN + self._increments.shape[2]), len(self._segments)
        )
        self._counts, self._told = np.append(self._counts, 0), np.append(self._told, 0)
        self._gather()
        return found

    def _grow(self, losses: int, players: int) -> None:
        """Append columns for features that were met late."""
        self._settle()
        self._players = players
        self._losses = np.zeros((*self._losses.shape[:2], losses))
        self._increments = np.zeros((*self._increments.shape[:2], players))
        for segment in self._segments.values():
            segment.smoother.grow(OWN + players)
        self._gather()

    def _gather(self) -> None:
        """Put the smoothers' arrays into one each, for compiled code."""
        smoothers = [segment.smoother for segment in self._segments.values()]
        if smoothers:
            self._cells = np.stack([smoother.cells for smoother in smoothers])
            self._sums = np.stack([smoother.sums for smoother in smoothers])
        for at, smoother in enumerate(smoothers):
            smoother.cells, smoother.sums = self._cells[at], self._sums[at]

    def __contains__(self, value: str | None) -> bool:
        return value in self._segments

    def __iter__(self) -> Iterator[SegmentReport]:
        """A ``SegmentReport`` of each segment, in order of appearance."""
        self._settle()
        return map(self._report, self._segments)

    def due(self) -> SegmentReport | None:
        """The segment with the most records since this last gave it, of equal ones the first; None where none has any."""
        self._settle()
        new = self._counts - self._told
        if not new.any():
            return None
        at = int(new.argmax())
        self._told[at] = self._counts[at]
        return self._report(list(self._segments)[at])

    def _report(self, value: str | None) -> SegmentReport:
        segment, estimator = self._segments[value], self._estimator
        smoother = segment.smoother
        records = int(self._counts[segment.at])
        importance = estimator._explanation(smoother, smoother.value, smoother.spread, records, OWN)
        return SegmentReport(value, records, smoother.value[:, :OWN].copy(), importance)

    def state(self) -> SegmentsState:
        self._settle()
        counts, new = self._counts.tolist(), (self._counts - self._told).tolist()
        return SegmentsState(
            [
                SegmentState(value, counts[at], new[at], segment.smoother.state())
                for at, (value, segment) in enumerate(self._segments.items())
            ]
        )

    def restore(self, state: SegmentsState) -> None:
        """Restore a stored state, after the estimator's. Raises ``StateError`` where it is invalid."""
        names = [stored.value for stored in state.segments]
        check(
            len(set(names)) == len(names) <= self._most + (None in names), "segments: one twice, or too many"
        )
        if not names:
            return
        shape = state.segments[0].values.cells.shape
        columns = shape[-1] if shape else 0
        check(OWN <= columns <= OWN + len(self._estimator.players), "segments: columns of no feature")
        check(
            all(stored.unread <= stored.records for stored in state.segments),
            "segments: records that are none",
        )
        self._increments = np.zeros((*self._increments.shape[:2], columns - OWN))
        for at, stored in enumerate(state.segments):
            segment = self._segments[stored.value] = _Segment(self._estimator._new_smoother(columns), at)
            segment.smoother.restore(stored.values, columns, stored.records)
        self._counts = np.array([stored.records for stored in state.segments], np.int64)
        self._told = self._counts - np.array([stored.unread for stored in state.segments], np.int64)
        self._gather()


def key_of(value: object) -> str | None:
    """A value as a segment's name: a string as it is, a number or a boolean as JSON, where 3.0 is 3; None for a missing value.

    >>> [key_of(value) for value in ("AA", 3, 3.0, np.float64(-0.0), 0.5, True, None, float("nan"))]
    ['AA', '3', '3', '0', '0.5', 'true', None, None]
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if value != value:
            return None
        if abs(value) < 2.0**53 and value.is_integer():
            value = int(value)
    return json.dumps(value)
