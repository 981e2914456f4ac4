"""Means over periods, from sums that add up over time, partitions and versions; and what drives the model in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from explain_core import bands
from explain_core.bands import Array, Band, Spread
from explain_core.engine import smoothing as engine
from explain_core.state import Block, Count, State, array, block, check, finite

LEVEL, SHARE = 0.025, 0.05
"""A feature drives the model where its mean is above 0, one-sided at this level over all features, and at least this share of the gain."""

NEWEST, THOUSAND, ENOUGH = 4, 1_000, 1_000
"""What drives the model is said of the records since the last alarm if these are enough, else of the newest 4 thousands and the open one; where these name no feature,
of all records, if there was no alarm."""

ALARM, ALL = "alarm", "all"
"""The periods that do not end: since the last alarm, and all records."""

CALENDAR = {"hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
"""Milliseconds of event time."""

MONDAY = 345_600_000
"""Weeks begin with a Monday; 1970-01-01 was a Thursday."""


class Sums:
    """Means of cells over a period, with their bands.

    ``array`` has, for each cell, n, Σ Δ, and of that sum the variance, the third moment, and the sum of the blocks' squared variances: what
    ``Smoother.end_block`` returns, added up. F is in the variance: whoever adds up need not know of dependence.

    >>> sums = Sums(np.array([[1_000.0], [500.0], [250.0], [0.0], [6_250.0]]))
    >>> low, high = sums.band(0.95)
    >>> float(sums.value[0]), round(float(low[0]), 2), round(float(high[0]), 2)
    (0.5, 0.47, 0.53)
    """

    def __init__(self, array: Array) -> None:
        self.array = array
        self.n: Array = array[0]
        """The records of each cell."""
        means = np.empty(array.shape)
        engine.means_of_sums(array.reshape(5, -1), bands.LEAST, means.reshape(5, -1))
        self.value: Array = means[0]
        """The mean; NaN where there is no record."""
        self.spread = Spread(means[1:])
        """How ``value`` errs; NaN below ``bands.LEAST`` records."""

    def band(self, confidence: float = 0.95, band: Band = "normal") -> tuple[Array, Array]:
        """Low and high end of the two-sided band; NaN below ``bands.LEAST`` records."""
        return bands.ends(self.value, self.spread, confidence, band)


class Driver(NamedTuple):
    """A feature that drives the model: its mean importance over the period, and the band.

    ``lasting``: its importance since the last alarm, or since the beginning, is above 0 by a bound that holds however often you look.
    """

    feature: str
    value: float
    low: float
    high: float
    lasting: bool


class Driven(NamedTuple):
    """What drives a model over a period, the most important feature first.

    Nothing does where the gain over no model is not above 0 for certain; None while there are too few records to say so. ``since`` is the event time
    of the last alarm, or of the first record. ``loss`` is the model's mean loss over the period, whose gain is that of no model minus it.
    """

    records: int
    since_alarm: bool
    gain: float
    gain_low: float
    gain_high: float
    drivers: list[Driver]
    since: int
    loss: float


class PeriodState(State, frozen=True):
    """A period that is open or closed: its name, the records folded, offset and event time before it, and its sums by source."""

    name: str
    records: Count
    offset: int
    timestamp: int
    sums: dict[str, Block]


class PeriodsState(State, frozen=True):
    """The open periods, and the newest thousands that are closed, the oldest first."""

    open: list[PeriodState]
    newest: list[dict[str, Block]]


class Period:
    """Sums by source since ``records`` were folded, the last of them at ``offset`` and ``timestamp``."""

    def __init__(self, name: str, records: int = 0, offset: int = -1, timestamp: int = 0) -> None:
        self.name, self.records, self.offset, self.timestamp = name, records, offset, timestamp
        self.sums: dict[str, Array] = {}

    def ends(self, records: int, timestamp: int) -> bool:
        """Whether it ends with a record of this event time, when so many were folded."""
        if self.name in (ALARM, ALL):
            return False
        length = CALENDAR.get(self.name)
        if length is None:
            return records - self.records >= int(self.name)
        shift = MONDAY if self.name == "week" else 0
        now, then = ((at - shift) // length for at in (timestamp, self.timestamp))
        # Records out of order end none; but one with a time far ahead, or a clock that is set back, keeps none open for good.
        return now > then or now < then - 1

    def state(self) -> PeriodState:
        sums = {source: block(of) for source, of in self.sums.items()}
        return PeriodState(self.name, self.records, self.offset, self.timestamp, sums)


class Periods:
    """Sums of importances, losses and gains over periods: what a block adds is added to every open period.

    Parameters
    ----------
    lengths
        What ends periods: "hour", "day", "week" of event time, or a number of records. "alarm" (since the last one) and "all" do not end.

    A period ends with the first message at or after its end that no other one ends with: each has whole blocks. A message has one period at most that ends,
    and then also those that do not.

    >>> periods = Periods(["1000"])
    >>> periods.begin(0, 0)
    >>> for i in range(1, 21):
    ...     periods.add("ipfi", np.full((5, 1, 1), [[[100.0]], [[50.0]], [[25.0]], [[0.0]], [[625.0]]]))
    ...     closed = periods.close(100 * i, 100 * i - 1, 0)
    >>> closed[0].name, closed[0].records, closed[0].sums["ipfi"][0].tolist()
    ('1000', 1000, [[1000.0]])
    """

    def __init__(self, lengths: Sequence[str]) -> None:
        ending = [name for name in dict.fromkeys([str(THOUSAND), *lengths]) if name not in (ALARM, ALL)]
        self._open = [Period(name) for name in (*ending, ALARM, ALL)]
        self._newest: list[dict[str, Array]] = []
        self._closed: dict[str, Array | None] = {}
        """Sums over the newest thousands that are closed, as far as they were asked for."""
        self._shown = set(lengths)

    def begin(self, offset: int, timestamp: int) -> None:
        """Note the first record's position."""
        for period in self._open:
            period.offset, period.timestamp = offset - 1, timestamp

    def add(self, source: str, closed: Array) -> None:
        """Add a block of a source, see ``Smoother.end_block``."""
        for period in self._open:
            period.sums[source] = _sum(period.sums.get(source), closed)

    def alarmed(self, records: int, offset: int, timestamp: int) -> None:
        """Note an alarm: what is said of the records since then begins anew."""
        self._open[-2] = Period(ALARM, records, offset, timestamp)

    def close(self, records: int, offset: int, timestamp: int) -> list[Period]:
        """End what ends with the record at this position; returns what was asked for of that: one period at most, and those that do not end."""
        closed: list[Period] = []
        due = [place for place, period in enumerate(self._open) if period.ends(records, timestamp)]
        # The longest one goes first: else days would keep weeks from ending where each message ends a day.
        asked = [place for place in due if self._open[place].name in self._shown]
        first = min(asked, key=lambda place: self._open[place].records, default=-1)
        for place in due:
            period = self._open[place]
            if place in asked and place != first:
                continue
            self._open[place] = Period(period.name, records, offset, timestamp)
            if period.name == str(THOUSAND):
                self._newest, self._closed = [*self._newest[1 - NEWEST :], period.sums], {}
            if place == first:
                closed.append(period)
        if due:
            *_, alarm, all_ = self._open
            running = ([alarm] if alarm.records else []) + [all_]
            closed += [period for period in running if period.name in self._shown]
        return closed

    def driven(
        self, source: str, features: Sequence[str], row: int, gains: str, gain_row: int
    ) -> Driven | None:
        """What drives the model by a source's row (its loss), the gain being the second column of the source ``gains``; None where it is too early."""
        *_, alarm, all_ = self._open
        alarmed = alarm.records > 0
        since = alarm if alarmed else all_
        recent = alarmed and source in alarm.sums and float(alarm.sums[source][0].max(initial=0.0)) >= ENOUGH
        # Where no feature stands out among the newest records, all may tell: the probability of naming one that does not matter is twice LEVEL at most.
        places = [alarm.sums] if recent else [self._last(source, gains), *([] if alarmed else [all_.sums])]
        first: Driven | None = None
        for sums in places:
            if source not in sums or gains not in sums or not features:
                continue
            of, lost = sums[source][:, row], sums[gains][:, gain_row]
            whole = since.sums[source][:, row] if source in since.sums else of
            found = _driven(of, lost, whole[:, : of.shape[1]], features, recent, since.timestamp)
            if found is not None and found.drivers:
                return found
            first = first or found
        return first

    def _last(self, *sources: str) -> dict[str, Array]:
        """The sums over the newest thousands and the open one."""
        opened = next(period for period in self._open if period.name == str(THOUSAND)).sums
        found: dict[str, Array] = {}
        for source in sources:
            if source not in self._closed:
                closed = [sums[source] for sums in self._newest if source in sums]
                self._closed[source] = reduce(_sum, closed[1:], closed[0].copy()) if closed else None
            parts = [of for of in (self._closed[source], opened.get(source)) if of is not None]
            if parts:
                found[source] = parts[0] if len(parts) == 1 else _sum(parts[0].copy(), parts[1])
        return found

    def state(self) -> PeriodsState:
        newest = [{source: block(of) for source, of in sums.items()} for sums in self._newest]
        return PeriodsState([period.state() for period in self._open], newest)

    def restore(self, state: PeriodsState, shapes: Mapping[str, tuple[int, int, int]]) -> None:
        """Restore a stored state; ``shapes`` are the losses of each source, and its least and most columns. Raises ``StateError`` where it is invalid."""
        check(
            [period.name for period in state.open] == [period.name for period in self._open],
            "periods: others",
        )
        check(len(state.newest) <= NEWEST, "periods: too many that are closed")
        for period, stored in zip(self._open, state.open, strict=True):
            check(
                max(stored.records, abs(stored.offset)) < 2**63 and -(2**63) <= stored.timestamp < 2**63,
                "periods: a position that is none",
            )
            period.records, period.offset, period.timestamp = stored.records, stored.offset, stored.timestamp
            period.sums = _restored(stored.sums, shapes)
        self._newest, self._closed = [_restored(sums, shapes) for sums in state.newest], {}


