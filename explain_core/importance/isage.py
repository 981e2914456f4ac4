"""Incremental SAGE (iSAGE; Muschalik, Fumagalli, Hammer & Hüllermeier, ECML PKDD 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from explain_core.evaluation.plan import Perturbed, PlanEntry
from explain_core.importance.base import EstimatorState, IncrementalEstimator, at_least_one
from explain_core.losses import Prediction
from explain_core.models import Row
from explain_core.models.empty import EmptyModel, mean_prediction
from explain_core.players import Players
from explain_core.random import derive_seed
from explain_core.removal.conditional import Conditional, ConditionalJoining
from explain_core.smoothing import Array
from explain_core.state import StateError, restore_part
from explain_core.sums import total

Empty = Literal["ema", "reservoir"]
Removal = Literal["marginal", "conditional"]


class IncrementalSAGE(IncrementalEstimator):
    """How the gain of the model over no model is shared among the features, by their Shapley values.

    Features join an empty coalition in random order (Alg. 1). S are the features that joined, and m rows z are drawn once
    per record from the reservoir. Feature j gets the loss before minus the loss after it joined; the loss is that of the
    mean prediction over the copies (x on S, z elsewhere). The last step is the model's own prediction.
    The sum over the features is the smoothed L(y₀, y) − L(f(x), y) at every step.

    The value depends on m: the loss of a mean over m draws exceeds that over all. With ``n_samples=None`` the
    quadratic losses (``brier``, ``squared``) do not depend on it: theirs is the mean of the products (f_k − y)(f_l − y)
    over the pairs k ≠ l, which is unbiased for m → ∞. Then m = 2 if all losses are quadratic, else m = 10. A stated
    ``n_samples`` is Alg. 1 for every loss.

    A feature outside ``features``, where these are given, has the value of x in every coalition.

    Parameters
    ----------
    model
        What is explained, see ``IncrementalEstimator``.
    empty
        "reservoir": y₀ is the mean over the same m rows, predicted by the current model; "ema": the smoothed mean prediction of the
        stream (Alg. 1). That one lags behind a model that changes, and whoever joins first gets the difference: noise then looks important.
    removal
        "marginal" takes what is outside S from the rows z, drawn once per record; "conditional" draws it anew for every S from its
        distribution given S, see ``explain_core.removal.conditional.Conditional``.
    **settings
        Those of ``IncrementalEstimator``.

    >>> sage = IncrementalSAGE(lambda x: 2.0 * x["a"], task="regression", size=10)
    >>> for i in range(200):
    ...     x = {"a": float(i % 7), "b": float(i % 5)}
    ...     _ = sage.explain_one(x, 2.0 * x["a"])
    >>> sage.explanation.top(1)[0][0]
    'a'
    """

    name = "isage"
    parameters = ("empty", "removal")
    copies = "joining"

    def __init__(
        self, model: Any, *, empty: Empty = "reservoir", removal: Removal = "marginal", **settings: Any
    ) -> None:
        if empty not in ("ema", "reservoir"):
            raise ValueError(f"empty: {empty!r} is not one of ema, reservoir")
        if removal not in ("marginal", "conditional"):
            raise ValueError(f"removal: {removal!r} is not one of marginal, conditional")
        super().__init__(model, **settings)
        self.empty = empty
        self.removal = removal
        self._trees = (
            Conditional(self.reservoir.size, derive_seed(settings.get("seed", 0), "conditional"))
            if removal == "conditional"
            else None
        )
        self._y0 = EmptyModel(self._alpha)
        self._after: EmptyModel | None = None  # y₀ once it has seen the record that is being explained

    def state(self) -> EstimatorState:
        return msgspec.structs.replace(
            super().state(),
            empty=self._y0.state(),
            trees=self._trees.state() if self._trees else None,
        )

    def restore(self, state: EstimatorState) -> None:
        super().restore(state)
        problem = "isage: a state of another removal, or without the empty model"
        if state.empty is None:
            raise StateError(problem)
        self._y0 = self._y0.restored(state.empty)
        restore_part(self._trees, state.trees, problem)

    def _check(self, x: Row) -> None:
        if self._trees:
            self._trees.check(x)

    def _learn(self, x: Row) -> None:
        if self._trees:
            self._trees.learn({name: x[name] for name in _features(self.players) if name in x})

    def _checked_samples(self, n_samples: int | None) -> int:
        self._pairs = [n_samples is None and loss.quadratic for loss in self.losses]
        return (2 if all(self._pairs) else 10) if n_samples is None else at_least_one(n_samples)

    def _metadata(self) -> dict[str, Any]:
        pairs = [loss.name for loss, pairs in zip(self.losses, self._pairs, strict=True) if pairs]
        return super()._metadata() | {"empty": self.empty, "removal": self.removal, "pairs": pairs}

    def _contributions(self, players: Players, x: Row, y: Any, base: Prediction) -> Array:
        self._after = None
        if not players:
            return np.zeros((len(self.losses), 0))
        if self.empty == "ema":
            self._after = self._y0.after(base)
        delta = np.zeros((len(self.losses), len(players)))
        order, copies = self._coalitions(players, x)
        self._settle(range(len(self.losses)), Perturbed(y, base, copies, order), delta)
        return delta

    def _settle(self, losses: Sequence[int], found: Perturbed, delta: Array) -> None:
        m, (y, base, copies, order) = self.n_samples, found
        before = (
            [] if self._after is None else [self.losses[row](y, self._after.prediction) for row in losses]
        )
        first = 1 - bool(before)  # the empty coalition is none of a player's
        for step in range(len(copies) // m):
            after = self._losses_of(losses, y, copies[step * m : (step + 1) * m])
            for row, left, right in zip(losses, before, after, strict=bool(before)):
                delta[row, order[step - first]] = left - right
            before = after
        for row, left in zip(losses, before, strict=True):
            delta[row, order[-1]] = left - self.losses[row](y, base)

    def _coalitions(self, players: Players, x: Row) -> tuple[list[int], Sequence[Prediction]]:
        """The order in which the players join, and predictions for the copies before each of them but the first, m for each.

        Those of the empty coalition come first where its loss is that of the reservoir. The copies know the features
        of no player from the start.
        """
        m, empty = self.n_samples, self.empty == "reservoir"
        if self._trees:
            joining = ConditionalJoining(self._trees, x, _features(players), m, self._draw_row, self._rng)
            copies = joining.copies() if empty else []
            order = self._rng.permutation(len(players))
            for j in order[:-1]:
                joining.join(x, players[j])
                copies += joining.copies()
            return order, self.model.checked_predictions(copies) if copies else []
        rows = [self._draw_row() for _ in range(m)]
        order = self._rng.permutation(len(players))
        given = players.outside({name: None for row in (x, *rows) for name in row}) if players.fixed else ()
        steps = self.evaluator.joined(x, rows, given, [players[j] for j in order[:-1]], empty)
        return order, [prediction for step in steps for prediction in step]

    @property
    def _compilable(self) -> bool:
        return not self._trees and super()._compilable

    @property
    def _empty_model(self) -> EmptyModel | None:
        return self._y0 if self.empty == "ema" else None

    def _losses_of(self, losses: Sequence[int], y: Any, predictions: Sequence[Prediction]) -> list[float]:
        """Losses at these places of the mean prediction; where pairs are wanted, those of the mean without its m equal pairs."""
        mean, m = mean_prediction(predictions), len(predictions)
        found = []
        for row in losses:
            loss = self.losses[row]
            value = loss(y, mean)
            if self._pairs[row]:
                value = (m * value - total(loss(y, prediction) for prediction in predictions) / m) / (m - 1)
            found.append(value)
        return found

    def _explained(self, y: Any, base: Prediction, entry: PlanEntry | None, delta: Array) -> None:
        if self.empty == "ema" and entry is None:
            self._y0, self._after = self._after or self._y0.after(base), None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_after": None, "_y0": self._y0.copied()}


def _features(players: Players) -> list[str]:
    return [feature for player in players for feature in player.features]
