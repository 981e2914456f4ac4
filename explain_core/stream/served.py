"""What was served: the predictions that records carry, how good they were, and whether the model that is explained makes them too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from explain_core.losses import Loss, Prediction
from explain_core.models.empty import Performance, PerformanceState
from explain_core.state import Count, State, check

Finite = Annotated[float, msgspec.Meta(ge=0.0, le=1e300)]


class ServedData(State, frozen=True):
    """The performance of what was served, and the figures of the comparison, in a snapshot."""

    performance: PerformanceState
    checked: Count
    differing: Count
    largest: Finite


class Skew(NamedTuple):
    """Of so many predictions that were compared so many differed by more than the tolerance, and one by the most."""

    checked: int
    differing: int
    largest: float
    tolerance: float


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

    @property
    def skew(self) -> Skew | None:
        """The comparison; None where there is none."""
        if self.tolerance is None:
            return None
        return Skew(self.checked, self.differing, self.largest, self.tolerance)

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
