"""The messages of the explanations topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from explain_client.challenger import DIFFERENCE, SHIFT, Challenger
from explain_client.fields import DIGEST, Message, described
from explain_client.importance import (
    EXAMPLE,
    Importance,
    Importances,
    Losses,
    pick,
)
from explain_client.periods import DRIVEN, Driven, Period
from explain_client.segments import Segment
from explain_client.words import figure, rough


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
class SettledLoss:
    """What labelled records were estimated to lose before their label came, and what they lost; smoothed as losses are."""

    estimated: float = described("Mean loss that was estimated.", 0.48)
    true: float = described("Mean loss of the same records, by their labels.", 0.49)
    error: float = described("True minus estimated.", 0.01)
    low: float | None = described("95 % interval of the error; null from too few records.", -0.01)
    high: float | None = described("95 % interval of the error; null from too few records.", 0.03)


@dataclass(frozen=True, slots=True)
class EstimatedLoss:
    """What the newest records without a label are estimated to lose: no loss of the model's performance, and never part of one."""

    value: float | None = described(
        "Mean loss; null until 1,000 labels and a record without one have come.", 0.51
    )
    low: float | None = described("95 % interval for what the mean loss will turn out to be.", 0.48)
    high: float | None = described("95 % interval for what the mean loss will turn out to be.", 0.54)
    records: int = described("Records without a label so far.", 1200, ge=0, unit="records")
    unfamiliar: float = described(
        "Share of the newest of them whose values of `feature` few labelled records had.", 0.01, ge=0
    )
    feature: str | None = described("The feature; null for the prediction.", "dep_hour")
    correction: float = described(
        "What the newest labels added to the estimate: 0 where its error is none for certain.", 0.0
    )
    settled: SettledLoss | None = described(  # noqa: RUF009
        "How far off estimates were, by the labels that have come; null where none has since.",
        {"estimated": 0.48, "true": 0.49, "error": 0.01, "low": -0.01, "high": 0.03},
    )
    notes: tuple[str, ...] = described(
        "What the estimate cannot see, and when it does not hold, in words.",
        ["A change of what the features mean for the label cannot be seen before labels come."],
    )

    def sentence(self, loss: str) -> str:
        """The estimate in words, with all that is to be said of it.

        >>> EstimatedLoss(0.51, 0.48, 0.54, 1200, 0.0, None, 0.0, SettledLoss(0.48, 0.49, 0.01, -0.01, 0.03), ("It is blind.",)).sentence("brier")
        'brier of the newest records without a label: 0.510 [0.480, 0.540] by estimate. Where labels came since, estimates were 0.010 too low on average. It is blind.'
        """
        if self.value is None or self.low is None or self.high is None:
            return f"{loss} of records without a label: not estimated yet"
        said = f"{loss} of the newest records without a label: {figure(self.value)} [{figure(self.low)}, {figure(self.high)}] by estimate."
        if self.settled is not None:
            side = "low" if self.settled.error > 0.0 else "high"
            said += f" Where labels came since, estimates were {figure(abs(self.settled.error))} too {side} on average."
        return " ".join((said, *self.notes))


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
class PartialDependence:
    """The mean prediction as a function of one feature, the others being as they come: which way it moves the predictions (iPDP)."""

    feature: str = described("The feature.", "dep_hour")
    points: Sequence[float] = described(
        "Its values, equidistant between its 5 % and its 95 % quantile.", [6.0, 14.0, 22.0]
    )
    values: Sequence[float] = described("The mean prediction with each of them.", [0.12, 0.2, 0.31])
    std: Sequence[float | None] = described(
        "Standard errors of the means; null where they are not known yet. They err together, so that the shape is more certain than the level.",
        [0.01, 0.011, 0.012],
    )
    records: int = described("Records that were asked about.", 900, ge=2, unit="records")
    label: str | None = described("The class whose probability is followed; null in a regression.", "true")
    shares: Sequence[float] = described(
        "Where its values are: the shares of the remembered records with a number there that are below the first point, from each point to below the next, and from the last point on.",
        [0.04, 0.5, 0.41, 0.05],
        absent=(),
        default=(),
    )

    def __post_init__(self) -> None:
        if not 0 < len(self.points) == len(self.values):
            raise ValueError(f"{len(self.points)} points and {len(self.values)} values are no curve")

    def sentence(self, name: str | None = None) -> str:
        """Which way the feature moves the prediction, in words; ``name`` is what the feature is called.

        >>> PartialDependence("hour", [6.0, 14.0, 22.0], [0.12, 0.2, 0.31], [0.0] * 3, 900, "true").sentence()
        'a higher hour raises the prediction of true from 0.12 to 0.31 (hour from 6 to 22)'
        >>> PartialDependence("hour", [6.0, 14.0, 22.0], [0.1, 0.4, 0.12], [0.0] * 3, 900, None).sentence()
        'the prediction is highest, 0.4, where hour is 14, and lowest, 0.1, where it is 6'
        """
        name, low, high = name or self.feature, min(self.values), max(self.values)
        what = "the prediction" + (f" of {self.label}" if self.label is not None else "")
        if low == high:
            return f"{name} does not move {what}"
        effect, top, bottom = (
            self.values[-1] - self.values[0],
            self.values.index(high),
            self.values.index(low),
        )
        if abs(effect) < 0.5 * (high - low):
            return f"{what} is highest, {rough(high)}, where {name} is {rough(self.points[top])}, and lowest, {rough(low)}, where it is {rough(self.points[bottom])}"
        ends = f"{name} from {rough(self.points[0])} to {rough(self.points[-1])}"
        return f"a higher {name} {'raises' if effect > 0.0 else 'lowers'} {what} from {rough(self.values[0])} to {rough(self.values[-1])} ({ends})"


