"""A worker's part in the cluster, and when it commits: what it publishes and its progress, in one transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from confluent_kafka import TopicPartition

from explain_sidecar.kafka.clients import Kafka, group_consumer, reading_consumer, worker_name
from explain_sidecar.kafka.input import Received
from explain_sidecar.kafka.namesakes import Namesakes
from explain_sidecar.kafka.sent import Sent
from explain_sidecar.kafka.topics import Topic, Topics
from explain_sidecar.kafka.totals import Phase, Totals
from explain_sidecar.kafka.transaction import MAX_KEPT_BYTES, Transaction
from explain_sidecar.kafka.watch import Asked, TopicWatch
from explain_sidecar.settings import Settings
from explain_sidecar.settings.kafka import TRANSACTION_TIMEOUT_MS

BEHIND_TIMES = 4
"""How much longer a transaction may be open while input waits: its outputs are late anyway, and each commit costs the brokers as much."""


class Owned(Protocol):
    """A partition assigned to this worker. While it is waiting or restoring no input may come."""

    partition: int
    phase: Phase
    consuming: bool

    @property
    def dirty(self) -> bool:
        """Whether it has taken in something that no commit covers."""

    def advance(self) -> None:
        """One slice of recovery; raises ``UserError`` where the past does not fit."""

    def consume(self) -> list[TopicPartition]:
        """The offset at which input begins; from now on it is processed."""

    def inputs(self) -> list[TopicPartition]:
        """The topic partitions consumed for it, if any."""

    def reached(self, end: Any) -> bool:
        """Whether everything before an end that was seen at the start has been taken in."""


P = TypeVar("P", bound=Owned)


class Committer(ABC, Generic[P]):
    """The clients and the transactions of a worker. Each commit depends on the membership of its consumer; ``_reader`` reads at explicit offsets.

    ``known``: the topics by the setting that names each, the ``inputs`` that are read first. ``_behind``: whether more input waits than a turn of
    the loop takes in.
    """

    _behind = False

    def __init__(
        self,
        settings: Settings,
        slot: int,
        alive: Callable[[], None],
        kafka: Kafka,
        topics: Topics,
        *,
        known: Mapping[str, Topic],
        totals: Totals,
        inputs: int = 1,
        fetch_wait_max_ms: int = 5,
    ) -> None:
        seconds, most = settings.commit.interval_ms / 1000, TRANSACTION_TIMEOUT_MS / 2000
        self._intervals = seconds, min(BEHIND_TIMES * seconds, most)
        self._most, errors = settings.commit.max_records, topics.errors
        self._group_name = settings.app_id
        self._inputs = {topic.name: setting for setting, topic in list(known.items())[:inputs]}
        self._consumer = group_consumer(settings, slot, errors, kafka)
        self._reader = reading_consumer(settings, errors, kafka=kafka, fetch_wait_max_ms=fetch_wait_max_ms)
        name = worker_name(settings, slot)
        self._transaction = Transaction(settings, name, errors, alive, kafka, self._unseen)
        self._watch = TopicWatch(topics, known, kafka.clock, inputs)
        self.totals, self._clock, self._alive = totals, kafka.clock, alive
        self._namesakes = Namesakes(settings, slot, self._consumer, self._clock)
        self._owned: dict[int, P] = {}
        self._waiting: deque[Received] = deque()
        self._begun_at = 0.0
        self._records = 0

    @abstractmethod
    def _commit(self, saved: Collection[P] | None = None) -> None:
        """Commit what all partitions have taken in. Raises ``Aborted``. ``saved``: the partitions that are leaving."""

    def _unseen(self, kept: list[Sent], committed: Collection[Sent]) -> list[Sent]:
        """As of ``Transaction``."""
        return kept

    @property
    def _wait_seconds(self) -> float | None:
        """How long the open transaction may still wait for input; None where none is open."""
        if not self._transaction.open:
            return None
        return self._begun_at + self._intervals[self._behind] - self._clock.monotonic()

    def _full(self, now: float) -> bool:
        """Whether the open transaction, if there is one, has waited or holds enough."""
        return self._transaction.open and (
            now - self._begun_at >= self._intervals[self._behind]
            or self._records >= self._most
            or self._transaction.kept_bytes > MAX_KEPT_BYTES
        )

    def _due(self) -> bool:
        if self._transaction.open:
            return self._full(self._clock.monotonic())
        return any(owned.dirty for owned in self._owned.values())  # after an abort

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
        self._transaction.commit([*offsets], self._consumer, confirm=lambda: self._watch.confirm(asked))
        self._records = 0
        self.totals.committed(self._clock.monotonic() - started, published)
