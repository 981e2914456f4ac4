"""The messages of the predictions topic: single predictions with their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from explain_client.fields import DIGEST, Message, described
from explain_client.words import figure, loss_name, signed


@dataclass(frozen=True, slots=True)
class Reason:
    """What the value of one feature adds to a prediction."""

    feature: str = described("Name of the feature.", "dep_hour")
    value: float = described("Its Shapley value: what it adds, or takes away where it is below 0.", 0.152)
    std: float = described("Standard error of the value; 0 unless `method` is `sampled`.", 0.0, ge=0)


@dataclass(frozen=True, slots=True)
class EarlierPrediction:
    """A prediction that was told before the label came, and what it lost."""

    offset: int = described("Offset of the record without a label.", 17012, ge=0)
    timestamp: int = described(
        "Event time of that record, since 1970-01-01T00:00Z.", 1387570000000, unit="milliseconds"
    )
    value: float | None = described("What was predicted then, in a regression; null of classes.", None)
    probabilities: Mapping[str, float] = described(
        "The probability of each class that was predicted then; none in a regression.",
        {"true": 0.28, "false": 0.72},
    )
    losses: Mapping[str, float] = described(
        "Its losses by name, against the label that has come.", {"cross_entropy": 0.329}
    )


@dataclass(frozen=True, slots=True)
class Prediction(Message):
    """The prediction for one record, made before the model learnt from it, and its reasons: interventional Shapley values against the reservoir's rows.

    `baseline` + the values of all reasons + `rest` = `predicted`.
    """

    called = ("a prediction", "predictions")

    schema: Literal["prediction/1"] = described("Name and version of this schema.", "prediction/1")
    offset: int = described("Offset of the record.", 18299, ge=0)
    timestamp: int = described(
        "Event time of the record, since 1970-01-01T00:00Z.", 1387576800000, unit="milliseconds"
    )
    id: str | None = described("Id of the record, where `record.id` is set.", "UA1545-2013-12-20")
    seq: int = described("Number of this message in its partition and epoch, from 0.", 18299, ge=0)
    version: str | None = described(
        "The version of the model that predicted; null where records name none.", None
    )
    records: int = described(
        "Records with a label that the model had taken in before; with `epoch` it says which model this is, if it learns.",
        18299,
        ge=0,
        unit="records",
    )
    value: float | None = described("The prediction of a regression; null of classes.", None)
    probabilities: Mapping[str, float] = described(
        "The probability of each class; none in a regression, while the model knows no class, or where the names of more than two classes make the message too large.",
        {"true": 0.31, "false": 0.69},
    )
    output: str | None = described(
        "The class whose probability is explained: `predictions.label`, by default the most probable one. Null in a regression, and while there are no reasons.",
        "true",
    )
    method: Literal["exact", "rescaled", "sampled"] | None = described(
        "How the reasons were found: by the definition; those of the margin, rescaled to the prediction; or from random orders of the features. Null while there are none: the reservoir "
        "has no row yet, or the model does not know the class.",
        "exact",
    )
    predicted: float | None = described("What is explained: the prediction of `output` in `space`.", 0.31)
    baseline: float | None = described("Its mean over the rows of the background.", 0.12)
    space: Literal["prediction", "margin"] = described(
        "Whether predictions are explained, or sums before the link function, such as log-odds.", "prediction"
    )
    reasons: Sequence[Reason] = described(
        "The features of largest absolute value, at most `predictions.top`, the largest first; none of value 0.",
        [{"feature": "dep_hour", "value": 0.152, "std": 0.0}],
    )
    rest: float | None = described("Sum of the values of all other features.", 0.038)
    background_rows: int = described(
        "Rows of the first explainer's reservoir, against which the prediction is explained.", 100, ge=0
    )
    background_digest: str = described(
        "Digest of these rows: BLAKE2b-128 over the digests of their JSON with sorted keys, in the order of the reservoir's slots.",
        "c2a4b7e9d9efbd404e4d88758ea67670",
        pattern=DIGEST,
    )
    label: str | None = described("The record's class; null where it has none yet, or in a regression.", None)
    target: float | None = described("The record's number in a regression; null where it has none yet.", None)
    losses: Mapping[str, float] = described(
        "Losses of the prediction by name; none where the record has no label yet.", {"cross_entropy": 0.371}
    )
    earlier: EarlierPrediction | None = described(  # noqa: RUF009
        "The newest prediction that was told of a record with the same `id` and no label, where this one has it; null where there is none. Only with `predictions.remember`.",
        None,
        absent=None,
    )
    digest: str = described(
        "Rolling hash over this partition's predictions, as that of an explanation.",
        "353e5fe3e0f90657de874ddbf2d630b3",
        pattern=DIGEST,
    )

    def sentence(self, most: int = 3) -> str:
        """The prediction and its largest reasons in words."""
        if self.predicted is None or self.baseline is None:
            return "no reasons yet: the reservoir has no row, or the model does not know the class"
        named = f"{self.output}: " if self.output is not None else ""
        why = "".join(f", {one.feature} {signed(one.value)}" for one in self.reasons[:most])
        truth = self.label if self.target is None else figure(self.target)
        came = "" if truth is None else f"; it was {truth}"
        if self.earlier is not None:
            lost = ", ".join(
                f"{loss_name(name)} of {figure(loss)}" for name, loss in self.earlier.losses.items()
            )
            came += f", and the prediction of offset {self.earlier.offset} had a {lost}"
        return f"predicted {named}{figure(self.predicted)}, on average {figure(self.baseline)}{why}{came}"
