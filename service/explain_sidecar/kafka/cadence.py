"""When to take snapshots: often enough for a short replay, seldom enough to cost little."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.lifecycle import OwnedPartition
from explain_sidecar.settings.checkpoint import CheckpointSettings

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
        """The partitions to snapshot now: old ones, and while all replays together are too long, those with the greatest product of
        replay and age.

        In that order the sum of the replays stays below a bound with the fewest snapshots: each partition's interval becomes inversely
        proportional to the root of its load. By their replays alone, partitions with few records would never be saved where a cap binds.
        """
        settings, now = self._settings, self._clock.monotonic()
        replay = sum(owned.fold_seconds for owned in running)
        wanted = []
        for owned in sorted(running, key=lambda owned: owned.fold_seconds * (owned.snapshot_at - now)):
            old = now - owned.snapshot_at > settings.max_age
            if owned.location is not None and owned.unsaved and (old or replay > settings.max_replay_seconds):
                wanted.append(owned)
                replay -= owned.fold_seconds
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
                self._warn(running, seconds / max(elapsed, 1e-9), now)
                break
            allowed.append(owned)
        return allowed

    def _warn(self, running: Sequence[OwnedPartition], share: float, now: float) -> None:
        """Say that the caps are too low, where a goal is missed by as much again."""
        settings = self._settings
        replay = sum(owned.fold_seconds for owned in running)
        age = max(now - owned.snapshot_at for owned in running)
        missed = replay > 2 * settings.max_replay_seconds or age > 2 * settings.max_age
        if missed and now - self._warned > WARN_SECONDS:
            self._warned = now
            log.warning(
                "a snapshot is due and waits: it would bring snapshots to %.1f %% of the time, checkpoint.max_overhead is %.1f %%, "
                "checkpoint.max_bytes_per_second %g; a restart now replays %.1f s",
                100 * share,
                100 * settings.max_overhead,
                settings.max_bytes_per_second,
                replay,
            )
