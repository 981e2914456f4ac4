"""A transactional producer of the in-memory cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tests.driver.log import Entry, Metadata, Where, error
from tests.driver.process import Client, Process

LINGER = 3
"""Messages after which a producer sends those that wait."""


class Producer(Client):
    def __init__(self, process: Process, config: dict[str, Any]) -> None:
        super().__init__(process, config)
        self._name: str = config["transactional.id"]
        self._timeout = config["transaction.timeout.ms"] / 1_000
        self.epoch = -1
        self._state = "new"
        self._cause: KafkaError | None = None
        self._waiting: list[tuple[Where, Entry, Any, bool]] = []
        self._reports: list[Callable[[], None]] = []
        self._joined: set[Where] = set()
        """Partitions that the coordinator was asked to take into the transaction; those of the offsets under an empty name."""

    def init_transactions(self, timeout: float) -> None:
        self.called("init_transactions")
        self.epoch = self.cluster.begin(self._name, self._timeout)
        self._state = "ready"
        self.answered()

    def begin_transaction(self) -> None:
        self.called("begin_transaction")
        self._check("ready")
        self._state = "open"
        self._joined.clear()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        *,
        headers: Any = (),
        on_delivery: Any = None,
    ) -> None:
        self.called("produce")
        if self._state == "aborting":
            raise error(KafkaError._STATE)
        self._check("open")
        self.cluster.log(topic, partition)
        stamp = int(1_000 * self.cluster.clock.time())
        entry = Entry(key, value, tuple(headers), stamp)
        self._waiting.append(((topic, partition), entry, on_delivery, self.unknown))
        self.unknown = False
        if len(self._waiting) >= LINGER:
            self._send()

    def poll(self, timeout: float) -> int:
        self.called("producer.poll")
        return self._report()

    def flush(self, timeout: float) -> int:
        self.called("flush")
        self._send()
        self._report()
        return 0

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], metadata: Metadata, timeout: float
    ) -> None:
        self.called("send_offsets_to_transaction")
        self._check("open")
        try:
            self.cluster.groups[metadata.group].check(metadata)
            known = self.cluster.join(self._name, self.epoch)
        except KafkaException as refusal:
            self._fail(refusal.args[0])
            raise
        self._joined.add(("", 0))
        known.offsets += [(metadata.group, place) for place in offsets]
        self.answered()

    def commit_transaction(self, timeout: float) -> None:
        self.called("commit_transaction")
        if self._state != "committed":
            self._check("open")
            self._send()
            self._report()
            self._check("open")
            self._end(commit=True)
            self._state = "committed"
            self.answered()
        self._state = "ready"

    def abort_transaction(self, timeout: float) -> None:
        self.called("abort_transaction")
        if self._state != "aborted":
            if self._state == "fatal":
                raise KafkaException(self._cause)
            self._waiting.clear()
            self._end(commit=False)
            self._state = "aborted"
            self.answered()
        self._state = "ready"

    def _end(self, commit: bool) -> None:
        if not self._joined:
            return  # there is nothing that the coordinator knows of
        try:
            known = self.cluster.known(self._name, self.epoch)
            if not commit and not known.open:
                raise error(KafkaError.INVALID_TXN_STATE, "it was committed", fatal=True)
        except KafkaException as refusal:
            self._fail(refusal.args[0])
            raise
        if known.open:
            self.cluster.end(self._name, commit)

    def _check(self, wanted: str) -> None:
        """Raises what has made the transaction impossible, or that the call does not belong here."""
        if self._state in ("aborting", "fatal"):
            raise KafkaException(self._cause)
        if self._state != wanted:
            raise error(KafkaError._STATE, f"the producer is {self._state}")

    def breaks(self) -> None:
        """The connection to the coordinator breaks; librdkafka asks again by itself, and says so in its own lines only."""
        self.config["logger"].info("%s [%s] %s", "FAIL", "memory", "Disconnected")

    def _fail(self, cause: KafkaError) -> None:
        self._state, self._cause = "fatal" if cause.fatal() else "aborting", cause

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for where, entry, on_delivery, unknown in waiting:
            failure, offset = self.refused or self._too_large(where, entry), -1
            if failure is not None:
                self.refused = None
                self._fail(
                    KafkaError(failure.code(), failure.str(), False, False, True)  # fatal, retriable, abort
                )
            elif self._state == "open":
                try:
                    offset = self.cluster.append(self._name, self.epoch, where, entry, where in self._joined)
                    self._joined.add(where)
                except KafkaException as refusal:
                    failure = refusal.args[0]
                    self._fail(failure)
            else:
                failure = KafkaError(KafkaError._PURGE_QUEUE)
            if unknown:
                offset = -1
            message = Message(topic=where[0], partition=where[1], offset=offset)
            if on_delivery is not None:
                self._reports.append(lambda f=on_delivery, e=failure, m=message: f(e, m))

    def _too_large(self, where: Where, entry: Entry) -> KafkaError | None:
        topic = self.cluster.topics.get(where[0])
        if topic is None or len(entry.value or b"") <= int(topic.config.get("max.message.bytes", 1_048_588)):
            return None
        return KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)

    def _report(self) -> int:
        reports, self._reports = self._reports, []
        for report in reports:
            report()
        return len(reports)
