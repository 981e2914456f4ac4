"""The sidecar's messages as frozen dataclasses: the one source of what the topics carry.

The client decodes into them, the service writes their field names, and the JSON Schemas and the AsyncAPI document are
generated from their metadata: description, unit (``x-unit``), examples and bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, Literal

import orjson

from explain_client.errors import SchemaError


def _wire(description: str, example: Any, *, unit: str | None = None, **constraints: Any) -> Any:
    """A field of a message, described for its schema."""
    if unit is not None:
        constraints["json_schema_extra"] = {"x-unit": unit}
    return field(metadata={"description": description, "examples": [example], **constraints})


DIGEST = "^[0-9a-f]{32}$"
"""A chain's digest: 128 bits in hexadecimal."""

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def utc(milliseconds: int) -> datetime:
    """The time so many milliseconds after 1970; outside the years 1 to 9999 the first or the last moment of these."""
    try:
        return _1970 + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _FIRST if milliseconds < 0 else _LAST


def is_date(milliseconds: int) -> bool:
    """Whether a timestamp is within the years 1 to 9999; one in nanoseconds, say, is not."""
    return utc(milliseconds) not in (_FIRST, _LAST)


_IMPORTANCE = {"value": 0.042, "std": 0.008, "low": 0.026, "high": 0.057, "settled": True}


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of one feature under one loss, in units of that loss; null (``None``) where nothing is known yet."""

    value: float | None = _wire("Estimated importance.", 0.042, unit="loss")
    std: float | None = _wire("Standard error of the value.", 0.008, unit="loss")
    low: float | None = _wire(
        "Lower end of the confidence band, null until it is settled.", 0.026, unit="loss"
    )
    high: float | None = _wire(
        "Upper end of the confidence band, null until it is settled.", 0.057, unit="loss"
    )
    settled: bool = _wire(
        "Whether the band may be believed: enough informative records since the feature came and since the last change.",
        True,
    )


@dataclass(frozen=True, slots=True)
class Losses:
    """Smoothed prequential loss: of the model, and of two that know no feature."""

    model: float | None = _wire(
        "Smoothed loss of the model on records it had not learnt from.", 0.502, unit="loss"
    )
    empty: float | None = _wire(
        "Smoothed loss of the frequencies of the labels before, of their mean for numbers.",
        0.555,
        unit="loss",
    )
    mean_prediction: float | None = _wire(
        "Smoothed loss of the model's mean prediction, the empty coalition of iSAGE.", 0.561, unit="loss"
    )


class Importances(dict[str, Importance]):
    """Importance by feature."""

    def top(self, k: int) -> list[tuple[str, Importance]]:
        """The k features of largest value, the largest first; unknown ones last."""
        known = sorted(self.items(), key=lambda one: (one[1].value is None, -(one[1].value or 0.0)))
        return known[:k]


@dataclass(frozen=True, slots=True)
class _Message:
    """What every message begins with; each says anew what its schema, offset and timestamp are."""

    schema: str = _wire("Name and version of this schema.", "")
    app_id: str = _wire("The sidecar's app_id.", "explanation-sidecar")
    topic: str = _wire("Records topic.", "records")
    partition: int = _wire("Partition of the records topic, and of this message.", 0, ge=0)
    offset: int = _wire("Offset of a record.", 0, ge=0)
    timestamp: int = _wire("Event time of that record.", 0, unit="milliseconds")
    id: str | None = _wire("Id of that record, where `record.id` is set.", None)
    keys: str | None = _wire(
        "The one key that all records folded in this epoch have; null where they have several, or none that is a text of 1 to 200 characters.",
        "JFK",
    )
    epoch: int = _wire("Starts at 0; a reset begins a new one, with a new model.", 0, ge=0)
    seq: int = _wire("Number of this message in its partition and epoch, from 0.", 0, ge=0)

    @property
    def time(self) -> datetime:
        """Event time of the record that the offset names, in UTC.

        A ``timestamp`` outside the years 1 to 9999, such as one in nanoseconds, gives ``datetime.min`` or ``datetime.max``.
        """
        return utc(self.timestamp)


@dataclass(frozen=True, slots=True)
class Explanation(_Message):
    """What drives the model of one input partition after a record."""

    schema: Literal["explanation/1"] = _wire("Name and version of this schema.", "explanation/1")
    offset: int = _wire("Offset of the last record folded.", 5749, ge=0)
    timestamp: int = _wire(
        "Event time of that record, since 1970-01-01T00:00Z.", 1387576800000, unit="milliseconds"
    )
    seq: int = _wire("Number of this message in its partition and epoch, from 0.", 22, ge=0)
    records: int = _wire("Records folded in this epoch.", 5750, ge=1, unit="records")
    explained: int = _wire("Records explained in this epoch.", 5650, ge=0, unit="records")
    rejected: int = _wire("Records of this epoch that were not folded.", 0, ge=0, unit="records")
    rejected_recently: int = _wire(
        "Of the last 1,000 records those that were not folded.", 0, ge=0, le=1000, unit="records"
    )
    status: Literal["warming", "rejecting", "ready"] = _wire(
        "`warming` until every estimator has a value; `rejecting` while more than 50 of the last 1,000 records were not folded.",
        "ready",
    )
    performance: Mapping[str, Losses] = _wire(
        "By loss: is the model better than no model?",
        {"cross_entropy": {"model": 0.502, "empty": 0.555, "mean_prediction": 0.561}},
    )
    importances: Mapping[str, Mapping[str, Mapping[str, Importance]]] = _wire(
        "By estimator, loss and feature.",
        {"ipfi": {"cross_entropy": {"dep_hour": _IMPORTANCE}}},
        alias="importance",
    )
    estimators: Mapping[str, Mapping[str, Any]] = _wire(
        "By estimator: the settings that say what was estimated.", {"ipfi": {"alpha": 0.001, "n_samples": 1}}
    )
    notices: tuple[str, ...] = _wire("What an operator accepted since the message before, in words.", [])
    digest: str = _wire(
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
        data = _decoded(value, "explanation/1", "an explanation", "explanations")
        try:
            data.setdefault("rejected_recently", 0)
            _require_head(data)
            _require(data, int, *_COUNTS)
            _require(data, str, "status")
            data["performance"] = {
                loss: Losses(*_figures(one["model"], one["empty"], one.get("mean_prediction")))
                for loss, one in data["performance"].items()
            }
            data["importances"] = {
                estimator: {
                    loss: {feature: _importance(cell) for feature, cell in features.items()}
                    for loss, features in by_loss.items()
                }
                for estimator, by_loss in data["importance"].items()
            }
            _require(data, dict, "estimators")
            _require(data["estimators"], dict, *data["estimators"])
            _require(data, list, "notices")
            data["notices"] = tuple(data["notices"])
            _require(dict(enumerate(data["notices"])), str, *range(len(data["notices"])))
            return cls(**{name: data[name] for name in _EXPLANATION})
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"not an explanation: {type(error).__name__}: {error}") from None


_EXPLANATION = tuple(one.name for one in fields(Explanation))
_COUNTS = ("records", "explained", "rejected", "rejected_recently")


_WINDOWS = [
    {
        "number": number,
        "records": 5000,
        "late": 0,
        "first_offset": 5000 * number,
        "last_offset": 5000 * number + 4999,
        "first_timestamp": 1387576800000 + 86400000 * (number - 5),
        "last_timestamp": 1387663200000 + 86400000 * (number - 5),
    }
    for number in (5, 6)
]


@dataclass(frozen=True, slots=True)
class Window:
    """The records of a partition between which and those of another window a risk changed."""

    number: int = _wire("Number of the window in its partition and epoch, from 0.", 6, ge=0)
    records: int = _wire("Records in it.", 5000, ge=1, unit="records")
    late: int = _wire(
        "Records that came meanwhile with an event time before its period: they are not in it.",
        0,
        ge=0,
        unit="records",
    )
    first_offset: int = _wire("Offset of its first record.", 30000, ge=0)
    last_offset: int = _wire("Offset of its last record.", 34999, ge=0)
    first_timestamp: int = _wire("Event time of its first record.", 1387576800000, unit="milliseconds")
    last_timestamp: int = _wire("Event time of its last record.", 1387663200000, unit="milliseconds")


@dataclass(frozen=True, slots=True)
class Drift(_Message):
    """Why the risk of one input partition's model changed from one window to the next."""

    schema: Literal["drift/1"] = _wire("Name and version of this schema.", "drift/1")
    offset: int = _wire("Offset of the record that ended the target window.", 34999, ge=0)
    timestamp: int = _wire(
        "Event time of that record, since 1970-01-01T00:00Z.", 1387663200000, unit="milliseconds"
    )
    seq: int = _wire("Number of this message in its partition and epoch, from 0.", 4, ge=0)
    baseline: Window = _wire("The window before.", _WINDOWS[0])  # noqa: RUF009
    target: Window = _wire("The window that ended.", _WINDOWS[1])  # noqa: RUF009
    sentence: str = _wire(
        "The result in words, for people.",
        "error rate rose by 0.060 ± 0.012 from window 5 to window 6 (0.201 → 0.261): concept +0.045",
    )
    change: Mapping[str, Any] | None = _wire(
        "The result: `change`, `verdict`, `causes`, the two risks `baseline` and `target`, and the Shapley values of the "
        "`joint` game and of the `product` game, each with an interval; null where there is none, and the sentence says why.",
        None,
    )
    digest: str = _wire(
        "Rolling hash over this partition's drift messages, as that of an explanation.",
        "353e5fe3e0f90657de874ddbf2d630b3",
        pattern=DIGEST,
    )
    raw: bytes = field(default=b"", repr=False, compare=False, metadata={"exclude": True})
    """The message's JSON as it was on the topic, without a schema registry's framing."""

    @property
    def causes(self) -> tuple[str, ...]:
        """What the change is attributed to: "concept", "inputs", both or nothing."""
        return tuple(self.change["causes"]) if self.change else ()

    @classmethod
    def from_json(cls, value: bytes) -> Drift:
        """Decode a message. Raises ``SchemaError`` for another schema and for what is no drift message."""
        data = _decoded(value, "drift/1", "a drift message", "drift")
        try:
            _require_head(data)
            _require(data, str, "sentence")
            _require(data, dict, "baseline", "target")
            for end in ("baseline", "target"):
                _require(data[end], int, *_WINDOW)
            if data["change"] is not None:
                _require(data, dict, "change")
            data["baseline"], data["target"] = (
                Window(**{name: data[end][name] for name in _WINDOW}) for end in ("baseline", "target")
            )
            return cls(**{name: data[name] for name in _DRIFT})
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"not a drift message: {type(error).__name__}: {error}") from None


