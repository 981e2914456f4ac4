"""The messages of the explanations topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from explain_client.errors import SchemaError
from explain_client.fields import DIGEST, Message, decoded, described, figures, require, require_head

_IMPORTANCE = {"value": 0.042, "std": 0.008, "low": 0.026, "high": 0.057, "settled": True, "floor": 0.031}
_DIFFERENCE = {
    "value": -0.021,
    "low": -0.031,
    "high": -0.012,
    "records": 5650,
    "clipped": 0,
    "limit": 1.6,
    "better": "challenger",
    "sentence": "the challenger loses less than the model, by 0.021 (0.012 to 0.031) in cross_entropy: mean of 5,650 records, an interval that holds at every time one looks",
}


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of one feature under one loss, in units of that loss; null (``None``) where nothing is known yet."""

    value: float | None = described("Estimated importance.", 0.042, unit="loss")
    std: float | None = described("Standard error of the value.", 0.008, unit="loss")
    low: float | None = described(
        "Lower end of the confidence band, null until it is settled.", 0.026, unit="loss"
    )
    high: float | None = described(
        "Upper end of the confidence band, null until it is settled.", 0.057, unit="loss"
    )
    settled: bool = described(
        "Whether the band may be believed: enough informative records since the feature came and since the last change.",
        True,
    )
    floor: float | None = described(
        "Smallest lasting change of the importance that an alarm could notice now; null without alarms, and while they warm up.",
        0.031,
        unit="loss",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class Losses:
    """Smoothed prequential loss: of the model, and of two that know no feature."""

    model: float | None = described(
        "Smoothed loss of the model on records it had not learnt from.", 0.502, unit="loss"
    )
    empty: float | None = described(
        "Smoothed loss of the frequencies of the labels before, of their mean for numbers.",
        0.555,
        unit="loss",
    )
    mean_prediction: float | None = described(
        "Smoothed loss of the model's mean prediction, the empty coalition of iSAGE.", 0.561, unit="loss"
    )
    floor: float | None = described(
        "Smallest lasting change of the model's loss that an alarm could notice now; null without alarms, and while they warm up.",
        0.058,
        unit="loss",
        default=None,
    )
    gain_floor: float | None = described(
        "The same of the model's gain over no model.", 0.047, unit="loss", default=None
    )
    served: float | None = described(
        "Smoothed loss of the predictions that were served; null where records have none.",
        0.504,
        unit="loss",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class Skew:
    """Whether the model makes the predictions that were served: training-serving skew, where it does not."""

    checked: int = described("Served predictions that were compared.", 5750, ge=0, unit="records")
    differing: int = described("Those that differed by more than the tolerance.", 12, ge=0, unit="records")
    largest: float = described("The largest difference so far.", 0.08, ge=0)
    tolerance: float = described(
        "record.prediction_tolerance: of probabilities a difference, of numbers one relative to the larger.",
        0.001,
        ge=0,
    )


@dataclass(frozen=True, slots=True)
class LabelDelay:
    """How long after their events the labels came: of the last 1,000 records of a join of late labels."""

    labels: int = described("Records whose label came.", 812, ge=0, le=1000, unit="records")
    implied: int = described(
        "Records without one, whose label is the lack of it.", 188, ge=0, le=1000, unit="records"
    )
    p10: int | None = described(
        "A tenth of the labels came this long after their event, or earlier.", 4_000, unit="milliseconds"
    )
    p50: int | None = described("Half of the labels.", 55_000, unit="milliseconds")
    p90: int | None = described("Nine in ten labels.", 240_000, unit="milliseconds")
    p99: int | None = described("99 in 100 labels.", 910_000, unit="milliseconds")


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """The version of the model that a message is about."""

    name: str = described("Its name, as in the records that it served.", "7")
    sha256: str = described("SHA-256 of its file.", "9f2a" * 16)
    records: int = described("Records that it served, since it was opened.", 1200, ge=1, unit="records")


@dataclass(frozen=True, slots=True)
class SegmentLosses:
    """Smoothed prequential loss of the records of a segment."""

    model: float | None = described("Smoothed loss of the model.", 0.502, unit="loss")
    empty: float | None = described(
        "Smoothed loss of the frequencies of the labels before, of all records.", 0.555, unit="loss"
    )
    floor: float | None = described(
        "Smallest lasting change of the model's loss that an alarm on the segment could notice now; null without alarms on segments, and while they warm up.",
        0.058,
        unit="loss",
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """What is known of the records that have one value of a feature."""

    feature: str = described("The feature, the setting `by` of the explainer.", "carrier")
    value: str | None = described(
        "Its value: a string as it is, else as JSON; null for all values that are not kept apart, and for none.",
        "AA",
    )
    records: int = described("Explained records in the segment.", 1200, ge=1, unit="records")
    performance: Mapping[str, SegmentLosses] = described(
        "By loss.", {"cross_entropy": {"model": 0.502, "empty": 0.555, "floor": None}}
    )
    importances: Mapping[str, Mapping[str, Importance]] = described(
        "By loss and feature.", {"cross_entropy": {"dep_hour": _IMPORTANCE}}, alias="importance"
    )

    def importance(self, loss: str | None = None) -> Importances:
        """Importance by feature under a loss, by default the first one. ``KeyError`` names those known."""
        return Importances(_pick(self.importances, loss, "loss"))


class Importances(dict[str, Importance]):
    """Importance by feature."""

    def top(self, k: int) -> list[tuple[str, Importance]]:
        """The k features of largest value, the largest first; unknown ones last."""
        known = sorted(self.items(), key=lambda cell: (cell[1].value is None, -(cell[1].value or 0.0)))
        return known[:k]


@dataclass(frozen=True, slots=True)
class LossDifference:
    """The mean difference of a loss, challenger minus model, with an interval that holds at every time one looks; null until it is known."""

    value: float | None = described(
        "Mean over the records of the challenger's loss minus the model's; below 0 the challenger loses less.",
        -0.021,
        unit="loss",
    )
    low: float | None = described(
        "Lower end of the interval, which holds at all times together with the probability `challenger.confidence`.",
        -0.031,
        unit="loss",
    )
    high: float | None = described("Upper end of the interval.", -0.012, unit="loss")
    records: int = described(
        "Records that count. Where a loss has no largest value, the first ones only say how large differences are.",
        5650,
        ge=0,
        unit="records",
    )
    clipped: int = described(
        "Records of these whose difference is beyond the limit, and counts as it.", 3, ge=0, unit="records"
    )
    limit: float | None = described("The limit, which was fixed before the record.", 1.6, unit="loss")
    better: Literal["model", "challenger"] | None = described(
        "Which of them loses less; null while the interval holds 0.", "challenger"
    )
    sentence: str = described(
        "The difference in words.",
        "the challenger loses less than the model, by 0.021 (0.012 to 0.031) in cross_entropy: mean of 5,650 records, an interval that holds at every time one looks; 3 differences count as ±1.6",
    )


@dataclass(frozen=True, slots=True)
class Challenger:
    """The second model, and how it differs from the first one on the same records."""

    name: str = described("Its factory, or the address of its file.", "models/next.ubj")
    performance: Mapping[str, Losses] = described(
        "By loss, as that of the model.",
        {"cross_entropy": {"model": 0.481, "empty": 0.555, "mean_prediction": 0.561}},
    )
    difference: Mapping[str, LossDifference] = described(
        "By loss: which of the two loses less, and by how much?",
        {"cross_entropy": _DIFFERENCE},
    )
    importances: Mapping[str, Mapping[str, Mapping[str, Importance]]] = described(
        "By estimator, loss and feature: what drives the challenger.",
        {"ipfi": {"cross_entropy": {"dep_hour": _IMPORTANCE}}},
        alias="importance",
    )
    importance_differences: Mapping[str, Mapping[str, Mapping[str, Importance]]] = described(
        "By estimator, loss and feature: the challenger's importance minus the model's, by the same draws; its band holds where one looks once.",
        {"ipfi": {"cross_entropy": {"dep_hour": _IMPORTANCE}}},
        alias="importance_difference",
    )

    def importance(self, estimator: str | None = None, loss: str | None = None) -> Importances:
        """As ``Explanation.importance``."""
        return Importances(_pick(_pick(self.importances, estimator, "estimator"), loss, "loss"))

    def importance_difference(self, estimator: str | None = None, loss: str | None = None) -> Importances:
        """The same of the differences."""
        return Importances(_pick(_pick(self.importance_differences, estimator, "estimator"), loss, "loss"))

    def loss_difference(self, loss: str | None = None) -> LossDifference:
        """The difference of a loss, by default the first one. ``KeyError`` names those known."""
        found: LossDifference = _pick(self.difference, loss, "loss")
        return found


@dataclass(frozen=True, slots=True)
class Explanation(Message):
    """What drives the model of one input partition after a record."""

    schema: Literal["explanation/1"] = described("Name and version of this schema.", "explanation/1")
    offset: int = described("Offset of the last record folded.", 5749, ge=0)
    timestamp: int = described(
        "Event time of that record, since 1970-01-01T00:00Z.", 1387576800000, unit="milliseconds"
    )
    seq: int = described("Number of this message in its partition and epoch, from 0.", 22, ge=0)
    records: int = described("Records folded in this epoch.", 5750, ge=1, unit="records")
    explained: int = described("Records explained in this epoch.", 5650, ge=0, unit="records")
    rejected: int = described("Records of this epoch that were not folded.", 0, ge=0, unit="records")
    rejected_recently: int = described(
        "Of the last 1,000 records those that were not folded.", 0, ge=0, le=1000, unit="records"
    )
    status: Literal["warming", "rejecting", "ready"] = described(
        "`warming` until every estimator has a value; `rejecting` while more than 50 of the last 1,000 records were not folded.",
        "ready",
    )
    version: ModelVersion | None = described(  # noqa: RUF009
        "The version of the model that served the record; all figures below are its own. Null where records name no version.",
        None,
    )
    performance: Mapping[str, Losses] = described(
        "By loss: is the model better than no model?",
        {
            "cross_entropy": {
                "model": 0.502,
                "empty": 0.555,
                "mean_prediction": 0.561,
                "floor": 0.058,
                "gain_floor": 0.047,
                "served": 0.504,
            }
        },
    )
    skew: Skew | None = described(  # noqa: RUF009
        "Whether the model makes the predictions that were served; null where records have none, and for a model that learns.",
        {"checked": 5750, "differing": 12, "largest": 0.08, "tolerance": 0.001},
    )
    label_delay: LabelDelay | None = described(  # noqa: RUF009
        "How long after their events the labels came; null where no record says it. What came early is no fair sample of all.",
        {"labels": 812, "implied": 188, "p10": 4_000, "p50": 55_000, "p90": 240_000, "p99": 910_000},
    )
    importances: Mapping[str, Mapping[str, Mapping[str, Importance]]] = described(
        "By estimator, loss and feature.",
        {"ipfi": {"cross_entropy": {"dep_hour": _IMPORTANCE}}},
        alias="importance",
    )
    estimators: Mapping[str, Mapping[str, Any]] = described(
        "By estimator: the settings that say what was estimated.", {"ipfi": {"alpha": 0.001, "n_samples": 1}}
    )
    challenger: Challenger | None = described(  # noqa: RUF009
        "The model that is compared with this one; null without `challenger`.",
        {
            "name": "models/next.ubj",
            "performance": {"cross_entropy": {"model": 0.481, "empty": 0.555, "mean_prediction": 0.561}},
            "difference": {"cross_entropy": _DIFFERENCE},
            "importance": {"ipfi": {"cross_entropy": {"dep_hour": _IMPORTANCE}}},
            "importance_difference": {"ipfi": {"cross_entropy": {"dep_hour": _IMPORTANCE}}},
        },
    )
    segments: Mapping[str, Segment] = described(
        "By estimator with the setting `by`: one of its segments, in turn that of which most has not been told yet.",
        {},
    )
    notices: tuple[str, ...] = described("What an operator accepted since the message before, in words.", [])
    digest: str = described(
        "Rolling hash over this partition's messages: blake2b-128 of the digest before and this message's bytes up to "
        '`,"digest":`.',
        "353e5fe3e0f90657de874ddbf2d630b3",
        pattern=DIGEST,
    )
    raw: bytes = field(default=b"", repr=False, compare=False, metadata={"exclude": True})
    """The message's JSON as it was on the topic, without a schema registry's framing."""

    def importance(self, estimator: str | None = None, loss: str | None = None) -> Importances:
        """Importance by feature under an estimator and a loss, by default the first ones. ``KeyError`` names those known."""
        return Importances(_pick(_pick(self.importances, estimator, "estimator"), loss, "loss"))

    @classmethod
    def from_json(cls, value: bytes) -> Explanation:
        """Decode a message; fields that this version does not know are ignored.

        Raises ``SchemaError`` for another schema and for what is no explanation.
        """
        data = decoded(value, "explanation/1", "an explanation", "explanations")
        try:
            data.setdefault("rejected_recently", 0)
            require_head(data)
            require(data, int, *_COUNTS)
            require(data, str, "status")
            version = data.setdefault("version", None)
            if version is not None:
                require(version, str, "name", "sha256")
                require(version, int, "records")
                data["version"] = ModelVersion(**{name: version[name] for name in _VERSION})
            data["performance"] = _performance(data["performance"])
            skew = data.setdefault("skew", None)
            if skew is not None:
                require(skew, int, "checked", "differing")
                figures(skew["largest"], skew["tolerance"])
                data["skew"] = Skew(**{name: skew[name] for name in _SKEW})
            delay = data.setdefault("label_delay", None)
            if delay is not None:
                require(delay, int, "labels", "implied")
                require(delay, int, *(name for name in _PERCENTILES if delay[name] is not None))
                data["label_delay"] = LabelDelay(**{name: delay[name] for name in _DELAY})
            data["importances"] = _importances(data["importance"])
            if data.setdefault("challenger", None) is not None:
                data["challenger"] = _challenger(data["challenger"])
            data["segments"] = {
                estimator: _segment(segment) for estimator, segment in data.get("segments", {}).items()
            }
            require(data, dict, "estimators")
            require(data["estimators"], dict, *data["estimators"])
            require(data, list, "notices")
            data["notices"] = tuple(data["notices"])
            require(dict(enumerate(data["notices"])), str, *range(len(data["notices"])))
            return cls(**{name: data[name] for name in _EXPLANATION})
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"not an explanation: {type(error).__name__}: {error}") from None


_EXPLANATION = tuple(entry.name for entry in fields(Explanation))
_DELAY = tuple(field.name for field in fields(LabelDelay))
_SKEW = tuple(field.name for field in fields(Skew))
_VERSION = tuple(field.name for field in fields(ModelVersion))
_PERCENTILES = _DELAY[2:]
_COUNTS = ("records", "explained", "rejected", "rejected_recently")


def _segment(data: Mapping[str, Any]) -> Segment:
    require(dict(data), int, "records")
    require({"feature": data["feature"], "value": data["value"] or ""}, str, "feature", "value")
    losses = {
        loss: SegmentLosses(*figures(known["model"], known["empty"], known["floor"]))
        for loss, known in data["performance"].items()
    }
    return Segment(data["feature"], data["value"], data["records"], losses, _by_loss(data["importance"]))


def _importance(cell: Mapping[str, Any]) -> Importance:
    """Messages of earlier versions, whose bands were always there, do not say whether they are settled: they are not."""
    value, std, low, high, floor = figures(
        cell["value"], cell["std"], cell["low"], cell["high"], cell.get("floor")
    )
    return Importance(value, std, low, high, cell.get("settled") is True, floor)


def _performance(data: Mapping[str, Any]) -> dict[str, Losses]:
    return {
        loss: Losses(
            *figures(
                performance["model"],
                performance["empty"],
                *map(performance.get, ("mean_prediction", "floor", "gain_floor", "served")),
            )
        )
        for loss, performance in data.items()
    }


def _importances(data: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Importance]]]:
    return {estimator: _by_loss(importances) for estimator, importances in data.items()}


