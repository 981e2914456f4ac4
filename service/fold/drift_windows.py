"""Drift windows: the records of a partition in tumbling windows, and why the risk changed from each to the next.

A window ends with its ``drift.window``-th record, and with ``drift.period`` also before the first record whose event time
is past the next multiple of that period.

Where versions of the model take turns, a window has the records of the version that served most of them, each with the loss
of that version. The change from one version to another is then the model's part.

A record from before the current period is late: it is learnt and explained as any other, and counted in the window, but is
not one of its records. When more than ``drift.window`` of them have come, the leap was the clock's that led to the current
period: a new window begins with the next record, wherever it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from explain_core.losses import Prediction
from explain_core.models import Model
from explain_core.state import Count, State, StateError, Unpack, Value, check, check_row
from service.fold.attribution import Attribution, Rows, window_content
from service.fold.models import ModelData
from service.fold.records import Sample
from service.settings import Settings

STORED_ROWS = list[tuple[dict[str, Value], Value, float, str | None]]
"""``Rows``, as JSON may hold them."""


class WindowData(State, frozen=True):
    """A window in a snapshot; ``rows`` is JSON, ``STORED_ROWS``."""

    number: Count
    model: ModelData | None
    period: int
    late: Count
    rows: bytes
    first: tuple[int, int]
    last: tuple[int, int]


class WindowsData(State, frozen=True):
    """The current window and the one before."""

    current: WindowData | None
    baseline: WindowData | None


class Window:
    """Records, and the model from before the first of them: it has learnt from none of what it will be judged by."""

    def __init__(self, number: int, model: ModelData | None, period: int) -> None:
        self.number = number
        self.model = model
        self.period = period
        self.records = 0
        self.late = 0
        self.rows: Rows | bytes = []
        self.versions: Counter[str | None] = Counter()
        self.first: tuple[int, int] = (0, 0)
        self.last: tuple[int, int] = (0, 0)

    def state(self) -> WindowData:
        packed = self.rows if isinstance(self.rows, bytes) else orjson.dumps(self.rows)
        return WindowData(self.number, self.model, self.period, self.late, packed, self.first, self.last)

    @classmethod
    def restored(cls, data: WindowData, task: str, classes: int) -> Window:
        """The window of a stored state, with its rows still to be added. Raises ``StateError`` where they are invalid."""
        try:
            rows = msgspec.json.decode(data.rows, type=STORED_ROWS)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateError(f"windows: rows: {error}") from None
        check_rows(rows, task, classes)
        window = cls(data.number, data.model, data.period)
        window.late, window.first, window.last = data.late, data.first, data.last
        window.records, window.rows = len(rows), list(rows)
        window.versions = Counter(version for *_, version in rows)
        return window

    def add(self, offset: int, sample: Sample, y: Any, loss: float) -> None:
        assert isinstance(self.rows, list)
        self.rows.append((sample.x, y, loss, sample.version))
        self.versions[sample.version] += 1
        self.last = (offset, sample.timestamp)
        if not self.records:
            self.first = self.last
        self.records += 1

    @property
    def version(self) -> str | None:
        """The version that served most of the records, of several the one that came first."""
        return max(self.versions, key=lambda version: self.versions[version], default=None)

    @property
    def name(self) -> str:
        """In a sentence."""
        return f"window {self.number}" + ("" if self.version is None else f" (version {self.version})")

    def close(self) -> None:
        """Make it small: the rows wait as bytes for the end of the next window."""
        self.rows = orjson.dumps(self.rows)

    def read(self) -> Rows:
        """The rows that ``version`` served."""
        rows: Rows = orjson.loads(self.rows) if isinstance(self.rows, bytes) else self.rows
        return rows if len(self.versions) < 2 else [row for row in rows if row[3] == self.version]

    def content(self) -> dict[str, Any]:
        """The window in a drift message."""
        served = self.versions[self.version]
        return window_content(
            self.number,
            served,
            self.first,
            self.last,
            late=self.late,
            version=self.version,
            of_other_versions=self.records - served,
        )


def check_rows(rows: Rows, task: str, classes: int) -> None:
    """Raise ``StateError`` for rows that the decoder would not have let pass."""
    for x, y, loss, _ in rows:
        check_row("windows", x)
        check(math.isfinite(loss), "windows: a loss that is not finite")
        numeric = isinstance(y, int | float) and not isinstance(y, bool)
        check(numeric and (task == "regression" or y in range(classes)), f"windows: a truth {y!r}")


class Windows:
    """The current window of a partition and the one before, both part of the partition's state.

    ``versions`` gives the model of a version that ``named`` has, where records name versions.
    """

    def __init__(
        self, settings: Settings, seed: int, model_seed: int, versions: Callable[[str], Model] | None = None
    ) -> None:
        self._versions = versions
        self.current: Window | None = None
        self.baseline: Window | None = None
        self._settings = settings.drift
        self._attribution = Attribution(settings, seed, model_seed)
        self._static = settings.model.static
        self._task = settings.model.task

    def state(self) -> WindowsData:
        return WindowsData(
            *(None if window is None else window.state() for window in (self.current, self.baseline))
        )

    def restore(self, data: WindowsData, classes: int, unpack: Unpack) -> None:
        """Restore a stored state. Raises ``StateError`` where it is invalid."""
        self.current, self.baseline = (
            None if window is None else Window.restored(window, self._task, classes)
            for window in (data.current, data.baseline)
        )
        for window in (self.current, self.baseline):
            if window is not None and window.model is not None:
                self._attribution.thaw(window.model, unpack)
        if self.baseline is not None:
            check(self.baseline.records > 0, "windows: a closed one without records")
            self.baseline.close()

    @property
    def named(self) -> set[str | None]:
        """The versions of the model that served the records of both windows."""
        return {version for window in (self.current, self.baseline) if window for version in window.versions}

    def before(self, sample: Sample, model: Model) -> dict[str, Any] | None:
        """Note a record before the model learns from it; returns the message of the window that it ends, if any."""
        period = self._settings.period
        now = sample.timestamp // int(1_000 * period) if period else 0
        ended, current = None, self.current
        if current is not None and (now > current.period or current.late > self._settings.window):
            ended, current = self._end(current, model), None
        if current is None:
            self._begin(model, now)
        return ended

    def add(
        self, offset: int, sample: Sample, y: Any, prediction: Prediction, model: Model
    ) -> dict[str, Any] | None:
        """Add a record; returns the window's message if the window is now complete."""
        current, period = self.current, self._settings.period
        assert current is not None
        if period and sample.timestamp // int(1_000 * period) < current.period:
            current.late += 1
            return None
        current.add(offset, sample, y, self._attribution.loss(y, prediction))
        return self._end(current, model) if current.records == self._settings.window else None

    def _begin(self, model: Model, period: int) -> None:
        number = self.baseline.number + 1 if self.baseline else 0
        # The first window's model has learnt from nothing: it has no change to report.
        self.current = Window(number, self._attribution.freeze(model, number == 0), period)

    def _end(self, window: Window, model: Model) -> dict[str, Any] | None:
        baseline, content = self.baseline, None
        if baseline is not None and (self._static or baseline.model is not None):
            content = {
                "baseline": baseline.content(),
                "target": window.content(),
                "alarm": None,
                **self._attribution.content(
                    baseline.read(),
                    window.read(),
                    self._hypothesis(baseline, window, model),
                    (baseline.name, window.name),
                    window.number,
                ),
            }
        window.close()
        self.baseline, self.current = window, None
        return content

    def _hypothesis(self, baseline: Window, target: Window, model: Model) -> Model | tuple[Model, Model]:
        if self._versions is not None and baseline.version is not None and target.version is not None:
            return self._versions(baseline.version), self._versions(target.version)
        if baseline.model is None or target.model is None:
            return model
        return self._attribution.thaw(baseline.model), self._attribution.thaw(target.model)
