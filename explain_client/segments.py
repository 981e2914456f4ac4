"""Segments: the records that have one value of a feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explain_client.fields import described
from explain_client.importance import EXAMPLE, Importance, Importances, pick


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
        "By loss and feature.", {"cross_entropy": {"dep_hour": EXAMPLE}}, alias="importance"
    )

    def importance(self, loss: str | None = None) -> Importances:
        """Importance by feature under a loss, by default the first one. ``KeyError`` names those known."""
        return Importances(pick(self.importances, loss, "loss"))
