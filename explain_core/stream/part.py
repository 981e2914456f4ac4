"""What may be kept of a stream besides its model: each a part with a state of its own, which sees every record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explain_core.alarms.detector import Position
from explain_core.foreign import dumps
from explain_core.losses import Prediction
from explain_core.models import Model
from explain_core.state import Pack, State, Unpack
from explain_core.stream.events import Alarm, Event, Learnt, Record


class Part:
    """Sees a record in three moments, in this order; each may tell of it. A part that does nothing at one of them leaves it out."""

    def predicted(self, record: Record, prediction: Prediction, model: Model) -> Sequence[Event]:
        """The model has predicted the record, and has not learnt from it yet."""
        return ()

    def learnt(self, records: Sequence[Record], learnt: Learnt) -> Sequence[Alarm]:
        """The model has learnt from consecutive records."""
        return ()

    def answers(self, record: Record, model: Model, alarms: Sequence[Alarm], first: int) -> Sequence[Event]:
        """The record has raised these alarms, the first of which is the ``first``-th of the stream, from 0."""
        return ()

    def rejected(self, position: Position) -> Sequence[Alarm]:
        """There was a record that could not be read."""
        return ()

    def room(self, timestamps: Sequence[int], before: int) -> int:
        """How many of the next records, which have these event times, it takes in by ``predicted`` without telling of one, or needing the model, and by
        ``learnt`` so that the last one alone may raise alarms; 0 where it has to see one at a time. ``before``: how many their model has taken in.
        """
        return 0

    @property
    def versions(self) -> frozenset[str | None]:
        """The versions of the model whose models it still needs."""
        return frozenset()

    def state(self, pack: Pack = dumps) -> State:
        """The state as data; ``pack`` stores what only foreign code understands."""
        raise NotImplementedError

    def restore(self, data: Any, classes: int, unpack: Unpack) -> None:
        """Restore a stored state, before the first record and after the model's. Raises ``StateError`` where it is invalid."""
        raise NotImplementedError
