"""When a worker commits: what it publishes and its progress, in one transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Clients:
    """A worker's part in the cluster. Each commit depends on the membership of its consumer, ``group``; ``reader`` reads at explicit offsets."""

    settings: Settings
    slot: int
    group: Consumer
    reader: Consumer
    transaction: Transaction
    watch: TopicWatch
    totals: Totals
    clock: Clock


class Commits(ABC, Generic[P]):
    """The transactions of a worker. ``behind``: whether more input waits than a turn of the loop takes in."""

    behind = False

    def __init__(self, clients: Clients) -> None:
        commit = clients.settings.commit
        seconds, most = commit.interval_ms / 1000, TRANSACTION_TIMEOUT_MS / 2000
        self._intervals = seconds, min(BEHIND_TIMES * seconds, most)
        self._most = commit.max_records
        self._transaction, self._group = clients.transaction, clients.group
        self._watch, self._totals, self._clock = clients.watch, clients.totals, clients.clock
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
            or self._records >= self._most
            or self._transaction.kept_bytes > MAX_KEPT_BYTES
        )

    def room(self) -> int:
        """How many records the transaction may still take."""
        return self._most - self._records

    def due(self, owned: Collection[P]) -> bool:
        if self._transaction.open:
            return self.full(self._clock.monotonic())
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
        if not self._transaction.open:
            self._begun_at = self._clock.monotonic()

    def _begin(self, moved: Collection[P]) -> Asked | None:
        """What the commit is to be confirmed by; None where there is nothing to commit."""
        if not moved and not self._transaction.open and not self._transaction.kept:
            return None
        self._transaction.begin()
        return self._watch.ask()

    def _end(self, offsets: Sequence[TopicPartition], asked: Asked, published: Sequence[Sent] = ()) -> None:
        """Commit with these offsets; ``published`` is counted by what it is. Raises ``Aborted``."""
        started = self._clock.monotonic()
        self._transaction.commit([*offsets], self._group, confirm=lambda: self._watch.confirm(asked))
        self._records = 0
        self._totals.committed(self._clock.monotonic() - started, published)
