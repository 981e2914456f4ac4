"""What a message says of a single prediction: the prediction, its reasons, and what is known of its label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from numbers import Integral
from typing import Any

import orjson

from explain_core.losses import Loss
from explain_core.models.empty import Performance
from explain_core.reasons import Reasons
from explain_core.stream import Predicted
from explain_sidecar.fold.records import Sample
from explain_sidecar.fold.served import label_text
from explain_sidecar.fold.sizes import HEADROOM
from explain_sidecar.fold.waiting import Earlier
from explain_sidecar.settings import Settings


def content(
    predicted: Predicted,
    sample: Sample,
    labels: Sequence[Any],
    performance: Performance | None,
    settings: Settings,
) -> dict[str, Any]:
    """``performance`` has taken in the record where it has a label; ``labels`` are those of the codes."""
    number, background = not isinstance(predicted.prediction, Mapping), predicted.background
    assert background is not None
    of_class = settings.model.task != "regression" and sample.labelled
    return {
        "version": sample.version,
        "records": predicted.records,
        "value": predicted.prediction if number else None,
        "probabilities": {} if number else _probabilities(predicted, labels),
        **_reasons(predicted.reasons, labels, settings),
        "background_rows": background.rows,
        "background_digest": background.digest,
        "label": label_text(sample.y) if of_class else None,
        "target": sample.y if sample.labelled and not of_class else None,
        "losses": {}
        if performance is None
        else dict(
            zip((loss.name for loss in performance.losses), performance.newest[0].tolist(), strict=True)
        ),
    }


def bound(content: dict[str, Any], settings: Settings) -> None:
    """Leave probabilities out where the names of a thousand classes make the message too large."""
    for part in filter(None, (content.get("earlier"), content)):
        if (
            len(part["probabilities"]) > FEW
            and len(orjson.dumps(content)) > settings.emit.max_bytes - HEADROOM
        ):
            part["probabilities"] = {}


def settled(earlier: Earlier, labels: Sequence[Any], losses: Sequence[Loss], y: Any) -> dict[str, Any]:
    """What a message says of the prediction that was told before the label came; ``y`` is its code, or the number."""
    prediction = earlier.prediction
    named = ((_name(code, labels), p) for code, p in earlier.shares)
    return {
        "offset": earlier.offset,
        "timestamp": earlier.timestamp,
        "value": earlier.value,
        "probabilities": {name: p for name, p in named if name is not None},
        "losses": {loss.name: loss(y, prediction) for loss in losses},
    }


FEW = 2
"""Classes whose names are always short enough for a message."""


def _probabilities(predicted: Predicted, labels: Sequence[Any]) -> dict[str, float]:
    assert isinstance(predicted.prediction, Mapping)
    named = ((_name(code, labels), p) for code, p in predicted.prediction.items())
    return {name: p for name, p in named if name is not None}


def _name(code: Any, labels: Sequence[Any]) -> str | None:
    """The label of a code; None where no record has had one with it yet."""
    known = isinstance(code, Integral) and 0 <= int(code) < len(labels)
    return label_text(labels[int(code)]) if known else None


def _reasons(reasons: Reasons | None, labels: Sequence[Any], settings: Settings) -> dict[str, Any]:
    chosen = settings.predictions
    place = None if reasons is None else _place(reasons, labels, chosen.label)
    if reasons is None or place is None:
        nothing = dict.fromkeys(("output", "method", "predicted", "baseline"))
        return {**nothing, "space": chosen.space, "reasons": [], "rest": None}
    found = [one for one in reasons.top(len(reasons.features), reasons.outputs[place]) if one.value]
    return {
        "output": _name(reasons.outputs[place], labels),
        "method": reasons.method,
        "predicted": float(reasons.prediction[0, place]),
        "baseline": float(reasons.baseline[place]),
        "space": chosen.space,
        "reasons": [one._asdict() for one in found[: chosen.top]],
        "rest": fsum(one.value for one in found[chosen.top :]),
    }


def _place(reasons: Reasons, labels: Sequence[Any], label: Any) -> int | None:
    """That of the label in the outputs; of the most probable one where none is asked for, and None where the model does not know it.

    One margin stands for two classes: it is the only one, whatever was asked for.
    """
    if reasons.outputs == (None,):
        return 0
    names = [_name(code, labels) for code in reasons.outputs]
    if label is not None and len(names) > 1:
        return names.index(label_text(label)) if label_text(label) in names else None
    known = [place for place, name in enumerate(names) if name is not None]
    return max(known, key=lambda place: reasons.prediction[0, place], default=None)
