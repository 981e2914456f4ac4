"""What an in-memory cluster keeps: logs with transactions in them, transactional ids, and groups that rebalance cooperatively.

One thread, no network: what a broker does in its own time happens in ``pass_time``, which every client call begins with.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from explain_sidecar.kafka.clock import Clock

START = 1_700_000_000.0
"""The wall clock at the beginning, seconds since 1970."""

REBALANCE_SECONDS = 45.0
"""How long a rebalance waits for a member that does not join it: max.poll.interval.ms of the workers."""

Where = tuple[str, int]
"""Topic and partition."""


def error(code: int, reason: str = "", *, fatal: bool = False, retriable: bool = False, abort: bool = False):
    return KafkaException(KafkaError(code, reason or None, fatal, retriable, abort))


def fenced() -> KafkaException:
    return error(KafkaError._FENCED, "a newer producer has this transactional id", fatal=True)


class Time(Clock):
    """Moves by ``tick`` with each look, so that a loop that waits comes to an end, and when it is told."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 1_000.0, tick

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now

    def time(self) -> float:
        return START + self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Entry(NamedTuple):
    """A record, or where ``control`` the end of a transaction."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    control: bool = False


@dataclass
class Log:
    """A partition. Offsets count from 0 also where the first records were deleted (``low``)."""

    entries: list[Entry] = field(default_factory=list)
    low: int = 0
    open: dict[str, list[int]] = field(default_factory=dict)
    """Offsets of each open transaction, by transactional id."""
    aborted: set[int] = field(default_factory=set)

    @property
    def high(self) -> int:
        return len(self.entries)

    @property
    def stable(self) -> int:
        """The last stable offset: where the first open transaction begins."""
        return min((offsets[0] for offsets in self.open.values()), default=self.high)

    def append(self, entry: Entry, transaction: str | None = None) -> int:
        offset = self.high
        self.entries.append(entry)
        if transaction is not None:
            self.open.setdefault(transaction, []).append(offset)
        return offset

    def end(self, transaction: str, commit: bool, timestamp: int) -> None:
        offsets = self.open.pop(transaction)
        if not commit:
            self.aborted.update(offsets)
        self.append(Entry(None, None, (), timestamp, control=True))

    def visible(self, start: int, committed: bool) -> Iterable[int]:
        """Offsets that a reader of committed records, or of all, gets from an offset on."""
        for offset in range(start, self.stable if committed else self.high):
            if not (self.entries[offset].control or (committed and offset in self.aborted)):
                yield offset


@dataclass
class Topic:
    id: str
    config: dict[str, str]
    logs: list[Log]


@dataclass
class Transactional:
    """A transactional id: whose it is by its epoch, and the transaction that is open, if any."""

    epoch: int = -1
    open: bool = False
    began: float = 0.0
    timeout: float = 60.0
    logs: set[Where] = field(default_factory=set)
    offsets: list[tuple[str, TopicPartition]] = field(default_factory=list)
    """By group, not valid before the commit."""


@dataclass
class Member:
    """A member of a group as the coordinator knows it, and what its client has yet to tell its owner."""

    id: str
    topics: list[str]
    session: float
    alive: Any
    """Whether its client gives signs of life now."""
    seen: float
    generation: int = -1
    joined: bool = False
    owned: set[Where] = field(default_factory=set)
    news: list[tuple[Literal["assign", "revoke", "lost"], list[Where]]] = field(default_factory=list)
    refused: bool = False
    """Whether its client is told once, and for good, that there is no such member."""


class Metadata(NamedTuple):
    """What ``Consumer.consumer_group_metadata`` gives."""

    group: str
    member: str
    generation: int


@dataclass
class Group:
    generation: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    committed: dict[Where, tuple[int, str]] = field(default_factory=dict)
    rebalancing_since: float | None = None

    def check(self, metadata: Metadata) -> None:
        """Raises what Kafka answers to offsets with the metadata of a member that is none any more, or of a generation gone by."""
        if not metadata.member:
            return  # of no member: a producer from before there was a check
        if metadata.member not in self.members:
            raise error(KafkaError.UNKNOWN_MEMBER_ID, abort=True)
        if metadata.generation != self.generation:
            raise error(KafkaError.ILLEGAL_GENERATION, abort=True)

    def forget(self) -> None:
        """A coordinator that was started again knows nothing of the group's members, and refuses them."""
        for member in self.members.values():
            member.refused = True
        self.members.clear()
        self.rebalancing_since = None

    def rebalance(self, now: float) -> None:
        if self.rebalancing_since is None:
            self.rebalancing_since = now
            for member in self.members.values():
                member.joined = False

    def pass_time(self, now: float, partitions: dict[str, int]) -> None:
        """Signs of life, evictions, and the next generation once every member has joined it."""
        for member in list(self.members.values()):
            if member.alive():
                member.seen = now
            slow = self.rebalancing_since is not None and now - self.rebalancing_since > REBALANCE_SECONDS
            if now - member.seen > member.session or (slow and not member.joined):
                del self.members[member.id]
                self.rebalancing_since = None
                self.rebalance(now)
        if self.rebalancing_since is None or not self.members:
            return
        for member in self.members.values():
            # A client joins by itself, but not before its owner has heard of the assignment before.
            member.joined = member.joined or (member.alive() and not member.news)
        if all(member.joined for member in self.members.values()):
            self._assign(partitions)

    def _assign(self, partitions: dict[str, int]) -> None:
        """The next generation: each member keeps what it may, and gets what nobody has. What moves is given back first."""
        self.generation += 1
        self.rebalancing_since = None
        members = sorted(self.members.values(), key=lambda member: member.id)
        topics = sorted({topic for member in members for topic in member.topics})
        everything = [(topic, p) for topic in topics for p in range(partitions.get(topic, 0))]
        least, more = divmod(len(everything), len(members))
        target: dict[str, list[Where]] = {}
        # Those with the most keep one more than the others.
        by_size = sorted(members, key=lambda member: (-len(member.owned), member.id))
        for rank, member in enumerate(by_size):
            target[member.id] = sorted(member.owned & set(everything))[: least + (rank < more)]
        given = {where for places in target.values() for where in places}
        free = [where for where in everything if where not in given]
        for rank, member in enumerate(by_size):
            while free and len(target[member.id]) < least + (rank < more):
                target[member.id].append(free.pop(0))
        owner = {where: member.id for member in members for where in member.owned}
        for member in members:
            wanted = set(target[member.id])
            revoked = sorted(member.owned - wanted)
            added = sorted(where for where in wanted - member.owned if where not in owner)
            member.generation = self.generation
            if revoked:
                member.news.append(("revoke", revoked))
            member.owned = (member.owned & wanted) | set(added)
            member.news.append(("assign", added))


