"""What drives a model over a period, and sums over periods that merge over time, partitions and versions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

from explain_client.fields import described
from explain_client.importance import pick
from explain_client.words import day, loss_name

DRIVEN = {
    "records": 5000,
    "since_alarm": False,
    "gain": 0.06,
    "gain_low": 0.044,
    "gain_high": 0.076,
    "drivers": [{"feature": "dep_hour", "value": 0.024, "low": 0.018, "high": 0.03, "lasting": True}],
    "since": 1356998400000,
}
MEAN = {
    "n": 1000,
    "value": 0.0146,
    "low": 0.0077,
    "high": 0.0219,
    "sum": 14.6,
    "var": 11.9,
    "third": 8.1,
    "var2": 20.4,
}
Z = 1.959963984540054
LEAST = 500
"""Records that a mean needs before it has a band."""

LEVEL, SHARE = 0.025, 0.05
"""See ``explain_core.periods``."""

SKEW, FEW, MOST = 0.2, 4.0, 1.5
"""See ``explain_core.bands``; of one record the squared skewness over n is that of the mean."""


WORSE = "the model is worse than no model since {}; its importances say nothing"
"""Said in the place of drivers."""


def span(records: int, since_alarm: bool, unit: str = "records") -> str:
    """The records of which drivers are named.

    >>> span(1700, True), span(5000, False)
    ('the 1,700 records since the last alarm', 'the last 5,000 records')
    """
    return f"the {records:,} {unit} since the last alarm" if since_alarm else f"the last {records:,} {unit}"


@dataclass(frozen=True, slots=True)
class Driver:
    """A feature that drives the model, with the mean of its importance over the period."""

    feature: str = described("The feature.", "dep_hour")
    value: float = described("Mean importance over the period.", 0.024, unit="loss")
    low: float = described("Lower end of the band of that mean.", 0.018, unit="loss")
    high: float = described("Upper end of the band.", 0.03, unit="loss")
    lasting: bool = described(
        "Whether its mean importance since the last alarm, or since the beginning, is above 0 by a bound that holds however often you look.",
        True,
    )


@dataclass(frozen=True, slots=True)
class Driven:
    """What drives the model under a loss: over the records since the last alarm if these are 1,000 or more, else over the newest 4,000 to 5,000.

    Where these name no feature and there was no alarm, over all records.
    """

    records: int = described("Explained records of the period.", 5000, ge=0, unit="records")
    since_alarm: bool = described("Whether the period begins with the last alarm.", False)
    gain: float = described(
        "Loss of no model minus loss of the model, mean over the period.", 0.06, unit="loss"
    )
    gain_low: float = described("Lower end of its band.", 0.044, unit="loss")
    gain_high: float = described("Upper end of its band.", 0.076, unit="loss")
    drivers: tuple[Driver, ...] = described(
        "The features whose importance is above 0, tested over all features together, and at least 5 % of the gain; the largest first. "
        "None where the gain is not above 0 for certain.",
        DRIVEN["drivers"],
    )
    since: int | None = described(
        "Event time of the last alarm, or of the first record: since then `lasting` drivers have mattered.",
        1356998400000,
        unit="milliseconds",
        default=None,
    )

    def sentence(
        self,
        name: Callable[[str], str] = str,
        unit: str = "records",
        most: int = 5,
        loss: str = "loss",
        over: str | None = None,
    ) -> str:
        """What drives the model, in words; ``name`` turns a feature into what it is called, ``loss`` is what the gain is of, ``over`` is the period.

        >>> Driven(5000, False, 0.06, 0.044, 0.076, (Driver("dep_hour", 0.024, 0.018, 0.03, True),)).sentence()
        'dep_hour drives the model: 0.024 [0.018, 0.030], over the last 5,000 records, in which it is better than no model by 0.060 [0.044, 0.076] of loss'
        >>> Driven(5000, False, 0.06, 0.044, 0.076, (Driver("dep_hour", 0.024, 0.018, 0.03, True),), 1356998400000).sentence()
        'dep_hour drives the model: 0.024 [0.018, 0.030], over the last 5,000 records, in which it is better than no model by 0.060 [0.044, 0.076] of loss; dep_hour has mattered since 2013-01-01, however often you look'
        >>> Driven(5000, True, 0.01, -0.01, 0.03, ()).sentence()
        'the model may be worth nothing, so nothing drives it for certain: over the 5,000 records since the last alarm it is better than no model by 0.010 [-0.010, 0.030] of loss; give it better features, more records or another model'
        >>> Driven(5000, False, -0.02, -0.03, -0.01, ()).sentence()
        'the model is worth nothing, so nothing drives it: over the last 5,000 records it is worse than no model by 0.020 [0.010, 0.030] of loss; give it better features, more records or another model'
        """
        since = over or span(self.records, self.since_alarm, unit)
        digits = decimals(self.gain_low, self.gain_high, *(d.low for d in self.drivers[:most]))
        gain = f"by {band(self.gain, self.gain_low, self.gain_high, digits)} of {loss}"
        if self.gain_low <= 0.0:
            if self.gain < 0.0:
                gain = f"by {band(-self.gain, -self.gain_high, -self.gain_low, digits)} of {loss}"
            uncertain = self.gain_high >= 0.0
            return (
                f"the model {'may be' if uncertain else 'is'} worth nothing, so nothing drives it{' for certain' * uncertain}: "
                f"over {since} it is {'worse' if self.gain < 0.0 else 'better'} than no model {gain}; give it better features, more records or another model"
            )
        if not self.drivers:
            return f"no feature stands out: over {since} the model is better than no model {gain}, and no feature has a share of that for certain"
        shown = [
            f"{name(driver.feature)} {band(driver.value, driver.low, driver.high, digits)}"
            for driver in self.drivers
        ]
        if len(shown) == 1:
            first = self.drivers[0]
            named = (
                f"{name(first.feature)} drives the model: {band(first.value, first.low, first.high, digits)}"
            )
        else:
            more = f" and {len(shown) - most} more" if len(shown) > most else ""
            named = f"{', '.join(shown[:most])}{more} drive the model"
        return f"{named}, over {since}, in which it is better than no model {gain}{self._lasting(name, most)}"

    def _lasting(self, name: Callable[[str], str], most: int) -> str:
        lasting = [name(driver.feature) for driver in self.drivers[:most] if driver.lasting]
        if not lasting or self.since is None:
            return ""
        words = " and ".join(filter(None, (", ".join(lasting[:-1]), lasting[-1])))
        have = "has" if len(lasting) == 1 else "have"
        return f"; {words} {have} mattered since {day(self.since)}, however often you look"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of one quantity over the records of a period, and the sums that it is made from, which add up over periods, partitions and versions."""

    n: float = described("Records.", 1000, ge=0, unit="records")
    value: float | None = described("The mean, `sum/n`; null without records.", 0.0146, unit="loss")
    low: float | None = described("Lower end of its band; null below 500 records.", 0.0077, unit="loss")
    high: float | None = described("Upper end of its band.", 0.0219, unit="loss")
    sum: float = described("Sum over the records.", 14.6, unit="loss")
    var: float = described(
        "Variance of the sum, what dependence adds included: the standard error of the mean is `sqrt(var)/n`.",
        11.9,
        ge=0,
    )
    third: float = described("Third central moment of the sum, for the skewness of the band.", 8.1)
    var2: float = described(
        "Sum of the squared variances of the blocks, for its degrees of freedom.", 20.4, ge=0
    )

    @property
    def p_value(self) -> float:
        """Of the hypothesis that what the mean estimates is at most 0; 1 below 500 records."""
        if self.n < LEAST or self.value is None:
            return 1.0
        if self.var <= 0.0:
            return 0.0 if self.value > 0.0 else 1.0
        t, g = self.sum / math.sqrt(self.var), min(max(self.third / self.var**1.5, -1.0), 1.0)
        return NormalDist().cdf(-(t + g * t * t / 3.0 + g * g * t**3 / 27.0 + g / 6.0))

    def __add__(self, other: Mean) -> Mean:
        """The mean over both; its band is the normal one, corrected for skewness."""
        return _mean(*(getattr(self, name) + getattr(other, name) for name in SUMS))


