"""What the compiled evaluators share: records as rows of numbers, and the way back to Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.kernels import AVAILABLE
from explain_core.evaluation.plan import Plan
from explain_core.evaluation.table import Array, Rows, Table
from explain_core.losses import Prediction
from explain_core.models import Model, Row

_NO_LOSSES = np.empty(0)


class CompiledEvaluator(GenericEvaluator):
    """Contributions by compiled code where numba is installed and the record has nothing that it cannot take."""

    labels: Sequence[Any] = ()
    """Classes in the order of a prediction."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._table = Table()
        self._rows: dict[int, Rows] = {}
        self._state = np.zeros(1, np.uint64)

    def replaced_delta(self, plan: Plan, x: Row, y: Any, base: Prediction) -> Array | None:
        return self._delta(plan, x, y, base, None)

    def joined_delta(
        self, plan: Plan, x: Row, y: Any, base: Prediction, before: Sequence[float]
    ) -> Array | None:
        return self._delta(plan, x, y, base, np.array(before) if before else _NO_LOSSES)

    def _delta(self, plan: Plan, x: Row, y: Any, base: Prediction, before: Array | None) -> Array | None:
        if not AVAILABLE or plan.codes is None:
            return None
        delta = self._compiled_delta(plan, plan.codes, x, y, base, before)
        if delta is None:
            self.fallbacks += 1
        else:
            plan.rng.state = int(self._state[0])
        return delta

    def _compiled_delta(
        self, plan: Plan, codes: Any, x: Row, y: Any, base: Prediction, before: Array | None
    ) -> Array | None:
        rows = self._rows.get(id(plan.reservoir))
        if rows is None:
            rows = self._rows[id(plan.reservoir)] = Rows(plan.reservoir, self._table)
        plan.bind(self._table)
        if not rows.sync():
            return None
        row, ordered = self._table.row(x)
        if row is None or not self._sync() or len(row) != rows.matrix.shape[1]:
            return None
        plan.bind(self._table)
        if self.model.task == "regression":
            truth, own = float(y), np.array([base], np.float64)
        else:
            if list(base) != self.labels:  # type: ignore[arg-type]
                return None
            truth = float(self._codes.get(y, -1))
            own = np.array(list(base.values()), np.float64)  # type: ignore[union-attr]
        self._state[0] = plan.rng.state
        delta = np.empty((len(codes), len(plan.players)))
        done = self._run(plan, codes, x, row, rows, ordered and rows.ordered, truth, own, before, delta)
        return delta if done else None

    @property
    def _codes(self) -> dict[Any, int]:
        raise NotImplementedError

    def _sync(self) -> bool:
        """Bring the image of the model up to date; False where it has none."""
        raise NotImplementedError

    def _run(
        self, plan: Plan, codes: Any, x: Row, row: Array, rows: Rows, ordered: bool, y: float, base: Array,
        before: Array | None, delta: Array,
    ) -> bool:  # fmt: skip
        """Fill ``delta``: iPFI's where ``before`` is None, else iSAGE's. False where something needs Python."""
        raise NotImplementedError
