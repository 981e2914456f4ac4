"""Alarms in words. They take the content of an alarm's message, as the fold makes it and as the topic has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from explain_client.messages import is_date, utc

LONGEST_NAME = 80
"""Characters of a feature's name in a sentence."""

_WHAT = {
    "loss": ("the model's loss rose", "the model's loss fell"),
    "gain": ("the model's gain over no model rose", "the model's gain over no model fell"),
    "importance": ("{} matters more", "{} matters less"),
    "missing": ("{} is missing more often", "{} is missing less often"),
    "rejected": ("more records are rejected", "fewer records are rejected"),
}


def sentence(alarm: Mapping[str, Any]) -> str:
    """The alarm in a sentence, with the stated rate of false ones.

    >>> side = {"low": 0.010, "high": 0.014, "records": 9000}
    >>> sides = {"before": {"value": 0.012, **side}, "after": {"value": 0.085, "low": 0.075, "high": 0.095, "records": 500}}
    >>> subject = {"subject": "importance", "feature": "dep_hour", "estimator": "ipfi", "loss": "cross_entropy", "direction": "up"}
    >>> sentence({**subject, **sides, "onset": {"offset": 9000, "timestamp": 1_368_511_500_000}, "one_in": 10**6})
    'Since 2013-05-14 06:05 UTC dep_hour matters more: 0.012 → 0.085 ± 0.010 (ipfi, cross_entropy). False alarms: at most one in 1,000,000 records.'
    """
    at = alarm["onset"]
    time = at["timestamp"]
    since = f"{utc(time):%Y-%m-%d %H:%M} UTC" if is_date(time) else f"offset {at['offset']}"
    how = ", ".join(filter(None, (alarm["estimator"], alarm["loss"])))
    return (
        f"Since {since} {what(alarm)}: {figures(alarm)}{f' ({how})' if how else ''}. "
        f"False alarms: at most one in {alarm['one_in']:,} records."
    )


def what(alarm: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """What changed, and in which direction; ``names`` are those that people have for features."""
    name = alarm["feature"] or ""
    name = (names or {}).get(name, name)
    return _WHAT[alarm["subject"]][alarm["direction"] == "down"].format(_short(name)) + _where(alarm)


def _where(alarm: Mapping[str, Any]) -> str:
    segment = alarm.get("segment")
    if segment is None:
        return ""
    value = "none of the segments" if segment["value"] is None else _short(segment["value"])
    return f" where {_short(segment['feature'])} is {value}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"


def figures(alarm: Mapping[str, Any]) -> str:
    """Both means, with as many decimals as the interval of the new one has; numbers with too many digits as powers of ten.

    >>> figures({"before": {"value": 1.5e-12}, "after": {"value": 8.51e-12, "low": 7.51e-12, "high": 9.51e-12}})
    '1.5e-12 → 8.5e-12 ± 1e-12'
    """
    after = alarm["after"]
    sides = alarm["before"]["value"], after["value"]
    half, largest = (after["high"] - after["low"]) / 2.0, max(map(abs, sides))
    place = _place(half or largest / 10.0)
    if not -8 <= place <= 8:
        digits = max(_place(largest) - place + 2, 2)
        return f"{sides[0]:.{digits}g} → {sides[1]:.{digits}g} ± {half:.2g}"
    decimals = max(1 - place, 0)
    before, now = (round(value, decimals) + 0.0 for value in sides)  # −0.000 is 0.000
    return f"{before:.{decimals}f} → {now:.{decimals}f} ± {half:.{decimals}f}"


def _place(value: float) -> int:
    """The power of ten of a number's first digit."""
    return math.floor(math.log10(value)) if value > 0.0 else -2
