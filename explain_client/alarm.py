"""The messages of the alarms topic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from explain_client.alarm_words import ABOUT, SubjectKind
from explain_client.fields import DIGEST, Message, described, utc

_SIDE = {"value": 0.012, "low": 0.010, "high": 0.014, "records": 9000}
_AFTER = {"value": 0.085, "low": 0.075, "high": 0.095, "records": 500}
_MOMENT = {"offset": 30100, "timestamp": 1387576800000}


@dataclass(frozen=True, slots=True)
class Side:
    """The mean on one side of an onset."""

    value: float = described("Mean of the values as they came.", 0.012)
    low: float = described(
        "Lower end of its interval of 95 %; it does not know that the onset was chosen.", 0.010
    )
    high: float = described("Upper end of the interval.", 0.014)
    records: int = described("Records that it is the mean of.", 9000, ge=0, unit="records")


@dataclass(frozen=True, slots=True)
class Moment:
    """A record of the input."""

    offset: int = described("Its offset.", 30100, ge=0)
    timestamp: int = described("Its event time, since 1970-01-01T00:00Z.", 1387576800000, unit="milliseconds")

    @property
    def time(self) -> datetime:
        """Its event time in UTC; outside the years 1 to 9999 as for ``Explanation``."""
        return utc(self.timestamp)


@dataclass(frozen=True, slots=True)
class SegmentName:
    """A segment of the records, by the value of a feature."""

    feature: str = described("The feature.", "carrier")
    value: str | None = described(
        "Its value: a string as it is, else as JSON; null for all values that are not kept apart, and for none.",
        "AA",
    )


@dataclass(frozen=True, slots=True)
class Alarm(Message):
    """The mean of something changed: of a loss, of an importance's increments, of missing values or rejected records."""

    called = ("an alarm", "alarms")

    schema: Literal["alarm/1"] = described("Name and version of this schema.", "alarm/1")
    offset: int = described("Offset of the record with which the change was noticed.", 30599, ge=0)
    timestamp: int = described(
        "Event time of that record, since 1970-01-01T00:00Z.", 1387663200000, unit="milliseconds"
    )
    seq: int = described("Number of this message in its partition and epoch, from 0.", 3, ge=0)
    subject: SubjectKind = described(  # noqa: RUF009
        f"What changed: {', '.join(ABOUT.values())}.",
        "importance",
        open_ended=True,
    )
    feature: str | None = described(
        "Feature or group; null for a loss, a gain and rejected records.", "dep_hour"
    )
    estimator: str | None = described("Whose increments of importance these are; else null.", "ipfi")
    loss: str | None = described(
        "Under which loss; null for missing values and rejected records.", "cross_entropy"
    )
    segment: SegmentName | None = described(  # noqa: RUF009
        "The records that it is about, where `explainers.by` keeps segments; null for all.", None, absent=None
    )
    direction: Literal["up", "down"] = described("Whether the mean rose or fell.", "up")
    least: float | None = described(
        "What the mean changed by at least, at the rate of `one_in`; of values that were clipped. Null in messages of before.",
        0.058,
        ge=0,
        absent=None,
    )
    before: Side = described("Before the onset.", _SIDE)  # noqa: RUF009
    after: Side = described("From the onset on.", _AFTER)  # noqa: RUF009
    onset: Moment = described("The likeliest first record after the change.", _MOMENT)  # noqa: RUF009
    earliest: Moment = described("The first plausible one.", _MOMENT)  # noqa: RUF009
    latest: Moment = described("The last plausible one.", _MOMENT)  # noqa: RUF009
    evidence: float = described("The difference over what it had to exceed, above 1.", 1.2, ge=1)
    clipped: float = described("Share of the records that were clipped for the decision.", 0.001, ge=0, le=1)
    cause: int = described(
        "Number of the cause in this partition and epoch, from 1: alarms whose plausible onsets overlap, or nearly, have one in common.",
        2,
        ge=1,
    )
    void: bool = described(
        "Whether the model was worse than no model then, so that its importances said nothing, and this is one of them. No story tells it.",
        False,
        absent=False,
    )
    one_in: int = described(
        "False alarms: at most one in so many records, over all subjects of the partition.",
        1000000,
        ge=1,
        unit="records",
    )
    min_change: float = described(
        "Changes up to this share of the loss without a model, or of the records, are none.", 0.05, ge=0
    )
    model: str | None = described(
        "The setting model.uri, model.factory or model.name; null for the default model.", None
    )
    version: str | None = described(
        "The version of the model that it is about; null where records name none, and for rejected records.",
        None,
        absent=None,
    )
    sentence: str = described(
        "The alarm in words, for people.",
        "Since Friday 2013-12-20 22:00 UTC dep_hour matters more, by at least 0.058 (0.012 → 0.085 ± 0.010; ipfi, cross_entropy).",
    )
    digest: str = described(
        "Rolling hash over this partition's alarms, as that of an explanation.",
        "353e5fe3e0f90657de874ddbf2d630b3",
        pattern=DIGEST,
    )
