"""What was served: the predictions that records carry, how good they were, and whether the model that is explained makes them too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from explain_core.losses import Loss, Prediction
from explain_core.models.empty import Performance, PerformanceState
from explain_core.state import Count, State, check
from explain_sidecar.fold.records import short
from explain_sidecar.formats.errors import BadRecord

UNSEEN = ""
"""The code of the classes without one: names of classes that may be anything do not become state."""

Finite = Annotated[float, msgspec.Meta(ge=0.0, le=1e300)]


class ServedData(State, frozen=True):
    """The performance of what was served, and the figures of the comparison, in a snapshot."""

    performance: PerformanceState
    checked: Count
    differing: Count
    largest: Finite


class Served:
    """The predictions that a model's records carry, compared with the model's own.

    A larger difference than ``tolerance`` counts as another prediction: the difference of probabilities, or that of numbers relative to the
    larger one. It is None for a model that learns, which is not the one that served.
    """

    def __init__(self, losses: Sequence[Loss], alpha: float, tolerance: float | None) -> None:
        self.performance = Performance(losses, alpha)
        self.tolerance = tolerance
        self.checked = self.differing = 0
        self.largest = 0.0

    def add(self, y: Any, served: Prediction, prediction: Prediction) -> None:
        """Take in what was served for a record, beside the model's own prediction."""
        self.performance.update(y, served)
        if self.tolerance is not None:
            found = difference(served, prediction)
            self.checked += 1
            self.differing += found > self.tolerance
            self.largest = max(self.largest, found)

    def skew(self) -> dict[str, Any] | None:
        """The comparison for a message; None where there is none."""
        if self.tolerance is None:
            return None
        return {
            "checked": self.checked,
            "differing": self.differing,
            "largest": self.largest,
            "tolerance": self.tolerance,
        }

    def state(self) -> ServedData:
        return ServedData(self.performance.state(), self.checked, self.differing, self.largest)

    def restore(self, data: ServedData) -> None:
        """Restore a stored state. Raises ``StateError`` where it is of other losses."""
        check(data.differing <= data.checked, "served: more differ than were compared")
        self.performance.restore(data.performance)
        self.checked, self.differing, self.largest = data.checked, data.differing, data.largest


def difference(a: Prediction, b: Prediction) -> float:
    """How far two predictions are apart: the largest difference of a class's probability, or that of numbers relative to the larger.

    >>> difference({0: 0.75, 1: 0.25}, {0: 0.5, 1: 0.5}), difference(2.0, 1.0)
    (0.25, 0.5)
    """
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return max(abs(a.get(label, 0.0) - b.get(label, 0.0)) for label in dict.fromkeys((*a, *b)))
    assert not isinstance(a, Mapping) and not isinstance(b, Mapping)
    largest = max(abs(a), abs(b))
    return abs(a - b) / largest if largest else 0.0


def coded(served: Any, y: Any, labels: Mapping[Any, int], classes: Collection[Any]) -> Prediction:
    """What was served, with the codes of its classes; those that no record has had yet are one, ``UNSEEN``.

    ``served`` is as ``Decoder`` returns it, ``y`` the record's label. ``classes`` are those that the model has, where they are fixed.
    Raises ``BadRecord`` where it names others, or none.
    """
    codes = labels if y in labels else {**labels, y: len(labels)}
    if isinstance(served, float):
        names = [_text(label) for label in classes] if len(classes) == 2 else ["0", "1"]
        if not classes and set(map(_text, codes)) <= {"false", "true"}:
            names = ["false", "true"]
        elif not classes and not set(map(_text, codes)) <= {"0", "1"}:
            raise BadRecord(
                "bad_prediction",
                f"the served probability {served:g} names no class, and the labels are {', '.join(map(repr, codes))}; send a mapping "
                "from class to probability",
            )
        served = {names[0]: 1.0 - served, names[1]: served}
    by_name = {_text(label): codes[label] for label in classes or codes}
    unknown = [name for name in served if name not in by_name]
    if unknown and classes:
        raise BadRecord(
            "bad_prediction",
            f"the served prediction names the class {short(unknown[0])}, and the model has {', '.join(list(by_name)[:5])}",
        )
    found: dict[Any, float] = {}
    for name, p in served.items():
        code = by_name.get(name, UNSEEN)
        found[code] = found.get(code, 0.0) + p
    return found


def _text(label: Any) -> str:
    """A label as JSON writes it as a key."""
    return str(label).lower() if isinstance(label, bool) else str(label)
