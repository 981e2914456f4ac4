"""A member of a consumer group with one transactional producer and one thread: what every stage has in common.

poll → take in → publish → (every commit interval) send offsets, commit. Rebalance callbacks come from inside ``poll``.
"""

from __future__ import annotations

import gc
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from explain_sidecar.crash_points import reach
from explain_sidecar.errors import UserError
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.kafka.clock import SLICE_SECONDS
from explain_sidecar.kafka.commits import Committer, P
from explain_sidecar.kafka.errors import DENIED, GONE, Aborted, Fatal
from explain_sidecar.kafka.input import Received, received
from explain_sidecar.kafka.report import Report

MAX_BATCH = 1_000
JOIN_GRACE_SECONDS = 5.0
"""With ``until_caught_up``, a worker without a partition waits this long for an assignment."""

log = logging.getLogger(__name__)


class Member(Committer[P]):
    """Owns the partitions that the group gives it, until ``stopping`` is set or all of them are caught up. The group shares out the first input."""

    stopping = False
    _failed = False
    _failure: BaseException | None = None
    _joined_at: float | None = None
    _targets: Mapping[int, Any] | None = None
    _step_seconds = 0.001

    def run(self, until_caught_up: bool = False) -> None:
        """Work until ``stopping``; with ``until_caught_up`` until the end offsets seen at the start."""
        for _ in self.turns(until_caught_up):
            pass

    def turns(self, until_caught_up: bool = False) -> Generator[None]:
        """``run``, a turn of the loop at a time."""
        if until_caught_up:
            self._targets = self._end_offsets()
        self._consumer.subscribe(
            [next(iter(self._inputs))],
            on_assign=self._guarded(self._assigned),
            on_revoke=self._guarded(self._revoked),
            on_lost=self._guarded(self._lost),
        )
        try:
            while not self.stopping and not self._caught_up():
                self._alive()
                self._namesakes.look()
                self._look()
                self._receive()
                self._advance()
                self._take_in_waiting()
                if self._due():
                    self._commit_or_send_again()
                yield
            self._finish()
            log.info(self.totals)
        except BaseException:
            self._leave()
            raise
        finally:
            self._close()

    def _report(self, alive_at: float, **others: Any) -> Report:
        """What this worker is doing, with fields of the report as they are; for another thread: it reads single numbers and references, and copies dicts
        whole.
        """
        return Report(
            alive_at=alive_at,
            joined=self._joined_at is not None,
            rebalances=self.totals.rebalances,
            transactions=self._transaction.outcomes.copy(),
            dead_letters=self.totals.dead_letters.copy(),
            steps=self.totals.steps,
            commits=self.totals.commits,
            topic_ids=self._watch.ids,
            **others,
        )

    # --- what a stage does -------------------------------------------------------------------------------------------

    @abstractmethod
    def _take_in(self, owned: P, message: Message, record: InputRecord) -> int:
        """A record of the input, perhaps with some that wait; how many. Raises ``Aborted`` where it is taken in, and its outputs could not be sent."""

    @abstractmethod
    def _own(self, partition: int) -> P:
        """A partition that was assigned."""

    @abstractmethod
    def _at_end(self, owned: P, message: Message) -> None:
        """The input has nothing more before the message's offset. Raises ``Aborted`` as ``_take_in`` does."""

    @abstractmethod
    def _end_offsets(self) -> Mapping[int, Any]:
        """Where the input of each partition ends now, for ``reached``."""

    def _end_of(self, topic: str, partition: int) -> int:
        """Where a partition of an input ends now. Raises ``UserError`` where no broker says it."""
        try:
            return self._reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]
        except KafkaException as error:
            raise UserError(
                f"{self._inputs[topic]}: {topic!r} partition {partition}: {error.args[0].str()}"
            ) from None

    @abstractmethod
    def _overtaken(self, topic: str, partition: int) -> str:
        """What to do where retention deleted records before they were taken in."""

    def _look(self) -> None:
        """Periodic work, once a turn."""
        self._watch.look()

    def _recover_torn(self) -> None:
        """Recover partitions whose last commit readers do not see."""

    def _close(self) -> None:
        """The end of the loop, whatever ended it."""
        self._reader.close()

    # --- input ---------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Take messages in, about a tenth of a second's worth; serves rebalances, also while input is waiting."""
        idle = not self._waiting
        message = self._poll(self._poll_seconds() if idle else 0.0)
        self._behind = not idle
        if message is not None:
            self._waiting.append(received(message))
            if idle:
                batch = max(1, min(MAX_BATCH, int(SLICE_SECONDS / self._step_seconds)))
                more = self._consumer.consume(batch, 0.0)
                self._behind = len(more) == batch
                self._raise_failure()
                # A rebalance during that call has emptied the queue; messages received before it may be of revoked partitions.
                for found in map(received, more):
                    partition, message, record = found
                    if record is None:
                        _check_going(message.error())  # type: ignore[arg-type]
                    elif self._consumer_of(partition) is None:
                        continue
                    self._waiting.append(found)

    def _poll(self, seconds: float) -> Message | None:
        """What comes next. Raises what a callback raised, and ``Fatal`` at once: behind input that waits it would be seen late, or never."""
        message = self._consumer.poll(seconds)
        self._raise_failure()
        if message is not None and (error := message.error()) is not None:
            _check_going(error)
        return message

    def _consumer_of(self, partition: int | None) -> P | None:
        """The partition that takes messages of it in, if it is still here and input may come."""
        owned = self._owned.get(partition)  # type: ignore[arg-type]
        return owned if owned is not None and owned.consuming else None

    def _poll_seconds(self) -> float:
        if any(owned.phase in ("waiting", "restoring") for owned in self._owned.values()):
            return 0.0
        longest = 0.1 if self._owned else 0.02  # a poll in which the first partitions come waits to its end
        left = self._wait_seconds
        return longest if left is None else max(0.0, min(longest, left))

    def _take_in_waiting(self) -> None:
        waiting, monotonic = self._waiting, self._clock.monotonic
        started, count = monotonic(), 0
        while waiting:
            try:
                taken = self._take(waiting.popleft())
            except Aborted:
                # The record is taken in and its outputs are kept; they are sent again before anything else.
                break
            if not taken:
                continue
            count += taken
            now = monotonic()
            if now - started > SLICE_SECONDS or self._full(now):
                break
        if count:
            self._step_seconds = 0.5 * self._step_seconds + 0.5 * (monotonic() - started) / count

    def _take(self, found: Received) -> int:
        """A message of the input, or what librdkafka says of it; how many records of a partition that is consumed. Raises ``Aborted``."""
        partition, message, record = found
        if record is None:
            self._input_error(message, partition)
            return 0
        owned = self._consumer_of(partition)
        return 0 if owned is None else self._take_in(owned, message, record)

    def _input_error(self, message: Message, partition: int) -> None:
        error: KafkaError = message.error()  # type: ignore[assignment]
        code = error.code()
        topic = message.topic() or next(iter(self._inputs))
        if code == KafkaError._PARTITION_EOF:
            if (owned := self._consumer_of(partition)) is not None:
                self._at_end(owned, message)
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._watch.confirm(self._watch.ask())  # a topic that was created again is shorter
            remedy = self._overtaken(topic, partition)
            self._save_all()
            raise UserError(
                f"{topic} partition {partition}: {error.str()}: retention deleted records before they were folded; "
                f"give the topic a longer retention, and {remedy}"
            )
        elif code in (*GONE, *DENIED):
            remedy = (
                "see docs/guarantees.md for the rights that the sidecar's user needs"
                if code in DENIED
                else "was it deleted? Once it is there again, start the sidecar again"
            )
            raise UserError(f"{self._inputs.get(topic, 'topics')}: {topic!r}: {error.str()}; {remedy}")
        else:
            log.warning("input: %s", error.str(), extra={"partition": partition})

    # --- partitions ----------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """A slice of recovery; then input for those that became ready for it, together: each would wait for the open fetch of others."""
        # The single reader restores one partition at a time, the first; those that wait take turns.
        recovering = [owned for owned in self._owned.values() if owned.phase in ("restoring", "waiting")]
        ready: list[P] = []
        until = self._clock.monotonic() + SLICE_SECONDS
        while recovering and (started := self._clock.monotonic()) < until:
            owned = recovering[0]
            owned.advance()
            self.totals.recovering(self._clock.monotonic() - started)
            if owned.phase == "restoring":
                continue
            recovering.pop(0)
            if owned.phase == "waiting":  # to the end of the queue
                self._owned[owned.partition] = self._owned.pop(owned.partition)
            else:
                ready.append(owned)
        if ready:
            self._consumer.incremental_assign([place for owned in ready for place in owned.consume()])

    def _assigned(self, partitions: list[int]) -> None:
        reach("rebalance.assign")
        # Nothing is fetched before the state is restored: _advance assigns each partition with its offset.
        self._consumer.incremental_assign([])
        self._joined_at = self._joined_at or self._clock.monotonic()
        for partition in partitions:
            log.info("assigned", extra={"partition": partition})
            self._owned[partition] = self._own(partition)
        self.totals.rebalanced()

    def _revoked(self, partitions: list[int]) -> None:
        reach("rebalance.revoke")
        leaving = [self._owned[partition] for partition in partitions if partition in self._owned]
        try:
            if not self._failed:
                self._commit(leaving)
        except Aborted as error:
            log.info(
                "could not commit before leaving partitions %s (%s); their new owner replays",
                partitions,
                error,
            )
        self._release(leaving)

    def _lost(self, partitions: list[int]) -> None:
        log.warning(
            "lost partitions %s: this worker was away for longer than the session timeout", partitions
        )
        self._transaction.abort()
        self._release([self._owned[partition] for partition in partitions if partition in self._owned])

    def _release(self, leaving: list[P]) -> None:
        if leaving and self._transaction.kept:
            self._transaction.abort()
        self._consumer.incremental_unassign([partition for owned in leaving for partition in owned.inputs()])
        gone = {owned.partition for owned in leaving}
        gc.unfreeze()  # what may have cycles in it can be freed again
        for partition in gone:
            self._transaction.discard(partition)
            self._gone(self._owned.pop(partition))
            self.totals.released(partition)
            log.info("released", extra={"partition": partition})
        self._waiting = deque(found for found in self._waiting if found[0] not in gone)

    def _gone(self, owned: P) -> None:
        """A partition was revoked."""

    def _guarded(
        self, callback: Callable[[list[int]], None]
    ) -> Callable[[Consumer, list[TopicPartition]], None]:
        """An exception in a callback is raised by the loop: librdkafka would swallow or mangle it."""

        def called(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            try:
                callback([partition.partition for partition in partitions])
            except BaseException as error:
                self._failure = self._failure or error

        return called

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- commits -------------------------------------------------------------------------------------------------

    def _commit_or_send_again(self) -> None:
        """Commit; after an abort serve rebalances with the input waiting, and send the kept outputs again."""
        while True:
            try:
                self._commit()
                return
            except Aborted:
                self._alive()
                self._recover_torn()
                message = self._poll(0.05)
                if message is not None:
                    self._waiting.append(received(message))

    def _caught_up(self) -> bool:
        if self._targets is None or self._joined_at is None or self._waiting:
            return False
        if not self._owned:
            return self._clock.monotonic() - self._joined_at > JOIN_GRACE_SECONDS
        return all(owned.reached(self._targets.get(owned.partition, 0)) for owned in self._owned.values())

    def _leave(self) -> None:
        """After a failure: give the partitions back at once, and commit nothing."""
        self._failed = True
        try:
            self._transaction.abort()
            self._consumer.close()
        except Exception as error:
            log.debug("leaving the group: %s", error)

    def _save_all(self) -> None:
        """Commit with a snapshot of every partition."""
        for _ in range(20):
            try:
                self._commit(self._owned.values())
                break
            except Aborted:
                self._consumer.poll(0.05)
                self._raise_failure()

    def _finish(self) -> None:
        """Commit what there is, and leave the group."""
        self._save_all()
        self._consumer.close()
        self._raise_failure()


def _check_going(error: KafkaError) -> None:
    """Raises ``Fatal`` where a consumer says that it takes part no more: it says so once."""
    if error.code() == KafkaError._FATAL or error.fatal():
        raise Fatal(
            f"the consumer cannot go on: {error.str()}; another worker runs under this kafka.group_instance_id, or Kafka takes "
            "this one for a member of before, or no longer knows the group, as when a broker dies; start this one again"
        )
