"""The challenger: a second model, compared with the first one on the same records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from explain_client.fields import described
from explain_client.importance import (
    EXAMPLE,
    Importance,
    Importances,
    Losses,
    pick,
)

DIFFERENCE = {
    "value": -0.021,
    "low": -0.031,
    "high": -0.012,
    "records": 5650,
    "clipped": 0,
    "limit": 1.6,
    "better": "challenger",
    "sentence": "the challenger loses less than the model, by 0.021 (0.012 to 0.031) in cross_entropy: mean of 5,650 records, an interval that holds however often you look",
}


SHIFT = {
    "records": 980,
    "tolerance": 0.01,
    "features": {"dep_hour": {"share": 0.21, "found": True}},
    "sentence": "the challenger uses dep_hour differently from the model, by 21 % of the variance of the model's predictions: mean of 980 records",
}


@dataclass(frozen=True, slots=True)
class LossDifference:
    """The mean difference of a loss, challenger minus model, with an interval that holds however often you look; null until it is known."""

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
        "the challenger loses less than the model, by 0.021 (0.012 to 0.031) in cross_entropy: mean of 5,650 records, an interval that holds however often you look; 3 differences count as ±1.6",
    )


@dataclass(frozen=True, slots=True)
class FeatureShift:
    """How far two models differ in what they make of a feature."""

    share: float = described(
        "What the feature adds to the difference of their predictions, in shares of the variance of the model's; infinite is 1e30.",
        0.21,
        ge=0,
    )
    found: bool = described(
        "It is more than `tolerance`, by a test that holds however often you look, for all features together with the probability `challenger.confidence`.",
        True,
    )


@dataclass(frozen=True, slots=True)
class ExplanationShift:
    """Which features the challenger uses otherwise than the model, on the same records and without any label."""

    records: int = described("Records that count.", 980, ge=0, unit="records")
    tolerance: float = described("Share of the variance up to which they do not differ.", 0.01)
    features: Mapping[str, FeatureShift] = described(
        "The ten features in which they differ most.", {"dep_hour": {"share": 0.21, "found": True}}
    )
    sentence: str = described(
        "The difference in words.",
        "the challenger uses dep_hour differently from the model, by 21 % of the variance of the model's predictions: mean of 980 records",
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
        {"cross_entropy": DIFFERENCE},
    )
    importances: Mapping[str, Mapping[str, Mapping[str, Importance]]] = described(
        "By estimator, loss and feature: what drives the challenger.",
        {"ipfi": {"cross_entropy": {"dep_hour": EXAMPLE}}},
        alias="importance",
    )
    importance_differences: Mapping[str, Mapping[str, Mapping[str, Importance]]] = described(
        "By estimator, loss and feature: the challenger's importance minus the model's, by the same draws; its band holds if you look once.",
        {"ipfi": {"cross_entropy": {"dep_hour": EXAMPLE}}},
        alias="importance_difference",
    )
    explanation_shift: ExplanationShift | None = described(  # noqa: RUF009
        "With `challenger.shift_every`: which features it uses otherwise than the model. Otherwise null.",
        SHIFT,
        absent=None,
    )

    def importance(self, estimator: str | None = None, loss: str | None = None) -> Importances:
        """As ``Explanation.importance``."""
        return Importances(pick(pick(self.importances, estimator, "estimator"), loss, "loss"))

    def importance_difference(self, estimator: str | None = None, loss: str | None = None) -> Importances:
        """The same of the differences."""
        return Importances(pick(pick(self.importance_differences, estimator, "estimator"), loss, "loss"))

    def loss_difference(self, loss: str | None = None) -> LossDifference:
        """The difference of a loss, by default the first one. ``KeyError`` names those known."""
        found: LossDifference = pick(self.difference, loss, "loss")
        return found
