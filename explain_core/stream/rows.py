"""Records that wait for an attribution, in few objects: a window is thousands of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import orjson

from explain_core.drift.windows import Window
from explain_core.models import Row
from explain_core.state import Count, StateError, Value, check, check_row
from explain_core.stream.events import Extent, Record

STORED = tuple[
    list[tuple[Count, tuple[str, ...], list[Value]]],
    list[Count],
    list[int],
    list[Value],
    list[float],
    list[str | None],
]
"""Runs, and the other lists of ``Rows``, as JSON may hold them."""


class Rows:
    """Records in the order of their offsets: event times, truths, the losses of the model before it learnt from them, and the versions
    of the model that served them.

    Consecutive records with the same features are a run: the position of the first, the features, and the values of one record after
    another.
    """

    def __init__(self) -> None:
        self._packed: bytes | None = None
        self._runs: list[tuple[int, tuple[str, ...], list[Any]]] = []
        self._features: tuple[str, ...] | None = None
        self._values: list[Any] = []
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self.truths: list[Any] = []
        self.losses: list[float] = []
        self.versions: list[str | None] = []

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, record: Record, loss: float) -> None:
        """Add a record with the loss of its prediction."""
        self._add(record.offset, record.timestamp, record.x, record.y, loss, record.version)

    def _add(self, offset: int, timestamp: int, x: Row, y: Any, loss: float, version: str | None) -> None:
        features = tuple(x)
        if features != self._features:
            self._features, self._values = features, []
            self._runs.append((len(self.offsets), features, self._values))
        self._values += x.values()
        self.offsets.append(offset)
        self.timestamps.append(timestamp)
        self.truths.append(y)
        self.losses.append(loss)
        self.versions.append(version)

    def records(self) -> Iterator[dict[str, Any]]:
        for (_, features, values), count in zip(self._runs, self._counts(), strict=True):
            k = len(features)
            for i in range(count):
                yield dict(zip(features, values[i * k : (i + 1) * k], strict=True))

    def extend(self, other: Rows, positions: Sequence[int]) -> None:
        """Add the records at these positions of the other."""
        records = list(other.records()) if positions else []
        for i in positions:
            self._add(
                other.offsets[i],
                other.timestamps[i],
                records[i],
                other.truths[i],
                other.losses[i],
                other.versions[i],
            )

    def take(self, positions: Sequence[int]) -> Rows:
        """The records at these positions."""
        if len(positions) == len(self):
            return self
        found = Rows()
        found.extend(self, positions)
        return found

    def window(self) -> Window:
        """By columns; a feature that a record lacks is None there."""
        names = tuple(dict.fromkeys(name for _, features, _ in self._runs for name in features))
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for (_, features, values), count in zip(self._runs, self._counts(), strict=True):
            at = {name: j for j, name in enumerate(features)}
            for name, column in columns.items():
                column += values[at[name] :: len(features)] if name in at else [None] * count
        return Window("", names, self.truths, given=columns)

    def about(
        self, number: int, records: int, late: int, version: str | None, of_other_versions: int
    ) -> Extent:
        """The window whose first and last record are those of the rows."""
        offsets, timestamps = self.offsets, self.timestamps
        span = offsets[0], offsets[-1], timestamps[0], timestamps[-1]
        return Extent(number, records, late, version, of_other_versions, *span)

    def pack(self) -> bytes:
        """JSON of ``STORED``."""
        return self._packed or orjson.dumps(
            (self._runs, self.offsets, self.timestamps, self.truths, self.losses, self.versions)
        )

    def closed(self) -> Rows:
        """The same rows as bytes that wait for ``read``, and nothing else."""
        found = Rows()
        found._packed = self.pack()
        return found

    def read(self) -> Rows:
        """The rows, of closed ones a copy that is open."""
        return self if self._packed is None else self._of(orjson.loads(self._packed))

    @classmethod
    def restored(cls, packed: bytes, task: str, classes: int) -> Rows:
        """From a snapshot. Raises ``StateError`` for rows that the decoder would not have let pass."""
        try:
            stored = msgspec.json.decode(packed, type=STORED)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateError(f"rows: {error}") from None
        runs, *others = stored
        n = len(others[0])
        check(all(len(part) == n for part in others), "rows: lists of different lengths")
        starts = [first for first, _, _ in runs]
        check(starts[:1] == [0][:n] and sorted({*starts}) == starts, "rows: runs that are not in order")
        check(all(first < n for first in starts), "rows: a run without records")
        found = cls._of(stored)
        for (_, features, values), count in zip(runs, found._counts(), strict=True):
            check(len({*features}) == len(features), "rows: a feature twice")
            check(len(values) == count * len(features), "rows: a value too many or too few")
        for before, after in pairwise(found.offsets):
            check(before < after, "rows: not in the order of their offsets")
        for x, y, loss in zip(found.records(), found.truths, found.losses, strict=True):
            check_row("rows", x)
            check(math.isfinite(loss), "rows: a loss that is not finite")
            numeric = isinstance(y, int | float) and not isinstance(y, bool)
            check(numeric and (task == "regression" or y in range(classes)), f"rows: a truth {y!r}")
        return found

    @classmethod
    def _of(cls, stored: Any) -> Rows:
        found = cls()
        runs, found.offsets, found.timestamps, found.truths, found.losses, found.versions = stored
        found._runs = [(first, tuple(features), values) for first, features, values in runs]
        if found._runs:
            _, found._features, found._values = found._runs[-1]
        return found

    def _counts(self) -> list[int]:
        """Records of each run."""
        starts = [*(first for first, _, _ in self._runs), len(self)]
        return [end - first for first, end in pairwise(starts)]
