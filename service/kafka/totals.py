"""What a worker has done, for the line that it logs at its end."""

from __future__ import annotations

import time


class Totals:
    """Records since the first fold, and where the seconds since then went."""

    def __init__(self) -> None:
        self.records = 0
        self.snapshots = 0
        self.fold_seconds = 0.0
        self.commit_seconds = 0.0
        self.snapshot_seconds = 0.0
        self.recovery_seconds = 0.0
        self._first_fold_at = 0.0
        self._last_commit_at = 0.0

    def folded(self, seconds: float) -> None:
        if not self.records:
            self._first_fold_at = time.perf_counter() - seconds
        self.records += 1
        self.fold_seconds += seconds

    def committed(self, seconds: float) -> None:
        """Sending the offsets and the commit itself."""
        self.commit_seconds += seconds
        self._last_commit_at = time.perf_counter()

    def stored(self, snapshots: int, seconds: float) -> None:
        """Snapshots, up to Kafka's acknowledgement."""
        self.snapshots += snapshots
        self.snapshot_seconds += seconds

    def recovering(self, seconds: float) -> None:
        """A slice of finding and reading a partition's past; its replay counts as folding."""
        if self.records:
            self.recovery_seconds += seconds

    def __str__(self) -> str:
        elapsed = max(0.0, self._last_commit_at - self._first_fold_at) if self.records else 0.0
        return (
            f"folded {self.records} records; {elapsed:.3f} s from the first of them to the last commit: "
            f"{self.fold_seconds:.3f} s folding, {self.commit_seconds:.3f} s committing, "
            f"{self.snapshot_seconds:.3f} s for {self.snapshots} snapshots, {self.recovery_seconds:.3f} s recovering"
        )
