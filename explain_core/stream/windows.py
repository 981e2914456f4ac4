"""Drift windows: the records of a partition in tumbling windows, and why the risk changed from each to the next.

A window ends with its ``options.window``-th record, and with a ``period`` also before the first record whose event time
is past the next multiple of that period.

Where versions of the model take turns, a window has the records of the version that served most of them, each with the loss
of that version. The change from one version to another is then the model's part.

A record from before the current period is late: it is learnt and explained as any other, and counted in the window, but is
not one of its records. When more than ``options.window`` of them have come, the leap was the clock's that led to the current
period: a new window begins with the next record, wherever it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from explain_core.foreign import dumps
from explain_core.losses import Prediction
from explain_core.models import Model
from explain_core.state import Count, Pack, State, Unpack, check
from explain_core.stream.attribution import RiskAttribution
from explain_core.stream.events import Extent, Record, RiskChanged
from explain_core.stream.models import ModelData
from explain_core.stream.part import Part
from explain_core.stream.rows import Rows


class WindowData(State, frozen=True):
    """A window in a snapshot; ``rows`` is what ``Rows.pack`` returns."""

    number: Count
    model: ModelData | None
    period: int
    late: Count
    rows: bytes


class WindowsData(State, frozen=True, omit_defaults=True):
    """The current window and the one before. ``taught``: before the first of them the model had learnt already."""

    current: WindowData | None
    baseline: WindowData | None
    taught: bool = False


class RecordWindow:
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
    def restored(cls, data: WindowData, task: str, classes: int) -> RecordWindow:
        """The window of a stored state. Raises ``StateError`` where its rows are invalid."""
        window = cls(data.number, data.model, data.period)
        rows = Rows.restored(data.rows, task, classes)
        window.late, window.rows, window.versions = data.late, rows, Counter(rows.versions)
        return window

    def add(self, record: Record, loss: float) -> int:
        """Returns the number of records."""
        self.rows.add(record, loss)
        self.versions[record.version] += 1
        return len(self.rows.offsets)

    @property
    def version(self) -> str | None:
        """The version that served most of the records, of several the one that came first."""
        return max(self.versions, key=lambda version: self.versions[version], default=None)

    @property
    def name(self) -> str:
        """In a sentence."""
        return f"window {self.number}" + ("" if self.version is None else f" (version {self.version})")

    def read(self) -> tuple[Rows, Extent]:
        """The rows that ``version`` served, and what the window is."""
        rows = self.rows.read()
        most = self.version
        served = [i for i, version in enumerate(rows.versions) if version == most]
        about = rows.about(self.number, len(served), self.late, most, len(rows) - len(served))
        return rows.take(served), about


class Windows(Part):
    """The current window of a partition and the one before, both part of the partition's state.

    ``models`` gives the model of a version that ``versions`` has, where records name versions.
    """

    def __init__(self, attribution: RiskAttribution, models: Callable[[str], Model]) -> None:
        self._models = models
        self.current: RecordWindow | None = None
        self.baseline: RecordWindow | None = None
        self._taught = False
        self._size, self._period = attribution.options.window, attribution.options.period
        self._attribution = attribution

    def state(self, pack: Pack = dumps) -> WindowsData:
        current, baseline = (
            None if window is None else window.state() for window in (self.current, self.baseline)
        )
        return WindowsData(current, baseline, self._taught)

    def restore(self, data: WindowsData, classes: int, unpack: Unpack) -> None:
        """Restore a stored state. Raises ``StateError`` where it is invalid."""
        self._taught = data.taught
        self.current, self.baseline = (
            None if window is None else RecordWindow.restored(window, self._attribution.task, classes)
            for window in (data.current, data.baseline)
        )
        for window in (self.current, self.baseline):
            if window is not None and window.model is not None:
                self._attribution.thaw(window.model, unpack)
        if self.baseline is not None:
            check(bool(self.baseline.versions), "windows: a closed one without records")
            self.baseline.rows = self.baseline.rows.closed()

    @property
    def versions(self) -> frozenset[str | None]:
        """Those that served the records of both windows."""
        windows = (self.current, self.baseline)
        return frozenset(version for window in windows if window for version in window.versions)

    def predicted(self, record: Record, prediction: Prediction, model: Model) -> list[RiskChanged]:
        """Add a record; returns what is to be said of the window that ends before it, and of the one it ends."""
        current, period, size = self.current, self._period, self._size
        now = record.timestamp // period if period else 0
        found: list[RiskChanged] = []
        if current is not None and (now > current.period or current.late > size):
            found += self._end(current, model)
            current = None
        if current is None:
            number = self.baseline.number + 1 if self.baseline else 0
            # The first window's model has learnt from nothing: it has no change to report.
            self.current = current = RecordWindow(
                number, self._attribution.freeze(model, number == 0 and not self._taught), now
            )
        if now < current.period:
            current.late += 1
        elif current.add(record, self._attribution.loss(record.y, prediction)) == size:
            found += self._end(current, model)
        return found

    def room(self, timestamps: Sequence[int], before: int) -> int:
        current, period = self.current, self._period
        if current is None or current.late > self._size:
            return 0
        room = self._size - len(current.rows) - 1
        if not period:
            return room
        begin = current.period * period
        late = self._size - current.late
        for n, timestamp in enumerate(timestamps):
            if timestamp >= begin + period or late < 0 or n == room:
                return n
            late -= timestamp < begin
        return len(timestamps)

    def _end(self, window: RecordWindow, model: Model) -> list[RiskChanged]:
        """Close the window; returns why the risk changed, if that can be known."""
        baseline, found = self.baseline, []
        if baseline is not None and (self._attribution.static or baseline.model is not None):
            (before, first), (after, second) = baseline.read(), window.read()
            hypothesis, names = self._hypothesis(baseline, window, model), (baseline.name, window.name)
            why = self._attribution.between(before, after, hypothesis, window.number)
            found = [RiskChanged(first, second, None, names, *why)]
        window.rows = window.rows.closed()
        self.baseline, self.current = window, None
        return found

    def _hypothesis(
        self, baseline: RecordWindow, target: RecordWindow, model: Model
    ) -> Model | tuple[Model, Model]:
        if baseline.version is not None and target.version is not None:
            return self._models(baseline.version), self._models(target.version)
        if baseline.model is None or target.model is None:
            return model
        return self._attribution.thaw(baseline.model), self._attribution.thaw(target.model)