def _by_loss(data: Mapping[str, Any]) -> dict[str, dict[str, Importance]]:
    return {
        loss: {feature: _importance(cell) for feature, cell in features.items()}
        for loss, features in data.items()
    }


def _challenger(data: Mapping[str, Any]) -> Challenger:
    require(data, str, "name")
    return Challenger(
        data["name"],
        _performance(data["performance"]),
        {loss: _loss_difference(cell) for loss, cell in data["difference"].items()},
        _importances(data["importance"]),
        _importances(data["importance_difference"]),
    )


def _loss_difference(data: Mapping[str, Any]) -> LossDifference:
    require(data, int, "records", "clipped")
    require(data, str, "sentence")
    if data["better"] not in (None, "model", "challenger"):
        raise TypeError(f"better is {data['better']!r:.60}, and has to be model, challenger or null")
    value, low, high, limit = figures(data["value"], data["low"], data["high"], data["limit"])
    return LossDifference(
        value, low, high, data["records"], data["clipped"], limit, data["better"], data["sentence"]
    )


def _pick(known: Mapping[str, Any], name: str | None, kind: str) -> Any:
    if name is None:
        return next(iter(known.values()), {})
    if name not in known:
        raise KeyError(f"{kind} {name!r} is not in this explanation, which has {', '.join(known) or 'none'}")
    return known[name]
