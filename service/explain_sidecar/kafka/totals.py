"""What a worker has done: for the line that it logs at its end, and for the metrics."""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from explain_sidecar.kafka.sent import Sent
from explain_sidecar.settings.kafka import TopicSettings

Phase = Literal["waiting", "restoring", "replaying", "running", "held"]
"""Of a partition; records are folded while it replays and runs. It is held by a record whose model is not there yet."""

StepPhase = Literal["replaying", "running"]

STEP_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
COMMIT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histograms' buckets."""

log = logging.getLogger(__name__)


@dataclass
class Histogram:
    """Observations by bucket; the last count is of those above every bound."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += times
        self.seconds += times * seconds


class Totals:
    """Records since the first fold, where the seconds since then went, and what was published."""

    def __init__(self, topics: TopicSettings) -> None:
        self.records = 0
        self.snapshots = 0
        self.rebalances = 0
        self.steps: dict[StepPhase, Histogram] = {
            "replaying": Histogram(STEP_SECONDS),
            "running": Histogram(STEP_SECONDS),
        }
        self.commits = Histogram(COMMIT_SECONDS)
        self.dead_letters: dict[str, int] = {}
        self.explanations: dict[int, bytes] = {}
        self.drift: dict[int, bytes] = {}
        self.snapshot_seconds = 0.0
        self.recovery_seconds = 0.0
        self.moved = threading.Event()
        self._topics = topics
        self._newest = {topics.explanations: self.explanations, topics.drift: self.drift}
        self._first_fold_at = 0.0
        self._last_commit_at = 0.0
        self._cpu_at_first_fold = 0.0
        self._cpu_at_last_commit = 0.0

    def folded(self, seconds: float, phase: StepPhase, records: int) -> None:
        """Records that took so long each."""
        self.counted(seconds, records)
        self.steps[phase].observe(seconds, records)

    def counted(self, seconds: float = 0.0, records: int = 1) -> None:
        """Records that took so long each."""
        if not self.records:
            self._first_fold_at = time.perf_counter() - seconds * records
            self._cpu_at_first_fold = time.thread_time()
        self.records += records

    def committed(self, seconds: float, published: Sequence[Sent]) -> None:
        """Sending the offsets and the commit itself, and the messages that are now public."""
        self.commits.observe(seconds)
        self._last_commit_at = time.perf_counter()
        self._cpu_at_last_commit = time.thread_time()
        topics = self._topics
        for sent in published:
            if sent.topic == topics.dead_letters:
                kind = dict(sent.headers)["__explain.errors.class"].decode()
                if kind not in self.dead_letters:
                    log.warning(
                        "a record could not be used, the first one of class %s; it went to the topic %r, where its headers say why",
                        kind,
                        sent.topic,
                        extra={"partition": sent.partition},
                    )
                self.dead_letters[kind] = self.dead_letters.get(kind, 0) + 1
            elif sent.value is not None and sent.topic in self._newest:
                self._newest[sent.topic][sent.partition] = sent.value

    def stored(self, snapshots: int, seconds: float) -> None:
        """Snapshots, up to Kafka's acknowledgement."""
        self.snapshots += snapshots
        self.snapshot_seconds += seconds

    def recovering(self, seconds: float) -> None:
        """A slice of finding and reading a partition's past; its replay counts as folding."""
        if self.records:
            self.recovery_seconds += seconds

    def rebalanced(self) -> None:
        """Partitions were assigned; the next report is due at once."""
        self.rebalances += 1
        self.moved.set()

    def released(self, partition: int) -> None:
        """A partition was revoked."""
        self.explanations.pop(partition, None)
        self.drift.pop(partition, None)
        self.moved.set()

    def elapsed(self) -> tuple[float, float]:
        """Seconds from the first record to the last commit, and how many of them this thread was on the CPU."""
        elapsed = max(0.0, self._last_commit_at - self._first_fold_at) if self.records else 0.0
        return elapsed, self._cpu_at_last_commit - self._cpu_at_first_fold if elapsed else 0.0

    def __str__(self) -> str:
        elapsed, on_cpu = self.elapsed()
        folding = sum(histogram.seconds for histogram in self.steps.values())
        return (
            f"folded {self.records} records; {elapsed:.3f} s, {on_cpu:.3f} s of them on the CPU, from the first of them to the last commit: "
            f"{folding:.3f} s folding, {self.commits.seconds:.3f} s committing, "
            f"{self.snapshot_seconds:.3f} s for {self.snapshots} snapshots, {self.recovery_seconds:.3f} s recovering{self.unused}"
        )

    @property
    def unused(self) -> str:
        """How many of the records could not be used, where any could not."""
        count = sum(self.dead_letters.values())
        return f"; {count} of them could not be used" if count else ""
