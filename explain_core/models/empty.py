"""The model of the empty coalition, which knows no feature, and the performance measured against it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from explain_core.bands import Band
from explain_core.engine import smoothing as engine
from explain_core.engine.smoothing import BLOCK
from explain_core.losses import FOREIGN, LARGEST, Loss, Prediction, codes_of
from explain_core.smoothing import Array, Smoother, SmootherState, decay
from explain_core.state import LARGEST_COUNT, Count, State, Value, check
from explain_core.sums import total


class EmptyState(State, frozen=True):
    """Weight and mean; the mean is probabilities by label, a number, or nothing yet."""

    weights: float
    mean: list[tuple[Value, float]] | float | None


class EmptyModel:
    """Smoothed mean of a model's predictions, y₀ of iSAGE Alg. 1, bias-corrected and renormalised.

    With ``alpha=None`` it is the plain mean. ``after(prediction)`` is the empty model that has also seen the prediction. Weight and mean lie in a row;
    ``move`` lets them lie in one that compiled code changes.

    >>> EmptyModel(alpha=None).after({"up": 1.0}).after({"up": 0.5, "down": 0.5}).prediction
    {'up': 0.75, 'down': 0.25}
    """

    def __init__(self, alpha: float | None) -> None:
        self._decay = decay(alpha)
        self.labels: tuple[Any, ...] = ()
        """Those of the mean, in its order; None alone for a number."""
        self.row: Array = np.zeros(1)

    def after(self, prediction: Prediction) -> EmptyModel:
        weights = 1.0 + self._decay * float(self.row[0])
        step = 1.0 / weights
        if type(prediction) is not dict and not isinstance(prediction, Mapping):
            before: Any = self._mean or 0.0
            return self._of(weights, before + step * (prediction - before))
        rest, known = 1.0 - step, self._mean if isinstance(self._mean, dict) else {}
        if known.keys() == prediction.keys():
            return self._of(
                weights, {label: rest * p + step * prediction[label] for label, p in known.items()}
            )
        # Classes in order of appearance; in that of the prediction, as in compiled code, where it knows them all.
        order = prediction if known.keys() <= prediction.keys() else dict.fromkeys((*known, *prediction))
        mean = {label: rest * known.get(label, 0.0) + step * prediction.get(label, 0.0) for label in order}
        return self._of(weights, mean)

    def _of(self, weights: float, mean: Prediction | None) -> EmptyModel:
        new = EmptyModel.__new__(EmptyModel)
        new._decay = self._decay
        classes = isinstance(mean, Mapping)
        new.labels = tuple(mean) if classes else () if mean is None else (None,)  # type: ignore[arg-type]
        new.row = np.array([weights, *(mean.values() if classes else () if mean is None else (mean,))])  # type: ignore[union-attr]
        return new

    @property
    def _mean(self) -> Prediction | None:
        """None before the first prediction."""
        weights, *mean = self.row.tolist()
        if not weights:
            return None
        return mean[0] if self.labels == (None,) else dict(zip(self.labels, mean, strict=True))

    def state(self) -> EmptyState:
        mean = self._mean
        return EmptyState(float(self.row[0]), list(mean.items()) if isinstance(mean, Mapping) else mean)

    def restored(self, state: EmptyState) -> EmptyModel:
        """This empty model with the state of another. Raises ``StateError`` where that is not a mean."""
        mean = [p for _, p in state.mean] if isinstance(state.mean, list) else [state.mean or 0.0]
        check(
            0.0 <= state.weights <= LARGEST_COUNT and all(abs(p) <= 2.0 * LARGEST for p in mean),
            "empty model: numbers that are no mean of predictions",
        )
        return self._of(state.weights, dict(state.mean) if isinstance(state.mean, list) else state.mean)

    def move(self, row: Array, labels: Sequence[Any]) -> bool:
        """Let weight and mean lie in a row, whose owner lets this see predictions with these labels by changing it; for numbers the label is None.

        False for a mean of other labels, or in another order.
        """
        if self.row[0] and self.labels != tuple(labels):
            return False
        row[:] = self.row if self.row[0] else 0.0
        self.row, self.labels = row, tuple(labels)
        return True

    def copied(self) -> EmptyModel:
        """In a row of its own."""
        return self._of(float(self.row[0]), self._mean)

    @property
    def step(self) -> float:
        """The weight that the newest prediction has in the mean."""
        return 1.0 / float(self.row[0])

    @property
    def prediction(self) -> Prediction:
        """The mean; probabilities sum to 1 where there is any mass. No class at all before the first prediction."""
        mean = {} if self._mean is None else self._mean
        if type(mean) is not dict:
            return mean
        whole = total(mean.values())
        return {label: p / whole for label, p in mean.items()} if whole > 0.0 else mean

    def frequencies(self, label: Any) -> dict[Any, float]:
        """The mean as probabilities of the classes, with half an observation more of each, and of the label's."""
        known = self._mean if isinstance(self._mean, dict) else {}
        classes = known if label in known else (*known, label)
        weights = float(self.row[0])
        total = weights + 0.5 * len(classes)
        return {class_: (weights * known.get(class_, 0.0) + 0.5) / total for class_ in classes}

    def number(self, first: float) -> float:
        """The mean of numbers; ``first`` before there is one."""
        return self._mean if isinstance(self._mean, float) else float(first)


