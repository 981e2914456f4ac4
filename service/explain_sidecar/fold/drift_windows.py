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

from collections import Counter
from collections.abc import Callable
from typing import Any

from explain_core.losses import Prediction
from explain_core.models import Model
from explain_core.state import Count, State, Unpack, check
from explain_sidecar.fold.attribution import Attribution, window_content
from explain_sidecar.fold.models import ModelData
from explain_sidecar.fold.records import Sample
from explain_sidecar.fold.rows import Rows
from explain_sidecar.settings import Settings


class WindowData(State, frozen=True):
    """A window in a snapshot; ``rows`` is what ``Rows.pack`` returns."""

    number: Count
    model: ModelData | None
    period: int
    late: Count
    rows: bytes


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
        self.late = 0
        self.versions: Counter[str | None] = Counter()
        self.rows = Rows()

    def state(self) -> WindowData:
        return WindowData(self.number, self.model, self.period, self.late, self.rows.pack())

    @classmethod
    def restored(cls, data: WindowData, task: str, classes: int) -> Window:
        """The window of a stored state. Raises ``StateError`` where its rows are invalid."""
        window = cls(data.number, data.model, data.period)
        rows = Rows.restored(data.rows, task, classes)
        window.late, window.rows, window.versions = data.late, rows, Counter(rows.versions)
        return window

    def add(self, offset: int, sample: Sample, y: Any, loss: float) -> int:
        """Returns the number of records."""
        self.rows.add(offset, sample.timestamp, sample.x, y, loss, sample.version)
        self.versions[sample.version] += 1
        return len(self.rows.offsets)

    @property
    def version(self) -> str | None:
        """The version that served most of the records, of several the one that came first."""
        return max(self.versions, key=lambda version: self.versions[version], default=None)

    @property
    def name(self) -> str:
        """In a sentence."""
        return f"window {self.number}" + ("" if self.version is None else f" (version {self.version})")

    def read(self) -> tuple[Rows, dict[str, Any]]:
        """The rows that ``version`` served, and the window in a drift message."""
        rows = self.rows.read()
        most = self.version
        served = [i for i, version in enumerate(rows.versions) if version == most]
        content = window_content(
            self.number,
            rows,
            records=len(served),
            late=self.late,
            version=most,
            of_other_versions=len(rows) - len(served),
        )
        return rows.take(served), content


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
        self._size = settings.drift.window
        self._period = int(1_000 * settings.drift.period) if settings.drift.period else 0
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
            check(bool(self.baseline.versions), "windows: a closed one without records")
            self.baseline.rows = self.baseline.rows.closed()

    @property
    def named(self) -> set[str | None]:
        """The versions of the model that served the records of both windows."""
        return {version for window in (self.current, self.baseline) if window for version in window.versions}

    def fold(
        self, offset: int, sample: Sample, y: Any, prediction: Prediction, model: Model
    ) -> list[dict[str, Any]]:
        """Add a record before the model learns from it; returns the messages of the window that ends before it, and of the one it ends."""
        current, period, size = self.current, self._period, self._size
        now = sample.timestamp // period if period else 0
        found: list[dict[str, Any]] = []
        if current is not None and (now > current.period or current.late > size):
            found += self._end(current, model)
            current = None
        if current is None:
            number = self.baseline.number + 1 if self.baseline else 0
            # The first window's model has learnt from nothing: it has no change to report.
            self.current = current = Window(number, self._attribution.freeze(model, number == 0), now)
        if now < current.period:
            current.late += 1
        elif current.add(offset, sample, y, self._attribution.loss(y, prediction)) == size:
            found += self._end(current, model)
        return found

    def _end(self, window: Window, model: Model) -> list[dict[str, Any]]:
        """Close the window; returns why the risk changed, if that can be known."""
        baseline, found = self.baseline, []
        if baseline is not None and (self._static or baseline.model is not None):
            (before, first), (after, second) = baseline.read(), window.read()
            hypothesis, names = self._hypothesis(baseline, window, model), (baseline.name, window.name)
            content = self._attribution.content(before, after, hypothesis, names, window.number)
            found = [{"baseline": first, "target": second, "alarm": None, **content}]
        window.rows = window.rows.closed()
        self.baseline, self.current = window, None
        return found

    def _hypothesis(self, baseline: Window, target: Window, model: Model) -> Model | tuple[Model, Model]:
        if self._versions is not None and baseline.version is not None and target.version is not None:
            return self._versions(baseline.version), self._versions(target.version)
        if baseline.model is None or target.model is None:
            return model
        return self._attribution.thaw(baseline.model), self._attribution.thaw(target.model)