class Killed(BaseException):
    """The process of a client has ended, as by SIGKILL: no ``except Exception`` comes between."""


class Cluster:
    """Topics, transactional ids and groups, and the time that they and the workers share."""

    def __init__(self, tick: float = 1e-4) -> None:
        self.clock = Time(tick)
        self.topics: dict[str, Topic] = {}
        self.transactions: dict[str, Transactional] = {}
        self.groups: dict[str, Group] = {}
        self.late_ends = 0
        """How often an EndTxn has ended another transaction than its own."""
        self._numbers = itertools.count()

    def create(self, name: str, partitions: int, **config: str) -> None:
        config = {key.replace("_", "."): value for key, value in config.items()}
        self.topics[name] = Topic(f"id{next(self._numbers)}", config, [Log() for _ in range(partitions)])

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions; its groups hear of it."""
        logs = self.topics[name].logs
        logs += [Log() for _ in range(partitions - len(logs))]
        for group in self.groups.values():
            if any(name in member.topics for member in group.members.values()):
                group.rebalance(self.clock.now)

    def log(self, topic: str, partition: int) -> Log:
        """Raises ``KafkaException`` where there is none."""
        if topic not in self.topics:
            raise error(KafkaError.UNKNOWN_TOPIC_OR_PART)
        if partition >= len(self.topics[topic].logs):
            raise error(KafkaError._UNKNOWN_PARTITION)
        return self.topics[topic].logs[partition]

    def new_member(self, topics: list[str], session: float, alive: Any) -> Member:
        return Member(f"member-{next(self._numbers):06}", topics, session, alive, self.clock.now)

    def pass_time(self) -> None:
        now = self.clock.now
        for name, transaction in self.transactions.items():
            if transaction.open and now - transaction.began > transaction.timeout:
                transaction.epoch += 1
                self.end(name, commit=False)
        counts = {name: len(topic.logs) for name, topic in self.topics.items()}
        for group in self.groups.values():
            group.pass_time(now, counts)

    def state(self) -> object:
        """All that it keeps but the time: where two are equal, a worker that begins now does the same."""
        logs = [
            (name, log.high, log.low, sorted(log.open), len(log.aborted))
            for name, topic in self.topics.items()
            for log in topic.logs
        ]
        transactions = [(name, t.epoch, t.open, len(t.offsets)) for name, t in self.transactions.items()]
        groups = [
            (name, g.generation, g.rebalancing_since, sorted(g.committed.items()))
            for name, g in self.groups.items()
        ]
        members = [
            (member.id, member.joined, sorted(member.owned), len(member.news), member.refused)
            for group in self.groups.values()
            for member in group.members.values()
        ]
        return logs, transactions, groups, members

    def begin(self, name: str, timeout: float) -> int:
        """A new producer under a transactional id: what the one before left open is aborted. Returns its epoch."""
        transactional = self.transactions.setdefault(name, Transactional())
        if transactional.open:
            self.end(name, commit=False)
        transactional.epoch, transactional.timeout = transactional.epoch + 1, timeout
        return transactional.epoch

    def known(self, name: str, epoch: int) -> Transactional:
        """Raises where the producer has been fenced."""
        transactional = self.transactions[name]
        if transactional.epoch != epoch:
            raise fenced()
        return transactional

    def join(self, name: str, epoch: int) -> Transactional:
        """The open transaction of a producer; opened now if it is not. Raises where the producer has been fenced."""
        transactional = self.known(name, epoch)
        if not transactional.open:
            transactional.open, transactional.began = True, self.clock.now
        return transactional

    def append(self, name: str, epoch: int, where: Where, entry: Entry, joined: bool) -> int:
        """``joined``: whether the producer has said before that its transaction takes in this partition."""
        transactional = self.known(name, epoch)
        log = self.log(*where)
        if joined and where not in transactional.logs:
            raise error(KafkaError.INVALID_TXN_STATE, abort=True)
        self.join(name, epoch).logs.add(where)
        return log.append(entry, name)

    def late_end(self, name: str, epoch: int) -> None:
        """An EndTxn(commit) of an earlier transaction of this epoch comes out of the network: it commits what is open."""
        transactional = self.transactions[name]
        if transactional.open and transactional.epoch == epoch:
            self.end(name, commit=True)
            self.late_ends += 1

    def end(self, name: str, commit: bool, torn: Collection[Where] = ()) -> None:
        """``torn``: where it stays open for good, as its coordinator has forgotten that it is."""
        transactional = self.transactions[name]
        stamp = int(1_000 * self.clock.time())
        for topic, partition in sorted(transactional.logs.difference(torn)):
            if topic in self.topics:
                self.topics[topic].logs[partition].end(name, commit, stamp)
        if commit:
            for group, place in transactional.offsets:
                where = place.topic, place.partition
                self.groups[group].committed[where] = place.offset, place.metadata or ""
        transactional.open = False
        transactional.logs.clear()
        transactional.offsets.clear()

    def abort_torn(self, name: str) -> None:
        """An operator ends what the coordinator has forgotten of a transactional id."""
        for topic in self.topics.values():
            for log in topic.logs:
                if name in log.open:
                    log.end(name, False, int(1_000 * self.clock.time()))

    def undecided(self, group: str, where: Where) -> bool:
        """Whether an open transaction is about to commit an offset of this partition."""
        return any(
            known == group and (place.topic, place.partition) == where
            for transaction in self.transactions.values()
            for known, place in transaction.offsets
        )