class PerformanceState(State, frozen=True):
    """The mean prediction, the labels' frequencies, and the smoothed losses of the model and of both, for each loss."""

    empty: EmptyState
    frequencies: EmptyState
    means: list[tuple[float, float, float]]
    values: SmootherState
    """Of the loss and the gain."""
    clipped: list[Count]


class Performance:
    """Smoothed loss of a model, of the labels' frequencies, and of the model's mean prediction: the worth of the model.

    The frequencies are those of the labels before, smoothed alike, by Krichevsky and Trofimov: half an observation more of each
    class, of that of the label too; for numbers the mean. The first label is what it is expected to be. The mean prediction, the
    empty coalition of iSAGE, knows no feature either; it is as good as the frequencies where the model is calibrated.

    Parameters
    ----------
    losses
        Those that are smoothed.
    alpha
        Smoothing parameter in (0, 1]; None for a plain mean.
    begins
        Whether the model begins to learn with the first record: a number in it counts as predicted then, as nobody knows before where numbers lie.

    >>> from explain_core.losses import get
    >>> performance = Performance([get("zero_one")], alpha=None)
    >>> for y in ("up", "up", "down"):
    ...     _ = performance.update(y, {y: 0.9})
    >>> [round(loss, 2) for loss in performance.of("zero_one")]
    [0.0, 0.33, 0.33]
    """

    def __init__(self, losses: Sequence[Loss], alpha: float | None, *, begins: bool = False) -> None:
        self.losses = tuple(losses)
        self._begins = begins
        self._empty = EmptyModel(alpha)
        self._frequencies = EmptyModel(alpha)
        self._means: Array = np.zeros((len(self.losses), 3))
        self._smoother = Smoother((len(self.losses), 2), alpha)
        self._n = 0
        self.clipped = [0] * len(self.losses)
        """Of each loss the records of which the model's counts as less than it is, see ``Loss.clipped``."""
        self._clips = [
            (row, loss.clipped) for row, loss in enumerate(self.losses) if loss.clipped is not None
        ]
        self.closed: Array | None = None
        """Sums of the block that ended last, losses × (loss, gain), see ``Smoother.end_block``; who adds them up takes them away."""
        self.newest: Array = np.zeros((2, len(self.losses)))
        """The losses of the record taken in last: of the model, and of the labels' frequencies. The next record overwrites it."""
        self._labels: tuple[Any, ...] | None = None
        """Of the predictions that compiled code takes in; None where there is none that it may."""

    def update(self, y: Any, prediction: Prediction) -> list[float]:
        """Take in one prequential prediction; returns its losses."""
        values: Any = prediction
        classes = type(values) is dict or isinstance(values, Mapping)
        labels = tuple(values) if classes else (None,)
        if labels == self._labels:
            seen = self._seen.get(y if classes else None)
            if seen is not None:
                self._pack(self._numbers.data, 8, *(values.values() if classes else (values,)))
                smoother = self._smoother
                engine.perform(
                    self._numbers, self._sizes, float(self._places.get(y, -1) if classes else y), seen,
                    smoother.cells, smoother.sums, smoother.decay,
                )  # fmt: skip
                losses: list[float] = self.newest[0].tolist()
                self.count([[loss] for loss in losses])
                return losses
        own = counted = [loss(y, prediction) for loss in self.losses]
        if self._begins and not classes and not self._frequencies.labels:
            prediction = float(y)
            counted = [loss(y, prediction) for loss in self.losses]
        after = self._empty.after(prediction)
        step, expected = after.step, after.prediction
        frequencies = self._frequencies.frequencies(y) if classes else self._frequencies.number(y)
        found = [
            (a, loss(y, frequencies), loss(y, expected)) for a, loss in zip(counted, self.losses, strict=True)
        ]
        self._means = np.array(
            [
                [p + step * (a - p) for p, a in zip(means, values, strict=True)]
                for means, values in zip(self._means.tolist(), found, strict=True)
            ]
        )
        self.newest = np.array([column[:2] for column in found]).T
        self._smoother.update(np.stack([self.newest[0], self.newest[1] - self.newest[0]], axis=1))
        self.count([[loss] for loss in own])
        self._empty, self._frequencies = after, self._frequencies.after({y: 1.0} if classes else float(y))
        self._lay_out(labels)
        return own

    def count(self, losses: Sequence[Sequence[float]]) -> None:
        """Count records by their losses, losses × records, of which the last one alone may end a block."""
        records = len(losses[0])
        self._n += records
        for row, most in self._clips:
            self.clipped[row] += losses[row].count(most)
        if records and self._n % BLOCK == 0:
            self.closed = self._smoother.end_block()

    @property
    def gains(self) -> Array:
        """The mean gain under each loss, a view."""
        return self._smoother.value[:, 1]

    def bands(self, confidence: float = 0.95, band: Band = "normal") -> tuple[Array, Array, Array]:
        """Value, low and high of each loss and of the gain, losses × 2; NaN where there are too few records for a band."""
        return self._smoother.value, *self._smoother.band(confidence, band)

    def _lay_out(self, labels: tuple[Any, ...]) -> None:
        """Let compiled code take in the predictions of these labels that follow."""
        self._labels, codes = None, codes_of(self.losses)
        if FOREIGN in codes or not labels:
            return
        seen = self._frequencies.labels
        n, m = len(labels), len(seen)
        self._sizes = np.array([n, m, len(codes), *codes], np.int64)
        parts = [1, n, 2 * len(codes), 1 + n, 1 + m, 3 * len(codes)]
        numbers = np.full(sum(parts), self._empty._decay)
        _, _, newest, empty, frequencies, means = np.split(numbers, np.cumsum(parts[:-1]))
        if self._empty.move(empty, labels) and self._frequencies.move(frequencies, seen):
            means[:] = self._means.ravel()
            self._means, self._numbers = means.reshape(self._means.shape), numbers
            newest[:] = self.newest.ravel()
            self.newest = newest.reshape(self.newest.shape)
            self._pack = struct.Struct(f"{n}d").pack_into
            self._places, self._seen = ({label: i for i, label in enumerate(of)} for of in (labels, seen))
            self._labels = labels

    def state(self) -> PerformanceState:
        return PerformanceState(
            self._empty.state(),
            self._frequencies.state(),
            [tuple(means) for means in self._means.tolist()],
            self._smoother.state(),
            list(self.clipped),
        )

    def restore(self, state: PerformanceState) -> None:
        """Restore a stored state. Raises ``StateError`` where it is of other losses."""
        check(
            len(state.means) == len(self.losses),
            f"performance: of {len(state.means)} losses instead of {len(self.losses)}",
        )
        check(
            all(math.isfinite(mean) for means in state.means for mean in means),
            "performance: losses that are not finite",
        )
        check(len(state.clipped) == len(self.losses), "performance: clipped losses of others")
        self._smoother.restore(state.values, 2)
        self._n, self.clipped = self._smoother.n, list(state.clipped)
        self._empty, self._means = self._empty.restored(state.empty), np.array(state.means)
        self._labels = None
        self._frequencies = self._frequencies.restored(state.frequencies)

    def of(self, loss: str) -> tuple[float, float, float]:
        """Smoothed loss of the model, of the labels' frequencies, and of the mean prediction."""
        model, frequencies, empty = self._means[[known.name for known in self.losses].index(loss)].tolist()
        return model, frequencies, empty


def mean_prediction(predictions: Iterable[Prediction]) -> Prediction:
    """Mean over predictions: of numbers, or of probabilities label by label (an absent label counts as 0).

    >>> mean_prediction([{"up": 1.0}, {"up": 0.5, "down": 0.5}])
    {'up': 0.75, 'down': 0.25}
    """
    predictions = list(predictions)
    if len(predictions) == 1:
        return predictions[0]
    if not isinstance(predictions[0], Mapping):
        return total(predictions) / len(predictions)  # type: ignore[arg-type]
    sums: dict[Any, float] = {}
    for prediction in predictions:
        for label, p in prediction.items():  # type: ignore[union-attr]
            sums[label] = sums.get(label, 0.0) + p
    return {label: p / len(predictions) for label, p in sums.items()}
