"""The clients of an in-memory cluster: exactly those calls of confluent-kafka that the service makes, with their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from itertools import islice
from types import SimpleNamespace
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from service.kafka.clients import Kafka
from tests.driver.log import Cluster, Entry, Group, Killed, Member, Metadata, Where, error

LINGER = 3
"""Messages after which a producer sends those that wait."""

Fault = Callable[["Client"], None]


class Process:
    """Whatever owns clients: it can be killed, or stand still, and faults happen at its calls by their number."""

    def __init__(self, cluster: Cluster, faults: Mapping[int, Fault]) -> None:
        self.cluster = cluster
        self.killed = self.paused = False
        self.calls: list[str] = []
        """The name of each call so far."""
        self.faults = dict(faults)
        """What happens at a call, by its number from 0 on."""

    @property
    def alive(self) -> bool:
        return not self.killed and not self.paused

    def kafka(self) -> Kafka:
        """What a worker of this process takes for Kafka."""
        made: list[Callable[[dict[str, Any]], Any]] = [
            lambda config, kind=kind: kind(self, config) for kind in (Consumer, Producer, Admin)
        ]
        return Kafka(*made, clock=self.cluster.clock)


class Client:
    def __init__(self, process: Process, config: dict[str, Any]) -> None:
        self.process, self.cluster, self.config = process, process.cluster, config
        self.lost = False
        """Whether the answer to this call gets lost."""
        self.refused: KafkaError | None = None
        """Why the message that is sent next is refused."""
        self.unknown = False
        """Whether Kafka no longer knows the offset of the message that is sent next."""

    def called(self, name: str) -> None:
        process = self.process
        if process.killed:
            raise Killed
        number = len(process.calls)
        process.calls.append(name)
        self.lost = False
        self.cluster.pass_time()
        fault = process.faults.pop(number, None)
        if fault is not None:
            fault(self)
            self.cluster.pass_time()
        if process.killed:
            raise Killed

    def answered(self) -> None:
        if self.process.killed:
            raise Killed
        if self.lost:
            raise error(KafkaError._TIMED_OUT, "the answer was lost", retriable=True)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        self.called("list_topics")
        found = {
            name: SimpleNamespace(partitions=dict.fromkeys(range(len(known.logs))))
            for name, known in self.cluster.topics.items()
            if topic in (None, name)
        }
        return SimpleNamespace(topics=found, brokers={1: None})


class Producer(Client):
    def __init__(self, process: Process, config: dict[str, Any]) -> None:
        super().__init__(process, config)
        self._name: str = config["transactional.id"]
        self._timeout = config["transaction.timeout.ms"] / 1_000
        self._epoch = -1
        self._state = "new"
        self._cause: KafkaError | None = None
        self._waiting: list[tuple[Where, Entry, Any]] = []
        self._reports: list[Callable[[], None]] = []

    def init_transactions(self, timeout: float) -> None:
        self.called("init_transactions")
        self._epoch = self.cluster.begin(self._name, self._timeout)
        self._state = "ready"
        self.answered()

    def begin_transaction(self) -> None:
        self.called("begin_transaction")
        self._check("ready")
        self._state = "open"

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        *,
        partition: int,
        headers: Any,
        on_delivery: Any = None,
    ) -> None:
        self.called("produce")
        if self._state == "aborting":
            raise error(KafkaError._STATE)
        self._check("open")
        self.cluster.log(topic, partition)
        stamp = int(1_000 * self.cluster.clock.time())
        entry = Entry(key, value, tuple(headers), stamp)
        self._waiting.append(((topic, partition), entry, on_delivery))
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
            known = self.cluster.join(self._name, self._epoch)
        except KafkaException as refusal:
            self._fail(refusal.args[0])
            raise
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
        try:
            self.cluster.join(self._name, self._epoch)
        except KafkaException as refusal:
            self._fail(refusal.args[0])
            raise
        self.cluster.end(self._name, commit)

    def _check(self, wanted: str) -> None:
        """Raises what has made the transaction impossible, or that the call does not belong here."""
        if self._state in ("aborting", "fatal"):
            raise KafkaException(self._cause)
        if self._state != wanted:
            raise error(KafkaError._STATE, f"the producer is {self._state}")

    def _fail(self, cause: KafkaError) -> None:
        self._state, self._cause = "fatal" if cause.fatal() else "aborting", cause

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for where, entry, on_delivery in waiting:
            failure, offset = self.refused, -1
            if failure is not None:
                self.refused = None
                self._fail(
                    KafkaError(failure.code(), failure.str(), False, False, True)  # fatal, retriable, abort
                )
            elif self._state == "open":
                try:
                    offset = self.cluster.append(self._name, self._epoch, where, entry)
                except KafkaException as refusal:
                    failure = refusal.args[0]
                    self._fail(failure)
            else:
                failure = KafkaError(KafkaError._PURGE_QUEUE)
            if self.unknown and failure is None:
                self.unknown, offset = False, -1
            message = Message(topic=where[0], partition=where[1], offset=offset)
            if on_delivery is not None:
                self._reports.append(lambda f=on_delivery, e=failure, m=message: f(e, m))

    def _report(self) -> int:
        reports, self._reports = self._reports, []
        for report in reports:
            report()
        return len(reports)


class Consumer(Client):
    def __init__(self, process: Process, config: dict[str, Any]) -> None:
        super().__init__(process, config)
        self._committed: bool = config.get("isolation.level", "read_committed") == "read_committed"
        self._session = config.get("session.timeout.ms", 45_000) / 1_000
        self._group = self.cluster.groups.setdefault(config["group.id"], Group())
        self._positions: dict[Where, int] = {}
        self._ended: dict[Where, int] = {}
        self._member: Member | None = None
        self._callbacks: dict[str, Callable[[Consumer, list[TopicPartition]], None]] = {}

    # --- the group -------------------------------------------------------------------------------------------------

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.called("subscribe")
        self._callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost}
        self._topics = topics
        self._join()

    def _join(self) -> None:
        self._member = self.cluster.new_member(self._topics, self._session, lambda: self.process.alive)
        self._group.members[self._member.id] = self._member
        self._group.rebalance(self.cluster.clock.now)

    def consumer_group_metadata(self) -> Metadata:
        self.called("consumer_group_metadata")
        member = self._member
        name = self.config["group.id"]
        return Metadata(name, member.id, member.generation) if member else Metadata(name, "", -1)

    def _serve(self) -> None:
        """Tell the owner what the group has decided; the callbacks are called from inside ``poll``, as by librdkafka."""
        member = self._member
        if member is None:
            return
        if self._group.members.get(member.id) is not member:  # the group went on without this one
            places = {where for kind, changed in member.news if kind == "revoke" for where in changed}
            gone = sorted(member.owned | places)
            member.news.clear()
            if gone:
                self._tell("lost", gone)
            if self._member is member:  # it did not leave meanwhile
                self._join()
            return
        while member.news:
            kind, places = member.news[0]
            self._tell(kind, places)
            if member.news:
                member.news.pop(0)
            if kind == "revoke":
                self._group.rebalance(self.cluster.clock.now)

    def _tell(self, kind: str, places: list[Where]) -> None:
        self._callbacks[kind](self, [TopicPartition(*where) for where in places])
        if self.process.killed:
            raise Killed

    def close(self) -> None:
        self.called("close")
        member, self._member = self._member, None
        if member is not None:
            places = {where for kind, changed in member.news if kind == "revoke" for where in changed}
            owned = sorted(member.owned | places)
            known = self._group.members.get(member.id) is member
            if owned:
                self._member = member  # its metadata holds until it has left
                self._tell("revoke" if known else "lost", owned)
                self._member = None
            self._group.members.pop(member.id, None)
            if known:
                self._group.rebalancing_since = None
                self._group.rebalance(self.cluster.clock.now)
        self._positions.clear()

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.called("committed")
        found = []
        for place in places:
            where = place.topic, place.partition
            if self._committed and self.cluster.undecided(self.config["group.id"], where):
                self.cluster.clock.sleep(timeout)
                raise error(KafkaError._TIMED_OUT, "an open transaction commits an offset", retriable=True)
            offset, metadata = self._group.committed.get(where, (OFFSET_INVALID, ""))
            found.append(TopicPartition(*where, offset, metadata=metadata))
        return found

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        """Only tests commit outside a transaction."""
        self.called("commit")
        for place in offsets:
            self._group.committed[place.topic, place.partition] = place.offset, place.metadata or ""

    # --- reading ---------------------------------------------------------------------------------------------------

    def assign(self, places: list[TopicPartition]) -> None:
        self.called("assign")
        self._positions = {(place.topic, place.partition): place.offset for place in places}
        self._ended.clear()

    def unassign(self) -> None:
        self.assign([])

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        self.called("incremental_assign")
        for place in places:
            where = place.topic, place.partition
            if where in self._positions:
                raise error(KafkaError._CONFLICT, f"{where} is assigned already")
            self._positions[where] = place.offset
            self._ended.pop(where, None)

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        self.called("incremental_unassign")
        for place in places:
            if self._positions.pop((place.topic, place.partition), None) is None:
                raise error(KafkaError._INVALID_ARG, f"{place} is not assigned")

    def poll(self, timeout: float) -> Message | None:
        self.called("poll")
        self._serve()
        message = next(self._messages(), None)
        if message is None:
            self.cluster.clock.sleep(max(timeout, 0.0))
        return message

    def consume(self, count: int, timeout: float) -> list[Message]:
        """As librdkafka does it: a rebalance that comes up among the messages is served there, and others follow."""
        self.called("consume")
        found = list(islice(self._messages(), min(2, count)))
        self._serve()
        return found + list(islice(self._messages(), count - len(found)))

    def _messages(self) -> Iterator[Message]:
        """What is there, a partition after the other; where one ends this is said once."""
        for where in list(self._positions):
            while where in self._positions:
                message = self._next(*where)
                if message is None:
                    break
                yield message
            if where in self._positions:  # the others first, next time
                self._positions[where] = self._positions.pop(where)

    def _next(self, topic: str, partition: int) -> Message | None:
        where = topic, partition
        try:
            log = self.cluster.log(topic, partition)
        except KafkaException as missing:
            del self._positions[where]
            return Message(topic=topic, partition=partition, error=missing.args[0])
        start = self._positions[where]
        if not log.low <= start <= log.high:
            if self.config.get("auto.offset.reset") != "earliest":
                del self._positions[where]
                reason = KafkaError(KafkaError._AUTO_OFFSET_RESET, f"fetch of offset {start} failed")
                return Message(topic=topic, partition=partition, offset=start, error=reason)
            start = log.low
        offset = next(iter(log.visible(start, self._committed)), None)
        if offset is not None:
            self._positions[where] = offset + 1
            self._ended.pop(where, None)
            one = log.entries[offset]
            return Message(
                topic=topic,
                partition=partition,
                offset=offset,
                key=one.key,
                value=one.value,
                headers=list(one.headers),
                timestamp=(1, one.timestamp),
            )
        end = self._positions[where] = max(start, log.stable if self._committed else log.high)
        if self._ended.get(where) == end:
            return None
        self._ended[where] = end
        reason = KafkaError(KafkaError._PARTITION_EOF)
        return Message(topic=topic, partition=partition, offset=end, error=reason)

    def get_watermark_offsets(
        self, place: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        self.called("get_watermark_offsets")
        log = self.cluster.log(place.topic, place.partition)
        return log.low, log.stable if self._committed and not cached else log.high


class Admin(Client):
    def poll(self, timeout: float) -> int:
        return 0

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        self.called("describe_topics")
        found = {}
        for name in topics.topic_names:
            known = self.cluster.topics.get(name)
            failure = None if known else error(KafkaError.UNKNOWN_TOPIC_OR_PART)
            result = known and SimpleNamespace(topic_id=known.id, partitions=known.logs)
            found[name] = _done(result, failure)
        return found

    def describe_configs(self, resources: list[Any], *, request_timeout: float) -> dict[Any, Future[Any]]:
        self.called("describe_configs")
        return {
            one: _done(
                {
                    key: SimpleNamespace(value=value)
                    for key, value in self.cluster.topics[one.name].config.items()
                }
            )
            for one in resources
        }

    def create_topics(self, topics: list[Any], *, request_timeout: float) -> dict[str, Future[Any]]:
        self.called("create_topics")
        found = {}
        for one in topics:
            failure = None
            if one.topic in self.cluster.topics:
                failure = error(KafkaError.TOPIC_ALREADY_EXISTS)
            else:
                self.cluster.create(one.topic, one.num_partitions, **one.config)
            found[one.topic] = _done(None, failure)
        return found

    def create_partitions(self, topics: list[Any], *, request_timeout: float) -> dict[str, Future[Any]]:
        self.called("create_partitions")
        for one in topics:
            self.cluster.grow(one.topic, one.new_total_count)
        return {one.topic: _done(None) for one in topics}


def _done(result: Any, failure: Exception | None = None) -> Future[Any]:
    future: Future[Any] = Future()
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
    return future
