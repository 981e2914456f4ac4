"""The loop of a worker: one consumer, one transactional producer, one thread.

poll → fold → publish → (every commit interval) send offsets, commit. Rebalance callbacks come from inside ``poll``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import islice

from confluent_kafka import KafkaException, Message, TopicPartition

from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.models import foreign_code
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.formats.source import schema_source
from explain_sidecar.kafka.cadence import Cadence
from explain_sidecar.kafka.checkpoints import Location, Undecided
from explain_sidecar.kafka.clients import (
    CONNECT_SECONDS,
    KAFKA,
    Kafka,
    admin_client,
    reading_consumer,
    uncommitted_reader,
)
from explain_sidecar.kafka.ends import PartitionEnds
from explain_sidecar.kafka.errors import Aborted, kept_by_reset
from explain_sidecar.kafka.hidden import Readers
from explain_sidecar.kafka.lifecycle import Held, OwnedPartition
from explain_sidecar.kafka.member import Member
from explain_sidecar.kafka.past import Past
from explain_sidecar.kafka.recovery import Cluster
from explain_sidecar.kafka.report import Report, partition_report
from explain_sidecar.kafka.sent import Sent
from explain_sidecar.kafka.spans import spans_of
from explain_sidecar.kafka.stalled import Stalls
from explain_sidecar.kafka.topics import Topics, retention_warning
from explain_sidecar.kafka.totals import Totals
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.signatures import UNSIGNED, check_trust, read_keys
from explain_sidecar.wire.envelope import Envelope

DECIDED_SECONDS = 2.0
"""How long all partitions wait for the end of a transaction that is open on one's outputs."""

log = logging.getLogger(__name__)


