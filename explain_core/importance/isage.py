"""Incremental SAGE (iSAGE; Muschalik, Fumagalli, Hammer & Hüllermeier, ECML PKDD 2023)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from explain_core.empty import EmptyModel, mean_prediction
from explain_core.importance.base import IncrementalEstimator, at_least_one
from explain_core.losses import PAIRED, Prediction
from explain_core.models import Row
from explain_core.smoothing import Array

Empty = Literal["ema", "reservoir"]


class IncrementalSAGE(IncrementalEstimator):
    """How the gain of the model over no model is shared among the features, by their Shapley values.

    Features join an empty coalition in random order (Alg. 1); with S the features that joined and m rows z drawn once
    per record from the reservoir, feature j gets the loss before minus the loss after it joined, where the loss is
    that of the mean prediction over the copies (x on S, z elsewhere). The last step is the model's own prediction.
    The sum over the features is the smoothed L(y₀, y) − L(f(x), y) at every step.

    ``empty="ema"``: y₀ is the smoothed mean prediction of the stream; "reservoir": the mean over the same m rows,
    predicted by the current model.

    The value depends on m: the loss of a mean over m draws exceeds that over all. With ``n_samples=None`` the losses
    ``brier`` and ``squared`` use two draws in their product form, (f₁ − y)(f₂ − y), which is unbiased for m → ∞; other
    losses use m = 10. A stated ``n_samples`` is Alg. 1 for every loss.

    >>> sage = IncrementalSAGE(lambda x: 2.0 * x["a"], task="regression", size=10)
    >>> for i in range(200):
    ...     x = {"a": float(i % 7), "b": float(i % 5)}
    ...     _ = sage.explain_one(x, 2.0 * x["a"])
    >>> sage.explanation.top(1)[0][0]
    'a'
    """

    name = "isage"

    def __init__(self, model: Any, *, empty: Empty = "ema", **settings: Any) -> None:
        if empty not in ("ema", "reservoir"):
            raise ValueError(f"empty: {empty!r} is not one of ema, reservoir")
        super().__init__(model, **settings)
        self.empty = empty
        self._y0 = EmptyModel(self._smoother.alpha)
        self._next_y0: Prediction = {}

    def _checked_samples(self, n_samples: int | None) -> int:
        self.paired = n_samples is None and all(loss.name in PAIRED for loss in self.losses)
        return (2 if self.paired else 10) if n_samples is None else at_least_one(n_samples)

    def _metadata(self) -> dict[str, Any]:
        return super()._metadata() | {"empty": self.empty, "form": "pairs" if self.paired else "mean"}

    def _contributions(self, x: Row, y: Any, base: Prediction) -> Array:
        players = self.players
        delta = np.zeros((len(self.losses), len(players)))
        self._next_y0 = self._y0.after(base)
        joining = self._evaluator.start([self._draw_row() for _ in range(self.n_samples)])
        if self.empty == "ema":
            before = [loss(y, self._next_y0) for loss in self.losses]
        else:
            before = self._losses_of(y, joining.predictions())
        order = self._rng.permutation(len(players))
        for j in order[:-1]:
            joining.join(x, players[j])
            after = self._losses_of(y, joining.predictions())
            for row, loss in enumerate(after):
                delta[row, j] = before[row] - loss
            before = after
        for row, measure in enumerate(self.losses):
            delta[row, order[-1]] = before[row] - measure(y, base)
        return delta

    def _losses_of(self, y: Any, predictions: list[Prediction]) -> list[float]:
        if self.paired:
            first, second = predictions
            return [PAIRED[loss.name](y, first, second) for loss in self.losses]
        mean = mean_prediction(predictions)
        return [loss(y, mean) for loss in self.losses]

    def _explained(self, base: Prediction) -> None:
        self._y0.keep(self._next_y0)
