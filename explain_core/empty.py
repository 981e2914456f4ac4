"""The model of the empty coalition, which knows no feature, and the performance measured against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from explain_core.losses import Loss, Prediction
from explain_core.smoothing import Smoother


class EmptyModel:
    """Smoothed mean of a model's predictions, y₀ of iSAGE Alg. 1, bias-corrected and renormalised.

    With ``alpha=None`` it is the plain mean. ``after(prediction)`` is the mean that includes the prediction;
    ``keep`` makes it the state, so that a failure in between changes nothing.
    """

    def __init__(self, alpha: float | None) -> None:
        self._alpha = alpha
        self._n = 0
        self._weight = 1.0
        self._mean: Prediction = {}

    def after(self, prediction: Prediction) -> Prediction:
        """The mean of all kept predictions and this one."""
        if self._n == 0:
            return dict(prediction) if isinstance(prediction, Mapping) else prediction
        if self._alpha is None:
            step = 1.0 / (self._n + 1)
        else:
            step = self._alpha / (1.0 - self._weight * (1.0 - self._alpha))
        mean = self._mean
        if not isinstance(prediction, Mapping):
            return mean + step * (prediction - mean)  # type: ignore[operator]
        new = {label: (1.0 - step) * p for label, p in mean.items()}  # type: ignore[union-attr]
        for label, p in prediction.items():
            new[label] = new.get(label, 0.0) + step * p
        return normalised(new)

    def keep(self, mean: Prediction) -> None:
        """Make what ``after`` returned the state."""
        self._n += 1
        if self._alpha is not None:
            self._weight *= 1.0 - self._alpha
        self._mean = mean


class Performance:
    """Smoothed loss of a model and of its empty model, per loss: what the model is worth."""

    def __init__(self, losses: Sequence[Loss], alpha: float | None) -> None:
        self.losses = tuple(losses)
        self._empty = EmptyModel(alpha)
        self._smoother = Smoother((2, len(losses)), alpha)

    def update(self, y: Any, prediction: Prediction) -> list[float]:
        """Take in one prequential prediction; returns its losses."""
        mean = self._empty.after(prediction)
        own = [loss(y, prediction) for loss in self.losses]
        self._smoother.update(np.array([own, [loss(y, mean) for loss in self.losses]]))
        self._empty.keep(mean)
        return own

    @property
    def n(self) -> int:
        return self._smoother.n

    def of(self, loss: str) -> tuple[float, float]:
        """Smoothed loss of the model and of the empty model."""
        column = [known.name for known in self.losses].index(loss)
        model, empty = self._smoother.value[:, column].tolist()
        return model, empty


def normalised(mean: dict[Any, float]) -> dict[Any, float]:
    """Probabilities that sum to 1, where there is any mass."""
    total = sum(mean.values())
    return {label: p / total for label, p in mean.items()} if total > 0.0 else mean


def mean_prediction(predictions: Iterable[Prediction]) -> Prediction:
    """Mean over predictions: of numbers, or of probabilities label by label (an absent label counts as 0)."""
    predictions = list(predictions)
    if len(predictions) == 1:
        return predictions[0]
    if not isinstance(predictions[0], Mapping):
        return sum(predictions) / len(predictions)  # type: ignore[arg-type]
    total: dict[Any, float] = {}
    for prediction in predictions:
        for label, p in prediction.items():  # type: ignore[union-attr]
            total[label] = total.get(label, 0.0) + p
    return {label: p / len(predictions) for label, p in total.items()}
