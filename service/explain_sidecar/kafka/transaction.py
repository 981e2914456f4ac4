"""One open transaction at a time: outputs, snapshots and input offsets, committed together or not at all.

An aborted transaction loses nothing: the state depends on the input alone, so its outputs are kept until a commit and
sent again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from explain_sidecar.crash_points import reach
from explain_sidecar.fold.messages import Output
from explain_sidecar.kafka.clients import KAFKA, Connections, ErrorLog, Kafka, transactional_producer
from explain_sidecar.kafka.errors import REMEDIES, Aborted, Fatal, Fenced, Refused
from explain_sidecar.kafka.sent import Ends, Keyed, Sent, size_of, stored_at
from explain_sidecar.settings import Settings
from explain_sidecar.settings.kafka import TRANSACTION_TIMEOUT_MS

CALL_SECONDS = 5.0
"""Longest wait of one call; a retriable one is called again."""

GRACE_SECONDS = 1.0
"""How much longer than it was given a call may take before it counts as one that never returns."""

STUCK_SECONDS = 30.0
"""How long a call may go without an outcome while Kafka answers others. It ends a transaction 10 s after its beginning, and looks for
such ones every 10 s: what is not decided then, this producer will not hear of."""

MAX_KEPT_BYTES = 64 * 2**20
"""Outputs kept for sending again; a transaction is committed before it has more."""

METADATA_TRIES = 20

log = logging.getLogger(__name__)


Delivered = Callable[[KafkaError | None, Message], None]


class Transaction:
    """Wraps a transactional producer: begins lazily, keeps what it sent, commits, sends again after an abort.

    ``name`` is the transactional id, of the producer and of those that replace it. ``alive`` is told that the caller waits. ``unseen`` is
    asked after an abort or a broken connection: of the messages to be sent again and the last committed ones of each place, it gives those of the
    first that readers do not see. It raises ``Aborted`` while that cannot be known, or where they do not see the others. ``renews``: whether
    a producer may be replaced; what others under the same name did meanwhile must not matter then.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        errors: ErrorLog,
        alive: Callable[[], None] = lambda: None,
        kafka: Kafka = KAFKA,
        unseen: Callable[[list[Sent], Collection[Sent]], list[Sent]] = lambda kept, committed: kept,
        renews: bool = True,
    ) -> None:
        self._unseen, self._unsure = unseen, False
        self._renews = renews
        self._connections = Connections()
        self._connect = partial(transactional_producer, settings, name, errors, kafka, self._connections)
        self._clock = kafka.clock
        self._topics: dict[str, str] = {name: getattr(settings.topics, name) for name in settings.outputs}
        self._alive = alive
        self._instance = settings.instance_id
        self.open = False
        self._ends: list[Ends] = []
        self._undelivered = False
        self._committed: dict[tuple[str, int], Sent] = {}
        self.kept: list[Sent] = []
        self.kept_bytes = 0
        self.outcomes = {"committed": 0, "aborted": 0}
        self._refused: tuple[KafkaError, str] | None = None
        self._replaced = False
        self._silent_since = 0.0
        self._init()

    def _init(self) -> None:
        """A producer that is ready; Kafka aborts what the one before left open under its name."""
        self._producer = self._connect()
        self._call("init_transactions", self._producer.init_transactions)
        self._connections.broken = False

    def _renew(self) -> None:
        """Another producer under the same name, where a request of the one before may still be on its way to the broker.

        librdkafka repeats an EndTxn whose connection broke. The first one, if it comes late, would commit the next transaction before
        it is whole, as both have the same epoch (KIP-890; its second part needs a client that bumps the epoch itself, see librdkafka's
        issue 5423). A new producer has a new epoch, under which Kafka refuses all that was sent before.
        """
        self._producer.poll(0.0)  # what librdkafka has to say of its connections
        if self._connections.broken:
            if not self._renews:
                raise Aborted("the connection to Kafka broke")
            log.info("the connection of the producer broke; another producer goes on")
            self._init()
            self._unsure = True

    def publish(self, partition: int, outputs: list[Output]) -> None:
        """Send what a record caused, and keep it until it is committed; opens the transaction. Raises ``Aborted``."""
        self.keep(
            [
                Sent(self.topic_of(output), partition, output.key, output.value, list(output.headers))
                for output in outputs
            ]
        )

    def topic_of(self, output: Output) -> str:
        return self._topics[output.destination]

    def keep(self, messages: list[Sent]) -> None:
        """As ``publish``, for messages to any topic."""
        self.kept += messages
        for sent in messages:
            self.kept_bytes += size_of(sent)
        if self.open:
            for sent in messages:
                self.send(sent, self._delivered)
        else:
            self.begin()

    def begin(self) -> None:
        """Open a transaction, with everything kept in it."""
        if not self.open:
            self._ends, self._undelivered = [], False
            self._renew()
            if self._unsure:
                self.kept = self._unseen(self.kept, self._committed.values())
                self.kept_bytes = sum(map(size_of, self.kept))
                self._unsure = False
            self._call("begin_transaction", lambda _: self._producer.begin_transaction())
            self.open = True
            for sent in self.kept:
                self.send(sent, self._delivered)

    def send(self, sent: Sent, on_delivery: Delivered | None = None) -> None:
        """``on_delivery`` is called with what became of it, amid later calls."""
        # Each argument that is not given saves a tenth of the call.
        arguments: dict[str, Any] = {}
        if sent.headers:
            arguments["headers"] = sent.headers
        if on_delivery is not None:
            arguments["on_delivery"] = on_delivery
        asked = 0
        reach("produce.before")
        while True:
            try:
                self._producer.produce(sent.topic, sent.value, sent.key, sent.partition, **arguments)
                reach("produce.after")
                return
            except BufferError:
                self._alive()
                self._producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION or asked == METADATA_TRIES:
                    self._failed("produce", error)
                asked += 1  # the topic was given more partitions since this client looked
                self._producer.list_topics(sent.topic, timeout=CALL_SECONDS)

    def send_all(self, topic: str, partition: int, records: Sequence[Keyed]) -> Ends:
        """Send records in order; ``flush`` fills in the offsets of the first and the last."""
        ends = Ends()
        self._ends.append(ends)
        for index, (key, value, headers) in enumerate(records):
            if index:
                reach("snapshot.between_chunks")
            first, last = index == 0, index == len(records) - 1
            stored = partial(self._stored, ends, first, last) if first or last else None
            self.send(Sent(topic, partition, key, value, headers), stored)
        return ends

    def _stored(
        self, ends: Ends, first: bool, last: bool, error: KafkaError | None, message: Message
    ) -> None:
        self._delivered(error, message)
        offset = stored_at(error, message)
        if first:
            ends.first = offset
        if last:
            ends.last = offset

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._undelivered = self._undelivered or error is not None
        if error is not None and error.code() in REMEDIES:
            self._refused = self._refused or (error, f" to topic {message.topic()!r}")

    def _failure(self) -> KafkaError | None:
        """Why the transaction has failed. Only for one with a message that was not delivered: a commit, now impossible, says why."""
        try:
            self._producer.commit_transaction(CALL_SECONDS)
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            return cause
        return None

    def _not_refused(self) -> None:
        """Raises ``Refused`` where Kafka refused a message for good."""
        if self._refused is not None:
            error, where = self._refused
            raise Refused(
                f"Kafka refuses what is to be published{where}: {error.str()}; {REMEDIES[error.code()]}"
            )

    def flush(self) -> None:
        """Wait until all messages are acknowledged, so that the offsets of ``send_all`` are known. Raises ``Aborted``."""
        deadline = self._clock.monotonic() + 2 * CALL_SECONDS
        try:
            while self._producer.flush(0.5):
                self._alive()
                if self._clock.monotonic() > deadline:
                    self.abort()
                    raise Aborted("messages were not acknowledged in time")
        except KafkaException as error:
            self._failed("flush", error)
        except SystemError as error:
            # The client raises a fatal error amid the acknowledgements, whose calls then fail for it.
            if not isinstance(error.__cause__, KafkaException):
                raise
            self._failed("flush", error.__cause__)
        if any(min(ends.first, ends.last) < 0 for ends in self._ends):
            cause = self._failure() if self._undelivered else None
            if cause is not None:
                self._failed("flush", KafkaException(cause))
            self.abort()
            raise Aborted("a snapshot's record was not stored")

    def commit(
        self,
        offsets: list[TopicPartition],
        group: Consumer,
        metadata: object = None,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """Commit what was sent together with the input offsets. Raises ``Aborted``.

        ``metadata`` is that of a member of the group, so that Kafka refuses the offsets once it is none; without it the group
        must have no other member. ``confirm`` is called last and may raise what stands against the commit.
        """
        if offsets:
            if self._replaced:
                self._coordinator_answers(offsets, group)
            metadata = metadata or group.consumer_group_metadata()
            reach("send_offsets.before")
            self._call(
                "send_offsets_to_transaction", lambda seconds: self._send_offsets(offsets, metadata, seconds)
            )
            reach("send_offsets.after")
        confirm()
        reach("commit.before")
        self._call("commit_transaction", self._producer.commit_transaction)
        reach("commit.after")
        self.open = False
        self.outcomes["committed"] += 1
        self._committed = {(sent.topic, sent.partition): sent for sent in self.kept}
        self.kept, self.kept_bytes = [], 0

    def _send_offsets(self, offsets: list[TopicPartition], metadata: object, seconds: float) -> None:
        """Raises ``Aborted`` where the call does not return in time, which a broker's end brings about.

        librdkafka asks three times within some 30 ms for the coordinator of the group, and then waits for a connection to
        change, without regard to ``seconds`` (its issues 5456 and 5511). Such a producer is left to itself, and Kafka fences it.
        """
        producer, outcome = self._producer, Future[None]()

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(offsets, metadata, seconds)
                outcome.set_result(None)
            except BaseException as error:  # whatever the error, the loop must not wait for more
                outcome.set_exception(error)

        threading.Thread(target=send, daemon=True).start()
        try:
            outcome.result(seconds + GRACE_SECONDS)
        except TimeoutError:
            log.warning(
                "send_offsets_to_transaction has hung for %g s; another producer sends its %d messages again",
                seconds + GRACE_SECONDS,
                len(self.kept),
            )
            self._replaced = True
            self._ended()
            self._init()
            raise Aborted("the producer hung, and was replaced") from None

    def _coordinator_answers(self, offsets: list[TopicPartition], group: Consumer) -> None:
        """Asked before a new producer could hang as the one before it did. Raises ``Aborted``, and ``Fatal`` once it has not answered for long."""
        try:
            group.committed(
                [TopicPartition(position.topic, position.partition) for position in offsets], CALL_SECONDS
            )
        except KafkaException as error:
            cause = error.args[0]
            self.abort()
            if not self._silent_since:
                log.warning(
                    "the coordinator of the group does not answer (%s); it is asked again and again",
                    cause.str(),
                )
            self._silent_since = self._stuck(self._silent_since, "asking the coordinator of the group", cause)
            raise Aborted(f"the coordinator of the group: {cause.str()}") from None
        self._replaced, self._silent_since = False, 0.0

    def abort(self) -> None:
        if self.open:
            self._ended()
            with suppress(Aborted):
                self._call("abort_transaction", self._producer.abort_transaction)

    def _ended(self) -> None:
        """The open transaction ends without a commit of this producer's."""
        self.open, self._unsure = False, True
        self.outcomes["aborted"] += 1

    def discard(self, partition: int) -> None:
        """Forget the outputs of a revoked partition; the transaction must not be open."""

        def stays(sent: Sent) -> bool:
            return partition != (sent.partition if sent.owner is None else sent.owner)

        self.kept = [sent for sent in self.kept if stays(sent)]
        self._committed = {place: sent for place, sent in self._committed.items() if stays(sent)}

    def _call(self, name: str, call: Callable[[float], Any]) -> None:
        """Call until the outcome is known: a retriable error or a time-out is answered by the same call."""
        since = 0.0
        while True:
            self._alive()
            try:
                call(CALL_SECONDS)
                return
            except KafkaException as error:
                cause = error.args[0]
                if not cause.retriable() or cause.txn_requires_abort():
                    self._failed(name, error)
                log.debug("%s: %s; calling it again", name, cause.str())
                self._connections.broken = True
                self._clock.sleep(0.01)
            since = self._stuck(since, name, cause)

    def _stuck(self, since: float, name: str, cause: KafkaError) -> float:
        """Since when Kafka answers other calls than this one; 0 where it answers none. Raises ``Fatal`` after ``STUCK_SECONDS``."""
        if not self._answers():
            return 0.0
        now = self._clock.monotonic()
        since = since or now
        if now > since + STUCK_SECONDS:
            self.open = False  # it would not learn of an abort either
            raise Fatal(
                f"{name} has had no outcome for {STUCK_SECONDS:g} s while Kafka answers other calls ({cause.str()}); "
                "start the sidecar again: nothing is lost, and what was decided is read from the committed offsets"
            )
        return since

    def _answers(self) -> bool:
        try:
            self._producer.list_topics(self._topics["dead_letters"], timeout=1.0)
        except KafkaException:
            return False
        return True

    def _failed(self, name: str, error: KafkaException) -> NoReturn:
        cause = error.args[0]
        if name == "produce" and cause.code() in (KafkaError._STATE, KafkaError._FATAL):
            cause = self._failure() or cause
        with suppress(KafkaException):
            self._producer.poll(0.0)  # what Kafka has answered to the messages
        if cause.code() in (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.INVALID_TIMESTAMP,
        ):
            self._refused = self._refused or (cause, "")
        self._not_refused()
        if cause.txn_requires_abort() and name != "abort_transaction":
            log.info(
                "%s: %s; aborting, its %d messages will be sent again", name, cause.str(), len(self.kept)
            )
            self.open = True
            self.abort()
            raise Aborted(cause.str()) from None
        if cause.code() == KafkaError.INVALID_TXN_STATE and self._renews:
            # Kafka took an earlier request, which came late, for the end of this transaction.
            log.warning("%s: %s; another producer sends again what readers do not see", name, cause.str())
            if self.open:
                self._ended()
            self._init()
            raise Aborted(cause.str()) from None
        if cause.code() in (
            KafkaError._FENCED,
            KafkaError.PRODUCER_FENCED,
            KafkaError.INVALID_PRODUCER_EPOCH,
        ):
            raise Fenced(
                f"duplicate instance id: another worker runs under instance_id {self._instance!r}, or Kafka ended a transaction "
                f"that was open for {TRANSACTION_TIMEOUT_MS / 1000:g} s, as when a broker dies ({name}: {cause.str()}); start this one again, "
                "and give each instance an id of its own"
            )
        raise Fatal(f"{name}: {cause.str()}; the producer cannot go on, start the sidecar again")
