"""Reasons of the predictions of trained ensembles of trees: exact in the margin; see ``explain_core/engine/reasons.pyx``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from explain_core.artefacts.ensemble import Ensemble, TreeEnsemble, walked
from explain_core.engine import reasons as engine
from explain_core.models import Row
from explain_core.reasons.result import Array, Method, Reasons, Space

MANY = 32
"""Records from which on it pays to make each tree's tables."""
AT_ONCE = 2**20
"""Records × rows of the background whose slopes are known at a time."""
MAX_BYTES = 2**28
"""Of the ways that the rows of the background take at the nodes."""
SAME = 1e-12
"""Margins that are not further apart are the same: their difference is rounding."""


def _sigmoid(ensemble: Ensemble) -> Callable[[Array], Array]:
    return lambda margin: 1.0 / (1.0 + np.exp(-ensemble.number * margin))


_CURVES: dict[str, Callable[[Ensemble], Callable[[Array], Array]]] = {
    "sigmoid": _sigmoid,
    "each_sigmoid": _sigmoid,
    "exp": lambda ensemble: np.exp,
    "square": lambda ensemble: lambda margin: np.copysign(margin * margin, margin),
    "log1p_exp": lambda ensemble: lambda margin: np.log1p(np.exp(margin)),
}
"""Links of one margin that are no straight line."""


def scale_of(ensemble: Ensemble) -> float | None:
    """The factor between margin and prediction, None where there is none."""
    if ensemble.link in ("identity", "complement"):
        return 1.0
    if ensemble.link == "mean":
        return 1.0 / ensemble.number
    if ensemble.link == "share" and not any(ensemble.base):
        sums = [tree.values[tree.left < 0].sum(axis=1) for tree in ensemble.trees]
        if all(np.allclose(of_tree, of_tree[0], rtol=1e-12, atol=0.0) for of_tree in sums):
            return 1.0 / float(sum(of_tree[0] for of_tree in sums))
    return None


class TreeReasons:
    """Of an ensemble and a background. ``fits`` says whether it can be asked for."""

    def __init__(self, model: TreeEnsemble, background: Sequence[Row], space: Space) -> None:
        self.model, self.space = model, space
        ensemble: Ensemble = model.wrapped
        self.scale = 1.0 if space == "margin" else scale_of(ensemble)
        self.curve = None if self.scale is not None else _CURVES[ensemble.link](ensemble)
        self.method: Method = "rescaled" if self.curve else "exact"
        self.features = tuple(model.features)
        self.arrays = walked(ensemble)
        self.n_outputs = len(ensemble.base)
        self.both = self.n_outputs == 1 and len(model.classes) == 2
        """Whether one margin stands for two classes."""
        self.rows = model.matrix(background)
        shape = len(self.arrays["nodes"]), -(-len(background) // 64)
        if 8 * shape[0] * shape[1] > MAX_BYTES:
            raise ValueError(
                f"background: {len(background):,} rows at {shape[0]:,} nodes of trees take more than {MAX_BYTES // 2**20} MiB; "
                f"give {64 * (MAX_BYTES // (8 * shape[0])):,} or fewer"
            )
        self.right = np.zeros(shape, np.uint64)
        for slot, row in enumerate(self.rows):
            engine.note(self.arrays.table, row, slot, self.right)
        self.margins = self._margins(self.rows)

    @staticmethod
    def fits(model: TreeEnsemble, space: Space) -> bool:
        ensemble: Ensemble = model.wrapped
        curved = ensemble.link in _CURVES and len(ensemble.base) == 1
        return space == "margin" or curved or scale_of(ensemble) is not None

    def replace(self, slot: int, x: Row) -> None:
        self.rows[slot] = self.model.matrix([x])[0]
        engine.note(self.arrays.table, self.rows[slot], slot, self.right)
        self.margins[slot] = self._margins(self.rows[slot : slot + 1])[0]

    def explain(self, records: Sequence[Row]) -> Reasons:
        rows = self.model.matrix(records)
        margins = self._margins(rows)
        values = np.empty((len(rows), len(self.features), self.n_outputs))
        if self.curve is None:
            assert self.scale is not None
            predicted, background = margins * self.scale, self.margins * self.scale
            explain = engine.by_tables if len(rows) >= MANY else engine.by_walks
            if values.size:
                explain(self.arrays.table, rows, self.right, len(self.rows), values)
            values *= self.scale
        else:
            predicted, background = self.curve(margins), self.curve(self.margins)
            step = max(AT_ONCE // len(self.rows), 1)
            for part in (
                slice(first, first + step) for first in range(0, len(rows) if values.size else 0, step)
            ):
                weights = _slopes(margins[part], self.margins, predicted[part], background) / len(self.rows)
                engine.by_walks(
                    self.arrays.table, rows[part], self.right, len(self.rows), values[part], weights
                )
        baseline = background.mean(axis=0)
        outputs = tuple(self.model.classes if self.model.task == "classification" else [None])
        if self.both:
            if self.space == "margin":
                outputs = outputs[1:]
            else:
                values = np.concatenate([-values, values], axis=2)
                predicted = np.concatenate([1.0 - predicted, predicted], axis=1)
                baseline = np.concatenate([1.0 - baseline, baseline])
        return Reasons(
            self.features,
            outputs,
            values,
            np.zeros_like(values),
            predicted,
            baseline,
            self.space,
            self.method,
        )

    def _margins(self, rows: Array) -> Array:
        out = np.empty((len(rows), self.n_outputs))
        engine.margins(self.arrays.table, rows, out)
        return out


def _slopes(margins: Array, others: Array, predicted: Array, background: Array) -> Array:
    """The change of the prediction per change of the margin, from each row of the background to each record: records × rows."""
    change = margins - others.T
    slopes: Array = np.divide(
        predicted - background.T, change, out=np.zeros_like(change), where=np.abs(change) > SAME
    )
    return slopes
