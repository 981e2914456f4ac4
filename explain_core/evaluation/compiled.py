"""What the compiled evaluators share: records as rows of numbers, and the way back to Python."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.kernels import AVAILABLE
from explain_core.evaluation.plan import Plan
from explain_core.evaluation.table import Array, Rows, Table
from explain_core.losses import Prediction
from explain_core.models import Model, Row

_STATES = struct.Struct("2Q")


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

    Where several plans ask about a record, the image of the model is brought up to date once. A classifier's prediction is a
    dictionary that is new for each record, so that the same one says that nothing has been learnt in between.
    """

    image: Image
    constants: tuple[Any, ...] = ()
    """What the kernels are called with after the image's arrays."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._table = Table()
        self._rows: dict[int, Rows] = {}
        self._base: Prediction | None = None
        self._own: Array = np.empty(0)
        self._bound: Any = None
        self._regression = model.task == "regression"

    def explain(self, plan: Plan, x: Row, y: Any, base: Prediction) -> bool:
        if not AVAILABLE or plan.codes is None:
            return False
        if self._prepare(plan, x, base):
            truth = float(y) if self._regression else float(self.image.codes.get(y, -1))
            pfi, sage, state = plan.pfi.rng, plan.sage.rng, plan.state
            _STATES.pack_into(state.data, 0, pfi.state, sage.state)
            if self._run(plan, x, truth):
                pfi.state, sage.state = state.tolist()
                return True
        self.fallbacks += 1
        return False

    def _prepare(self, plan: Plan, x: Row, base: Prediction) -> bool:
        table = self._table
        plan.bind(table)
        rows = self._rows.get(id(plan.reservoir))
        if rows is None:
            rows = self._rows[id(plan.reservoir)] = Rows(plan.reservoir, table)
        if not rows.sync():
            return False
        row, self._ordered = table.row(x)
        if row is None:
            return False
        if base is not self._base or self._regression:
            self._base = None
            image = self.image
            mapping = type(base) is dict or isinstance(base, Mapping)
            if not image.sync() or not (self._regression or (mapping and list(base) == image.labels)):  # type: ignore[arg-type]
                return False
            if self._bound is not image.arrays:
                self._bound = image.arrays
                self._own = np.empty(len(image.labels))
                self._view = self._own.data
                self._format = struct.Struct(f"{len(image.labels)}d")
            try:
                self._format.pack_into(self._view, 0, *((base,) if self._regression else base.values()))  # type: ignore[union-attr]
            except struct.error:  # what is no number is for Python to refuse
                return False
            self._base = base
        if row is not table.buffer or len(row) != rows.matrix.shape[1]:
            return False
        empty = plan.sage.empty
        if plan.image is not self._bound or plan.matrix is not rows.matrix:
            plan.bind(table)
            plan.image, plan.matrix, plan.held = self._bound, rows.matrix, None
            plan.empty = np.empty(0 if empty is None else 1 + len(self.image.labels))
            plan.arguments = (
                plan.state, row, rows.matrix, len(rows.matrix), plan.starts, plan.columns, plan.outside, self._own,
                plan.codes, *plan.smoothing(), plan.order, plan.pairs, plan.empty, *self._bound, *self.constants,
            )  # fmt: skip
        if empty is not plan.held:
            plan.sage.empty = plan.held = empty and empty.within(plan.empty, self.image.labels)
            return empty is None or plan.held is not None
        return True

    def _run(self, plan: Plan, x: Row, y: float) -> bool:
        """Take the Δ of the plan's parts in. False, and only ``plan.state`` may have changed, where something needs Python."""
        raise NotImplementedError
