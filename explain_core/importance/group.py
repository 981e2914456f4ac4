"""Several estimators that explain the same records in one evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from explain_core.engine.smoothing import BLOCK
from explain_core.evaluation.plan import EvaluationPlan, PlanEntry
from explain_core.losses import Prediction
from explain_core.models import Row, check_prediction
from explain_core.players import Players

if TYPE_CHECKING:
    from explain_core.importance.base import IncrementalEstimator


class EstimatorGroup:
    """Estimators that explain the same records in one evaluation: the values are those that each finds alone.

    They must have one model, reservoir, warm-up, losses, features and groups, and be of different kinds. New estimators that would fill equal reservoirs of
    their own share the first one's. ``explain_one`` changes the state of all of them, or of none where it raises.

    Parameters
    ----------
    estimators
        Any number. Raises ``ValueError`` where they differ.

    >>> from explain_core.importance.ipfi import IncrementalPFI
    >>> from explain_core.importance.isage import IncrementalSAGE
    >>> model = lambda x: 2.0 * x["a"]
    >>> pfi = IncrementalPFI(model, task="regression", size=10)
    >>> sage = IncrementalSAGE(model, task="regression", size=10)
    >>> both = EstimatorGroup([pfi, sage])
    >>> for i in range(50):
    ...     x = {"a": float(i % 7), "b": 1.0}
    ...     _ = both.explain_one(x, 2.0 * x["a"])
    >>> pfi.explanation.n, sage.explanation.n
    (40, 40)
    """

    def __init__(self, estimators: Sequence[IncrementalEstimator]) -> None:
        first, *others = estimators
        names = [estimator.name for estimator in estimators]
        if len(set(names)) < len(names):
            raise ValueError(f"estimators: {', '.join(names)}: two are of one kind; group different kinds")
        for other in others:
            other._adopt(first)
            if difference := first._difference(other):
                raise ValueError(
                    f"estimators: {other.name} and {first.name} differ in {difference}; pass both the same, before the first record"
                )
        for estimator in estimators:
            estimator.players = first.players
        self.estimators = tuple(estimators)
        self._plan: EvaluationPlan | None = None
        self._entries: list[tuple[IncrementalEstimator, PlanEntry]] = []
        self._names: tuple[str, ...] | None = None
        """The features of a record that compiled code has explained: another one with them teaches the players nothing."""

    def explain_one(self, x: Row, y: Any, prediction: Prediction | None = None) -> Prediction | None:
        """``IncrementalEstimator.explain_one`` of each; returns the prediction that was explained, ``prediction`` where none was yet."""
        first = self.estimators[0]
        if first._owns_reservoir:
            x = dict(x)
        names, players = tuple(x), first.players
        known = names == self._names
        if not known:
            for estimator in self.estimators:
                estimator._check(x)
            players = players.after(x)
        if first.ready:
            found = self._compiled(players, x, y, prediction)
            if found is None and prediction is None:
                prediction = first.model.predict(x)
                found = self._compiled(players, x, y, prediction)
            if found is None:
                self._evaluated(players, x, y, prediction)
            else:
                prediction, self._names = found, names
            self.took(1)
        if not known:
            self._observe(players, x)
        if first._owns_reservoir:
            first.reservoir.add(x)
        return prediction

    def observe(self, x: Row) -> None:
        """``IncrementalEstimator.observe`` of each."""
        if tuple(x) == self._names:
            return
        first = self.estimators[0]
        for estimator in self.estimators:
            estimator._check(x)
        self._observe(first.players.after(x), x)

    def took(self, records: int) -> None:
        """Count explained records, of which the last one alone may end a block."""
        for estimator in self.estimators:
            estimator._n += records
            if records and estimator._n % BLOCK == 0:
                estimator._end_block()

    @property
    def current_plan(self) -> EvaluationPlan | None:
        """What compiled code may explain records with that bring nothing new; None where a record has to be explained first."""
        plan, first = self._plan, self.estimators[0]
        if (
            plan is None
            or plan.foreign
            or plan.players is not first.players
            or not first.ready
            or not all(own.in_blocks and own._empty_model is entry.empty for own, entry in self._entries)
        ):
            return None
        return plan

    def _observe(self, players: Players, x: Row) -> None:
        for estimator in self.estimators:
            estimator._take(players)
            estimator._learn(x)

    def _compiled(self, players: Players, x: Row, y: Any, base: Prediction | None) -> Prediction | None:
        """``GenericEvaluator.explain`` of the estimators' plan; None also where the record brings new players."""
        plan, first = self._plan, self.estimators[0]
        if players is not first.players or not first._compilable or not players:
            return None
        if plan is None or plan.players is not players:
            self._entries = [(estimator, estimator._plan_entry()) for estimator in self.estimators]
            of = {estimator.copies: entry for estimator, entry in self._entries}
            replaced, joining = of.get("replaced") or PlanEntry(), of.get("joining") or PlanEntry()
            plan = self._plan = EvaluationPlan(
                players, first.losses, first.task, first.reservoir, replaced, joining
            )
        for estimator, entry in self._entries:
            entry.empty = estimator._empty_model
        base = first.evaluator.explain(plan, x, y, base)
        if base is None:
            return None
        for estimator, entry in self._entries:
            estimator.increments = entry.delta
            estimator._explained(y, base, entry, entry.delta)
        return base

    @property
    def label_free(self) -> bool:
        """Whether no label is asked for."""
        return self.estimators[0].label_free

    def _evaluated(self, players: Players, x: Row, y: Any, base: Any) -> None:
        check_prediction(base, self.estimators[0].task)
        y = base if self.label_free else y
        states = [estimator._rng.state for estimator in self.estimators]
        try:
            deltas = [estimator._contributions(players, x, y, base) for estimator in self.estimators]
            for delta in deltas:
                if not np.isfinite(delta).all():
                    names = [loss.name for loss in self.estimators[0].losses]
                    raise ValueError(f"losses: a loss of {names} is not finite for y = {y!r}")
        except BaseException:
            for estimator, state in zip(self.estimators, states, strict=True):
                estimator._rng.state = state
            raise
        for estimator, delta in zip(self.estimators, deltas, strict=True):
            estimator._take(players)
            estimator._smoother.update(delta)
            estimator.increments = delta
            estimator._explained(y, base, None, delta)


def grouped(estimators: Iterable[IncrementalEstimator]) -> list[EstimatorGroup]:
    """The estimators in as few evaluations as they need.

    >>> from explain_core.importance.ipfi import IncrementalPFI
    >>> [len(group.estimators) for group in grouped([IncrementalPFI(lambda x: 1.0), IncrementalPFI(lambda x: 1.0)])]
    [1, 1]
    """
    found: list[list[IncrementalEstimator]] = []
    for estimator in estimators:
        for group in found:
            if not group[0]._difference(estimator) and all(estimator.name != other.name for other in group):
                group.append(estimator)
                break
        else:
            found.append([estimator])
    return list(map(EstimatorGroup, found))
