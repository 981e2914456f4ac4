"""Explanation shift between two models on the same records: which features they use otherwise, without any label."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec

from explain_core.confidence import ConfidenceSequence, ConfidenceState
from explain_core.drift.change import NAMED, listed
from explain_core.explanation import Explanation
from explain_core.importance.base import EstimatorState
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.losses import AnyTask, Prediction, moved
from explain_core.models import Model, Row, wrap
from explain_core.models.base import BatchModel
from explain_core.state import Count, State, Value, check

Sum = Annotated[float, msgspec.Meta(ge=0.0)]


class ShiftState(State, frozen=True):
    """iPFI of the difference; of each feature the sequence, and the sums of what it counts for and of the spread, with their number; the mean of the model's ``seen``
    predictions: of each of the ``classes``, or one number."""

    VERSION = 2
    MIGRATIONS: ClassVar[Any] = {
        1: lambda old: {
            **{name: of for name, of in old.items() if name != "newest"},
            "mean": old["newest"],
            "seen": min(len(old["newest"]), 1),
        }
    }
    estimator: EstimatorState
    sequences: list[ConfidenceState]
    sums: list[tuple[Sum, Sum, Count]]
    classes: list[Value]
    mean: list[float]
    seen: Count


class _Difference(BatchModel):
    """What one model predicts more than another."""

    def __init__(self, model: Model, other: Model) -> None:
        super().__init__((model, other), model.task)
        self.in_batches = model.in_batches or other.in_batches

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        own, others = (model.checked_predictions(rows) for model in self.wrapped)
        return list(map(_minus, others, own))


class Shift(NamedTuple):
    """How far two models differ in a feature: ``share`` is of the variance of the model's predictions; ``found``: it is more than the tolerance, by a test
    that holds however often you look. ``records`` count."""

    feature: str
    share: float
    found: bool
    records: int


class ExplanationShift:
    """Which features two models use otherwise, on the same records and without any label.

    Reasons are linear in the model: those of the difference of two predictions are the differences of the reasons. So iPFI explains the difference as it would a
    model: feature j counts for E (g(x) − g(x with x_j := z_j))²/2, g being the challenger's prediction minus the model's. It is 0, to the last bits, where both use
    a feature alike, whatever else they do, and also finds what equal importances hide, such as another sign. A feature is found where that exceeds ``tolerance``
    of the variance of the model's predictions, by a ``ConfidenceSequence`` of the record's excess: all features together are wrongly
    found with a probability of 1 − ``confidence`` at most, at all times. Source: the question is that of Mougan et al., arXiv 2303.08081; the test is not theirs.

    Parameters
    ----------
    model, challenger
        Anything ``explain_core.models.wrap`` takes. They are read, never taught.
    task
        "classification" or "regression".
    tolerance
        Share of the variance of the model's predictions up to which they do not differ, above 0.
    confidence
        That no feature is wrongly found, in (0, 1).
    **settings
        ``n_samples``, ``features``, ``groups``, ``alpha``, ``reservoir``, ``size``, ``warm_up`` and ``seed`` of ``IncrementalPFI``.

    Raises ``ValueError`` for what does not fit, as ``IncrementalPFI`` does.

    >>> from random import Random
    >>> rng = Random(1)
    >>> shift = ExplanationShift(lambda x: x["a"] + x["b"], lambda x: x["a"] - x["b"], task="regression", size=20)
    >>> for i in range(1_000):
    ...     shift.update({"a": rng.gauss(0.0, 1.0), "b": rng.gauss(0.0, 1.0)})
    >>> [(found.feature, found.found) for found in shift.features]
    [('b', True), ('a', False)]
    >>> print(shift.sentence())
    the challenger uses b differently from the model, by 208 % of the variance of the model's predictions: mean of 980 records
    """

    def __init__(
        self,
        model: Any,
        challenger: Any,
        *,
        task: AnyTask = "classification",
        tolerance: float = 0.01,
        confidence: float = 0.95,
        **settings: Any,
    ) -> None:
        if not 0.0 < tolerance < 1.0:
            raise ValueError(
                f"tolerance: {tolerance} is outside (0, 1); 0.01 is a hundredth of the predictions' variance"
            )
        self._model, self._challenger = wrap(model, task), wrap(challenger, task)
        self.tolerance, self.confidence = tolerance, confidence
        difference = _Difference(self._model, self._challenger)
        self.estimator = IncrementalPFI(difference, task=task, losses="prediction", **settings)
        """iPFI of the difference."""
        self._sequences: list[ConfidenceSequence] = []
        self._sums: list[tuple[float, float, int]] = []
        self._mean: Prediction | None = None
        self._seen = 0

    def update(self, x: Row) -> None:
        """Compare the models on a record. Raises ``ValueError`` for what a prediction may not be."""
        own, other = (model.checked_prediction(x) for model in (self._model, self._challenger))
        n = self.estimator._n
        self.estimator.explain_one(x, None, _minus(other, own))
        # Twice the variance, as an increment has. Predictions before the record, and not the newest alone: neighbours may be alike.
        seen = self._seen
        spread = 0.0 if self._mean is None else 2.0 * seen / (seen + 1) * moved(own, self._mean)
        if own != {}:  # one that names no class is none
            self._seen += 1
            self._mean = own if self._mean is None else _nearer(self._mean, own, 1.0 / self._seen)
        if self.estimator._n == n or self.estimator.increments is None:
            return
        for place, increment in enumerate(self.estimator.increments[0].tolist()):
            if place == len(self._sequences):
                self._sequences.append(self._sequence(place))
                self._sums.append((0.0, 0.0, 0))
            total, spreads, records = self._sums[place]
            self._sums[place] = total + increment, spreads + spread, records + 1
            self._sequences[place].add(increment - self.tolerance * spread)

    def _sequence(self, place: int) -> ConfidenceSequence:
        """That of a feature. The probability of a wrong one is shared among however many may come: Σ 1/((j + 1)(j + 2)) = 1."""
        return ConfidenceSequence(1.0 - (1.0 - self.confidence) / ((place + 1) * (place + 2)))

    @property
    def features(self) -> list[Shift]:
        """Every feature, the one in which the models differ most first."""
        found = []
        for player, sequence, (total, spreads, records) in zip(
            self.estimator.players, self._sequences, self._sums, strict=False
        ):
            above = sequence.excludes_zero and (sequence.interval.value or 0.0) > 0.0
            share = total / spreads if spreads > 0.0 else float("inf") if total > 0.0 else 0.0
            found.append(Shift(player.name, share, above, records))
        return sorted(found, key=lambda shift: -shift.share)

    @property
    def explanation(self) -> Explanation:
        """The smoothed mean of each feature, in squared units of the prediction, with its band: twice its part of the difference's variance."""
        return self.estimator.explanation

    def sentence(self, model: str = "the model", challenger: str = "the challenger") -> str:
        """Which features the two use otherwise, in words."""
        features = self.features
        differing = [shift for shift in features if shift.found]
        records = f"mean of {max((shift.records for shift in features), default=0):,} records"
        if not differing:
            return f"no difference seen in how {model} and {challenger} use features: {records}"
        told = listed([shift.feature for shift in differing])
        shares = listed([f"{100.0 * shift.share:.0f} %" for shift in differing[:NAMED]])
        return f"{challenger} uses {told} differently from {model}, by {shares} of the variance of {model}'s predictions: {records}"

    def state(self) -> ShiftState:
        """What a snapshot holds, but for the models and a shared reservoir."""
        mean = {} if self._mean is None else self._mean
        return ShiftState(
            self.estimator.state(),
            [sequence.state() for sequence in self._sequences],
            self._sums,
            list(mean) if isinstance(mean, Mapping) else [],
            list(mean.values()) if isinstance(mean, Mapping) else [mean],
            self._seen,
        )

    def restore(self, state: ShiftState) -> None:
        """Restore a stored state, before the first record. Raises ``StateError`` where it is not of these settings."""
        self.estimator.restore(state.estimator)
        n = len(state.sequences)
        check(n == len(state.sums) and n <= len(self.estimator.players), "shift: features that are none")
        check(
            all(math.isfinite(total) for *sums, _ in state.sums for total in sums),
            "shift: sums that are not finite",
        )
        check(all(math.isfinite(number) for number in state.mean), "shift: a prediction that is none")
        check(bool(state.mean) == bool(state.seen), "shift: a mean of no prediction")
        classes, regression = state.classes, self._model.task == "regression"
        check(
            (not classes and len(state.mean) <= 1)
            if regression
            else len({*classes}) == len(classes) == len(state.mean),
            "shift: a prediction that is none",
        )
        self._sequences = [self._sequence(place) for place in range(n)]
        for sequence, stored in zip(self._sequences, state.sequences, strict=True):
            sequence.restore(stored)
        self._sums = list(state.sums)
        if state.mean:
            self._mean = state.mean[0] if regression else dict(zip(classes, state.mean, strict=True))
        self._seen = state.seen


def _minus(a: Prediction, b: Prediction) -> Prediction:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return {
            label: a.get(label, 0.0) - b.get(label, 0.0)
            for label in (b if a.keys() <= b.keys() else dict.fromkeys((*b, *a)))
        }
    return a - b  # type: ignore[operator]


def _nearer(mean: Prediction, own: Prediction, share: float) -> Prediction:
    """The mean moved by a share of the way to a prediction."""
    if isinstance(mean, Mapping) and isinstance(own, Mapping):
        labels = mean if own.keys() <= mean.keys() else dict.fromkeys((*mean, *own))
        return {
            label: mean.get(label, 0.0) + share * (own.get(label, 0.0) - mean.get(label, 0.0))
            for label in labels
        }
    return mean + share * (own - mean)  # type: ignore[operator]
