"""When a worker commits: what it publishes and its progress, in one transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

from confluent_kafka import Consumer, TopicPartition

from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.sent import Sent
from explain_sidecar.kafka.totals import Totals
from explain_sidecar.kafka.transaction import MAX_KEPT_BYTES, Transaction
from explain_sidecar.kafka.watch import Asked, TopicWatch
from explain_sidecar.settings import TRANSACTION_TIMEOUT_MS, Settings

BEHIND_TIMES = 4
"""How much longer a transaction may be open while input waits: its outputs are late anyway, and each commit costs the brokers as much."""

P = TypeVar("P")


class Commits(ABC, Generic[P]):
    """The transactions of a worker. ``group`` is its consumer, whose membership each commit depends on; ``totals`` counts them.

    ``behind``: whether more input waits than a turn of the loop takes in.
    """

    behind = False

    def __init__(
        self,
        settings: Settings,
        transaction: Transaction,
        group: Consumer,
        watch: TopicWatch,
        totals: Totals,
        clock: Clock,
    ) -> None:
        self._most = settings.commit.max_records
        seconds, most = settings.commit.interval_ms / 1000, TRANSACTION_TIMEOUT_MS / 2000
        self._intervals = seconds, min(BEHIND_TIMES * seconds, most)
        self.transaction = transaction
        self.group = group
        self.watch = watch
        self.totals = totals
        self.clock = clock
        self._begun_at = 0.0
        self._records = 0

    @property
    def wait_seconds(self) -> float | None:
        """How long the open transaction may still wait for input; None where none is open."""
        if not self.transaction.open:
            return None
        return self._begun_at + self._intervals[self.behind] - self.clock.monotonic()

    def full(self, now: float) -> bool:
        """Whether the open transaction, if there is one, has waited or holds enough."""
        return self.transaction.open and (
            now - self._begun_at >= self._intervals[self.behind]
            or self._records >= self._most
            or self.transaction.kept_bytes > MAX_KEPT_BYTES
        )

    def room(self) -> int:
        """How many records the transaction may still take."""
        return self._most - self._records

    def due(self, owned: Collection[P]) -> bool:
        if self.transaction.open:
            return self.full(self.clock.monotonic())
        return any(map(self.moved, owned))  # after an abort

    @abstractmethod
    def moved(self, partition: P) -> bool:
        """Whether a partition has taken in something that no commit covers."""

    @abstractmethod
    def commit(self, owned: Collection[P], saved: Collection[P] | None = None) -> None:
        """Raises ``Aborted``. ``saved``: the partitions that are leaving."""

    def _count(self, records: int = 1) -> None:
        """Records of the input become part of the transaction."""
        self._records += records
        if not self.transaction.open:
            self._begun_at = self.clock.monotonic()

    def _begin(self, moved: Collection[P]) -> Asked | None:
        """What the commit is to be confirmed by; None where there is nothing to commit."""
        if not moved and not self.transaction.open and not self.transaction.kept:
            return None
        self.transaction.begin()
        return self.watch.ask()

    def _end(self, offsets: Sequence[TopicPartition], asked: Asked, published: Sequence[Sent] = ()) -> None:
        """Commit with these offsets; ``published`` is counted by what it is. Raises ``Aborted``."""
        started = self.clock.monotonic()
        self.transaction.commit([*offsets], self.group, confirm=lambda: self.watch.confirm(asked))
        self._records = 0
        self.totals.committed(self.clock.monotonic() - started, published)