SUMS = ("n", "sum", "var", "third", "var2")


@dataclass(frozen=True, slots=True)
class Period:
    """Means over the records of a period that ended with the message, or of one that does not end, so far."""

    name: str = described(
        "`hour`, `day` or `week` of event time (UTC), or a number of records; `alarm`: the records since the last alarm, `all`: those so far.",
        "day",
    )
    records: int = described("Records folded in it.", 1200, ge=0, unit="records")
    first_offset: int = described("Offset behind which it begins.", 17100, ge=0)
    last_offset: int = described("Offset of its last record.", 18299, ge=0)
    begin: int = described(
        "Event time of the record before it, or of the first one.",
        1387490400000,
        unit="milliseconds",
        alias="from",
    )
    until: int = described("Event time of its last record.", 1387576800000, unit="milliseconds")
    performance: Mapping[str, Mapping[str, Mean]] = described(
        "By loss: `loss` of the model, and its `gain` over no model.",
        {"cross_entropy": {"loss": MEAN, "gain": MEAN}},
    )
    importances: Mapping[str, Mapping[str, Mapping[str, Mean]]] = described(
        "By estimator, loss and feature.", {"ipfi": {"cross_entropy": {"dep_hour": MEAN}}}, alias="importance"
    )

    def driven(self, estimator: str | None = None, loss: str | None = None) -> Driven | None:
        """What drives the model over the period, under an estimator and a loss, by default the first ones; None below 500 records.

        The rule is that of ``Explanation.drivers``. ``KeyError`` names the estimators and losses that there are.
        """
        means: Mapping[str, Mean] = pick(pick(self.importances, estimator, "estimator"), loss, "loss")
        if self._label_free(estimator, loss):
            return None
        gain: Mean | None = pick(self.performance, loss, "loss").get("gain")
        if gain is None or gain.low is None or gain.high is None or gain.value is None:
            return None
        if all(mean.low is None for mean in means.values()):
            return None
        ranked = sorted((mean.p_value, name) for name, mean in means.items())
        named: list[str] = []
        for place, (p, name) in enumerate(ranked):  # Holm
            if gain.low <= 0.0 or p > LEVEL / (len(ranked) - place):
                break
            named.append(name)
        drivers = [
            Driver(name, mean.value, mean.low, mean.high, False)
            for name, mean in sorted(means.items(), key=lambda item: -(item[1].value or 0.0))
            if name in named and mean.value is not None and mean.low is not None and mean.high is not None
            if mean.value >= SHARE * gain.value
        ]
        return Driven(int(gain.n), False, gain.value, gain.low, gain.high, tuple(drivers))

    def sentence(self, estimator: str | None = None, loss: str | None = None) -> str:
        """What drives the model over the period, in words."""
        if not any(self.importances.values()):  # those before the first explained record
            return f"{self.records:,} records are too few to say what drives the model"
        if self._label_free(estimator, loss):
            return self._moving(estimator, loss)
        driven = self.driven(estimator, loss)
        if driven is None:
            return f"{self.records:,} records are too few to say what drives the model"
        name = loss_name(loss or next(iter(self.performance)))
        return driven.sentence(loss=name, over=f"{driven.records:,} records")

    def _label_free(self, estimator: str | None, loss: str | None) -> bool:
        """Whether importances are of the predictions alone: there is no gain that features could have a share of."""
        losses = pick(self.importances, estimator, "estimator")
        return (loss or next(iter(losses), None)) in {*losses} - {*self.performance}

    def _moving(self, estimator: str | None, loss: str | None) -> str:
        """What moves the predictions most, in words."""
        means = pick(pick(self.importances, estimator, "estimator"), loss, "loss")
        known = [
            (mean.value, name, mean)
            for name, mean in means.items()
            if mean.value is not None and (mean.low or 0.0) > 0.0
        ]
        if not known:
            return f"{self.records:,} records are too few to say what moves the predictions"
        first = sorted(known, key=lambda one: -one[0])[:3]
        digits = decimals(*(mean.low for _, _, mean in first))
        told = ", ".join(f"{name} {band(mean.value, mean.low, mean.high, digits)}" for _, name, mean in first)
        return f"the predictions are moved most by {told}"