_WINDOW = tuple(one.name for one in fields(Window))
_DRIFT = tuple(one.name for one in fields(Drift))


_SIDE = {"value": 0.012, "low": 0.010, "high": 0.014, "records": 9000}
_AFTER = {"value": 0.085, "low": 0.075, "high": 0.095, "records": 500}
_MOMENT = {"offset": 30100, "timestamp": 1387576800000}


@dataclass(frozen=True, slots=True)
class Side:
    """The mean on one side of an onset."""

    value: float = _wire("Mean of the values as they came.", 0.012)
    low: float = _wire(
        "Lower end of its interval of 95 %; it does not know that the onset was chosen.", 0.010
    )
    high: float = _wire("Upper end of the interval.", 0.014)
    records: int = _wire("Records that it is the mean of.", 9000, ge=0, unit="records")


@dataclass(frozen=True, slots=True)
class Moment:
    """A record of the input."""

    offset: int = _wire("Its offset.", 30100, ge=0)
    timestamp: int = _wire("Its event time, since 1970-01-01T00:00Z.", 1387576800000, unit="milliseconds")

    @property
    def time(self) -> datetime:
        """Its event time in UTC; outside the years 1 to 9999 as for ``Explanation``."""
        return utc(self.timestamp)


@dataclass(frozen=True, slots=True)
class Alarm(_Message):
    """The mean of something changed: of a loss, of an importance's increments, of missing values or rejected records."""

    schema: Literal["alarm/1"] = _wire("Name and version of this schema.", "alarm/1")
    offset: int = _wire("Offset of the record with which the change was noticed.", 30599, ge=0)
    timestamp: int = _wire(
        "Event time of that record, since 1970-01-01T00:00Z.", 1387663200000, unit="milliseconds"
    )
    seq: int = _wire("Number of this message in its partition and epoch, from 0.", 3, ge=0)
    subject: Literal["loss", "gain", "importance", "missing", "rejected"] = _wire(
        "What changed: the model's loss, its gain over no model, a feature's importance, its share of missing values, the share of rejected records.",
        "importance",
    )
    feature: str | None = _wire("Feature or group; null for a loss, a gain and rejected records.", "dep_hour")
    estimator: str | None = _wire("Whose increments of importance these are; else null.", "ipfi")
    loss: str | None = _wire(
        "Under which loss; null for missing values and rejected records.", "cross_entropy"
    )
    direction: Literal["up", "down"] = _wire("Whether the mean rose or fell.", "up")
    before: Side = _wire("Before the onset.", _SIDE)  # noqa: RUF009
    after: Side = _wire("From the onset on.", _AFTER)  # noqa: RUF009
    onset: Moment = _wire("The likeliest first record after the change.", _MOMENT)  # noqa: RUF009
    earliest: Moment = _wire("The first plausible one.", _MOMENT)  # noqa: RUF009
    latest: Moment = _wire("The last plausible one.", _MOMENT)  # noqa: RUF009
    evidence: float = _wire("The difference over what it had to exceed, above 1.", 1.2, ge=1)
    clipped: float = _wire("Share of the records that were clipped for the decision.", 0.001, ge=0, le=1)
    cause: int = _wire(
        "Number of the cause in this partition and epoch, from 1: alarms whose plausible onsets overlap have one in common.",
        2,
        ge=1,
    )
    one_in: int = _wire(
        "False alarms: at most one in so many records, over all subjects of the partition.",
        1000000,
        ge=1,
        unit="records",
    )
    min_change: float = _wire(
        "Changes up to this share of the loss without a model, or of the records, are none.", 0.05, ge=0
    )
    model: str | None = _wire("The setting model.factory or model.uri; null for the default model.", None)
    sentence: str = _wire(
        "The alarm in words, for people.",
        "Since 2013-12-20 22:00 UTC dep_hour matters more: 0.012 → 0.085 ± 0.010 (ipfi, cross_entropy). False alarms: at most one in 1,000,000 records.",
    )
    digest: str = _wire(
        "Rolling hash over this partition's alarms, as that of an explanation.",
        "353e5fe3e0f90657de874ddbf2d630b3",
        pattern=DIGEST,
    )
    raw: bytes = field(default=b"", repr=False, compare=False, metadata={"exclude": True})
    """The message's JSON as it was on the topic, without a schema registry's framing."""

    @classmethod
    def from_json(cls, value: bytes) -> Alarm:
        """Decode a message. Raises ``SchemaError`` for another schema and for what is no alarm."""
        data = _decoded(value, "alarm/1", "an alarm", "alarms")
        try:
            _require_head(data)
            _require(data, int, "cause", "one_in")
            _require(data, str, "subject", "direction", "sentence")
            for name in ("feature", "estimator", "loss", "model"):
                if data[name] is not None:
                    _require(data, str, name)
            _figures(*(data[name] for name in ("evidence", "clipped", "min_change")))
            for name, kind in (("before", Side), ("after", Side), *((name, Moment) for name in _MOMENTS)):
                _require(data, dict, name)
                parts = {part.name: data[name][part.name] for part in fields(kind)}
                _require(parts, int, *({"records", "offset", "timestamp"} & parts.keys()))
                _figures(*parts.values())
                data[name] = kind(**parts)
            return cls(**{name: data[name] for name in _ALARM})
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"not an alarm: {type(error).__name__}: {error}") from None


