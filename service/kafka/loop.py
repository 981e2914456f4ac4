"""The loop of a worker: one consumer, one transactional producer, one thread.

poll → fold → publish → (every commit interval) send offsets, commit. Rebalance callbacks come from inside ``poll``.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import cache, partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from service.crash_points import reach
from service.errors import UserError
from service.fold.models import foreign_code
from service.fold.records import InputRecord
from service.kafka.clients import (
    CONNECT_SECONDS,
    KAFKA,
    ErrorLog,
    Kafka,
    group_consumer,
    reading_consumer,
    worker_name,
)
from service.kafka.commits import Commits
from service.kafka.headers import read_headers
from service.kafka.lifecycle import OwnedPartition
from service.kafka.recovery import SLICE_SECONDS, Cluster
from service.kafka.report import Report, make_report
from service.kafka.spans import spans_of
from service.kafka.topics import Topics, retention_warning
from service.kafka.totals import Totals
from service.kafka.transaction import Aborted, Transaction
from service.kafka.watch import TopicWatch
from service.settings import Settings
from service.snapshots.signatures import RISK, check_trust, read_keys
from service.wire.envelope import Envelope

MAX_BATCH = 1_000
JOIN_GRACE_SECONDS = 5.0
"""With ``until_caught_up``, a worker that was given no partition waits this long for one."""

log = logging.getLogger(__name__)


class Worker:
    """Owns the partitions that the group gives it, until ``stop`` is set or all of them are caught up."""

    def __init__(
        self, settings: Settings, slot: int, alive: Callable[[], None], kafka: Kafka = KAFKA
    ) -> None:
        self._settings = settings
        self._clock = kafka.clock
        self._alive = alive
        self._errors = ErrorLog()
        self._keys = read_keys(settings.checkpoint)
        foreign = foreign_code(settings)
        check_trust(self._keys, foreign)
        if foreign and self._keys.allow_unsigned:
            log.warning(
                "unsigned snapshots of %s are accepted (checkpoint.allow_unsigned): %s", foreign, RISK
            )
        topics = Topics(settings, errors=self._errors, kafka=kafka)
        described = topics.prepare()
        self._topic = described["records"]
        warning = retention_warning(self._topic, settings)
        if warning:
            log.warning(warning)
        self._topics = topics
        self._watch = TopicWatch(topics, described, kafka.clock)
        self._output_partitions = self._topic.partitions
        self._envelope = Envelope(settings, self._topic.id)
        self._spans = spans_of(settings, slot)
        self._consumer = group_consumer(settings, slot, self._errors, kafka)
        # A broker answers what else is asked for only after an open fetch, so that each partition would wait for it.
        self._reader = reading_consumer(settings, self._errors, kafka=kafka, fetch_wait_max_ms=5)
        self._meet_the_leaders()
        self._cluster = Cluster(
            settings,
            self._topic.id,
            self._keys,
            self._consumer,
            self._reader,
            cache(
                partial(
                    reading_consumer, settings, self._errors, kafka=kafka, isolation_level="read_uncommitted"
                )
            ),
            self._envelope.read,
            kafka.clock,
        )
        self._transaction = Transaction(settings, worker_name(settings, slot), self._errors, alive, kafka)
        self._owned: dict[int, OwnedPartition] = {}
        self._waiting: deque[Message] = deque()
        self.totals = Totals(settings.topics)
        self._commits = Commits(
            settings, self._transaction, self._consumer, self._watch, self.totals, kafka.clock
        )
        self._failure: BaseException | None = None
        self._joined_at: float | None = None
        self._targets: dict[int, int] | None = None
        self._step_seconds = 0.001
        self._failed = False
        self.stopping = False

    def run(self, until_caught_up: bool = False) -> None:
        """Work until ``stopping``; with ``until_caught_up`` until the end offsets seen at the start."""
        for _ in self.turns(until_caught_up):
            pass

    def turns(self, until_caught_up: bool = False) -> Generator[None]:
        """``run``, a turn of the loop at a time."""
        if until_caught_up:
            self._targets = self._end_offsets()
        self._consumer.subscribe(
            [self._topic.name], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            while not self.stopping and not self._caught_up():
                self._alive()
                self._watch.look()
                self._receive()
                self._advance()
                self._fold_waiting()
                if self._commits.due(self._owned.values()):
                    self._commit_or_send_again()
                yield
            self._finish()
            log.info(self.totals)
        except BaseException:
            self._leave()
            raise
        finally:
            self._reader.close()
            if self._spans is not None:
                self._spans.close()

    def _meet_the_leaders(self) -> None:
        """Connect the reader where the snapshots are, while no partition waits for it: later it takes half a second."""
        with suppress(KafkaException):
            for partition in range(self._topic.partitions):
                where = TopicPartition(self._settings.topics.checkpoints, partition)
                self._reader.get_watermark_offsets(where, timeout=CONNECT_SECONDS)

    # --- input ---------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Take messages in, about a tenth of a second's worth; serves rebalances, also while input is waiting."""
        idle = not self._waiting
        message = self._consumer.poll(self._poll_seconds() if idle else 0.0)
        self._raise_failure()
        if message is not None:
            self._waiting.append(message)
            if idle:
                batch = max(1, min(MAX_BATCH, int(SLICE_SECONDS / self._step_seconds)))
                more = self._consumer.consume(batch, 0.0)
                self._raise_failure()
                # A rebalance in the middle of that call has emptied what waits; what came before it is no longer ours.
                self._waiting.extend(one for one in more if one.error() is not None or self._consumes(one))

    def _consumes(self, message: Message) -> bool:
        owned = self._owned.get(message.partition())  # type: ignore[arg-type]
        return owned is not None and owned.consuming

    def _poll_seconds(self) -> float:
        if any(owned.phase in ("waiting", "restoring") for owned in self._owned.values()):
            return 0.0
        left = self._commits.wait_seconds
        return 0.1 if left is None else max(0.0, min(0.1, left))

    def _fold_waiting(self) -> None:
        waiting, monotonic = self._waiting, self._clock.monotonic
        started = monotonic()
        count = 0
        while waiting:
            message = waiting.popleft()
            error = message.error()
            if error is not None:
                self._input_error(message, error)
                continue
            if not self._consumes(message):
                continue
            owned = self._owned[message.partition()]  # type: ignore[index]
            try:
                self._fold(owned, message)
            except (
                Aborted
            ):  # the record is folded and its outputs are kept; they are sent again before anything else
                break
            count += 1
            now = monotonic()
            if now - started > SLICE_SECONDS or self._commits.full(now):
                break
        if count:
            self._step_seconds = 0.5 * self._step_seconds + 0.5 * (monotonic() - started) / count

    def _fold(self, owned: OwnedPartition, message: Message) -> None:
        offset: int = message.offset()  # type: ignore[assignment]
        record = InputRecord(
            offset,
            message.timestamp()[1],
            message.key(),
            message.value(),
            *read_headers(message),
        )
        running = owned.phase == "running"
        before = owned.fold_seconds
        outputs = owned.fold(record)
        self.totals.folded(owned.fold_seconds - before, "running" if running else "replaying")
        if running:
            wrapped = [self._envelope.wrap(owned.partition, one) for one in outputs]
            if self._spans is not None:
                self._spans.add(owned.partition, record, wrapped, owned.fold_seconds - before)
            self._commits.publish(owned.partition, wrapped)

    def _input_error(self, message: Message, error: KafkaError) -> None:
        code = error.code()
        partition: int = message.partition()  # type: ignore[assignment]
        if code == KafkaError._PARTITION_EOF:
            owned = self._owned.get(partition)
            if owned is not None and owned.consuming:
                owned.at_end(message.offset())  # type: ignore[arg-type]
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._watch.confirm(self._watch.ask())  # a topic that was created again is shorter
            raise UserError(
                f"{self._topic.name} partition {partition}: {error.str()}: retention deleted records before they were folded; "
                f"give the topic a longer retention, and begin a new epoch: explain-sidecar reset --partition {partition} --yes"
            )
        elif code == KafkaError._FATAL or error.fatal():
            raise UserError(
                f"the consumer cannot go on: {error.str()}; another worker runs under this kafka.group_instance_id, or Kafka takes "
                "this one for a member of before, as when a broker dies; start this one again"
            )
        elif code in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
        ):
            denied = code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
            remedy = (
                "see docs/guarantees.md for the rights that the sidecar's user needs"
                if denied
                else "was it deleted? Once it is there again, start the sidecar again"
            )
            raise UserError(f"topics.records: {self._topic.name!r}: {error.str()}; {remedy}")
        else:
            log.warning("input: %s", error.str(), extra={"partition": partition})

    # --- partitions ----------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """A slice of recovery for one partition, and input for those that became ready for it."""
        # One snapshot is read at a time, by the one reader; those that wait take turns until a slice is used up.
        phases: dict[str, list[OwnedPartition]] = {"restoring": [], "waiting": []}
        for owned in self._owned.values():
            phases.get(owned.phase, []).append(owned)
        until = self._clock.monotonic() + SLICE_SECONDS
        for owned in phases["restoring"] or phases["waiting"]:
            started = self._clock.monotonic()
            owned.advance()
            self.totals.recovering(self._clock.monotonic() - started)
            if owned.phase == "waiting":  # to the end of the queue
                self._owned[owned.partition] = self._owned.pop(owned.partition)
            elif owned.state is not None and not owned.consuming:
                self._consumer.incremental_assign([owned.consume()])
            if owned.phase == "restoring" or self._clock.monotonic() > until:
                break

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(lambda: self._assigned(consumer, [one.partition for one in partitions]))

    def _assigned(self, consumer: Consumer, partitions: list[int]) -> None:
        reach("rebalance.assign")
        # Nothing is fetched before the state is there: each partition is assigned with its offset in _advance.
        consumer.incremental_assign([])
        self._joined_at = self._joined_at or self._clock.monotonic()
        if partitions and max(partitions) >= self._output_partitions:
            for topic in self._topics.prepare().values():
                self._reader.list_topics(topic.name, timeout=CONNECT_SECONDS)
            self._output_partitions = max(partitions) + 1
        for partition in partitions:
            log.info("assigned", extra={"partition": partition})
            self._owned[partition] = OwnedPartition(self._cluster, partition)
        self.totals.rebalanced()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(lambda: self._revoked(consumer, [one.partition for one in partitions]))

    def _revoked(self, consumer: Consumer, partitions: list[int]) -> None:
        reach("rebalance.revoke")
        leaving = [self._owned[partition] for partition in partitions if partition in self._owned]
        try:
            if not self._failed:
                self._commits.commit(self._owned.values(), leaving)
        except Aborted as error:
            log.info(
                "could not commit before leaving partitions %s (%s); their new owner replays",
                partitions,
                error,
            )
        self._release(consumer, leaving)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(lambda: self._lost(consumer, [one.partition for one in partitions]))

    def _lost(self, consumer: Consumer, partitions: list[int]) -> None:
        log.warning(
            "lost partitions %s: this worker was away for longer than the session timeout", partitions
        )
        self._transaction.abort()
        self._release(
            consumer, [self._owned[partition] for partition in partitions if partition in self._owned]
        )

    def _release(self, consumer: Consumer, leaving: list[OwnedPartition]) -> None:
        if leaving and self._transaction.kept:
            self._transaction.abort()
        consuming = [
            TopicPartition(self._topic.name, owned.partition) for owned in leaving if owned.consuming
        ]
        consumer.incremental_unassign(consuming)
        gone = {owned.partition for owned in leaving}
        gc.unfreeze()  # what may have cycles in it can be freed again
        for partition in gone:
            self._transaction.discard(partition)
            del self._owned[partition]
            self.totals.released(partition)
            log.info("released", extra={"partition": partition})
        self._waiting = deque(message for message in self._waiting if message.partition() not in gone)

    def _guarded(self, callback: Callable[[], None]) -> None:
        """An exception in a callback is raised by the loop: librdkafka would swallow or mangle it."""
        try:
            callback()
        except BaseException as error:
            self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- commits -------------------------------------------------------------------------------------------------

    def _commit_or_send_again(self) -> None:
        """Commit; after an abort serve rebalances with the input waiting, and send the kept outputs again."""
        while True:
            try:
                self._commits.commit(self._owned.values())
                return
            except Aborted:
                self._alive()
                message = self._consumer.poll(0.05)
                if message is not None:
                    self._waiting.append(message)
                self._raise_failure()

    # --- what is asked from outside ------------------------------------------------------------------------------

    def report(self, alive_at: float) -> Report:
        """What this worker is doing; for another thread."""
        return make_report(
            self.totals,
            self._transaction.outcomes,
            list(self._owned.values()),
            self._joined_at is not None,
            alive_at,
            self._envelope.read,
        )

    # --- ends ----------------------------------------------------------------------------------------------------

    def _end_offsets(self) -> dict[int, int]:
        ends = {}
        for partition in range(self._topic.partitions):
            where = TopicPartition(self._topic.name, partition)
            try:
                ends[partition] = self._reader.get_watermark_offsets(where, timeout=10)[1]
            except KafkaException as error:
                raise UserError(
                    f"topics.records: {self._topic.name!r} partition {partition}: {error.args[0].str()}"
                ) from None
        return ends

    def _caught_up(self) -> bool:
        if self._targets is None or self._joined_at is None or self._waiting:
            return False
        if not self._owned:
            return self._clock.monotonic() - self._joined_at > JOIN_GRACE_SECONDS
        targets = self._targets
        return all(owned.reached(targets.get(owned.partition, 0)) for owned in self._owned.values())

    def _leave(self) -> None:
        """After a failure: give the partitions back at once, and commit nothing."""
        self._failed = True
        try:
            self._transaction.abort()
            self._consumer.close()
        except Exception as error:
            log.debug("leaving the group: %s", error)

    def _finish(self) -> None:
        """Commit with a snapshot of every partition, and leave the group."""
        for _ in range(20):
            try:
                self._commits.commit(self._owned.values(), self._owned.values())
                break
            except Aborted:
                self._consumer.poll(0.05)
                self._raise_failure()
        self._consumer.close()
        self._raise_failure()
