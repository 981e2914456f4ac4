"""Models in arrays, learners and trained ensembles, explained by compiled code that reads the same arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.engine import stream
from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.plan import EvaluationPlan, Perturbed
from explain_core.learners.arrays import Arrays
from explain_core.learners.base import Learner
from explain_core.losses import Prediction
from explain_core.models import Row
from explain_core.reservoirs import GeometricReservoir, Reservoir, UniformReservoir

Array = NDArray[np.float64]


_OWN = {GeometricReservoir, UniformReservoir}


class LearnedEvaluator(GenericEvaluator):
    """Contributions of a model in arrays in one compiled call; equal, to the last bit, to those that its predictions alone give."""

    name = "arrays"
    model: Learner | TreeEnsemble

    def __init__(self, model: Learner | TreeEnsemble) -> None:
        super().__init__(model)
        self._rows: dict[int, _EncodedRows] = {}
        self._regression = model.task == "regression"

    def explain(self, plan: EvaluationPlan, x: Row, y: Any, base: Prediction | None) -> Prediction | None:
        model = self.model
        if plan.rows is None:
            if plan.foreign and plan.sage.empty is not None:
                return None
            model.columns.add(name for player in plan.players for name in player.features)
            plan.rows = self._rows.setdefault(id(plan.reservoir), _EncodedRows(plan.reservoir, model))
        rows = plan.rows
        if base is None or self._regression:
            labels = model.order or plan.labels
        else:
            labels = list(base) if isinstance(base, Mapping) else []
        rows.sync()
        row = model.encoded(x)
        if len(row) != rows.matrix.shape[1]:
            rows.sync()
            row = model.encoded(x)
        if labels and self._ready(plan, labels):
            pfi, sage, state = plan.pfi.source(), plan.sage.source(), plan.state
            state[0], state[1] = pfi.state, sage.state
            truth = -1.0
            if not plan.label_free:
                truth = float(y) if self._regression else float(plan.places.get(y, -1))
            assert model.family is not None
            if stream.explain(model.family, plan.arrays.table, model.arrays.table, row, truth):
                if base is None:
                    found = plan.arrays["prediction"].tolist()
                    base = found[0] if self._regression else dict(zip(labels, found, strict=True))
                if not plan.foreign or self._settled(plan, y, base):
                    pfi.state, sage.state = state.tolist()
                    return base
        self.fallbacks += base is not None
        return None

    def _settled(self, plan: EvaluationPlan, y: Any, base: Prediction) -> bool:
        """Let Python compute its losses; whether all is finite, and Δ smoothed."""
        rows = plan.arrays["found"].tolist()
        copies: list[Prediction] = (
            [row[0] for row in rows]
            if self._regression
            else [dict(zip(plan.labels, row, strict=True)) for row in rows]
        )
        replaced = 1 + len(plan.players) * plan.pfi.n_samples
        for entry, own in (plan.pfi, copies[1:replaced]), (plan.sage, copies[replaced:]):
            if entry.settle is not None:
                entry.settle(plan.foreign, Perturbed(y, base, own, plan.order.tolist()), entry.delta)
                if not np.isfinite(entry.delta).all():
                    return False
        stream.smooth(plan.arrays.table)
        return True

    def current(self, plan: EvaluationPlan, labels: Sequence[Any]) -> bool:
        """Whether the plan is laid out for records that bring nothing new, with the labels of predictions in this order."""
        if plan.rows is None or tuple(plan.labels) != labels or self.model.columns.size != plan.size:
            return False
        plan.rows.sync()
        return plan.rows.matrix is plan.matrix and (
            plan.sage.empty is None or plan.sage.empty.row is plan.empty
        )

    def _ready(self, plan: EvaluationPlan, labels: Sequence[Any]) -> bool:
        """Bring the arrays up to date; False where the mean of the empty model has other labels, or another order of them."""
        if labels != plan.labels:
            plan.labels, plan.matrix = list(labels), None
            plan.places = {label: place for place, label in enumerate(labels)}
        if plan.rows.matrix is not plan.matrix:
            self._lay_out(plan)
        plan.size = self.model.columns.size
        empty = plan.sage.empty
        return empty is None or empty.row is plan.empty or empty.move(plan.empty, plan.labels)

    def _lay_out(self, plan: EvaluationPlan) -> None:
        model, labels, matrix = self.model, plan.labels, plan.rows.matrix
        by_player = [[model.columns.index[name] for name in player.features] for player in plan.players]
        columns = np.array([column for of_player in by_player for column in of_player], np.int64)
        pfi, sage = plan.pfi, plan.sage
        counts = [
            pfi.n_samples, sage.n_samples, len(pfi.delta) or len(sage.delta), pfi.delta.shape[1], sage.delta.shape[1],
        ]  # fmt: skip
        codes = [0] if labels == [None] else [model.codes[label] for label in labels]
        copies = 0
        if plan.foreign:
            joining = max(len(by_player) - (sage.empty is not None), 0) if sage.n_samples else 0
            copies = 1 + len(by_player) * pfi.n_samples + joining * sage.n_samples
        plan.empty = np.zeros(0 if sage.empty is None else 1 + len(labels))
        plan.arrays = Arrays(
            state=plan.state,
            rows=matrix,
            starts=np.cumsum([0, *map(len, by_player)]).astype(np.int64),
            columns=columns,
            outside=np.setdiff1d(np.arange(matrix.shape[1]), columns),
            codes=plan.codes,
            pairs=plan.pairs.astype(np.int64),
            counts=np.array(counts, np.int64),
            order=plan.order,
            empty=plan.empty,
            labels=np.array(codes, np.int64),
            delta=pfi.delta,
            cells=_flat(pfi.smoother.cells),
            sums=pfi.smoother.sums,
            rates=np.array([pfi.smoother.decay]),
            sage_delta=sage.delta,
            sage_cells=_flat(sage.smoother.cells),
            sage_sums=sage.smoother.sums,
            sage_rates=np.array([sage.smoother.decay]),
            prediction=np.empty(len(labels)),
            after=np.empty(len(plan.empty)),
            found=np.empty((copies, len(labels) if copies else 0)),
        )
        plan.matrix = matrix


def _flat(cells: Array) -> Array:
    """Cells as a matrix: a view, rows · losses × players."""
    return cells.reshape(cells.shape[0] * cells.shape[1], cells.shape[2])


class _EncodedRows:
    """A reservoir's rows, encoded."""

    def __init__(self, reservoir: Reservoir, learner: Learner | TreeEnsemble) -> None:
        self._reservoir, self._learner = reservoir, learner
        self._known: list[Row | None] = []
        self._replaced: int | None = None
        self.matrix: Array = np.empty((0, 0))

    def sync(self) -> None:
        """Bring ``matrix`` up to date: the rows that were replaced, or all where there are more rows or columns."""
        reservoir, columns = self._reservoir, self._learner.columns
        rows = reservoir.rows
        replaced = reservoir.replaced if type(reservoir) in _OWN else None  # type: ignore[attr-defined]
        slots: Iterable[int] = range(len(rows))
        if len(rows) == len(self._known):
            if replaced is not None and self._replaced is not None and replaced - self._replaced < 2:
                slots = () if replaced == self._replaced else (reservoir.slot,)  # type: ignore[attr-defined]
            else:
                slots = list(compress(count(), map(operator.is_not, rows, self._known)))
        columns.add(name for slot in slots for name in rows[slot])  # it need not have learnt these rows
        if self.matrix.shape != (len(rows), len(columns.names)):
            slots = range(len(rows))
            self._known = [None] * len(rows)
            self.matrix = np.empty((len(rows), len(columns.names)))
        for slot in slots:
            self.matrix[slot] = self._learner.encoded(rows[slot])
            self._known[slot] = rows[slot]
        self._replaced = replaced

    def follow(self) -> None:
        """The rows that compiled code has replaced are in ``matrix`` already."""
        self._known = list(self._reservoir.rows)
        self._replaced = self._reservoir.replaced  # type: ignore[attr-defined]
