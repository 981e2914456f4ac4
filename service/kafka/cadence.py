"""When to take snapshots: often enough for a short replay, seldom enough to cost little."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from service.kafka.clock import Clock
from service.kafka.lifecycle import OwnedPartition
from service.settings import CheckpointSettings

CREDIT_SECONDS = 0.5
"""Snapshot time that a worker may spend before it has run for long."""

WARN_SECONDS = 60.0

log = logging.getLogger(__name__)


class Cadence:
    """Decides from the clock and from what snapshots have cost; nothing here changes what is published."""

    def __init__(self, settings: CheckpointSettings, clock: Clock) -> None:
        self._clock = clock
        self._settings = settings
        self._started = self._clock.monotonic()
        self._seconds = 0.0
        self._bytes = 0
        self._last: dict[int, tuple[float, int]] = {}
        self._warned = -WARN_SECONDS

    def spent(self, partition: int, seconds: float, size: int) -> None:
        """Take note of what a snapshot cost, in seconds and bytes."""
        self._seconds += seconds
        self._bytes += size
        self._last[partition] = (seconds, size)

    @property
    def share(self) -> float:
        """Share of the time since the start that snapshots took."""
        return self._seconds / max(self._clock.monotonic() - self._started, 1e-9)

    def due(self, running: Sequence[OwnedPartition]) -> list[OwnedPartition]:
        """The partitions to snapshot now: their replay would be too long, or their snapshot is too old."""
        settings, now = self._settings, self._clock.monotonic()
        longest = settings.max_replay_seconds / max(1, len(running))
        wanted = [
            owned
            for owned in running
            if owned.location is not None
            and owned.unsaved
            and (owned.fold_seconds > longest or now - owned.snapshot_at > settings.max_age)
        ]
        allowed = []
        seconds, size = self._seconds, self._bytes
        elapsed = now - self._started
        for owned in wanted:
            cost, weight = self._last.get(owned.partition, (0.0, 0))
            seconds, size = seconds + cost, size + weight
            if (
                seconds > settings.max_overhead * elapsed + CREDIT_SECONDS
                or size > settings.max_bytes_per_second * (elapsed + 10)
            ):
                self._warn(owned, seconds / max(elapsed, 1e-9), now)
                break
            allowed.append(owned)
        return allowed

    def _warn(self, owned: OwnedPartition, share: float, now: float) -> None:
        if now - self._warned > WARN_SECONDS:
            self._warned = now
            log.warning(
                "a snapshot is due and waits: it would bring snapshots to %.1f %% of the time, checkpoint.max_overhead is %.1f %%, "
                "checkpoint.max_bytes_per_second %g; a restart now replays %.1f s",
                100 * share,
                100 * self._settings.max_overhead,
                self._settings.max_bytes_per_second,
                owned.fold_seconds,
                extra={"partition": owned.partition},
            )