@dataclass(frozen=True, slots=True)
class Explanation(Message):
    """What drives the model of one input partition after a record."""

    called = ("an explanation", "explanations")

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
        "Of the last 1,000 records those that were not folded.", 0, ge=0, le=1000, unit="records", absent=0
    )
    status: Literal["warming", "rejecting", "ready"] = described(
        "`warming` until every estimator has a value; `rejecting` while more than 50 of the last 1,000 records were not folded.",
        "ready",
        open_ended=True,
    )
    version: ModelVersion | None = described(  # noqa: RUF009
        "The version of the model that served the record; all figures below are its own. Null where records name no version.",
        None,
        absent=None,
    )
    model: ModelState | None = described(  # noqa: RUF009
        "What the model is made of, and whether it is worth explaining; null from an earlier sidecar.",
        {"weights": {"none": 0.01, "linear": 0.06, "forest": 0.93}, "worse_since": None},
        absent=None,
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
        absent=None,
    )
    estimated_loss: Mapping[str, EstimatedLoss] = described(
        "By loss, with `explain.estimated_loss`: what records without a label are estimated to lose. Otherwise empty.",
        {},
        absent={},
    )
    label_delay: LabelDelay | None = described(  # noqa: RUF009
        "How long after their events the labels came; null where no record says it. What came early is no fair sample of all.",
        {"labels": 812, "implied": 188, "p10": 4_000, "p50": 55_000, "p90": 240_000, "p99": 910_000},
        absent=None,
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
            "explanation_shift": SHIFT,
        },
        absent=None,
    )
    segments: Mapping[str, Segment] = described(
        "By estimator with the setting `by`: one of its segments, in turn that of which most has not been told yet.",
        {},
        absent={},
    )
    drivers: Mapping[str, Mapping[str, Driven | None]] = described(
        "By estimator and loss: which features drive the model; null while there are too few records to say so, while the model is worse than no model, and of importances without labels.",
        {"ipfi": {"cross_entropy": DRIVEN}},
        absent={},
    )
    periods: tuple[Period, ...] = described(
        "The period of `emit.periods` that ended with the message, if one did, and then also those that do not end, with sums that add up over time, partitions and versions.",
        [],
        absent=[],
    )
    carried: Carried | None = described(  # noqa: RUF009
        "In the first message of an epoch that changed settings began: what it took over. Otherwise null.",
        None,
        absent=None,
    )
    notices: tuple[str, ...] = described("What an operator accepted since the message before, in words.", [])
    partial_dependence: tuple[PartialDependence, ...] = described(
        "Which way features move the predictions: a curve of each feature that `partial_dependence` asks for, once there is one.",
        [],
        absent=[],
    )
    digest: str = described(
        "Rolling hash over this partition's messages: blake2b-128 of the digest before and this message's bytes up to "
        '`,"digest":`.',
        "353e5fe3e0f90657de874ddbf2d630b3",
        pattern=DIGEST,
    )

    def importance(self, estimator: str | None = None, loss: str | None = None) -> Importances:
        """Importance by feature under an estimator and a loss, by default the first ones. ``KeyError`` names those known."""
        return Importances(pick(pick(self.importances, estimator, "estimator"), loss, "loss"))

    def label_free(self, estimator: str, loss: str) -> bool:
        """Whether importances are of the predictions, and need no label: they are no shares of a loss."""
        return loss in self.importances.get(estimator, {}) and loss not in self.performance

    @property
    def worse_since(self) -> Since | None:
        """Since when the model is worse than no model; None where it is not."""
        return self.model.worse_since if self.model else None

    def driven(self, estimator: str | None = None, loss: str | None = None) -> Driven | None:
        """What drives the model under an estimator and a loss, by default the first ones; None where it is too early to say, or the model is worse than no model."""
        found: Driven | None = pick(pick(self.drivers, estimator, "estimator") or {}, loss, "loss") or None
        return found
