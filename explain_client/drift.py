"""The messages of the drift topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from explain_client.fields import DIGEST, Message, described
from explain_client.words import of_loss

_WINDOWS = [
    {
        "number": number,
        "records": 5000,
        "late": 0,
        "version": None,
        "of_other_versions": 0,
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

    number: int = described(
        "Number of the window in its partition and epoch, from 0; after an alarm, windows are numbered by pairs.",
        6,
        ge=0,
    )
    records: int = described("Records in it.", 5000, ge=1, unit="records")
    late: int = described(
        "Records that came meanwhile with an event time before its period: they are not in it.",
        0,
        ge=0,
        unit="records",
    )
    version: str | None = described(
        "Version of the model that served its records, of several the one with most; null where records name none.",
        None,
        absent=None,
    )
    of_other_versions: int = described(
        "Records meanwhile that other versions served: they are not in it.", 0, ge=0, unit="records", absent=0
    )
    first_offset: int = described("Offset of its first record.", 30000, ge=0)
    last_offset: int = described("Offset of its last record.", 34999, ge=0)
    first_timestamp: int = described("Event time of its first record.", 1387576800000, unit="milliseconds")
    last_timestamp: int = described("Event time of its last record.", 1387663200000, unit="milliseconds")


@dataclass(frozen=True, slots=True)
class AlarmReference:
    """The message of the alarms topic, of the same partition and epoch, that asked why the risk changed."""

    seq: int = described("Its seq.", 3, ge=0)
    offset: int = described("Its offset: of the record with which the change was noticed.", 34999, ge=0)
    cause: int = described("Its cause.", 2, ge=1)


@dataclass(frozen=True, slots=True)
class Separation:
    """What tells records apart that have nothing alike in the other window."""

    features: Sequence[str] = described("The features that tell them apart.", ["schedule.weekday"])
    attributable: bool = described(
        "Whether the change can be attributed without them, as `drift.ignore` asks for.", True
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """How a feature differs between the two windows."""

    feature: str = described("Name of the feature.", "usage")
    sense: Literal["missing", "new", "gone", "shifted", "scaled", "shares", "unlike"] = described(
        "In which sense: other shares of missing values, values that are new or gone, all numbers shifted by `by` or scaled by that factor, "
        "other shares of the same values, or unlike those of another feature (`value`) otherwise than before.",
        "missing",
        open_ended=True,
    )
    words: str = described("The difference in words.", "usage is missing in 30% of the rows (before: 0%)")
    bits: float = described(
        "What the feature says about the window that a record is from, at most 1.", 0.17, ge=0
    )
    before: float | None = described(
        "Share of the records of the window before with a missing value, or with those that `value` names; of numbers shifted or scaled the mean.",
        0.0,
    )
    after: float | None = described("The same in the window that ended.", 0.3)
    value: str | None = described(
        "Values that are new or gone or whose share changed; if `sense` is unlike, the other feature.", None
    )
    by: float | None = described("What was added to all values, or by what they were multiplied.", None)
    risk: float | None = described(
        "The part of the change of the risk that goes with this feature's distribution, or with its fault; null where that is not known.",
        0.021,
    )
    low: float | None = described("Lower end of the 95 % interval of `risk`.", 0.014)
    high: float | None = described("Upper end of it.", 0.028)
    fault: bool = described(
        "Whether it looks like a fault of this sensor: `by` explains all that differs, and nothing that goes with the feature followed.",
        False,
    )


@dataclass(frozen=True, slots=True)
class Drift(Message):
    """Why the risk of one input partition's model changed: from one window to the next, or with the onset of an alarm."""

    called = ("a drift message", "drift")

    schema: Literal["drift/1"] = described("Name and version of this schema.", "drift/1")
    offset: int = described(
        "Offset of the record that ended the target window or, with `alarm`, that the answer waited for.",
        34999,
        ge=0,
    )
    timestamp: int = described(
        "Event time of that record, since 1970-01-01T00:00Z.", 1387663200000, unit="milliseconds"
    )
    seq: int = described("Number of this message in its partition and epoch, from 0.", 4, ge=0)
    baseline: Window = described("The window before.", _WINDOWS[0])  # noqa: RUF009
    target: Window = described("The window that ended.", _WINDOWS[1])  # noqa: RUF009
    alarm: AlarmReference | None = described(  # noqa: RUF009
        "The alarm that asked: the windows are then the records before its onset, and those from it on; null for windows of fixed length.",
        None,
        absent=None,
    )
    sentence: str = described(
        "The result in words, for people.",
        "error rate rose by 0.060 ± 0.012 from window 5 to window 6 (0.201 → 0.261): concept +0.045",
    )
    separation: Separation | None = described(  # noqa: RUF009
        "Why many records have nothing alike in the other window; null else, and where no feature tells them apart.",
        None,
        absent=None,
    )
    differences: Sequence[Difference] = described(
        "The features whose values differ between the windows, also where the risk did not change, the one first that is most likely "
        "what itself changed. The chance that any is named where none differs is at most 2 %.",
        [
            {
                "feature": "usage",
                "sense": "missing",
                "words": "usage is missing in 30% of the rows (before: 0%)",
                "bits": 0.17,
                "before": 0.0,
                "after": 0.3,
                "value": None,
                "by": None,
                "risk": 0.021,
                "low": 0.014,
                "high": 0.028,
                "fault": False,
            }
        ],
        absent=[],
    )
    change: Mapping[str, Any] | None = described(
        "The result: `change`, `verdict`, `causes`, the two risks `baseline` and `target`, and the Shapley values of the "
        "`joint` game and of the `product` game, each with an interval; null where there is none, and the sentence says why.",
        None,
    )
    digest: str = described(
        "Rolling hash over this partition's drift messages, as that of an explanation.",
        "353e5fe3e0f90657de874ddbf2d630b3",
        pattern=DIGEST,
    )

    def __post_init__(self) -> None:
        causes = self.change["causes"] if self.change else []
        if type(causes) is not list or not all(type(cause) is str for cause in causes):
            raise TypeError(f"causes is {causes!r:.60}, and has to be a list of texts")

    @property
    def causes(self) -> tuple[str, ...]:
        """What the change is attributed to: "concept", "inputs", both or nothing."""
        return tuple(self.change["causes"]) if self.change else ()

    @property
    def told(self) -> str:
        """``sentence`` with the loss by the name that it has everywhere else."""
        return of_loss(self.sentence, str((self.change or {}).get("loss", "")))
