"""What goes into a ``StreamExplainer``, and what comes out of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explain_core.alarms.detector import Change
from explain_core.drift import RiskChange
from explain_core.losses import Prediction
from explain_core.models import Row


class Record(NamedTuple):
    """A labelled record: offset and event time (milliseconds since 1970), features, the label as the model gets it, and its weight.

    ``version`` is the version of the model that served it, where there are several, and ``served`` its prediction.
    """

    offset: int
    timestamp: int
    x: Row
    y: Any
    weight: float = 1.0
    served: Prediction | None = None
    version: str | None = None


class RecordBlock(NamedTuple):
    """Consecutive records as ``Record`` has them, of one version of the model, which bring no label, feature, kind or category that is new.

    ``rows`` are also their features as the model's rows, and ``ys`` their labels as numbers of ``Blocks.labels``; those of a regression are themselves.
    """

    offsets: Sequence[int]
    timestamps: Sequence[int]
    xs: Sequence[Row]
    rows: NDArray[np.float64]
    ys: NDArray[np.float64]
    weights: NDArray[np.float64]
    served: Sequence[Prediction | None]
    version: str | None = None


class Learnt(NamedTuple):
    """What is known of consecutive records once the model has learnt them, or has predicted one without a label.

    ``losses`` are those of the model and of the labels' frequencies, records × 2 × losses; None without a label. The other fields are of the records that were explained,
    whose places are ``explained``, by explainer: ``increments``, records × losses × players, and ``segments``, where there are any. ``excess``, of a record without a label alone, is what each
    of its losses is estimated to exceed the mean of the labelled records by, 1 × losses.
    """

    losses: NDArray[np.float64] | None
    explained: Sequence[int]
    increments: Mapping[str, NDArray[np.float64]]
    segments: Mapping[str, Sequence[str | None]]
    excess: NDArray[np.float64] | None = None

    def part(self, begin: int, end: int) -> Learnt:
        """Of the records at these places."""
        before = bisect_left(self.explained, begin)
        own = slice(before, bisect_left(self.explained, end))
        return Learnt(
            None if self.losses is None else self.losses[begin:end],
            [place - begin for place in self.explained[own]],
            {name: values[own] for name, values in self.increments.items()},
            {name: values[own] for name, values in self.segments.items()},
        )


class Subject(NamedTuple):
    """What an alarm is about: loss, gain, estimated_loss, importance, missing or rejected; None for what does not apply."""

    kind: str
    loss: str | None = None
    estimator: str | None = None
    feature: str | None = None
    segment: tuple[str, str | None] | None = None


class Alarm(NamedTuple):
    """The mean of a subject changed. Alarms of one ``cause`` have onsets in common. ``label_free``: it is about predictions alone, and no risk.

    ``void``: the model is worse than no model, so that its importances say nothing, and this one is of such.
    """

    subject: Subject
    change: Change
    cause: int
    version: str | None = None
    label_free: bool = False
    void: bool = False


class Asked(NamedTuple):
    """The alarm that asked why: its number, its offset and its cause."""

    seq: int
    offset: int
    cause: int


class Extent(NamedTuple):
    """One side of a change of risk: its records (``late`` ones came after its period), and from where to where they are."""

    number: int
    records: int
    late: int
    version: str | None
    of_other_versions: int
    first_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int


class RiskChanged(NamedTuple):
    """Why the risk changed from one window to the next, or since the onset of an ``alarm``.

    ``change`` is None where it could not be computed, and ``problem`` says why. ``names`` are those of the windows in a sentence; None for the
    records before and since an onset.
    """

    baseline: Extent
    target: Extent
    alarm: Asked | None
    names: tuple[str, str] | None
    change: RiskChange | None
    problem: str = ""


Event = Alarm | RiskChanged
