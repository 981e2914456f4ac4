"""Predictions that were told of records without a label, until a record with the same id brings it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Integral
from typing import Annotated

import msgspec

from explain_core.losses import Prediction
from explain_core.state import Count, State, check


class Earlier(State, frozen=True):
    """A prediction that was told: of the record with that id and offset, a number, or (code, probability) of each class that it named."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    offset: Count
    timestamp: int
    value: float | None
    shares: list[tuple[Count, float]]

    @property
    def prediction(self) -> Prediction:
        return dict(self.shares) if self.value is None else self.value


class WaitingPredictions:
    """At most so many, the oldest first; of several with the same id the newest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_id: dict[str, Earlier] = {}

    def __contains__(self, id: str | None) -> bool:
        return id in self._by_id

    def add(self, id: str | None, offset: int, timestamp: int, prediction: Prediction) -> None:
        """Of a record without an id nothing is kept."""
        if not id or self._most == 0:
            return
        self._by_id.pop(id, None)
        if len(self._by_id) == self._most:
            del self._by_id[next(iter(self._by_id))]
        classes = isinstance(prediction, Mapping)
        shares = [(int(code), p) for code, p in prediction.items() if isinstance(code, Integral)] if isinstance(prediction, Mapping) else []  # fmt: skip
        self._by_id[id] = Earlier(id, offset, timestamp, None if classes else float(prediction), shares)  # type: ignore[arg-type]

    def pop(self, id: str | None) -> Earlier | None:
        """The prediction of that id, which then waits no more."""
        return None if id is None else self._by_id.pop(id, None)

    def state(self) -> list[Earlier]:
        return list(self._by_id.values())

    def restore(self, stored: Sequence[Earlier], next_offset: int) -> None:
        """Raises ``StateError`` where the state is not of such settings."""
        check(len(stored) <= self._most, "waiting: more than may wait")
        for one in stored:
            check(one.id not in self._by_id, "waiting: an id twice")
            check(one.offset < next_offset, "waiting: of a record that is still to come")
            check(one.value is None or (isfinite(one.value) and not one.shares), "waiting: no prediction")
            check(all(isfinite(p) for _, p in one.shares), "waiting: no probabilities")
            check(len(dict(one.shares)) == len(one.shares), "waiting: a class twice")
            self._by_id[one.id] = one
