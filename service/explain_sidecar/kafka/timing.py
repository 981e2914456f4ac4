"""When a worker commits."""

from __future__ import annotations

from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.transaction import MAX_KEPT_BYTES, Transaction
from explain_sidecar.settings import TRANSACTION_TIMEOUT_MS, CommitSettings

BEHIND_TIMES = 4
"""How much longer a transaction may be open while input waits: its outputs are late anyway, and each commit costs the brokers as much."""


class Timing:
    """When the open transaction is to be committed; ``behind``: whether more input waits than a turn of the loop takes in."""

    behind = False

    def __init__(self, settings: CommitSettings, transaction: Transaction, clock: Clock) -> None:
        self._settings = settings
        seconds, most = settings.interval_ms / 1000, TRANSACTION_TIMEOUT_MS / 2000
        self._intervals = seconds, min(BEHIND_TIMES * seconds, most)
        self._transaction = transaction
        self._clock = clock
        self._begun_at = 0.0
        self._records = 0

    @property
    def wait_seconds(self) -> float | None:
        """How long the open transaction may still wait for input; None where none is open."""
        if not self._transaction.open:
            return None
        return self._begun_at + self._intervals[self.behind] - self._clock.monotonic()

    def full(self, now: float) -> bool:
        """Whether the open transaction, if there is one, has waited or holds enough."""
        return self._transaction.open and (
            now - self._begun_at >= self._intervals[self.behind]
            or self._records >= self._settings.max_records
            or self._transaction.kept_bytes > MAX_KEPT_BYTES
        )

    def room(self) -> int:
        """How many records the transaction may still take."""
        return self._settings.max_records - self._records

    def _count(self, records: int = 1) -> None:
        """Records of the input become part of the transaction."""
        self._records += records
        if not self._transaction.open:
            self._begun_at = self._clock.monotonic()
