"""Two models on the same records: by how much one's losses and importances differ from the other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from explain_core.confidence import WARM_UP, ConfidenceSequence, ConfidenceState, Interval
from explain_core.engine.smoothing import BLOCK
from explain_core.evaluation.choice import choose
from explain_core.explanation import Explanation
from explain_core.figures import figures
from explain_core.importance import estimator
from explain_core.importance.base import AnyLoss, IncrementalEstimator
from explain_core.importance.group import grouped
from explain_core.losses import AnyTask, Loss
from explain_core.models import Row, wrap
from explain_core.models.empty import Performance
from explain_core.random import derive_seed
from explain_core.reservoirs import Kind, Reservoir, make_reservoir
from explain_core.smoothing import Array, SmootherState
from explain_core.state import State, check

Better = Literal["model", "challenger"]


class PairState(State, frozen=True):
    """Smoothed differences of increments."""

    values: SmootherState


class ComparisonState(State, frozen=True):
    """The sequence of each loss, and the differences of each pair of estimators."""

    losses: list[ConfidenceState]
    pairs: list[PairState]


class _Pair:
    """The differences of two estimators' increments, smoothed as the increments are."""

    def __init__(self, own: IncrementalEstimator, other: IncrementalEstimator) -> None:
        if (
            own._rng.state != other._rng.state
            or own.reservoir is not other.reservoir
            or own.losses != other.losses
        ):
            raise ValueError(
                f"estimators: {own.name} of both models must have the same seed, losses and reservoir"
            )
        self.own, self.other = own, other
        self._smoother = own._new_smoother(len(own.players))
        self._n = other._n

    def align(self) -> None:
        """Let the challenger's estimator draw as the model's is about to."""
        self.other._rng.state = self.own._rng.state

    @property
    def increments(self) -> Array | None:
        """The difference of what both explained of a record, 1 × losses × players; None where the challenger's estimator did not."""
        own, other = self.own.increments, self.other.increments
        return None if self.other._n == self._n or own is None or other is None else (other - own)[None]

    def update(self, increments: Array) -> None:
        """Take in the differences of records that both explained, records × losses × players, of which the last one alone ends a block."""
        self._fit()
        for increment in increments:
            self._smoother.update(increment)
        self._n = self.other._n
        if self._n % BLOCK == 0:
            self._smoother.end_block()

    def _fit(self) -> None:
        """Append the columns of features that the estimators have met."""
        columns = len(self.own.players)
        if columns != self._smoother.value.shape[1]:
            self._smoother.grow(columns)

    @property
    def explanation(self) -> Explanation:
        self._fit()
        smoother = self._smoother
        return self.own._explanation(smoother, smoother.value, smoother.spread, self._n)

    def state(self) -> PairState:
        self._fit()
        return PairState(self._smoother.state())

    def restore(self, state: PairState) -> None:
        columns = len(self.own.players)
        self._smoother.restore(state.values, columns, self.other._n)
        self._n = self.other._n


