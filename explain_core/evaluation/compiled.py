"""What the compiled evaluators share: records as rows of numbers, and the way back to Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.kernels import AVAILABLE
from explain_core.evaluation.plan import Plan
from explain_core.evaluation.table import Array, Rows, Table
from explain_core.losses import Prediction
from explain_core.models import Model, Row


class CompiledEvaluator(GenericEvaluator):
    """Contributions by compiled code where numba is installed and the record has nothing that it cannot take.

    What the estimators of a record share is prepared once: its row, the image of the model, the model's own prediction.
    A classifier's prediction is a dictionary that is new for each record, so that the same one says that nothing has
    been learnt in between.
    """

    labels: Sequence[Any] = ()
    """Classes in the order of a prediction."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._table = Table()
        self._rows: dict[int, Rows] = {}
        self._state = np.zeros(1, np.uint64)
        self._base: Prediction | None = None
        self._own: Array = np.empty(0)
        self._image: Any = None

    def delta(
        self, plan: Plan, x: Row, y: Any, base: Prediction, before: Sequence[float] | None = None
    ) -> Array | None:
        if not AVAILABLE or plan.codes is None:
            return None
        rows = self._rows.get(id(plan.reservoir))
        if rows is None:
            rows = self._rows[id(plan.reservoir)] = Rows(plan.reservoir, self._table)
        if self._prepare(plan, rows, x, base):
            truth = float(y) if self.model.task == "regression" else float(self._codes.get(y, -1))
            if before:
                plan.before[:] = before
            self._state[0] = plan.rng.state
            if self._run(plan, x, rows, truth, before is not None):
                plan.rng.state = self._state.item()
                return plan.delta
        self.fallbacks += 1
        return None

    def _prepare(self, plan: Plan, rows: Rows, x: Row, base: Prediction) -> bool:
        table = self._table
        plan.bind(table)
        if not rows.sync():
            return False
        row, self._ordered = table.row(x)
        if row is None:
            return False
        regression = self.model.task == "regression"
        if base is not self._base or regression:
            self._base = None
            if not self._sync() or not (regression or list(base) == self.labels):  # type: ignore[arg-type]
                return False
            if self._image is not self._arrays:
                self._image = self._arrays
                self._own = np.empty(len(self.labels))
                self._view = self._own.data
                self._format = struct.Struct(f"{len(self.labels)}d")
            self._format.pack_into(self._view, 0, *((base,) if regression else base.values()))  # type: ignore[union-attr]
            self._base = base
        if row is not table.buffer or len(row) != rows.matrix.shape[1]:
            return False
        plan.bind(table)
        if plan.image is not self._image or plan.matrix is not rows.matrix:
            plan.image, plan.matrix = self._image, rows.matrix
            drawn = (
                self._state,
                row,
                rows.matrix,
                len(rows.matrix),
                plan.starts,
                plan.columns,
                plan.n_samples,
            )
            plan.arguments = self._arguments(plan, drawn)
        return True

    @property
    def _codes(self) -> dict[Any, int]:
        raise NotImplementedError

    @property
    def _arrays(self) -> tuple[Any, ...]:
        """The image of the model: the same object as long as its arrays are."""
        raise NotImplementedError

    def _sync(self) -> bool:
        """Bring the image of the model up to date; False where it has none."""
        raise NotImplementedError

    def _arguments(self, plan: Plan, drawn: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the kernel is called with, besides the truth."""
        raise NotImplementedError

    def _run(self, plan: Plan, x: Row, rows: Rows, y: float, joining: bool) -> bool:
        """Fill ``plan.delta``: iSAGE's where players are ``joining``, else iPFI's. False where something needs Python."""
        raise NotImplementedError