def merge_periods(periods: Iterable[Period]) -> Period:
    """The means over all records of some periods: of several days, partitions or versions. Raises ``ValueError`` where there is none.

    Positions are those of the earliest and latest event time; offsets of several partitions mean nothing together.
    """
    several = list(periods)
    if not several:
        raise ValueError("periods: none; pass at least one")
    performance: dict[str, dict[str, Mean]] = {}
    importances: dict[str, dict[str, dict[str, Mean]]] = {}
    for period in several:
        for loss, means in period.performance.items():
            _add(performance.setdefault(loss, {}), means)
        for estimator, by_loss in period.importances.items():
            for loss, means in by_loss.items():
                _add(importances.setdefault(estimator, {}).setdefault(loss, {}), means)
    first, last = min(several, key=lambda one: one.begin), max(several, key=lambda one: one.until)
    return Period(
        "merged",
        sum(period.records for period in several),
        first.first_offset,
        last.last_offset,
        first.begin,
        last.until,
        performance,
        importances,
    )


def _add(into: dict[str, Mean], means: Mapping[str, Mean]) -> None:
    for name, mean in means.items():
        into[name] = into[name] + mean if name in into else mean


def _mean(n: float, total: float, var: float, third: float, var2: float) -> Mean:
    if n < LEAST:
        return Mean(n, total / n if n else None, None, None, total, var, third, var2)
    value, std = total / n, math.sqrt(var) / n
    skewness = third / var**1.5 if var > 0.0 else 0.0
    wider = 1.0 + min(SKEW * skewness * skewness + FEW / n, MOST)
    g = min(max(skewness, -1.0), 1.0)
    low, high = std * _hall(Z, g), -std * _hall(-Z, g)
    low, high = low * (wider if g < 0.0 else 1.0), high * (wider if g > 0.0 else 1.0)
    return Mean(n, value, value - low, value + high, total, var, third, var2)


