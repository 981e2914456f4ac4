"""The messages of the explanations topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from explain_client.challenger import DIFFERENCE, Challenger, challenger_of
from explain_client.errors import SchemaError
from explain_client.fields import DIGEST, Message, decoded, described, figures, require, require_head
from explain_client.importance import (
    EXAMPLE,
    Importance,
    Importances,
    Losses,
    importances_of,
    losses_of,
    pick,
)
from explain_client.periods import DRIVEN, Driven, Period, driven_of, period_of
from explain_client.segments import Segment, segment_of


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
class Since:
    """A record since which something is so."""

    offset: int = described("Offset of the record.", 5749, ge=0)
    timestamp: int = described("Its event time.", 1387576800000, unit="milliseconds")


@dataclass(frozen=True, slots=True)
class ModelState:
    """What the model is made of, and whether it is worth explaining."""

    weights: Mapping[str, float] = described(
        "By member of a mixture what it counts for in the next prediction; `none` is no model. Empty for other models.",
        {"none": 0.01, "linear": 0.06, "forest": 0.93},
    )
    worse_since: Since | None = described(  # noqa: RUF009
        "Since when the model is worse than no model, so that importances say nothing; null where it is not.",
        None,
    )


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """The version of the model that a message is about."""

    name: str = described("Its name, as in the records that it served.", "7")
    sha256: str = described("SHA-256 of its file.", "9f2a" * 16)
    records: int = described("Records that it served, since it was opened.", 1200, ge=1, unit="records")


@dataclass(frozen=True, slots=True)
class Carried:
    """What an epoch took over from the one before, whose settings were others, and what began anew with it; by names of parts of the state."""

    from_epoch: int = described("The epoch before.", 0, ge=0)
    offset: int = described("Offset of the first record of this epoch.", 5750, ge=0)
    carried: tuple[str, ...] = described("Parts that go on.", ["labels", "model"])
    begun: tuple[str, ...] = described("Parts that know nothing from before.", ["explainer ipfi"])
    from_partition: int | None = described(
        "The partition whose model it is, where the topic has gained this one.", None, ge=0
    )
    from_offset: int | None = described(
        "Offset of the first record of that partition that the model had not learnt.", None, ge=0
    )


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
    model: ModelState | None = described(  # noqa: RUF009
        "What the model is made of, and whether it is worth explaining; null from an earlier sidecar.",
        {"weights": {"none": 0.01, "linear": 0.06, "forest": 0.93}, "worse_since": None},
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
                "low": 0.49,
                "high": 0.514,
                "gain": 0.053,
                "gain_low": 0.044,
                "gain_high": 0.062,
                "clipped": 0,
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
        {"ipfi": {"cross_entropy": {"dep_hour": EXAMPLE}}},
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
            "difference": {"cross_entropy": DIFFERENCE},
            "importance": {"ipfi": {"cross_entropy": {"dep_hour": EXAMPLE}}},
            "importance_difference": {"ipfi": {"cross_entropy": {"dep_hour": EXAMPLE}}},
        },
    )
    segments: Mapping[str, Segment] = described(
        "By estimator with the setting `by`: one of its segments, in turn that of which most has not been told yet.",
        {},
    )
    drivers: Mapping[str, Mapping[str, Driven | None]] = described(
        "By estimator and loss: which features drive the model; null while there are too few records to say so, and while the model is worse than no model.",
        {"ipfi": {"cross_entropy": DRIVEN}},
    )
    periods: tuple[Period, ...] = described(
        "The period of `emit.periods` that ended with the message, if one did, and then also those that do not end, with sums that add up over time, partitions and versions.",
        [],
    )
    carried: Carried | None = described(  # noqa: RUF009
        "In the first message of an epoch that changed settings began: what it took over. Otherwise null.",
        None,
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
        return Importances(pick(pick(self.importances, estimator, "estimator"), loss, "loss"))

    @property
    def worse_since(self) -> Since | None:
        """Since when the model is worse than no model; None where it is not."""
        return self.model.worse_since if self.model else None

    def driven(self, estimator: str | None = None, loss: str | None = None) -> Driven | None:
        """What drives the model under an estimator and a loss, by default the first ones; None where it is too early to say, or the model is worse than no model."""
        found: Driven | None = pick(pick(self.drivers, estimator, "estimator") or {}, loss, "loss") or None
        return found

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
            data["model"] = _model_of(data.get("model"))
            data["performance"] = losses_of(data["performance"])
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
            data["importances"] = importances_of(data["importance"])
            if data.setdefault("challenger", None) is not None:
                data["challenger"] = challenger_of(data["challenger"])
            data["segments"] = {
                estimator: segment_of(segment) for estimator, segment in data.get("segments", {}).items()
            }
            data["drivers"] = driven_of(data.get("drivers", {}))
            data["periods"] = tuple(map(period_of, data.get("periods", ())))
            require(data, dict, "estimators")
            require(data["estimators"], dict, *data["estimators"])
            carried = data.setdefault("carried", None)
            if carried is not None:
                require(carried, int, "from_epoch", "offset")
                for name in ("carried", "begun"):
                    require(dict(enumerate(carried[name])), str, *range(len(carried[name])))
                    carried[name] = tuple(carried[name])
                data["carried"] = Carried(**{name: carried[name] for name in _CARRIED})
            require(data, list, "notices")
            data["notices"] = tuple(data["notices"])
            require(dict(enumerate(data["notices"])), str, *range(len(data["notices"])))
            return cls(**{name: data[name] for name in _EXPLANATION})
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"not an explanation: {type(error).__name__}: {error}") from None


_CARRIED = tuple(field.name for field in fields(Carried))


def _model_of(model: Any) -> ModelState | None:
    if model is None:
        return None
    weights, since = model["weights"], model["worse_since"]
    figures(*weights.values())
    if since is not None:
        require(since, int, "offset", "timestamp")
        since = Since(since["offset"], since["timestamp"])
    return ModelState(weights, since)


_EXPLANATION = tuple(entry.name for entry in fields(Explanation))
_DELAY = tuple(field.name for field in fields(LabelDelay))
_SKEW = tuple(field.name for field in fields(Skew))
_VERSION = tuple(field.name for field in fields(ModelVersion))
_PERCENTILES = _DELAY[2:]
_COUNTS = ("records", "explained", "rejected", "rejected_recently")
