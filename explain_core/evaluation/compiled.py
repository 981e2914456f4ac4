"""What the compiled evaluators share: records as rows of numbers, and the way back to Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.kernels import AVAILABLE
from explain_core.evaluation.plan import Plan
from explain_core.evaluation.table import Array, Rows, Table
from explain_core.losses import Prediction
from explain_core.models import Model, Row


class Image(Protocol):
    """A model as arrays.

    ``labels`` are its classes in the order of a prediction and ``codes`` their places. ``arrays`` is the same object as long
    as its arrays are.
    """

    labels: list[Any]
    codes: dict[Any, int]
    arrays: tuple[Any, ...]

    def sync(self) -> bool:
        """Bring the arrays up to date; False where the model has none."""


class CompiledEvaluator(GenericEvaluator):
    """Contributions by compiled code where numba is installed and the record has nothing that it cannot take.

    What the estimators of a record share is prepared once: its row, the image of the model, the model's own prediction.
    A classifier's prediction is a dictionary that is new for each record, so that the same one says that nothing has
    been learnt in between.
    """

    image: Image
    constants: tuple[Any, ...] = ()
    """What the kernels are called with after the image's arrays."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._table = Table()
        self._rows: dict[int, Rows] = {}
        self._state = np.zeros(1, np.uint64)
        self._base: Prediction | None = None
        self._own: Array = np.empty(0)
        self._bound: Any = None

    def delta(
        self, plan: Plan, x: Row, y: Any, base: Prediction, before: Sequence[float] | None = None
    ) -> Array | None:
        if not AVAILABLE or plan.codes is None:
            return None
        rows = self._rows.get(id(plan.reservoir))
        if rows is None:
            rows = self._rows[id(plan.reservoir)] = Rows(plan.reservoir, self._table)
        if self._prepare(plan, rows, x, base):
            truth = float(y) if self.model.task == "regression" else float(self.image.codes.get(y, -1))
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
            image = self.image
            if not image.sync() or not (regression or list(base) == image.labels):  # type: ignore[arg-type]
                return False
            if self._bound is not image.arrays:
                self._bound = image.arrays
                self._own = np.empty(len(image.labels))
                self._view = self._own.data
                self._format = struct.Struct(f"{len(image.labels)}d")
            self._format.pack_into(self._view, 0, *((base,) if regression else base.values()))  # type: ignore[union-attr]
            self._base = base
        if row is not table.buffer or len(row) != rows.matrix.shape[1]:
            return False
        plan.bind(table)
        if plan.image is not self._bound or plan.matrix is not rows.matrix:
            plan.image, plan.matrix = self._bound, rows.matrix
            joining = (plan.outside, plan.first, plan.order, plan.before, plan.pairs)
            plan.arguments = (
                self._state, row, rows.matrix, len(rows.matrix), plan.starts, plan.columns, plan.n_samples,
                *self._bound, *self.constants, self._own, plan.codes, plan.delta, *(joining if len(plan.pairs) else ()),
            )  # fmt: skip
        return True

    def _run(self, plan: Plan, x: Row, rows: Rows, y: float, joining: bool) -> bool:
        """Fill ``plan.delta``: iSAGE's where players are ``joining``, else iPFI's. False where something needs Python."""
        raise NotImplementedError
