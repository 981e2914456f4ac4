"""A summary of a year of explanations, in words."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from explain_client.fields import read
from explain_client.messages import Alarm
from explain_client.periods import Driven, Period, merge_periods
from explain_client.stories import Stories
from explain_client.words import day, figure, loss_name
from explain_core.drift import RiskChange
from explain_sidecar.fold.contents import ignoring

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
PERIOD = "1000"
SEASONS = ("winter", "spring", "summer", "autumn")


def summary(
    history: Mapping[int, list[dict[str, Any]]],
    changes: list[dict[str, Any]],
    alarms: list[dict[str, Any]],
    airports: Sequence[str],
    width: int = 100,
) -> str:
    """For each partition what drives the model and what it is worth, which alarms came, and why the risk changed; in lines of this width."""
    found = []
    for partition, messages in sorted(history.items()):
        if not messages:
            continue
        lines = _partition(
            messages,
            [change for change in changes if change["partition"] == partition],
            [alarm for alarm in alarms if alarm["partition"] == partition],
        )
        folded = (
            textwrap.fill(
                line, width, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
            )
            for line in lines
        )
        found.append("\n".join([airports[partition], *folded]))
    return "\n" + "\n\n".join(found) + "\n"


def _partition(
    messages: list[dict[str, Any]], changes: list[dict[str, Any]], alarms: list[dict[str, Any]]
) -> list[str]:
    periods = [
        read(Period, period)
        for message in messages
        for period in message["periods"]
        if period["name"] == PERIOD
    ]
    estimator, loss = shown(messages)
    found = [
        _drivers(periods, estimator, loss),
        _seasons(periods, estimator, loss),
        _year(messages, loss),
        *_alarms(alarms, messages),
        _risk(changes),
    ]
    return [line for line in found if line]


def shown(messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The estimator and the loss that the summary is of: iSAGE where the messages have it, and its first loss."""
    importance = messages[-1]["importance"]
    estimator = "isage" if "isage" in importance else next(iter(importance))
    return estimator, next(iter(importance[estimator]))


def _drivers(periods: Sequence[Period], estimator: str, loss: str) -> str:
    """What drove the model over the year."""
    driven = merge_periods(periods).driven(estimator, loss) if periods else None
    if driven is None:
        return "Too few flights to say what drives the model."
    words = driven.sentence(
        _name, "flights", 5, loss_name(loss), f"the {driven.records:,} flights of the year"
    )
    return f"{words[0].upper()}{words[1:]}."


def _seasons(periods: Sequence[Period], estimator: str, loss: str) -> str:
    """What drove it most in each season of the year."""
    seasons: dict[str, list[Period]] = {}
    for period in periods:
        month = time.gmtime((period.begin + period.until) / 2000).tm_mon
        seasons.setdefault(SEASONS[month % 12 // 3], []).append(period)
    found: dict[str, Driven] = {}
    for season, of in seasons.items():
        driven = merge_periods(of).driven(estimator, loss)
        if driven is not None:
            found[season] = driven
    if len(found) < 2:
        return ""
    words = [
        f"in {season} "
        + (
            ", ".join(f"{_name(one.feature)} {figure(one.value)}" for one in driven.drivers[:3])
            or "nothing for certain"
        )
        for season, driven in found.items()
    ]
    return f"By season, {'; '.join(words)}."


def _name(feature: str) -> str:
    return NAMES.get(feature, feature)


def _year(messages: list[dict[str, Any]], loss: str) -> str:
    """When the model was right most and least: the mean over each month's explanations."""
    months: dict[str, list[float]] = {}
    for message in messages:
        if message["status"] != "warming":
            month = time.strftime("%B", time.gmtime(message["timestamp"] / 1000))
            months.setdefault(month, []).append(message["performance"][loss]["model"])
    if len(months) < 2:
        return ""
    means = {month: sum(values) / len(values) for month, values in months.items()}
    best, worst = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return f"Delays were easiest to foresee in {best} ({figure(means[best])}) and hardest in {worst} ({figure(means[worst])})."


def _alarms(alarms: list[dict[str, Any]], messages: list[dict[str, Any]]) -> list[str]:
    """What changed: the story of each cause, the oldest first."""
    if not alarms:
        _, loss = shown(messages)
        if messages[-1]["performance"][loss]["floor"] is None:
            return ["No alarm: these flights are too few to notice a change in."]
        return ["No alarm: nothing changed for long by more than the noise can hide."]
    stories = Stories()
    for alarm in alarms:
        stories.add(Alarm.from_json(orjson.dumps(alarm)))
    for message in messages:
        for period in message["periods"]:
            stories.add_period(
                read(Period, period), message["app_id"], message["partition"], message["epoch"]
            )
    told = [f"- {story.sentence(_name)}" for story in stories]
    return [f"What changed, at most once in {alarms[0]['one_in']:,} flights by chance alone:", *told]


def _risk(changes: list[dict[str, Any]]) -> str:
    """The largest change of the error rate that is explained, in words; or the largest, and that it is not."""
    found = [(RiskChange.from_dict(change["change"]), change) for change in changes if change["change"]]
    if not found:
        return ""
    change, message = max(
        found, key=lambda pair: (bool(pair[0].causes), abs(pair[0].change), pair[1]["offset"])
    )
    windows = _days(message["baseline"]), _days(message["target"])
    words = change.sentence(*windows, partial(ignoring, ()), _name)
    return f"The risk: {words}."


def _days(window: dict[str, Any]) -> str:
    return " – ".join(day(window[f"{end}_timestamp"]) for end in ("first", "last"))
