"""Alarms in words. They take the content of an alarm's message, as the fold makes it and as the topic has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from explain_client.fields import is_date, utc
from explain_client.words import loss_name, minute

UNSEEN = (
    "That is an estimate by other records' labels: whether the label means something else now it cannot see."
)
"""What an alarm about an estimated loss cannot know."""

LONGEST_NAME = 80
"""Characters of a feature's name in a sentence."""

SubjectKind = Literal["loss", "gain", "importance", "missing", "rejected", "estimated_loss"]
"""What an alarm may be about."""

ABOUT: dict[SubjectKind, str] = {
    "loss": "the model's loss",
    "gain": "its gain over no model",
    "importance": "a feature's importance",
    "missing": "its share of missing values",
    "rejected": "the share of rejected records",
    "estimated_loss": "what records without a label are estimated to lose, minus the mean of the labelled ones",
}
"""What that is."""

_WHAT: dict[str, tuple[str, str]] = {
    "loss": ("the model's {} rose", "the model's {} fell"),
    "gain": ("the model's gain over no model rose", "the model's gain over no model fell"),
    "estimated_loss": (
        "the {} of records without a label probably rose",
        "the {} of records without a label probably fell",
    ),
    "rejected": ("more records are rejected", "fewer records are rejected"),
    "missing": ("{} is missing more often", "{} is missing less often"),
    "importance": ("{} matters more", "{} matters less"),
}
"""How an alarm says that it rose, and that it fell; in a story, what comes first here is said first."""


def sentence(alarm: Mapping[str, Any]) -> str:
    """A single alarm in a sentence.

    >>> side = {"low": 0.010, "high": 0.014, "records": 9000}
    >>> sides = {"before": {"value": 0.012, **side}, "after": {"value": 0.085, "low": 0.075, "high": 0.095, "records": 500}}
    >>> subject = {"subject": "importance", "feature": "dep_hour", "estimator": "ipfi", "loss": "cross_entropy", "direction": "up"}
    >>> sentence({**subject, **sides, "least": 0.0583, "onset": {"offset": 9000, "timestamp": 1_368_511_500_000}})
    'Since Tuesday 2013-05-14 06:05 UTC dep_hour matters more, by at least 0.058 (0.012 → 0.085 ± 0.010; ipfi, cross_entropy).'
    """
    how = ", ".join(filter(None, (alarm["estimator"], alarm["loss"])))
    unseen = f" {UNSEEN}" if alarm["subject"] == "estimated_loss" else ""
    void = " It says nothing: the model was worse than no model." if alarm.get("void") else ""
    return f"Since {moment(alarm['onset'])} {clause(alarm, how)}.{unseen}{void}"


def moment(position: Mapping[str, Any]) -> str:
    """When: the event time of a record, or its offset where that is no date."""
    time = position["timestamp"]
    return f"{utc(time):%A} {minute(time)}" if is_date(time) else f"offset {position['offset']}"


def clause(alarm: Mapping[str, Any], how: str = "", name: Callable[[str], str] = str) -> str:
    """What changed, by how much at least, and both means; these only as far as they do not overlap.

    >>> side = {"low": -0.21, "high": 0.19}
    >>> alarm = {"subject": "importance", "feature": "a", "direction": "up", "least": 0.00417, "before": {"value": -0.01, **side}}
    >>> clause({**alarm, "after": {"value": 0.0, **side}})
    'a matters more, by at least 0.0041'
    """
    least, before, after = alarm.get("least"), alarm["before"]["value"], alarm["after"]
    apart = not after["low"] <= before <= after["high"] and (after["value"] > before) == (
        alarm["direction"] == "up"
    )
    told = "; ".join(filter(None, (figures(alarm) if apart else "", how)))
    by = "" if least is None else _at_least(least, before if alarm["subject"] == "loss" else 0.0)
    comma = "," if by and alarm["subject"] != "loss" else ""
    return f"{what(alarm, name)}{comma}{by}{f' ({told})' if told else ''}"


def _at_least(least: float, before: float) -> str:
    """Rounded down; of a loss as a share of what it was."""
    value, unit = (100.0 * least / before, " %") if before > 0.0 else (least, "")
    if not value > 0.0:
        return ""
    place = _place(value) - 1
    digits = math.floor(value / 10.0**place + 1e-9)
    return f" by at least {digits * 10.0**place:,.{max(-place, 0)}f}{unit}" if place > -9 else ""


def what(alarm: Mapping[str, Any], name: Callable[[str], str] = str) -> str:
    """What changed, and in which direction; ``name`` turns a feature into what people call it."""
    loss = alarm["loss"] if alarm["subject"] in ("loss", "estimated_loss") else ""
    named = short(name(alarm["feature"])) if alarm["feature"] else loss_name(loss or "")
    subject = alarm["subject"]
    rose, fell = _WHAT.get(subject, (f"{subject} rose", f"{subject} fell"))
    return (fell if alarm["direction"] == "down" else rose).format(named) + where(alarm, name)


def rank(subject: str) -> int:
    """The place of a subject in a story; one of a later version comes last."""
    return [*_WHAT, subject].index(subject)


def where(alarm: Mapping[str, Any], name: Callable[[str], str] = str) -> str:
    """The records that an alarm is about, where these are not all."""
    segment = alarm.get("segment")
    if segment is None:
        return ""
    value = "none of the segments" if segment["value"] is None else short(segment["value"])
    return f" where {short(name(segment['feature']))} is {value}"


def short(name: str) -> str:
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
    before, now, half = (round(value, 1 - place) + 0.0 for value in (*sides, half))  # −0.000 is 0.000
    decimals = max(1 - place, 0)
    return f"{before:,.{decimals}f} → {now:,.{decimals}f} ± {half:,.{decimals}f}"


def _place(value: float) -> int:
    """The power of ten of a number's first digit."""
    return math.floor(math.log10(value)) if value > 0.0 else -2
