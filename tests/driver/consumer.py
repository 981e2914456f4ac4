"""A consumer of the in-memory cluster: a member of a group, or a reader at offsets of its own choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.driver.log import Group, Killed, Member, Metadata, Where, error
from tests.driver.process import Client, Process


class Consumer(Client):
    def __init__(self, process: Process, config: dict[str, Any]) -> None:
        super().__init__(process, config)
        self._committed: bool = config.get("isolation.level", "read_committed") == "read_committed"
        self._session = config.get("session.timeout.ms", 45_000) / 1_000
        self._group = self.cluster.groups.setdefault(config["group.id"], Group())
        self._positions: dict[Where, int] = {}
        self._ended: dict[Where, int] = {}
        self._paused: set[Where] = set()
        self.stalled: set[Where] = set()  # their fetch stands still until they are assigned again
        self._member: Member | None = None
        self._told_fatal = False
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
        if member.refused:
            return
        if self._group.members.get(member.id) is not member:  # the group went on without this one
            gone = _told(member)
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
            owned = _told(member)
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
            self.stalled.discard(where)

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        self.called("incremental_unassign")
        for place in places:
            if self._positions.pop((place.topic, place.partition), None) is None:
                raise error(KafkaError._INVALID_ARG, f"{place} is not assigned")

    def pause(self, places: list[TopicPartition]) -> None:
        self.called("pause")
        self._paused |= {(place.topic, place.partition) for place in places}

    def resume(self, places: list[TopicPartition]) -> None:
        self.called("resume")
        self._paused -= {(place.topic, place.partition) for place in places}

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
        """What is there, a partition after the other; where one ends this is said once, and so is an error that is fatal."""
        if self._member is not None and self._member.refused and not self._told_fatal:
            self._told_fatal = True
            yield Message(error=KafkaError(KafkaError._FATAL, "the group is not found", fatal=True))
        for where in list(self._positions):
            while where in self._positions and where not in self._paused | self.stalled:
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
        if start == OFFSET_BEGINNING:
            start = log.low
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
            entry = log.entries[offset]
            return Message(
                topic=topic,
                partition=partition,
                offset=offset,
                key=entry.key,
                value=entry.value,
                headers=list(entry.headers),
                timestamp=(1, entry.timestamp),
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


def _told(member: Member) -> list[Where]:
    """What the owner of a member's client holds to be its own: not what it has yet to hear of."""
    known = set(member.owned)
    for kind, places in member.news:
        known = known | set(places) if kind == "revoke" else known - set(places)
    return sorted(known)