class PairedDifferences:
    """The challenger's losses and importances minus the model's, record by record.

    Each loss has a ``ConfidenceSequence`` of its own, with the limit that ``limits`` has for it, else with its largest value. ``pairs`` are an estimator of the model and one of the challenger that are made
    alike, with one seed and one reservoir: they draw the same rows and orders, so that what both models make of a draw cancels out.
    The band of an importance's difference is that of an importance, see ``explain_core.bands``: it holds if you look once.
    """

    def __init__(
        self,
        losses: Sequence[Loss],
        pairs: Mapping[str, tuple[IncrementalEstimator, IncrementalEstimator]],
        confidence: float = 0.95,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        limits = limits or {}
        self._losses = {
            loss.name: ConfidenceSequence(confidence, limits.get(loss.name, loss.most)) for loss in losses
        }
        self._pairs = {name: _Pair(*pair) for name, pair in pairs.items()}

    def align(self) -> None:
        """Call before a record that both models' estimators explain, where the challenger's have left out some: they then draw alike again."""
        for pair in self._pairs.values():
            pair.align()

    def update(self, own: Sequence[float], other: Sequence[float], explained: bool = True) -> None:
        """Take in the losses of both models for a record; ``explained``: the challenger's estimators may have explained it, and then the model's too."""
        found = {name: pair.increments for name, pair in self._pairs.items()} if explained else {}
        increments = {name: of for name, of in found.items() if of is not None}
        self.update_many(np.array([own]), np.array([other]), increments)

    def update_many(self, own: Array, other: Array, increments: Mapping[str, Array]) -> None:
        """Take in the losses of both models, records × losses, and by pair the differences of increments where both explained: records × losses × players."""
        for sequence, differences in zip(self._losses.values(), (other - own).T.tolist(), strict=True):
            for difference in differences:
                sequence.add(difference)
        for name, of in increments.items():
            self._pairs[name].update(of)

    def loss(self, name: str) -> Interval:
        """The mean difference of a loss; below 0 the challenger's is smaller."""
        return self._losses[name].interval

    def importance(self, name: str) -> Explanation:
        """The differences of the importances of a pair; above 0 the feature matters more to the challenger."""
        return self._pairs[name].explanation

    def state(self) -> ComparisonState:
        return ComparisonState(
            [sequence.state() for sequence in self._losses.values()],
            [pair.state() for pair in self._pairs.values()],
        )

    def restore(self, state: ComparisonState) -> None:
        """Restore a stored state, after the estimators. Raises ``StateError`` where it is of other losses or estimators."""
        check(len(state.losses) == len(self._losses), "comparison: of other losses")
        check(len(state.pairs) == len(self._pairs), "comparison: of other estimators")
        for sequence, kept in zip(self._losses.values(), state.losses, strict=True):
            sequence.restore(kept)
        for pair, stored in zip(self._pairs.values(), state.pairs, strict=True):
            pair.restore(stored)


class Comparison:
    """Two models on the same records: which loses less, and what matters more to which.

    Parameters
    ----------
    model, challenger
        Anything ``explain_core.models.wrap`` takes. They are read, never taught.
    task, losses, alpha, features, groups, band
        As of ``IncrementalEstimator``; ``alpha`` is that of the importances and of the smoothed losses.
    estimators
        Names, or classes as ``module:Class``: one of each explains either model.
    reservoir, size
        "geometric" or "uniform" of ``size`` rows; all estimators share it.
    confidence
        Of the interval of each loss, at all times together, and of the bands of importances.
    limits
        By loss: the limit of a record's difference, see ``ConfidenceSequence``. By default a loss's largest value, where it has one.
    seed
        Of all draws, which both models share.

    >>> comparison = Comparison(lambda x: 0.0, lambda x: x["a"], task="regression", alpha=0.01)
    >>> for i in range(2_000):
    ...     comparison.update({"a": i % 7 - 3.0, "b": i % 5}, i % 7 - 3.0)
    >>> print(comparison.sentence("nothing", "a itself"))
    a itself loses less than nothing, by 4.0 (3.6 to 4.4) in squared: mean of 1,900 records, an interval that holds however often you look
    >>> comparison.importance().top(1)[0][0]
    'a'
    """

    def __init__(
        self,
        model: Any,
        challenger: Any,
        *,
        task: AnyTask = "classification",
        losses: Sequence[AnyLoss] | AnyLoss | None = None,
        alpha: float | None = 0.001,
        estimators: Sequence[str] = ("ipfi",),
        reservoir: Kind = "geometric",
        size: int = 100,
        confidence: float = 0.95,
        limits: Mapping[str, float] | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        self.models = wrap(model, task), wrap(challenger, task)
        self.reservoir: Reservoir = make_reservoir(reservoir, size, derive_seed(seed, "reservoir"))
        common = {"task": task, "losses": losses, "alpha": alpha, "seed": seed, "confidence": confidence}
        both = []
        for each in self.models:
            shared = {"reservoir": self.reservoir, "evaluator": choose(each), **common, **settings}
            both.append({name: estimator(name)(each, **shared) for name in estimators})
        self._names = tuple(estimators)
        self._estimators = both
        self._groups = [grouped(estimators.values()) for estimators in both]
        first = both[0][self._names[0]]
        self._performances = [Performance(first.losses, alpha) for _ in both]
        self._differences = PairedDifferences(
            first.losses,
            {name: (both[0][name], both[1][name]) for name in self._names},
            confidence,
            limits,
        )

    def update(self, x: Row, y: Any) -> None:
        """Compare the models on a record, before either learns from it. Raises ``ValueError`` for what a prediction may not be."""
        predictions = [model.checked_prediction(x) for model in self.models]
        for groups, prediction in zip(self._groups, predictions, strict=True):
            for group in groups:
                group.explain_one(x, y, prediction)
        self.reservoir.add(dict(x))
        own, other = (
            performance.update(y, prediction)
            for performance, prediction in zip(self._performances, predictions, strict=True)
        )
        self._differences.update(own, other)

    @property
    def performances(self) -> tuple[Performance, Performance]:
        """The smoothed losses of the model and of the challenger."""
        return self._performances[0], self._performances[1]

    def loss(self, name: str | None = None) -> Interval:
        """The mean difference of a loss, challenger minus model, by default of the first one."""
        return self._differences.loss(name or self._performances[0].losses[0].name)

    def importance(self, estimator: str | None = None) -> Explanation:
        """The differences of importance, challenger minus model, by default of the first estimator."""
        return self._differences.importance(estimator or self._names[0])

    def explanations(self, estimator: str | None = None) -> tuple[Explanation, Explanation]:
        """The importances of the model and of the challenger, by default of the first estimator."""
        own, other = (of[estimator or self._names[0]].explanation for of in self._estimators)
        return own, other

    def sentence(
        self, model: str = "the model", challenger: str = "the challenger", loss: str | None = None
    ) -> str:
        """Which of the two loses less, and by how much, in words; by default under the first loss."""
        loss = loss or self._performances[0].losses[0].name
        return sentence(self.loss(loss), loss, model, challenger)


def better(interval: Interval) -> Better | None:
    """Which of the two loses less; None where the interval of the difference, challenger minus model, holds 0.

    >>> better(Interval(-0.02, -0.03, -0.01, 5_000, 0, 1.0)), better(Interval(0.0, -0.01, 0.01, 5_000, 0, 1.0))
    ('challenger', None)
    """
    if interval.low is None or interval.high is None or interval.low <= 0.0 <= interval.high:
        return None
    return "challenger" if interval.high < 0.0 else "model"


def sentence(
    interval: Interval, loss: str, model: str = "the model", challenger: str = "the challenger"
) -> str:
    """What the interval of a difference says.

    >>> sentence(Interval(-0.0213, -0.031, -0.0116, 5_000, 3, 1.0), "brier")
    'the challenger loses less than the model, by 0.021 (0.012 to 0.031) in brier: mean of 5,000 records, an interval that holds however often you look; 3 differences count as ±1.0'
    >>> sentence(Interval(0.001, -0.009, 0.011, 5_000, 0, 1.0), "brier")
    'no difference seen between the model and the challenger in brier after 5,000 records; one of 0.010 would have been seen'
    >>> sentence(Interval(None, None, None, 0, 0, None), "brier")
    'the model and the challenger are not compared in brier yet: by default that takes 100 records, and one on which they differ'
    """
    if interval.value is None or interval.low is None or interval.high is None:
        return (
            f"{model} and {challenger} are not compared in {loss} yet: "
            f"by default that takes {WARM_UP} records, and one on which they differ"
        )
    half = 0.5 * (interval.high - interval.low)
    winner = better(interval)
    if winner is None:
        return (
            f"no difference seen between {model} and {challenger} in {loss} after {interval.n:,} records; "
            f"one of {figures([half], half)[0]} would have been seen"
        )
    first, second = (challenger, model) if winner == "challenger" else (model, challenger)
    limit = interval.limit or 0.0
    cut = (
        f"; {interval.clipped:,} differences count as ±{figures([limit], limit)[0]}"
        if interval.clipped
        else ""
    )
    near, far = sorted((abs(interval.low), abs(interval.high)))
    by, near_by, far_by, _ = figures([abs(interval.value), near, far], half)
    return (
        f"{first} loses less than {second}, by {by} ({near_by} to {far_by}) in {loss}: "
        f"mean of {interval.n:,} records, an interval that holds however often you look{cut}"
    )
