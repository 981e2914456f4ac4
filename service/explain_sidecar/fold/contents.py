"""What messages say: the contents of explanations, alarms and drift messages, by what the stream's heart knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from explain_client.alarm_words import moment
from explain_client.alarm_words import sentence as alarm_sentence
from explain_client.fields import utc
from explain_client.periods import SUMS
from explain_core.alarms.detector import Position
from explain_core.comparison import better, sentence
from explain_core.confidence import Interval
from explain_core.estimated import LossEstimator
from explain_core.explanation import Explanation
from explain_core.importance.segments import SegmentReport
from explain_core.learners.mixture import MixtureLearner
from explain_core.losses import HUGE
from explain_core.models.empty import Performance
from explain_core.shift import ExplanationShift
from explain_core.stream import Alarm, RiskChanged, Subject, about
from explain_core.stream.challenger import Challenger
from explain_core.stream.explained import ExplainedModel
from explain_core.stream.followed import Followed
from explain_core.stream.slot import Slot
from explain_sidecar.fold.served import label_text
from explain_sidecar.fold.sizes import HEADROOM, MOST_SHIFTED
from explain_sidecar.settings import Settings

Floors = Mapping[Subject, float]
"""The smallest lasting change of a subject that an alarm could notice."""

NOTHING: Floors = {}


def explanation(slot: Slot, position: Position, settings: Settings) -> dict[str, Any]:
    """What an explanation message says of a model after the record at a position.

    Of the segments it is the turn of one of each explainer, which is noted, and periods that end are closed.
    """
    explained = slot.explained
    due = {name: segments.due() for name, segments in explained.segments.items()}
    reported = {name: report.value for name, report in due.items() if report is not None}
    floors = {subject: floor for alarms in slot.alarms for subject, floor in alarms.floors(reported).items()}
    explanations, worth = explained.explanations, explained.worth
    served = explained.served if explained.records else None
    skew = None if served is None else served.skew
    return {
        "explained": min((found.n for found in explanations.values()), default=0),
        "warming": any(found.status == "warming" for found in explanations.values()),
        "model": {"weights": weights(explained), "worse_since": worth.about()},
        "performance": _performance(explained, floors),
        "skew": None if skew is None else skew._asdict(),
        "estimated_loss": {} if explained.estimated is None else _estimated(explained.estimated),
        "importance": {name: _importance(found, floors, name) for name, found in explanations.items()},
        "estimators": {name: found.metadata for name, found in explanations.items()},
        "challenger": next((_challenger(of, settings) for of in slot.challengers), None),
        "segments": {
            name: _segment(name, explained.segments[name].feature, report, floors)
            for name, report in due.items()
            if report is not None
        },
        "drivers": {
            name: {loss.name: about.drivers(explained, name, loss.name) for loss in explainer.losses}
            for name, explainer in explained.explainers.items()
        },
        "periods": [about.period(explained, ended, position) for ended in explained.ended(position)],
    }


def curves(followed: Followed | None, labels: Sequence[Any]) -> list[dict[str, Any]]:
    """What an explanation says of partial dependence; NaN becomes null in JSON."""
    if followed is None:
        return []
    code = followed.code
    label = None if code is None else label_text(labels[code])
    return [{**curve._asdict(), "label": label} for curve in followed.curves]


def weights(explained: ExplainedModel) -> dict[str, float]:
    """Of the members of a mixture."""
    model = explained.model
    return model.weights if isinstance(model, MixtureLearner) else {}


def _performance(explained: ExplainedModel, floors: Floors) -> dict[str, Any]:
    performance: Performance = explained.performance
    served = explained.served if explained.records else None
    bands = (of.tolist() for of in performance.bands())
    return {
        loss.name: {
            **dict(zip(("model", "empty", "mean_prediction"), performance.of(loss.name), strict=True)),
            "floor": floors.get(Subject("loss", loss.name)),
            "gain_floor": floors.get(Subject("gain", loss.name)),
            "served": None if served is None else served.performance.of(loss.name)[0],
            "low": low,
            "high": high,
            "gain": gain,
            "gain_low": gain_low,
            "gain_high": gain_high,
            "clipped": None if loss.clipped is None else clipped,
        }
        for loss, clipped, (_, gain), (low, gain_low), (high, gain_high) in zip(
            performance.losses, performance.clipped, *bands, strict=True
        )
    }


def _estimated(estimator: LossEstimator) -> dict[str, Any]:
    """By loss; with the share of records of which little is known as of all, and what an estimate cannot see."""
    return {
        loss: {
            **found._asdict(),
            "settled": found.settled and {**found.settled._asdict(), "error": found.settled.error},
            "notes": found.notes,
        }
        for loss, found in estimator.estimates().items()
    }


def _importance(
    found: Explanation,
    floors: Floors = NOTHING,
    name: str = "",
    segment: tuple[str, str | None] | None = None,
) -> dict[str, dict[str, dict[str, float | bool | None]]]:
    """By loss and feature; NaN becomes null in JSON."""
    return {
        loss: {
            feature: {
                "value": value,
                "std": std,
                "low": low,
                "high": high,
                "steady": steady,
                "floor": floors.get(Subject("importance", loss, name, feature, segment)) if floors else None,
            }
            for feature, (value, std, low, high, steady) in zip(
                found.features, found.cells(loss), strict=True
            )
        }
        for loss in found.losses
    }


def _segment(name: str, feature: str, report: SegmentReport, floors: Floors) -> dict[str, Any]:
    segment = feature, report.value
    losses = zip(report.importance.losses, report.losses.tolist(), strict=True)
    return {
        "feature": feature,
        "value": report.value,
        "records": report.records,
        "performance": {
            loss: {"model": own, "empty": empty, "floor": floors.get(Subject("loss", loss, segment=segment))}
            for loss, (own, empty) in losses
        },
        "importance": _importance(report.importance, floors, name, segment),
    }


RUNNING = ("alarm", "all")
"""Periods that do not end: as rows they would count records twice."""


def rows(content: Mapping[str, Any], position: Position) -> Iterator[dict[str, Any]]:
    """What rows say of an explanation: of the periods that ended with it, of its segments, and of the challenger."""
    for period in content["periods"]:
        if period["name"] not in RUNNING:
            about = {
                "period": period["name"],
                "begin": _moment(period["from"]),
                "until": _moment(period["until"]),
                "records": period["records"],
                **_EVERYTHING,
            }
            yield from _flat(about, {"performance": period["performance"], **period["importance"]})
    smoothed = {"period": "smoothed", "begin": None, "until": _moment(position.timestamp)}
    for name, found in content["segments"].items():
        means = {"performance": _losses(found), name: found["importance"]}
        where = {"role": "model", "segment_by": found["feature"], "segment": found["value"]}
        yield from _flat(smoothed | {"records": found["records"]} | where, means)
    challenger = content["challenger"]
    if challenger is not None:
        about = smoothed | {"records": content["explained"], **_EVERYTHING}
        means = {"performance": _losses(challenger), **challenger["importance"]}
        yield from _flat(about | {"role": "challenger"}, means)
        losses = {loss: {"loss": found} for loss, found in challenger["difference"].items()}
        yield from _flat(
            about | {"role": "difference"}, {"performance": losses, **challenger["importance_difference"]}
        )


_EVERYTHING = {"role": "model", "segment_by": None, "segment": None}


def _flat(about: dict[str, Any], means: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row of each mean, by estimator, loss and feature. What is not over a period has no sums."""
    for estimator, by_loss in means.items():
        for loss, features in by_loss.items():
            for feature, mean in features.items():
                n = mean.get("n", mean.get("records", about["records"]))
                cells = {"n": float(n), **{name: mean[name] for name in ("value", "low", "high")}}
                sums = {name: mean.get(name) for name in SUMS[1:]}
                yield {**about, "estimator": estimator, "loss": loss, "feature": feature, **cells, **sums}


