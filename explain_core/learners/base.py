"""What every learner is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from explain_core.learners.arrays import Array, Arrays
from explain_core.learners.columns import Columns
from explain_core.losses import Prediction, Task
from explain_core.models import Model, Row


class Learner(Model):
    """A model that learns in flat arrays, made from a river model that has learnt nothing.

    It repeats river's arithmetic, operation by operation, so that predictions have the same bits and the same order of labels;
    a record's features are taken in the order of the columns, whatever the order in the record. ``arrays`` and ``header``
    are the whole state.
    """

    kind: ClassVar[str]
    """Names the family in snapshots and metadata."""

    columns: Columns
    arrays: Arrays
    labels: list[Any]
    """Classes in order of appearance; a class's code is its index. A regression has none."""

    def __init__(self, model: Any, task: Task, columns: Columns | None = None) -> None:
        super().__init__(model, task)
        self.columns = columns or Columns()
        self.labels = []
        self.codes: dict[Any, int] = {}

    def encoded(self, x: Row) -> NDArray[np.float64]:
        """The record as a row of ``columns``, with room in the arrays for all that is new in it; good until the next one."""
        raise NotImplementedError

    def predict(self, x: Row) -> Prediction:
        raise NotImplementedError

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        raise NotImplementedError

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions for rows that ``encoded`` has made: probabilities, rows × classes in the order of the codes, or numbers, rows × 1."""
        raise NotImplementedError

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        return [self.predict(x) for x in rows]

    @property
    def takes_weight(self) -> bool:
        return True

    def header(self) -> dict[str, Any]:
        """What belongs to the state besides the arrays, as plain types."""
        return {"kind": self.kind, "columns": self.columns.state(), "labels": list(self.labels)}

    def restore(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take a stored state on. Raises ``ValueError``, and nothing has changed, where it is not one of this learner."""
        raise NotImplementedError

    def code(self, label: Any) -> int:
        """The code of a class, a new one where it was not met."""
        found = self.codes.get(label)
        if found is None:
            found = self.codes[label] = len(self.labels)
            self.labels.append(label)
        return found