def _driven(
    of: Array, lost: Array, whole: Array, features: Sequence[str], since_alarm: bool, since: int
) -> Driven | None:
    """What drives the model by a period's sums (5 × features), those of its loss and gain (5 × 2), and those since a fixed start; None where it is too early."""
    d = of.shape[1]
    means = Sums(np.concatenate([of, lost[:, 1:]], axis=1))
    values = means.value.tolist()
    low, high = (end.tolist() for end in means.band())
    if not math.isfinite(low[d]) or not any(map(math.isfinite, low[:d])):
        return None
    drivers: list[Driver] = []
    if low[d] > 0.0:
        above = bands.holm(bands.p_value(means.value, means.spread)[:d].tolist(), LEVEL)
        found = [j for j in range(d) if above[j] and values[j] >= SHARE * values[d]]
        found.sort(key=lambda j: -values[j])
        start = Sums(whole)
        for j in found:
            least = bands.anytime(float(start.n[j]), 0.05 / d) * float(start.spread.std[j])
            drivers.append(Driver(features[j], values[j], low[j], high[j], float(start.value[j]) > least))
    n, loss = int(max(of[0].tolist(), default=0.0)), float(lost[1, 0] / lost[0, 0])
    return Driven(n, since_alarm, values[d], low[d], high[d], drivers, since, loss)


def _restored(sums: Mapping[str, Block], shapes: Mapping[str, tuple[int, int, int]]) -> dict[str, Array]:
    found = {}
    for source, stored in sums.items():
        check(source in shapes, "periods: of a source that is none")
        losses, least, most = shapes[source]
        columns = stored.shape[-1] if stored.shape else 0
        check(least <= columns <= most, "periods: columns of no feature")
        found[source] = array("periods", stored, "<f8", (5, losses, columns))
        finite("periods", found[source])
        check(
            bool((found[source][0] >= 0.0).all() and (found[source][0] < 2.0**53).all()),
            "periods: records that are none",
        )
    return found


def _sum(before: Array | None, added: Array) -> Array:
    """Of two arrays, the one before of at most as many columns."""
    if before is None:
        return added.copy()
    missing = added.shape[-1] - before.shape[-1]
    if missing > 0:
        before = np.pad(before, [(0, 0), (0, 0), (0, missing)])
    columns = before[..., : added.shape[-1]]
    columns += added
    return before
