"""When the mean of one of many subjects changed, along one stream of records, with a stated rate of false alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explain_core.alarms import BASELINE, BLOCK, WARM_UP, seasons
from explain_core.engine import alarms as engine
from explain_core.figures import Z
from explain_core.losses import HUGE
from explain_core.state import Block, State, array, block, check, finite

Array = NDArray[np.float64]

ROOM = 16
"""Buckets allocated at a time."""


class Position(NamedTuple):
    """The position of a record in the stream: its offset, and its event time in milliseconds since 1970."""

    offset: int
    timestamp: int


class Side(NamedTuple):
    """The mean of the ``records`` on one side of the onset, with its interval of 95 %."""

    value: float
    low: float
    high: float
    records: int


class Change(NamedTuple):
    """The mean of ``subject`` changed with the record at ``onset``, plausibly with one from ``earliest`` to ``latest``.

    ``evidence`` is the difference over what it had to exceed, above 1; ``clipped`` the share of the records that were clipped. ``least`` is what
    the mean of the clipped values changed by at least, with its sign: the difference without what the noise can make of it.
    The intervals are made after the onset was chosen, which they do not know of.
    """

    subject: int
    onset: Position
    earliest: Position
    latest: Position
    before: Side
    after: Side
    evidence: float
    clipped: float
    least: float


class DetectorState(State, frozen=True):
    """``pending`` (records × subjects), ``cells`` (8 × subjects), ``buckets`` (subjects × 8 × B), ``sizes`` (B) and ``starts``.

    ``starts`` ((B + 1) × 2) are offset and time of the first record of each bucket, and of the block that is not complete. With a
    season also ``in_season`` (subjects × B), a ninth row of the buckets; ``hours`` (records + 1), those of the pending records and of the one before;
    ``profile``, ``visits`` and ``seasons``, see ``alarms.seasons``.
    """

    pending: Block
    cells: Block
    buckets: Block
    sizes: Block
    starts: Block
    in_season: Block | None = None
    hours: Block | None = None
    profile: Block | None = None
    visits: Block | None = None
    seasons: Block | None = None


def h_of(subjects: int, one_in: float) -> float:
    """The logarithm h for so many subjects in all."""
    return math.log(max(subjects * one_in / BLOCK, 1.0))


def constants_of(memory: int, draws: int, warm_up: int, baseline: int) -> Array:
    """``constants`` for rows that stay ``memory`` records on average; h is still to be set.

    Of values with variance σ² and autocovariance s σ² r^k, r = 1 − 1/memory: b · Var(mean of a block of b) = σ² (1 + s lag0),
    b · Cov(it, the next one's) = σ² s lag1, and the long-run variance is σ² (1 + s total).
    """
    b, r = float(BLOCK), 1.0 - 1.0 / max(memory, 2)
    full = (1.0 - r**b) / (1.0 - r)
    lag0 = 2.0 * r * (b - full) / (1.0 - r) / b
    lag1 = r * full * full / b
    total = 2.0 * r / (1.0 - r)
    p0, p1 = lag0 * lag0 / 2.0, lag1 * lag1  # precision of s by either, in blocks of white noise
    noise = total / math.sqrt(p0 + p1)
    blocks = (float(-(-records // BLOCK)) for records in (warm_up, baseline))
    parts = p0 / (p0 + p1) / lag0, p1 / (p0 + p1) / lag1
    return np.array([*blocks, 0.0, *parts, total, noise, float(draws)])


class ChangeDetector:
    """A fold over the values of all subjects: what it finds depends on the values and their order alone.

    Per block of records the sums of each subject go into an exponential histogram (buckets of 1, 2, 4, ... blocks, five of each size),
    whose boundaries are the same for all subjects: O(log n) numbers each. At the end of a block every boundary is tried as the onset of
    a change, with n0 records before it, at least ``baseline``, and n1 after it. Subject j has changed where::

        |mean1 − mean0| > min_change_j + sqrt(2 h v r) + h c / 3 · (1/n0² + 1/n1²) / r,      r = 1/n0 + 1/n1

    the deviation of Bernstein for a sum of weighted records, with::

        h = log(subjects · one_in / BLOCK)
        v = max(σ² (1 + D), W)                                           the long-run variance of a record
        c = E|x|³/σ² · (1 + 3 (m + 1) D') / (1 + D'),  D' = v/σ² − 1      the scale of its tail

    σ² is the variance of the records within the two sides; D what rows of a reservoir, which stay ``memory`` records on average, add, by
    the variance of blocks and their covariance with the next, and half a standard error more; at most 2 m (``draws``). W is the long-run
    variance by the differences between neighbouring buckets, which also knows of slower dependence, such as that of a model that
    keeps learning. Values are clipped at five standard deviations of the warm-up, the first ``warm_up`` records, which count for nothing
    else; means that are told are those of the values as they came. A subject that has changed begins anew.

    With a ``season`` ("day", "week" or "auto") all values, also those that are told, are without what their hour adds to the mean of all hours, see
    ``explain_core.alarms.seasons``; v is not less than what the records of these hours varied by. A subject is watched once two periods are known.

    What is promised is measured, not proved (``python -m experiments.alarms``): at most one false alarm in ``one_in`` records.

    >>> rng, detector = np.random.default_rng(0), ChangeDetector(2, one_in=100_000)
    >>> found = []
    >>> for t in range(12_000):
    ...     if detector.add(rng.normal([0.0, 0.3 * (t >= 9_030)], 1.0), [Position(t, 0)]):
    ...         found += detector.end_block()
    >>> [(change.subject, change.earliest.offset <= 9_030 <= change.latest.offset, change.before.records) for change in found]
    [(1, True, 8000)]
    """

    def __init__(
        self,
        subjects: int,
        *,
        one_in: float,
        memory: int = 100,
        draws: int = 1,
        warm_up: int = WARM_UP,
        baseline: int = BASELINE,
        season: str = "none",
    ) -> None:
        self.one_in = one_in
        self.subjects = subjects
        self._constants: Array = constants_of(memory, draws, warm_up, baseline)
        self._pending: Array = np.zeros((BLOCK, subjects))
        self._rows = 0
        self._cells: Array = np.zeros((8, subjects))
        self._buckets: Array = np.zeros((subjects, engine.FIELDS, ROOM))
        self._sizes: NDArray[np.int64] = np.zeros(ROOM, np.int64)
        self._starts: NDArray[np.int64] = np.zeros((ROOM, 2), np.int64)
        self._n = 0
        self._found: Array = np.zeros((subjects, engine.N_FOUND))
        self._last = Position(0, 0)
        self._lengths: NDArray[np.int64] = np.array(seasons.LENGTHS[season], np.int64)
        self._seasonal = len(self._lengths) > 0
        self._hours: NDArray[np.int64] = np.full(BLOCK + 1, seasons.NEVER)
        self._visits: NDArray[np.int64] = np.full(sum(self._lengths.tolist()), seasons.NEVER)
        self._profile: Array
        self._seasons: Array
        self._profile, self._seasons = seasons.made(self._lengths, subjects)

    def grow(self, subjects: int) -> None:
        """Append new subjects, up to so many; amid a block they begin with the next one."""
        more = subjects - self.subjects
        if more > 0:
            self._pending = np.concatenate([self._pending, np.zeros((BLOCK, more))], axis=1)
            self._cells = np.concatenate([self._cells, np.zeros((8, more))], axis=1)
            self._cells[engine.AGE, self.subjects :] = -float(self._rows > 0)
            rooms = self._buckets.shape[2]
            self._buckets = np.concatenate([self._buckets, np.zeros((more, engine.FIELDS, rooms))])
            profile, chosen = seasons.made(self._lengths, more)
            self._profile = np.concatenate([self._profile, profile], axis=2)
            self._seasons = np.concatenate([self._seasons, chosen], axis=1)
            self._found = np.zeros((subjects, engine.N_FOUND))
            self.subjects = subjects

    @property
    def room(self) -> int:
        """How many records complete the block."""
        return BLOCK - self._rows

    def add(self, values: Array | list[float], positions: Sequence[Position]) -> bool:
        """Add at most ``room`` records: a value of each subject, records × subjects, or of a single one a row. True if the block is complete, and
        ``end_block`` is due.
        """
        rows = self._rows
        if not rows:
            if self._n + 1 >= len(self._sizes):
                self._more_room(len(self._sizes))
            self._starts[self._n] = positions[0]
        self._rows = rows + len(positions)
        self._pending[rows : self._rows] = values
        if self._seasonal:
            hours = [position.timestamp // seasons.HOUR for position in positions]
            self._hours[rows + 1 : self._rows + 1] = hours
        self._last = positions[-1]
        return self._rows == BLOCK

    def end_block(
        self, min_change: Array | list[float] | float = 0.0, among: int | None = None
    ) -> list[Change]:
        """The changes that the complete block shows.

        ``min_change`` is what a mean may move by without notice, for each subject; the value at the end of its warm-up counts. ``among``
        is the number of subjects that ``one_in`` is meant for, of all detectors; by default those of this one.
        """
        limits = np.empty(self.subjects)
        limits[:] = min_change
        np.clip(self._pending, -HUGE, HUGE, out=self._pending)
        self._constants[engine.H] = h_of(among or self.subjects, self.one_in)
        self._n = engine.end_block(
            self._pending, limits, self._constants, self._cells, self._buckets, self._sizes, self._starts, self._found,
            self._hours, self._lengths, self._profile, self._visits, self._seasons,
        )  # fmt: skip
        self._hours[0] = self._hours[-1]
        self._rows = 0
        self._starts[self._n] = 0  # what was there is no part of the state
        changed = np.flatnonzero(self._found[:, engine.EVIDENCE] > 0.0)
        return [self._change(j) for j in changed.tolist()] if len(changed) else []

    def floor(self, among: int | None = None) -> Array:
        """The smallest lasting change of each subject that could be noticed, at its baseline's end; NaN where it warms up.

        It is min_change + sqrt(2 h v/n0), all records being before the onset, v here the variance of the records alone.
        """
        sums = self._buckets[:, : engine.CUBE, : self._n].sum(axis=2)
        n = sums[:, engine.BLOCKS] * BLOCK
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = sums[:, engine.SUM] / n
            variance = np.maximum(sums[:, engine.SQUARE] / n - mean * mean, 0.0)
            spread = np.sqrt(2.0 * h_of(among or self.subjects, self.one_in) * variance / n)
        floor: Array = np.where(
            n >= self._constants[engine.FIRST_ONSET] * BLOCK,
            self._cells[engine.MIN_CHANGE] + spread,
            np.nan,
        )
        return floor

    def _change(self, subject: int) -> Change:
        row: list[float] = self._found[subject].tolist()
        sides = []
        for at in (engine.N_0, engine.N_1):
            n, mean, variance = row[at : at + 3]
            half = Z * math.sqrt(variance * row[engine.TIMES] / n)
            sides.append(Side(mean, mean - half, mean + half, round(n)))
        onset, earliest, latest = (
            Position(*self._starts[int(row[at])].tolist()) if row[at] < self._n else self._last
            for at in (engine.ONSET, engine.EARLIEST, engine.LATEST)
        )
        return Change(
            subject,
            onset,
            earliest,
            latest,
            sides[0],
            sides[1],
            row[engine.EVIDENCE],
            row[engine.CUT],
            row[engine.LEAST],
        )

    def _more_room(self, rooms: int) -> None:
        """Room for more buckets than so many."""
        room = rooms + ROOM
        buckets = np.zeros((self.subjects, engine.FIELDS, room))
        buckets[:, :, : self._n] = self._buckets[:, :, : self._n]
        starts, sizes = np.zeros((room, 2), np.int64), np.zeros(room, np.int64)
        starts[: self._n], sizes[: self._n] = self._starts[: self._n], self._sizes[: self._n]
        self._buckets, self._starts, self._sizes = buckets, starts, sizes

    def state(self) -> DetectorState:
        n, rows = self._n, self._rows
        return DetectorState(
            block(self._pending[:rows]), block(self._cells),
            block(np.ascontiguousarray(self._buckets[:, : engine.IN_SEASON, :n])),
            block(self._sizes[:n]), block(self._starts[: n + 1]),
            *self._state_of_season(),
        )  # fmt: skip

    def _state_of_season(self) -> tuple[Block, ...]:
        if not self._seasonal:
            return ()
        in_season = np.ascontiguousarray(self._buckets[:, engine.IN_SEASON, : self._n])
        kept = in_season, self._hours[: self._rows + 1], self._profile, self._visits, self._seasons
        return tuple(map(block, kept))

    def restore(self, state: DetectorState, most: int) -> None:
        """Restore a stored state of at least as many subjects as this has, and at most ``most``. Raises ``StateError`` where it is invalid."""
        cells = array("detector", state.cells, "<f8", (8, None))
        subjects = cells.shape[1]
        check(
            self.subjects <= subjects <= most, f"detector: of {subjects} subjects instead of {self.subjects}"
        )
        pending = array("detector", state.pending, "<f8", (None, subjects))
        sizes = array("detector", state.sizes, "<i8", (None,))
        n = len(sizes)
        buckets = array("detector", state.buckets, "<f8", (subjects, engine.IN_SEASON, n))
        starts = array("detector", state.starts, "<i8", (n + 1, 2))
        for numbers in (pending, cells, buckets):
            finite("detector", numbers)
        age, first = cells[engine.AGE], np.abs(cells[engine.FIRST]).max(initial=0.0)
        check(bool((age >= -1.0).all() and (age % 1.0 == 0.0).all()), "detector: a part of a block")
        reached = np.abs(cells[[engine.CENTRE, engine.REACH, engine.LAST]]).max(initial=0.0)
        check(
            reached <= 100.0 * HUGE and first <= 4.0 * HUGE * self._constants[engine.WARM] * BLOCK,
            "detector: numbers that no values lead to",
        )
        check(len(pending) < BLOCK, "detector: a block that is complete")
        check(bool((sizes > 0).all()), "detector: a bucket without a block")
        self.grow(subjects)
        self._pending[: len(pending)], self._rows, self._cells = pending, len(pending), cells
        self._n = 0
        self._more_room(n + 1)
        self._n = n
        self._buckets[:, : engine.IN_SEASON, :n] = buckets
        self._sizes[:n], self._starts[: n + 1] = sizes, starts
        self._restore_season(state)

    def _restore_season(self, state: DetectorState) -> None:
        stored = state.in_season, state.hours, state.profile, state.visits, state.seasons
        blocks = [one for one in stored if one is not None]
        check(len(blocks) == len(stored) * self._seasonal, "detector: with a season, or without")
        if not blocks:
            return
        in_season = array("detector", blocks[0], "<f8", (self.subjects, self._n))
        hours = array("detector", blocks[1], "<i8", (self._rows + 1,))
        profile = array("detector", blocks[2], "<f8", self._profile.shape)
        visits = array("detector", blocks[3], "<i8", self._visits.shape)
        found = array("detector", blocks[4], "<f8", self._seasons.shape)
        for numbers in (in_season, profile, found):
            finite("detector", numbers)
        check(
            all(bool((abs(some // 2) <= -seasons.NEVER // 2).all()) for some in (hours, visits)),
            "detector: an hour that is none",
        )
        wrong = seasons.problem(self._lengths.tolist(), profile, found)
        check(wrong is None, f"detector: {wrong}")
        self._hours[: self._rows + 1], self._buckets[:, engine.IN_SEASON, : self._n] = hours, in_season
        self._profile, self._visits, self._seasons = profile, visits, found