def _hall(z: float, g: float) -> float:
    """The inverse of Hall's cubic, see ``explain_core.bands``."""
    if abs(g) < 1e-9:
        return z
    inside = 1.0 + g * (z - g / 6.0)
    return 3.0 / g * (math.copysign(abs(inside) ** (1.0 / 3.0), inside) - 1.0)


def decimals(*values: float) -> int:
    """Decimals with which numbers differ that are shown together: three, or more where the smallest distance asks for it."""
    spread = max((abs(value) for value in values if value), default=1.0)
    return max(3, 2 - math.floor(math.log10(spread))) if spread < 1.0 else 3 if spread < 100.0 else 0


def band(value: float, low: float, high: float, digits: int = 3) -> str:
    """A value and its band; as powers of ten where there would be too many digits.

    >>> band(0.0237, 0.018, 0.03), band(1234.5, 1000.0, 1500.0, 0)
    ('0.024 [0.018, 0.030]', '1,234 [1,000, 1,500]')
    >>> band(2.237e23, 1.9e23, 2.3e23, 0), band(1.2e-18, 1e-18, 1.5e-18, decimals(1e-18))
    ('2.24e+23 [1.9e+23, 2.3e+23]', '1.2e-18 [1e-18, 1.5e-18]')
    """
    if digits > 9 or max(map(abs, (value, low, high))) >= 1e9:
        return f"{value:.3g} [{low:.3g}, {high:.3g}]"
    return f"{value:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"
