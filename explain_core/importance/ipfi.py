"""Incremental permutation feature importance (iPFI; Fumagalli, Muschalik, Hüllermeier & Hammer, Machine Learning 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from explain_core.bands import Spread
from explain_core.evaluation.plan import Perturbed, PlanEntry
from explain_core.importance.base import EstimatorState, IncrementalEstimator, at_least_one
from explain_core.losses import Prediction
from explain_core.models import Row
from explain_core.players import Players
from explain_core.random import Generator
from explain_core.reservoirs import GeometricReservoir
from explain_core.smoothing import Array, ratio
from explain_core.state import StateError

PFIKind = Literal["difference", "ratio"]


class IncrementalPFI(IncrementalEstimator):
    """How much worse the model gets when a feature's value is that of another record.

    Per feature (or group) j and record (x, y), with m draws z of the reservoir (journal Def. 2–4)::

        Δ_j = 1/m Σ_k L(f(x with x_j := z_k,j), y) − L(f(x), y)

    smoothed over the stream. A feature that is missing in x or z stays missing in the copy.

    All features take their values from the same m rows. In a full geometric reservoir these are the rows that the next m records
    will replace: they are as old as rows drawn at random, but each is used equally often, so that the value varies less.

    Parameters
    ----------
    model
        What is explained, see ``IncrementalEstimator``.
    kind
        "difference", or "ratio": the smoothed loss of the copies over that of the model, which is 1 for a feature that is not used, and NaN while
        the model has not erred. Its band is by the delta method.
    **settings
        Those of ``IncrementalEstimator``; ``n_samples`` is 5 by default.

    >>> from explain_core.importance.ipfi import IncrementalPFI
    >>> pfi = IncrementalPFI(lambda x: 2.0 * x["a"], task="regression", size=10)
    >>> for i in range(200):
    ...     x = {"a": float(i % 7), "b": float(i % 5)}
    ...     _ = pfi.explain_one(x, 2.0 * x["a"])
    >>> pfi.explanation.top(1)[0][0], pfi.explanation.importance()["b"].value
    ('a', 0.0)
    """

    name = "ipfi"
    copies = "replaced"

    def __init__(self, model: Any, *, kind: PFIKind = "difference", **settings: Any) -> None:
        if kind not in ("difference", "ratio"):
            raise ValueError(f"kind: {kind!r} is not one of difference, ratio")
        super().__init__(model, **settings)
        if kind == "ratio" and self.label_free:
            raise ValueError(
                f"kind: 'ratio' divides by the model's own loss, which {self.losses[0].name} is none of; use difference"
            )
        self.kind = kind
        self.in_blocks = kind == "difference"
        if kind == "ratio":
            self._switched = self._new_smoother(len(self.players))
            self._own = self._new_smoother(len(self.players))

    def state(self) -> EstimatorState:
        state = super().state()
        if self.kind == "ratio":
            state = msgspec.structs.replace(state, switched=self._switched.state(), own=self._own.state())
        return state

    def restore(self, state: EstimatorState) -> None:
        super().restore(state)
        if self.kind == "ratio":
            if state.switched is None or state.own is None:
                raise StateError("ipfi: differences instead of ratios")
            self._switched.restore(state.switched, len(self.players), self._n)
            self._own.restore(state.own, len(self.players), self._n)

    def _metadata(self) -> dict[str, Any]:
        return super()._metadata() | {"kind": self.kind}

    def _checked_samples(self, n_samples: int | None) -> int:
        return 5 if n_samples is None else at_least_one(n_samples)

    def _source(self) -> Generator:
        reservoir = self.reservoir
        if type(reservoir) is GeometricReservoir and len(reservoir.rows) == reservoir.size:
            return reservoir.next_slots
        return self._rng

    def _contributions(self, players: Players, x: Row, y: Any, base: Prediction) -> Array:
        m = self.n_samples
        rng, stored = self._source(), self.reservoir.rows
        rows = [[stored[rng.below(len(stored))] for _ in range(m)]] * len(players)
        delta = np.empty((len(self.losses), len(players)))
        copies = [copy for of_player in self.evaluator.replaced(x, base, players, rows) for copy in of_player]
        self._settle(range(len(self.losses)), Perturbed(y, base, copies), delta)
        return delta

    def _settle(self, losses: Sequence[int], found: Perturbed, delta: Array) -> None:
        m = self.n_samples
        for row in losses:
            loss = self.losses[row]
            own = loss(found.y, found.base)
            for j in range(delta.shape[1]):
                total = 0.0
                for prediction in found.copies[j * m : (j + 1) * m]:
                    total += loss(found.y, prediction) - own  # exactly 0 where the player changes nothing
                delta[row, j] = total / m

    def _take(self, players: Players) -> None:
        super()._take(players)
        if self.kind == "ratio":
            self._switched.grow(len(players))
            self._own.grow(len(players))

    def _explained(self, y: Any, base: Prediction, entry: PlanEntry | None, delta: Array) -> None:
        if self.kind == "ratio":
            own = np.array([[loss(y, base)] for loss in self.losses])
            self._own.update(np.broadcast_to(own, delta.shape).copy())
            self._switched.update(own + delta)

    def _end_block(self) -> None:
        super()._end_block()
        if self.kind == "ratio":
            for smoother in (self._switched, self._own):
                smoother.end_block()

    def _estimate(self) -> tuple[Array, Spread]:
        if self.kind == "ratio":
            return ratio(self._smoother, self._switched, self._own)
        return super()._estimate()
