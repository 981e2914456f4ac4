"""The mean of a sequence, with an interval that holds however often you look."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from explain_core.losses import HUGE
from explain_core.state import Count, State, check
from explain_core.sums import total as left_to_right

WARM_UP = 100
"""First values, which only say how large values are."""

WIDE = 4.0
"""The first limit in means of their absolute values."""

LEVELS = 20
"""Bets that are mixed, each half as large as the one before."""

DOUBLINGS = 10
"""How often the limit may double: so many bets are given up."""

CUT = 0.1
"""The limit doubles where what it has cut off is more than this share of half the interval."""

ITERATIONS = 50
"""Of Newton's method, at most; some six are enough."""

_BETS = [0.5**k / 2.0 for k in range(LEVELS)]
_COSTS = [-math.log1p(-bet) - bet for bet in _BETS]


class Interval(NamedTuple):
    """A mean and its interval, None until it is known; ``n`` values count, of which ``clipped`` were cut to ± ``limit``."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    clipped: int
    limit: float | None


class ConfidenceState(State, frozen=False):  # type: ignore[misc]
    """Sums of all values and of those that count, see ``ConfidenceSequence``."""

    seen: Count
    sizes: float
    first: float
    """The first limit; 0 while there is none."""
    n: Count
    total: float
    variation: float
    clipped: Count
    cut: float
    doublings: Annotated[int, msgspec.Meta(ge=0, le=DOUBLINGS)]


class ConfidenceSequence:
    """The mean of a sequence, such as the differences of two models' losses, and an interval that holds however often you look.

    With probability ``confidence`` the interval holds, at all n at once, the mean over i ≤ n of the expectations of the values, each given all
    before it. The values need be neither independent nor alike. Look as often as you like, stop when you like (Choe & Ramdas, arXiv 2110.00115, Thm 2;
    Howard, Ramdas, McAuliffe & Sekhon, Ann. Statist. 2021).

    Each value counts as X_i, cut to ± ``limit``. Where it is a bound of the values, as 2 is for differences of Brier scores, nothing is cut, and the
    interval is slow where values are mostly far smaller. By default the values before it give the limit: four times the mean absolute value of the first
    100, which do not count themselves. It doubles whenever what was cut off, of all values, exceeds a tenth of half the interval. What
    holds, holds for the mean of the X_i. It says nothing of losses that are so rare and large that none was seen.

    With g_i the mean of the X before i, and c_i = 2 b_i, X_i − g_i is not below −c_i, so that for 0 ≤ λ < 1/c_i and the expectation m_i of X_i::

        E exp(λ (X_i − m_i) − ψ_i(λ) (X_i − g_i)²) ≤ 1,   ψ_i(λ) = (−ln(1 − c_i λ) − c_i λ)/c_i²

    by exp(λy − ψy²) ≤ 1 + λy for y ≥ −c (Fan, Grama & Liu 2015). The products of these over i, for 20 fixed λ (1/2, 1/4, … of 1/c_1) with a
    weight of 1/20 each, are a supermartingale. They remain one if a λ counts as 0 from the record on for which it is too large, λ c_i > 1/2, and if ψ_i is replaced by
    the newest, which is the largest. By Ville's inequality it ever reaches 2/(1 − confidence) with half of the probability left; so on the other side. The interval is where it has not::

        mean of X ± u/n,   Σ_λ exp(λ u − ψ_n(λ) Σ (X_i − g_i)²)/20 = 2/(1 − confidence)

    Parameters
    ----------
    confidence
        That the interval holds at all times, in (0, 1).
    limit
        Of a value; None takes it from the values.

    >>> sequence = ConfidenceSequence(confidence=0.95)
    >>> for i in range(2_000):
    ...     sequence.add(0.5 + i % 7 - 3)
    >>> low, high = sequence.interval.low, sequence.interval.high
    >>> 0.0 < low < 0.5 < high
    True
    """

    def __init__(self, confidence: float = 0.95, limit: float | None = None) -> None:
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence: {confidence} is outside (0, 1); 0.95 is usual")
        if limit is not None and not 0.0 < limit <= HUGE:
            raise ValueError(f"limit: {limit} is not between 0 and {HUGE:g}; 2 is that of the Brier score")
        self._level = 2.0 / (1.0 - confidence)
        self._most = 0 if limit else DOUBLINGS
        self._sums = ConfidenceState(0, 0.0, limit or 0.0, 0, 0.0, 0.0, 0, 0.0, 0)

    def add(self, value: float) -> None:
        """Add a value. Raises ``ValueError`` where it is not finite."""
        if not -HUGE <= value <= HUGE:
            if not math.isfinite(value):
                raise ValueError(f"difference: {value} is not a finite number")
            value = math.copysign(HUGE, value)
        sums = self._sums
        sums.seen += 1
        if sums.first == 0.0:
            sums.sizes += abs(value)
            if sums.seen >= WARM_UP:
                sums.first = WIDE * sums.sizes / sums.seen
            return
        limit = self._limit
        x = value if -limit <= value <= limit else math.copysign(limit, value)
        off = x - (sums.total / sums.n if sums.n else 0.0)
        sums.n += 1
        sums.total += x
        sums.variation += off * off
        if x != value:
            sums.clipped += 1
            sums.cut += abs(value - x)
            if sums.doublings < self._most and sums.cut > CUT * self._reach():
                sums.doublings += 1

    @property
    def interval(self) -> Interval:
        """The mean and its interval."""
        sums = self._sums
        if not sums.n:
            return Interval(None, None, None, 0, 0, None)
        mean, half = sums.total / sums.n, self._reach() / sums.n
        return Interval(mean, mean - half, mean + half, sums.n, sums.clipped, self._limit)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval does not hold 0: as ``interval`` says, in less time."""
        sums, (variation, bets) = self._sums, self._scaled()
        total = abs(sums.total)
        if not sums.n or total * total <= 2.0 * math.log(self._level) * sums.variation:
            return False  # no bet has gained so much
        return self._gain(total / (2.0 * self._limit), variation, bets) > self._level

    @property
    def _limit(self) -> float:
        return self._sums.first * 2.0**self._sums.doublings

    def _scaled(self) -> tuple[float, int]:
        """The variation in units of (twice the limit)², and how many bets are left."""
        c = 2.0 * self._limit
        return (self._sums.variation / c / c if c else 0.0), LEVELS - self._sums.doublings

    @staticmethod
    def _gain(total: float, variation: float, bets: int) -> float:
        gains = [
            bet * total - cost * variation for bet, cost in zip(_BETS[:bets], _COSTS[:bets], strict=True)
        ]
        most = max(gains)
        return math.inf if most > 700.0 else left_to_right(math.exp(gain) for gain in gains) / LEVELS

    def _reach(self) -> float:
        """u: by so much the sum may be off. Newton's method from above: the logarithm of the mixture is convex."""
        variation, bets = self._scaled()
        pairs = list(zip(_BETS[:bets], _COSTS[:bets], strict=True))
        level = math.log(self._level * LEVELS)
        total = min((level + cost * variation) / bet for bet, cost in pairs)
        for _ in range(ITERATIONS):
            gains = [bet * total - cost * variation - level for bet, cost in pairs]
            most = max(gains)
            weights = [math.exp(gain - most) for gain in gains]
            mass = left_to_right(weights)
            slope = (
                left_to_right(weight * bet for weight, (bet, _) in zip(weights, pairs, strict=True)) / mass
            )
            step = (most + math.log(mass)) / slope
            total -= step
            if step <= 1e-9 * total:
                break
        return total * 2.0 * self._limit

    def state(self) -> ConfidenceState:
        return replace(self._sums)

    def restore(self, state: ConfidenceState) -> None:
        """Restore a stored state. Raises ``StateError`` where it is not one of such a sequence."""
        sums = (state.sizes, state.first, state.variation, state.cut)
        check(
            all(math.isfinite(number) for number in (*sums, state.total)) and min(sums) >= 0.0,
            "comparison: sums that are not finite, or below 0",
        )
        check(state.clipped <= state.n <= state.seen, "comparison: more values than there were")
        check(state.first > 0.0 if self._most == 0 or state.n else True, "comparison: no limit")
        check(self._most > 0 or state.first == self._sums.first, "comparison: another limit")
        check(state.doublings <= self._most, "comparison: a limit that does not grow has grown")
        self._sums = replace(state)
        check(math.isfinite(self._reach()), "comparison: an interval without end")
        most = self._limit * (1.0 + 1e-9)
        check(abs(state.total) <= state.n * most, "comparison: a mean beyond the limit")
