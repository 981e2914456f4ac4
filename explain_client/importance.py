"""Importances and losses, as explanations, segments and challengers have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explain_client.fields import described

EXAMPLE = {"value": 0.042, "std": 0.008, "low": 0.026, "high": 0.057, "steady": True, "floor": 0.031}


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of one feature under one loss, in units of that loss; null (``None``) where nothing is known yet."""

    value: float | None = described(
        "How much the feature mattered, on average over the records remembered, of which the newest weigh most.",
        0.042,
        unit="loss",
    )
    std: float | None = described("Standard error of the value.", 0.008, unit="loss")
    low: float | None = described(
        "Lower end of the confidence band of that average; null below 500 records.", 0.026, unit="loss"
    )
    high: float | None = described(
        "Upper end of the confidence band; null below 500 records.", 0.057, unit="loss"
    )
    steady: bool | None = described(
        "Whether the average describes the moment too; false after a change until 90 % of its weight is newer, null below 900 records.",
        True,
        absent=None,
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
        "Smoothed loss of the model's mean prediction, the empty coalition of iSAGE.",
        0.561,
        unit="loss",
        absent=None,
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
    low: float | None = described(
        "Lower end of the band of the model's loss, the mean over the records remembered; null below 500 records.",
        0.49,
        unit="loss",
        default=None,
    )
    high: float | None = described("Upper end of that band.", 0.514, unit="loss", default=None)
    gain: float | None = described(
        "What the model gains over no model: `empty` minus `model`.", 0.053, unit="loss", default=None
    )
    gain_low: float | None = described(
        "Lower end of the band of the gain; above 0 the model is better than none.",
        0.044,
        unit="loss",
        default=None,
    )
    gain_high: float | None = described("Upper end of that band.", 0.062, unit="loss", default=None)
    clipped: int | None = described(
        "Records so far of which the model's loss counts as less than it is: a cross-entropy is 16.1 at most, that of a probability of 1e-7. "
        "Null for a loss that is not clipped.",
        0,
        unit="records",
        default=None,
    )


class Importances(dict[str, Importance]):
    """Importance by feature."""

    def top(self, k: int) -> list[tuple[str, Importance]]:
        """The k features of largest value, the largest first; unknown ones last."""
        known = sorted(self.items(), key=lambda cell: (cell[1].value is None, -(cell[1].value or 0.0)))
        return known[:k]


def pick(known: Mapping[str, Any], name: str | None, kind: str) -> Any:
    if name is None:
        return next(iter(known.values()), {})
    if name not in known:
        raise KeyError(f"{kind} {name!r} is not in this explanation, which has {', '.join(known) or 'none'}")
    return known[name]
