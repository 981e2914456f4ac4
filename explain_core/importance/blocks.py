"""Records in blocks: a compiled loop takes in what is ordinary, with the bits of one record after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.engine.rows import Encoder
from explain_core.engine.smoothing import BLOCK
from explain_core.engine.stream import LONGEST, MOST, Stream
from explain_core.evaluation.learned import LearnedEvaluator
from explain_core.evaluation.plan import EvaluationPlan
from explain_core.importance.group import EstimatorGroup
from explain_core.learners.base import Learner
from explain_core.losses import Prediction
from explain_core.models import Model, Row
from explain_core.models.empty import Performance
from explain_core.reservoirs import GeometricReservoir, Reservoir, UniformReservoir

Array = NDArray[np.float64]


class Blocks:
    """A model, its estimators, reservoirs and performance, for records that bring no label, feature, category or player that is new.

    Parameters
    ----------
    model
        What is explained and, if ``learns``, learns.
    groups
        Its estimators, as ``grouped`` has them.
    reservoirs
        Those that the records are added to.
    performance
        That of the model.
    every
        Of so many records the first is explained.
    leader
        Blocks of another model, with the same reservoirs, whose draws these repeat; the leader fills the reservoirs.
    """

    def __init__(
        self,
        model: Model,
        groups: Sequence[EstimatorGroup],
        reservoirs: Sequence[Reservoir],
        performance: Performance,
        every: int,
        learns: bool,
        leader: Blocks | None = None,
    ) -> None:
        self._model, self._groups, self._performance = model, groups, performance
        self._reservoirs, self._every, self._learns = reservoirs, every, learns
        self._leader = leader
        self._plans: list[EvaluationPlan] = []
        self._stream: Stream | None = None
        self.labels: Mapping[Any, int] = {}
        """The labels that records of a block may have, each with its number; none in a regression."""
        self.places: Mapping[Any, int] = {}
        """Of the labels in predictions."""
        self.index: dict[str, int] = {}
        """The features that records of a block may have, each with its column: those that the estimators have met."""

    def bind(self) -> bool:
        """Make ready for the next records, after the leader; whether compiled code can take them in."""
        self._stream = self._bound()
        return self._stream is not None

    def _bound(self) -> Stream | None:
        model, performance = self._model, self._performance
        known: tuple[Any, ...] | None = performance._labels
        if not self._groups or known is None or max(len(self._groups), len(self._reservoirs)) > MOST:
            return None
        order = model.order  # type: ignore[attr-defined]
        if order is not None and tuple(order) != known:  # a class that it has learnt and not predicted yet
            return None
        leader, plans, matrices = self._leader, [], {}
        self._plans = []
        if leader is not None and (leader._stream is None or len(leader._groups) != len(self._groups)):
            return None
        for group in self._groups:
            plan, evaluator = group.current_plan, group.estimators[0].evaluator
            if (
                plan is None
                or not isinstance(evaluator, LearnedEvaluator)
                or not evaluator.current(plan, known)
            ):
                return None
            self._plans.append(plan)
            matrices[id(plan.reservoir)] = plan.rows.matrix
            slots = plan.pfi.n_samples > 0 and type(plan.reservoir) is GeometricReservoir
            places = [id(reservoir) for reservoir in self._reservoirs]
            plans.append((plan.arrays.table, places.index(id(plan.reservoir)) if slots else -1))
        reservoirs = []
        for reservoir in self._reservoirs:
            enters = type(reservoir) is GeometricReservoir
            full = (enters or type(reservoir) is UniformReservoir) and len(reservoir.rows) == reservoir.size
            if not full or id(reservoir) not in matrices:
                return None
            reservoirs.append((matrices[id(reservoir)], enters))
        self.index = dict(model.columns.index)  # type: ignore[attr-defined]
        for players in (group.estimators[0].players for group in self._groups):
            for name in () if players.fixed else players.outside(model.columns.names):  # type: ignore[attr-defined]
                self.index.pop(name, None)
        codes = {} if known == (None,) else model.codes  # type: ignore[attr-defined]
        self.places = performance._places
        own = [label for label in codes if label in performance._places and label in performance._seen]
        self.labels = {label: number for number, label in enumerate(own)}
        table = [[codes[label], performance._places[label], performance._seen[label]] for label in own]
        room = model.make_room if isinstance(model, Learner) else None
        smoother = performance._smoother
        return Stream(
            (model.family, model.arrays.table, room, self._learns),  # type: ignore[attr-defined]
            plans,
            reservoirs,
            (performance._numbers, performance._sizes, smoother.cells, smoother.sums, smoother.decay),
            np.array(table, np.int64).reshape(-1, 3),
            self._every,
            None if leader is None else leader._stream,
        )

    def most(self, before: int) -> int:
        """How many records a block may have at most after so many: none where a reservoir keeps the next one, or where something is not bound.

        Blocks end where the sums of estimators and performance do.
        """
        if self._stream is None:
            return 0
        estimators = [estimator for group in self._groups for estimator in group.estimators]
        explained = min(BLOCK - estimator._n % BLOCK for estimator in estimators)
        skips = [reservoir._skip for reservoir in self._reservoirs if isinstance(reservoir, UniformReservoir)]
        last = until(explained, before, self._every)
        return min(LONGEST, BLOCK - self._performance._n % BLOCK, last, *skips)

    def encode(self, xs: Sequence[Row], truths: Sequence[Any]) -> tuple[Array, Array]:
        """Records as rows, and the numbers of their labels, or these themselves, for ``begin``: up to one that brings something new."""
        encoder = self.encoder(self.index)
        ys = list(truths if self.places.keys() == {None} else map(self.labels.get, truths))
        rows = np.empty((ys.index(None) if None in ys else len(ys), encoder.width))
        n = encoder.fill(xs, rows)
        return rows[:n], np.array(ys[:n], np.float64)

    def encoder(self, index: dict[str, int]) -> Encoder:
        """Encodes records whose features are in an index of columns, or of what is left out."""
        columns = self._model.columns  # type: ignore[attr-defined]
        return Encoder([name if name in index else None for name in columns.names], index, columns.codes)

    def begin(self, rows: Array, ys: Array, weights: Array, before: int) -> Stream:
        """What ``run`` is to take these at most ``most`` records in with, encoded rows and ``ys`` as numbers of ``labels``; ``end`` follows."""
        stream = self._stream
        assert stream is not None
        for plan in self._plans:
            plan.state[:] = plan.pfi.source().state, plan.sage.source().state
        stream.states[:] = [reservoir._rng.state for reservoir in self._reservoirs]  # type: ignore[attr-defined]
        stream.begin(rows, ys, weights, before)
        return stream

    def end(self, n: int, xs: Sequence[Row], before: int) -> tuple[Array, Array]:
        """Go on from the n records that were taken in, after the leader; their predictions, and their losses as ``Learnt`` has them."""
        stream, performance = self._stream, self._performance
        assert stream is not None
        explained = len(self.explained(n, before))
        for group, plan in zip(self._groups, self._plans, strict=True):
            plan.pfi.source().state, plan.sage.source().state = plan.state.tolist()
            group.took(explained)
        for place, reservoir in enumerate([] if self._leader else self._reservoirs):
            if isinstance(reservoir, UniformReservoir):
                reservoir._skip -= n
            elif isinstance(reservoir, GeometricReservoir):
                reservoir.replace(stream.slots[:n, place].tolist(), xs, int(stream.states[place]))
        for plan in self._plans:
            plan.rows.follow()
        losses = stream.losses[:n].reshape(n, 2, len(performance.losses))
        performance.count(losses[:, 0].T.tolist())
        return stream.predictions[:n], losses

    def explained(self, n: int, before: int) -> range:
        """Which of n records after so many are explained."""
        return range(-before % self._every, n, self._every)

    def truths(self, ys: Array) -> list[Any]:
        """The codes that ``ys`` of ``begin`` are numbers of, or the numbers."""
        codes = list(map(int, self.labels))  # those of a linear model are booleans
        return [codes[int(y)] for y in ys.tolist()] if codes else ys.tolist()

    def told(self, predictions: Array) -> list[Prediction]:
        """The predictions of ``end`` as the model tells them."""
        numbers: list[Any] = predictions.tolist()
        labels = tuple(self.places)
        return (
            [of[0] for of in numbers]
            if labels == (None,)
            else [dict(zip(labels, of, strict=True)) for of in numbers]
        )

    def increments(self, explained: range) -> dict[int, Array]:
        """Δ of the records of ``end`` at these places, records × losses × players, by the ``id`` of their estimator."""
        stream, found, end = self._stream, {}, 0
        assert stream is not None
        rows = stream.increments[explained.start : explained.stop : explained.step]
        for group in self._groups:
            for estimator, entry in sorted(group._entries, key=lambda one: one[0].copies == "joining"):
                begin, end = end, end + entry.delta.size
                found[id(estimator)] = rows[:, begin:end].reshape(-1, *entry.delta.shape)
        return found


def until(explained: int, before: int, every: int) -> int:
    """How many records it takes after so many until so many of them, each ``every``-th, are explained."""
    return -before % every + (explained - 1) * every + 1