def _losses(found: Mapping[str, Any]) -> dict[str, dict[str, dict[str, float | None]]]:
    """The smoothed loss, and the gain over no model, as a period has them."""
    return {
        loss: {
            name: {"value": value, "low": None, "high": None}
            for name, value in (("loss", of["model"]), ("gain", _less(of["empty"], of["model"])))
        }
        for loss, of in found["performance"].items()
    }


def _less(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _moment(milliseconds: int) -> datetime:
    """In whole milliseconds: the last moment of all has more digits than Avro keeps."""
    found = utc(milliseconds)
    return found.replace(microsecond=found.microsecond // 1_000 * 1_000)


def _challenger(challenger: Challenger, settings: Settings) -> dict[str, Any]:
    explained = challenger.explained
    return {
        "name": settings.challenger.source,
        "performance": _performance(explained, NOTHING),
        "difference": {loss: _difference(loss, found) for loss, found in challenger.intervals().items()},
        "importance": {name: _importance(found) for name, found in explained.explanations.items()},
        "importance_difference": {
            name: _importance(found) for name, found in challenger.importance_differences().items()
        },
        "explanation_shift": None if challenger.shift is None else _shift(challenger.shift),
    }


def _shift(shift: ExplanationShift) -> dict[str, Any]:
    """The features that two models use otherwise, of those in which they differ most."""
    features = shift.features
    return {
        "records": max((found.records for found in features), default=0),
        "tolerance": shift.tolerance,
        "features": {
            found.feature: {"share": min(found.share, HUGE), "found": found.found}
            for found in features[:MOST_SHIFTED]
        },
        "sentence": shift.sentence(),
    }


def _difference(loss: str, interval: Interval) -> dict[str, Any]:
    return {
        "value": interval.value,
        "low": interval.low,
        "high": interval.high,
        "records": interval.n,
        "clipped": interval.clipped,
        "limit": interval.limit,
        "better": better(interval),
        "sentence": sentence(interval, loss),
    }


def alarm(found: Alarm, settings: Settings) -> dict[str, Any]:
    """What an alarm message says."""
    content = {
        **about.alarm(found),
        "one_in": settings.alarms.one_in,
        "min_change": settings.alarms.min_change,
        "model": settings.model.source,
        "version": found.version,
    }
    return {**content, "sentence": alarm_sentence(content)}


def drift(found: RiskChanged, settings: Settings) -> dict[str, Any]:
    """What a drift message says."""
    content = about.drift(found, partial(ignoring, settings.drift.ignore), moment)
    size = len(orjson.dumps({name: content[name] for name in about.without_change("")}))
    identity = 6 * settings.record.max_string if settings.record.id else 0
    if content["change"] is None or size <= settings.emit.max_bytes - HEADROOM - identity:
        return content
    said = f"{content['sentence']}; the details take {size} bytes and are left out: raise emit.max_bytes"
    return {**content, **about.without_change(said)}


def ignoring(ignored: Sequence[str], names: Sequence[str]) -> str:
    """How to leave these features out too, as a line of the settings' file."""
    listed = ", ".join(
        name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        for name in [*ignored, *names]
    )
    return f"set drift.ignore: [{listed}]"


_PLAIN = re.compile(r"(?!(?:true|false|yes|no|on|off|null|y|n)$)[A-Za-z_][\w.]*", re.ASCII | re.IGNORECASE)
"""Names that YAML takes for text without quotes."""
