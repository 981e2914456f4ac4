"""What the changelog of the join holds: the entries that wait, and how far a partition has come."""

from __future__ import annotations

import msgspec
from confluent_kafka import Consumer, TopicPartition

from explain_sidecar.errors import RecoveryError
from explain_sidecar.formats.schemas import StoredSchema
from explain_sidecar.join.joiner import Progress
from explain_sidecar.kafka.reading import read_to

ENTRY, PROGRESS, SCHEMA = b"e", b"p", b"s"
"""First byte of the keys on the changelog."""

Learnt = tuple[list[StoredSchema], list[StoredSchema]]
"""The schemas that the records of events and labels were written with, in the order of their first use."""

encode = msgspec.msgpack.Encoder().encode


class Saved(msgspec.Struct):
    """What a partition commits beside its entries. ``offsets`` and ``topics`` (their ids) are of events and labels."""

    progress: Progress
    offsets: tuple[int, int]
    topics: tuple[str, str]
    letters: tuple[int, bytes]
    """Sequence number and digest of the dead letters."""
    ids: tuple[str | None, str | None] | None = None
    """Paths of the ids in events and labels, None for the key; no pair where it is of before they were stored."""


class Checkpoint(msgspec.Struct):
    """How far a local store has read the changelog, and what of it is not entries."""

    topic: str
    partition: int
    next_offset: int
    at: float
    saved: Saved | None
    schemas: Learnt


def schema_key(which: int, number: int) -> bytes:
    """Of a schema of an input, which is the one of this number there."""
    return b"%b%d %d" % (SCHEMA, which, number)


def learn(learnt: Learnt, key: bytes, value: bytes, who: str) -> None:
    """Take in a schema from the changelog, where they stand in their order. Raises ``RecoveryError`` for anything else."""
    try:
        which, number = map(int, key[1:].split(b" "))
        known = learnt[which]
        known[number : number + 1] = [msgspec.msgpack.decode(value, type=StoredSchema)]
    except (ValueError, IndexError, msgspec.MsgspecError) as error:
        raise RecoveryError(f"{who}: a schema on the changelog cannot be read: {error}") from None


def decoded(value: bytes, who: str) -> Saved:
    """Raises ``RecoveryError`` for any other record; ``who`` names the partition."""
    try:
        return msgspec.msgpack.decode(value, type=Saved)
    except msgspec.MsgspecError as error:
        raise RecoveryError(f"{who}: the progress on the changelog cannot be read: {error}") from None


def newest(reader: Consumer, changelog: str, partition: int) -> Saved | None:
    """What a partition committed last; None where it has committed nothing."""
    where = TopicPartition(changelog, partition)
    low, high = reader.get_watermark_offsets(where, timeout=10)
    saved, start, reach_back = None, high, 100
    while saved is None and start > low:
        start, end = max(low, high - reach_back), start
        for message in read_to(reader, TopicPartition(changelog, partition, start), end):
            if message.key() == PROGRESS:
                saved = decoded(message.value() or b"", f"{changelog} partition {partition}")
        start, reach_back = max(low, high - reach_back), reach_back * 10
    return saved
