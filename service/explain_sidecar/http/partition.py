"""What the dashboard knows of one partition."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from explain_client import Explanation, Segment
from explain_client.chain import Link
from explain_client.periods import Period
from explain_sidecar.http.history import History
from explain_sidecar.http.predictions import NewestPredictions
from explain_sidecar.http.segments import take_segments

MAX_CHANGES = 20
MAX_ALARMS = 100
MAX_VERSIONS = 8
RECENT = 20
"""The newest explanations of a partition, most of which are about the version that is shown unless another is chosen."""


@dataclass
class ShownVersion:
    """What the explanations of one version of the model tell; ``since`` is the event time of the first."""

    since: int
    newest: Explanation
    history: History = field(default_factory=History)
    segments: dict[str, dict[str | None, Segment]] = field(default_factory=dict)
    periods: dict[str, Period] = field(default_factory=dict)
    """The newest of each name."""


@dataclass
class Partition:
    """One partition, by its newest messages; ``versions`` is by the name of the model's version, "" where records name none."""

    number: int
    versions: dict[str, ShownVersion] = field(default_factory=dict)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT))
    links: dict[str, Link] = field(default_factory=dict)
    verified: int = 0
    broken: str | None = None
    changes: deque[bytes] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    alarms: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_ALARMS))
    lag: int | None = None
    predictions: NewestPredictions = field(default_factory=NewestPredictions)

    @property
    def version(self) -> str:
        """The version of the model that most of the newest explanations are about; of equally many the newest."""
        return max(reversed(self.recent), key=self.recent.count, default="")

    @property
    def shown(self) -> ShownVersion | None:
        """The version that is shown; None before the first explanation."""
        return self.versions.get(self.version)

    def take(self, explanation: Explanation) -> None:
        """Take in an explanation of ours."""
        version = explanation.version.name if explanation.version else ""
        if any(known.newest.epoch != explanation.epoch for known in self.versions.values()):
            self.versions.clear()  # another epoch has other models
            self.recent.clear()
        known = self.versions.pop(version, None) or ShownVersion(explanation.timestamp, explanation)
        known.newest = explanation
        known.history.add(explanation)
        take_segments(known.segments, explanation.segments)
        known.periods.update((period.name, period) for period in explanation.periods)
        self.versions[version] = known
        self.recent.append(version)
        if len(self.versions) > MAX_VERSIONS:
            del self.versions[next(iter(self.versions))]  # that of which nothing came for the longest
