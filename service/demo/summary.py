"""What a year of explanations says, in words."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from explain_core.drift import RiskChange
from service.tail import ranking

NAMES = {
    "dep_hour": "departure hour",
    "arr_hour": "arrival hour",
    "dest": "destination",
    "temp": "temperature",
    "dewp": "dew point",
    "humid": "humidity",
    "wind_speed": "wind speed",
    "precip": "rain and snow",
    "pressure": "air pressure",
    "visib": "visibility",
}
ESTIMATOR, LOSS = "isage", "cross_entropy"
Z = 1.96


def summary(
    history: dict[int, list[dict[str, Any]]], changes: list[dict[str, Any]], places: Sequence[str]
) -> str:
    """A paragraph for each partition: what drives the model, what it is worth, what changed over the year and why."""
    return "\n" + "\n".join(
        _partition(
            places[partition], messages, [change for change in changes if change["partition"] == partition]
        )
        for partition, messages in sorted(history.items())
        if messages
    )


def _partition(place: str, messages: list[dict[str, Any]], changes: list[dict[str, Any]]) -> str:
    last = messages[-1]
    performance = last["performance"][LOSS]
    cells = last["importance"][ESTIMATOR][LOSS]
    top = [
        name
        for name in ranking(last, ESTIMATOR)[:3]
        if cells[name]["value"] is not None and (cells[name]["low"] or 0) > 0
    ]
    drivers = (
        ", ".join(f"{NAMES.get(name, name)} ({_band(cells[name])})" for name in top)
        or "no feature for certain"
    )
    gain = performance["empty"] - performance["model"]
    worth = f"log loss {performance['model']:.3f}, {abs(gain):.3f} {'better' if gain > 0 else 'worse'} than the {performance['empty']:.3f} of no model"
    return f"{place}: what drives the model: {drivers}. {worth[0].upper()}{worth[1:]}. {_year(messages)} {_change(messages)}{_risk(changes)}"


def _year(messages: list[dict[str, Any]]) -> str:
    """When the model was right most and least: the mean over each month's explanations."""
    months: dict[str, list[float]] = {}
    for message in messages:
        if message["status"] == "ready":
            month = time.strftime("%B", time.gmtime(message["timestamp"] / 1000))
            months.setdefault(month, []).append(message["performance"][LOSS]["model"])
    if len(months) < 2:
        return ""
    means = {month: sum(values) / len(values) for month, values in months.items()}
    best, worst = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return f"Delays were easiest to foresee in {best} ({means[best]:.3f}) and hardest in {worst} ({means[worst]:.3f})."


def _change(messages: list[dict[str, Any]]) -> str:
    """The feature whose importance moved most between two ends of the year, where the bands say that it moved at all."""
    ready = [message for message in messages if message["status"] == "ready" and message["explained"] >= 500]
    if len(ready) < 2:
        return "Too few flights to say what changed."
    moved = []
    last = ready[-1]
    for early in ready[:-1]:
        before, after = early["importance"][ESTIMATOR][LOSS], last["importance"][ESTIMATOR][LOSS]
        for name, cell in before.items():
            spread = math.hypot(cell["std"] or math.inf, after[name]["std"] or math.inf)
            difference = after[name]["value"] - cell["value"]
            # Many pairs of feature and time are looked at: twice the usual band keeps chance out of the headline.
            if abs(difference) > Z * 2 * spread:
                moved.append((abs(difference) / spread, name, cell, after[name], early["timestamp"]))
    if not moved:
        return "No importance changed by more than its band."
    _, name, before, after, moment = max(moved, key=lambda one: one[:2])
    word = "rose" if after["value"] > before["value"] else "fell"
    month = time.strftime("%B", time.gmtime(moment / 1000))
    return (
        f"Most changed since {month}: {NAMES.get(name, name)} {word} from {_band(before)} to {_band(after)}."
    )


def _risk(changes: list[dict[str, Any]]) -> str:
    """The largest change of the error rate that is explained, in words; or the largest, and that it is not."""
    found = [(RiskChange.from_dict(one["change"]), one) for one in changes if one["change"]]
    if not found:
        return ""
    change, message = max(
        found, key=lambda pair: (bool(pair[0].causes), abs(pair[0].change), pair[1]["offset"])
    )
    words = change.sentence(_days(message["baseline"]), _days(message["target"]))
    return f" {words[0].upper()}{words[1:]}."


def _days(window: dict[str, Any]) -> str:
    first, last = (
        time.strftime("%-d %B", time.gmtime(window[f"{end}_timestamp"] / 1000)) for end in ("first", "last")
    )
    return f"{first} – {last}"


def _band(cell: dict[str, Any]) -> str:
    half = (cell["high"] - cell["low"]) / 2 if cell["high"] is not None else 0.0
    return f"{cell['value']:.3f} ± {half:.3f}"