class Worker(Member[OwnedPartition]):
    """Folds the records of the partitions assigned to it."""

    def __init__(
        self, settings: Settings, slot: int, alive: Callable[[], None], kafka: Kafka = KAFKA
    ) -> None:
        self._settings = settings
        keys = read_keys(settings.checkpoint)
        check_trust(keys, foreign_code(settings))
        if not keys.keys:
            log.warning(UNSIGNED)
        for sentence in settings.warnings:
            log.warning(sentence)
        topics = Topics(settings, kafka=kafka)
        self._errors = topics.errors
        described = topics.prepare()
        self._topic = described["records"]
        warning = retention_warning(self._topic, settings)
        if warning:
            log.warning(warning)
        if settings.kafka.group_protocol == "consumer":
            log.warning(
                "kafka.group_protocol is consumer: the brokers decide how late an instance that dies is noticed, 45 s by default; `check` says it"
            )
        self._topics = topics
        self._partitions = self._topic.partitions
        self._envelope = Envelope(settings, self._topic.id)
        self._spans = spans_of(settings, slot)
        known = {f"topics.{name}": topic for name, topic in described.items()}
        # A fetch that waits for records at the end of a topic would keep waiting what is asked next, some thirty times for eight partitions.
        super().__init__(
            settings,
            slot,
            alive,
            kafka,
            topics,
            known=known,
            totals=Totals(settings.topics),
            fetch_wait_max_ms=0,
        )
        self._cluster = Cluster(
            settings,
            self._topic.id,
            keys,
            self._consumer,
            self._reader,
            uncommitted_reader(settings, self._errors, kafka),
            self._envelope.read,
            schema_source(settings),
            VersionSource(settings, kafka.clock.monotonic).find,
            lambda: self._partitions,
            kafka.clock,
        )
        # Not the reader, which a restore may be under way with.
        self._other = cache(
            partial(reading_consumer, settings, self._errors, kafka=kafka, fetch_wait_max_ms=0)
        )
        self._looks: dict[int, Past] = {}
        ends = PartitionEnds(admin_client(settings, self._errors, kafka), kafka.clock.monotonic)
        self._stalls = Stalls(ends, self._topic.name, kafka.clock)
        outputs = [getattr(settings.topics, name) for name in (*settings.outputs, "checkpoints")]
        self._readers = Readers(
            settings, ends, lambda: [(topic, p) for p in self._owned for topic in outputs], kafka.clock
        )
        self._torn: set[int] = set()
        self._undecided_at = 0.0
        self._cadence = Cadence(settings.checkpoint, kafka.clock)
        self._connect_to_leaders()

    def _gone(self, owned: OwnedPartition) -> None:
        self._looks.pop(owned.partition, None)
        if owned.phase == "restoring":
            self._reader.unassign()

    def _unseen(self, kept: list[Sent], committed: Collection[Sent]) -> list[Sent]:
        """Those of the kept messages that readers do not see: Kafka may have committed a part of an aborted transaction. Raises ``Aborted``.

        A partition recovers where they do not see what the last commit published, as when a broker dies amid it: nothing is published on top.
        """
        seen: dict[tuple[str, int], tuple[int, int]] = {}
        try:
            for sent in committed:
                owned = self._owned.get(sent.partition)
                if owned is not None and owned.phase == "running" and not self._sees(sent, seen):
                    self._torn.add(sent.partition)
            left = [sent for sent in kept if not self._sees(sent, seen)]
        except KafkaException as error:
            raise Aborted(error.args[0].str()) from None
        self._looks, self._undecided_at = {}, 0.0
        if self._torn:
            raise Aborted(f"readers do not see all that was committed of partitions {sorted(self._torn)}")
        if len(left) < len(kept):
            log.warning(
                "readers see %d of the %d messages of an aborted transaction; it sends the others",
                len(kept) - len(left),
                len(kept),
            )
        return left

    def _sees(self, sent: Sent, seen: dict[tuple[str, int], tuple[int, int]]) -> bool:
        """Whether readers see a message of a partition's; ``seen`` keeps epoch and seq of the last that they see of each place.

        Raises ``Aborted`` while an open transaction hides that. After ``DECIDED_SECONDS`` its partition counts as torn.
        """
        cluster, settings, place = self._cluster, self._settings, (sent.topic, sent.partition)
        name = next(name for name in settings.outputs if getattr(settings.topics, name) == sent.topic)
        past = self._looks.setdefault(
            sent.partition, Past(self._other(), cluster.uncommitted, settings, sent.partition, cluster.read)
        )
        if place not in seen:
            location = self._owned[sent.partition].location
            try:
                last = past.last(name, location.ends.get(name, 0) if location else 0)
            except Undecided as error:
                now = self._clock.monotonic()
                self._undecided_at = self._undecided_at or now
                if now < self._undecided_at + DECIDED_SECONDS:
                    raise Aborted(str(error)) from None
                self._torn.add(sent.partition)
                last = None
            seen[place] = last[:2] if last else (-1, -1)
        here = past.message(name, sent.value, sent.headers)
        return here is not None and here[:2] <= seen[place]

    def _recover_torn(self) -> None:
        torn = [
            owned
            for owned in self._owned.values()
            if owned.partition in self._torn and owned.phase == "running"
        ]
        self._torn = set()
        if torn:
            self._release(torn)
            for owned in torn:
                log.warning(
                    "the transaction that was committed last is not whole for readers: the partition recovers, and publishes what they do not see",
                    extra={"partition": owned.partition},
                )
                self._owned[owned.partition] = self._own(owned.partition)

    def _look(self) -> None:
        super()._look()
        for partition in self._stalls.look(self._owned.values(), bool(self._waiting) or self._behind):
            stalled = self._owned[partition]
            log.warning(
                "records wait and none has come for 20 s; the fetch is begun anew",
                extra={"partition": partition, "offset": stalled.position},
            )
            self._consumer.incremental_unassign(stalled.inputs())
            self._consumer.incremental_assign(stalled.consume())
        self._readers.look()
        while self._readers.torn:
            self._torn.add(self._readers.torn.popleft())
        self._recover_torn()
        for owned in self._owned.values():
            if owned.held is not None and owned.found():
                log.info("the model is there", extra={"partition": owned.partition})
                self._consumer.incremental_assign(owned.consume())

    def _close(self) -> None:
        super()._close()
        if self._spans is not None:
            self._spans.close()

    def _connect_to_leaders(self) -> None:
        """Connect the reader to the brokers of the snapshots while no partition waits for it: later it takes half a second."""
        with suppress(KafkaException):
            for partition in range(self._topic.partitions):
                where = TopicPartition(self._settings.topics.checkpoints, partition)
                self._reader.get_watermark_offsets(where, timeout=CONNECT_SECONDS)

    def _take_in(self, owned: OwnedPartition, message: Message, record: InputRecord) -> int:
        running = owned.phase == "running"
        before = owned.fold_seconds
        following = islice(self._following(owned.partition), max(self._most - self._records - 1, 0))
        try:
            folded, outputs = owned.fold(record, following)
        except Held:
            self._consumer.incremental_unassign([TopicPartition(self._topic.name, owned.partition)])
            return 1
        for _ in folded[1:]:
            self._waiting.popleft()
        seconds = (owned.fold_seconds - before) / len(folded)
        self.totals.folded(seconds, "running" if running else "replaying", len(folded))
        if running or outputs:
            wrapped = [self._envelope.wrap(owned.partition, output) for output in outputs]
            if self._spans is not None:
                self._spans.add(owned.partition, folded[-1], wrapped, seconds)
            self._publish(owned.partition, wrapped, len(folded))
        return len(folded)

    def _following(self, partition: int) -> Iterator[InputRecord]:
        """The records of a partition that wait next."""
        for place, _, record in self._waiting:
            if record is None or place != partition:
                return
            yield record

    def _at_end(self, owned: OwnedPartition, message: Message) -> None:
        owned.at_end(message.offset())  # type: ignore[arg-type]

    def _overtaken(self, topic: str, partition: int) -> str:
        return f"go on with the newest state that is whole: {kept_by_reset(partition)}"

    def _assigned(self, partitions: list[int]) -> None:
        if partitions and max(partitions) >= self._partitions:
            described = self._topics.prepare()
            for topic in described.values():
                self._reader.list_topics(topic.name, timeout=CONNECT_SECONDS)
            self._partitions = max(described["records"].partitions, max(partitions) + 1)
        super()._assigned(partitions)

    def _own(self, partition: int) -> OwnedPartition:
        return OwnedPartition(self._cluster, partition)

    # --- commits ---------------------------------------------------------------------------------------------------

    def _due(self) -> bool:
        if any(
            partition.copied for partition in self._owned.values()
        ):  # stored before its first record comes
            return True
        # Dirty without a transaction: a partition that has just begun, or an abort.
        return super()._due() or (not self._transaction.open and bool(self._cadence.due(self._running)))

    def _publish(self, partition: int, outputs: list[Output], records: int) -> None:
        """Send the outputs of so many input records, if any. Raises ``Aborted``."""
        self._count(records)
        if outputs or not self._transaction.open:
            self._transaction.publish(partition, outputs)

    def _commit(self, saved: Collection[OwnedPartition] | None = None) -> None:
        """One transaction: outputs so far, snapshots, offsets with their pointers. Raises ``Aborted``.

        ``saved``: which partitions to snapshot; by default those that are due. Those that never were come along, and those that
        have learnt a schema since.

        1. chunks and manifests of the snapshots; 2. their offsets, by flushing; 3. the input offsets, each with its
        pointer; 4. commit; 5. note what is now true.
        """
        running = self._running
        due = (
            self._cadence.due(running)
            if saved is None
            else [partition for partition in running if partition in saved]
        )
        first = [
            partition
            for partition in running
            if ((partition.location is None and partition.dirty) or partition.learnt) and partition not in due
        ]
        saved = [partition for partition in (*due, *first) if partition.unsaved]
        moved = [partition for partition in running if partition.dirty or partition in saved]
        asked = self._begin(moved)
        if asked is None:
            return
        started = self._clock.monotonic()
        locations = {partition.partition: self._save(partition) for partition in saved}
        if locations:
            self._transaction.flush()
            self.totals.stored(len(locations), self._clock.monotonic() - started)
        offsets = [partition.offset(locations.get(partition.partition)) for partition in moved]
        self._end(offsets, asked, self._transaction.kept)
        for partition in moved:
            partition.committed(locations.get(partition.partition))

    def _save(self, owned: OwnedPartition) -> Location:
        """Send a snapshot; its offsets are known once the transaction is flushed."""
        started = self._clock.monotonic()
        records, ends, size = owned.snapshot()
        offsets = self._transaction.send_all(self._settings.topics.checkpoints, owned.partition, records)
        self._cadence.spent(owned.partition, self._clock.monotonic() - started, size)
        assert owned.state is not None
        return Location(offsets, owned.state.next_offset, ends)

    @property
    def _running(self) -> list[OwnedPartition]:
        owned = self._owned.values()
        return [
            partition for partition in owned if partition.phase == "running" and partition.state is not None
        ]

    # --- what is asked from outside ------------------------------------------------------------------------------

    def report(self, alive_at: float) -> Report:
        """What this worker is doing; for another thread."""
        owned, read = list(self._owned.values()), self._envelope.read
        return self._report(
            alive_at,
            partitions=[partition_report(partition, self.totals, read) for partition in owned],
            hidden=list(self._readers.hidden),
            throttled=self._errors.throttled,
        )

    # --- ends ----------------------------------------------------------------------------------------------------

    def _end_offsets(self) -> dict[int, int]:
        name, count = self._topic.name, self._topic.partitions
        return {partition: self._end_of(name, partition) for partition in range(count)}