_MOMENTS = ("onset", "earliest", "latest")
_ALARM = tuple(one.name for one in fields(Alarm))


@dataclass(frozen=True, slots=True)
class DeadLetterHeaders:
    """Headers added to a record that could not be folded, in UTF-8; its key, value and own headers are unchanged.

    Class bad_header: headers whose names are not UTF-8 are left out. Class not_kept: key, value and own headers are.
    """

    schema: Literal["dead-letter/1"] = _wire(
        "Name and version of this schema.", "dead-letter/1", alias="__explain.schema"
    )
    app_id: str = _wire("The sidecar's app_id.", "explanation-sidecar", alias="__explain.app_id")
    error_class: str = _wire(
        "Kind of error, from a fixed set.", "not_json", alias="__explain.errors.class", pattern="^[a-z_]+$"
    )
    error_message: str = _wire(
        "What is wrong, for people.",
        "the value is not JSON: unexpected end of data",
        alias="__explain.errors.message",
    )
    topic: str = _wire("Records topic.", "records", alias="__explain.errors.topic")
    partition: str = _wire(
        "Its partition, decimal.", "0", alias="__explain.errors.partition", pattern="^[0-9]+$"
    )
    offset: str = _wire(
        "The record's offset, decimal.", "17", alias="__explain.errors.offset", pattern="^[0-9]+$"
    )
    timestamp: str = _wire(
        "The record's Kafka timestamp, decimal.",
        "1387576800000",
        alias="__explain.errors.timestamp",
        unit="milliseconds",
    )
    epoch: str = _wire("Epoch of the partition, decimal.", "0", alias="__explain.epoch", pattern="^[0-9]+$")
    seq: str = _wire(
        "Number of this dead letter in its partition and epoch, decimal.",
        "3",
        alias="__explain.seq",
        pattern="^[0-9]+$",
    )
    digest: str = _wire(
        "Rolling hash over the partition's dead letters.",
        "353e5fe3e0f90657de874ddbf2d630b3",
        alias="__explain.digest",
        pattern=DIGEST,
    )

    def to_dict(self) -> dict[str, str]:
        """Header names and values, in the order of the headers."""
        return {one.metadata["alias"]: getattr(self, one.name) for one in fields(self)}


