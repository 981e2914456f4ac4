"""What every learner is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from explain_core.engine import stream
from explain_core.learners.arrays import Array, Arrays
from explain_core.learners.columns import Columns, ColumnsState
from explain_core.losses import Prediction, Task
from explain_core.models import Model, Row
from explain_core.state import Block, Count, NewerState, State, Value, block, check

NUMBER = [None]
"""The order of the classes of a prediction that is a number."""


class LearnerState(State, frozen=True):
    """A learner as data; the parameters are those of the river model that it is made from. ``version`` is that of its family's arrays."""

    kind: str
    columns: ColumnsState
    labels: list[Value]
    arrays: dict[str, Block]
    version: Count = 1


class Learner(Model):
    """A model that learns in flat arrays, made from a river model that has learnt nothing.

    It repeats river's arithmetic, operation by operation, so that predictions have the same bits and the same order of labels.
    It takes a record's features in the order of the columns, whatever the order in the record. ``state()`` is all that it knows.

    A family whose arrays change counts ``version`` up, and adds to ``migrations`` under the old number a function from a state of it
    to one of the next version. No migration is ever taken away.
    """

    kind: str
    """Names the family in snapshots and metadata."""
    version: ClassVar[int] = 1
    migrations: ClassVar[Mapping[int, Callable[[LearnerState], LearnerState]]] = {}
    family: ClassVar[int | None] = None
    """Of ``explain_core.engine.stream``, whose code explains it from its arrays; None where its predictions are asked for one by one."""

    columns: Columns
    arrays: Arrays
    labels: list[Any]
    """Classes in order of appearance; a class's code is its index. A regression has none."""

    def __init__(self, model: Any, task: Task, columns: Columns | None = None) -> None:
        super().__init__(model, task)
        self.columns = columns or Columns()
        self.labels = []
        self.codes: dict[Any, int] = {}

    @property
    def title(self) -> str:
        return str(getattr(self.wrapped, "title", super().title))

    def encoded(self, x: Row) -> NDArray[np.float64]:
        """The record as a row of ``columns``, with room in the arrays for all that is new in it; good until the next one."""
        row = self.columns.row(x)
        self.fit_columns()
        return row

    def matrix(self, records: Sequence[Row]) -> NDArray[np.float64]:
        """Records × ``columns``; features that are new get theirs first."""
        self.columns.add(name for x in records for name in x)
        found = np.empty((len(records), len(self.columns.names)))
        for i, x in enumerate(records):
            found[i] = self.encoded(x)
        return found

    @property
    def order(self) -> Sequence[Any] | None:
        """The classes in the order of the next prediction, None alone for a number; None where only the prediction tells."""
        return NUMBER if self.task == "regression" else self.labels

    def predict(self, x: Row) -> Prediction:
        self.encoded(x)
        out = self.predict_codes(self.columns.rows)[0].tolist()
        if self.task == "regression":
            return out[0]  # type: ignore[no-any-return]
        return {self.labels[code]: out[code] for code in self._predicted()}

    def _predicted(self) -> Iterable[int]:
        """The codes of the classes in the order of a prediction."""
        return range(len(self.labels))

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Predictions of rows of ``columns``, rows × classes in ``order``; None where it can only predict records one by one."""
        return None if self.family is None else self.predict_codes(rows)

    def predict_codes(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions of rows of ``columns``, rows × classes by their codes, or rows × 1."""
        self.fit_columns()
        out = np.empty((len(rows), len(self.labels) if self.task == "classification" else 1))
        assert self.family is not None
        stream.predict(self.family, self.arrays.table, rows, out)
        return out

    def fit_columns(self) -> None:
        """Make room in the arrays for all columns and categories."""
        raise NotImplementedError

    def enter(self, label: Any) -> None:
        """Make room for a class, before it is learnt."""
        raise NotImplementedError

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        raise NotImplementedError

    def make_room(self, leaves: int, features: int, member: int = 0) -> None:
        """Room in trees, for so many leaves that learn a record of so many features; ``member`` of a mixture."""
        raise NotImplementedError

    @property
    def takes_weight(self) -> bool:
        return True

    def state(self) -> LearnerState:
        return LearnerState(
            self.kind,
            self.columns.state(),
            list(self.labels),
            {name: block(array) for name, array in self._stored().items()},
            self.version,
        )

    def restore(self, state: LearnerState) -> None:
        """Take a stored state on, before the first record. Raises ``StateError`` where it is none of such a model."""
        check(
            state.kind == self.kind,
            f"model: the state of a {state.kind} learner instead of a {self.kind} one",
        )
        state = self.migrated(state)
        check(len(set(state.labels)) == len(state.labels), "model: a class twice")
        self.columns.restore(state.columns)
        self.labels = list(state.labels)
        self.codes = {label: code for code, label in enumerate(self.labels)}
        self._adopt(state.arrays)

    def follows(self, before: Learner) -> bool:
        """Whether this one goes on with what one of other parameters has learnt: they differ in those alone that may change meanwhile.

        Neither has learnt anything itself.
        """
        return False

    def taken_on(self, state: LearnerState) -> LearnerState:
        """A stored state of a learner that this one follows, with this one's parameters."""
        return state

    def migrated(self, state: LearnerState) -> LearnerState:
        """A stored state as one of this version. Raises ``NewerState`` where a later one stored it."""
        if state.version > self.version:
            raise NewerState(
                f"the {self.kind} learner: version {state.version}, and this software knows versions up to {self.version}"
            )
        check(
            state.version >= 1, f"the {self.kind} learner: version {state.version}, and versions begin with 1"
        )
        for version in range(state.version, self.version):
            state = self.migrations[version](state)
        return state

    def _stored(self) -> dict[str, Array]:
        """The arrays that are state, without the room that is left in them."""
        raise NotImplementedError

    def _adopt(self, blocks: dict[str, Block]) -> None:
        """Take stored arrays on for the columns and labels that are there. Raises ``StateError`` where they do not fit."""
        raise NotImplementedError

    def code(self, label: Any) -> int:
        """The code of a class, a new one where it was not met."""
        found = self.codes.get(label)
        if found is None:
            found = self.codes[label] = len(self.labels)
            self.labels.append(label)
        return found
