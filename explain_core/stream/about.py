"""What a stream's heart knows, as plain data: what messages of the sidecar say, and what ``explain_core.watch`` tells.

NaN stands for what is not known; it becomes null in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from explain_core.alarms.detector import Position
from explain_core.drift import Difference
from explain_core.periods import Period, Sums
from explain_core.stream.events import Alarm, RiskChanged
from explain_core.stream.explained import PERFORMANCE, Ended, ExplainedModel

_NESTED = ("before", "after", "onset", "earliest", "latest")
_OF_DIFFERENCE = ("feature", "sense", "words", "bits", "before", "after", "value", "by")

Remedy = Callable[[Sequence[str]], str]
Moment = Callable[[dict[str, int]], str]
"""Offset and timestamp of a record in words."""
"""How to leave features out, in words."""


def alarm(found: Alarm) -> dict[str, Any]:
    """An alarm; without the version of the model that it is about."""
    subject, change = found.subject, found.change
    return {
        "subject": subject.kind,
        "feature": subject.feature,
        "estimator": subject.estimator,
        "loss": subject.loss,
        "segment": subject.segment and dict(zip(("feature", "value"), subject.segment, strict=True)),
        "direction": "up" if change.least > 0.0 else "down",
        "least": abs(change.least),
        **{name: getattr(change, name)._asdict() for name in _NESTED},
        "evidence": change.evidence,
        "clipped": change.clipped,
        "cause": found.cause,
        "void": found.void,
    }


def drift(found: RiskChanged, remedy: Remedy, moment: Moment) -> dict[str, Any]:
    """Why the risk changed between two windows, or at a moment."""
    return {
        "baseline": found.baseline._asdict(),
        "target": found.target._asdict(),
        "alarm": found.alarm and found.alarm._asdict(),
        **_change(found, remedy, moment),
    }


def _change(found: RiskChanged, remedy: Remedy, moment: Moment) -> dict[str, Any]:
    change = found.change
    if change is None:
        return without_change(found.problem)
    details, since = change.to_dict(), found.target
    names = found.names or (
        f"the {found.baseline.records:,} records before {moment({'offset': since.first_offset, 'timestamp': since.first_timestamp})}",
        f"the {since.records:,} from then on",
    )
    return {
        "sentence": change.sentence(*names, remedy=remedy),
        "separation": details["separation"],
        "differences": [_feature(difference) for difference in change.differences],
        "change": details,
    }


def without_change(said: str) -> dict[str, Any]:
    """What is said instead of a change that is not told."""
    return {"sentence": said, "separation": None, "differences": [], "change": None}


def _feature(found: Difference) -> dict[str, Any]:
    risk = found.risk
    return {
        **{name: getattr(found, name) for name in _OF_DIFFERENCE},
        "risk": risk and risk.value,
        "low": risk and risk.low,
        "high": risk and risk.high,
        "fault": found.fault,
    }


def drivers(explained: ExplainedModel, name: str, loss: str) -> dict[str, Any] | None:
    """What drives a model by an explainer and a loss; None where it is too early, or the model is worse than no model."""
    found = explained.drivers(name, loss)
    if found is None:
        return None
    content = {**found._asdict(), "drivers": [driver._asdict() for driver in found.drivers]}
    del content["loss"]  # `performance` of the periods has it
    return content


def period(explained: ExplainedModel, ended: Ended, position: Position) -> dict[str, Any]:
    """The means over a period that ended with the record at ``position``."""
    period = ended.period
    return {
        "name": period.name,
        "records": ended.records,
        "first_offset": period.offset + 1,
        "last_offset": position.offset,
        "from": period.timestamp,
        "until": position.timestamp,
        "performance": {
            loss.name: dict(zip(("loss", "gain"), cells, strict=True))
            for loss, cells in zip(explained.performance.losses, _means(period, PERFORMANCE), strict=False)
        },
        "importance": {
            name: {
                loss.name: dict(zip((player.name for player in explainer.players), cells, strict=False))
                for loss, cells in zip(explainer.losses, _means(period, name), strict=False)
            }
            for name, explainer in explained.explainers.items()
        },
    }


def _means(period: Period, source: str) -> list[list[dict[str, float | None]]]:
    """By loss and column: the mean with its band, and the sums that it is made from."""
    if source not in period.sums:
        return []
    sums = Sums(period.sums[source])
    low, high = sums.band()
    columns = (sums.array[0], sums.value, low, high, *sums.array[1:])
    names = ("n", "value", "low", "high", "sum", "var", "third", "var2")
    return [
        [dict(zip(names, cells, strict=True)) for cells in zip(*(of.tolist() for of in row), strict=True)]
        for row in zip(*columns, strict=True)
    ]