FRAME_BYTES = 5
"""What a schema registry's serialiser puts before a message: a zero, which no JSON begins with, and the schema's id."""


def unframed(value: bytes) -> bytes:
    """A message without a schema registry's framing, where it has one."""
    return value[FRAME_BYTES:] if value[:1] == b"\0" else value


def _decoded(value: bytes, schema: str, what: str, topic: str) -> dict[str, Any]:
    framed, value = value, unframed(value)
    try:
        data: dict[str, Any] = orjson.loads(value)
        found = data["schema"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        if value is not framed:
            raise SchemaError(
                f"{what} in another format than JSON, probably Avro: {framed[:60]!r}; read it with an Avro deserialiser and your "
                "Schema Registry, or set the sidecar's registry.format to json"
            ) from None
        raise SchemaError(f"not {what}: {value[:60]!r}; is this the {topic} topic?") from None
    if found != schema:
        raise SchemaError(
            f"schema {found!r}, and this explain-client reads {schema!r} here; install one of the sidecar's version"
        )
    data["raw"] = value
    return data


_DIGEST = re.compile(DIGEST)
_FIGURE = frozenset((int, float, NoneType))


def _require(data: Mapping[Any, Any], kind: type, *names: Any) -> None:
    """Raise ``TypeError`` where one of these values has another type: what reads a topic must not stumble later."""
    for name in names:
        if type(data[name]) is not kind:
            raise TypeError(f"{name} is {data[name]!r:.60}, and has to be of type {kind.__name__}")


def _require_head(data: dict[str, Any]) -> None:
    """What every message begins and ends with."""
    data.setdefault("keys", None)  # messages of before have none
    _require(data, int, "partition", "offset", "timestamp", "epoch", "seq")
    _require(data, str, "app_id", "topic", "digest")
    if not _DIGEST.match(data["digest"]):
        raise TypeError(f"digest is {data['digest']!r:.60}, and has to be 32 hexadecimal digits")
    for name in ("id", "keys"):
        if data[name] is not None:
            _require(data, str, name)


def _figures(*values: Any) -> tuple[Any, ...]:
    if not _FIGURE.issuperset(map(type, values)):
        raise TypeError(f"{values!r:.60}: not all of these are numbers or null")
    return values


def _importance(cell: Mapping[str, Any]) -> Importance:
    """Messages of earlier versions, whose bands were always there, do not say whether they are settled: they are not."""
    value, std, low, high = _figures(cell["value"], cell["std"], cell["low"], cell["high"])
    return Importance(value, std, low, high, cell.get("settled") is True)


def _pick(known: Mapping[str, Any], name: str | None, kind: str) -> Any:
    if name is None:
        return next(iter(known.values()), {})
    if name not in known:
        raise KeyError(f"{kind} {name!r} is not in this explanation, which has {', '.join(known) or 'none'}")
    return known[name]
