"""Snapshots on the compacted topic, and the pointer to them in the committed offset's metadata.

A snapshot is chunks under the keys ``app_id/topic-id/partition/0``, ``…/1``, … and then a manifest under
``…/manifest``, written in the transaction that commits the offset. The metadata of *every* commit names the offsets of
the first chunk and of the manifest, so that a restore reads those records and no others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition
from pydantic import ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from explain_sidecar.errors import DamagedSnapshot, UserError
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.kafka.headers import offset_of, read_headers
from explain_sidecar.kafka.reading import Superseded, read
from explain_sidecar.kafka.sent import Ends, Keyed
from explain_sidecar.snapshots.signatures import Keys
from explain_sidecar.snapshots.snapshot import Manifest, Snapshot

MAX_POINTER_BYTES = 1_000
"""The broker refuses offset metadata above 4,096 bytes; ours stays far below."""

MANIFEST = "manifest"
SIGNATURE_HEADER = "hmac-sha256"


@checked_dataclass(frozen=True)
class Pointer:
    """The metadata of a committed offset: where the snapshot is, and what the fold was at that offset.

    ``ends``: where the output topics ended some time before it was committed; what is newer than it is behind them.
    """

    topic_id: str
    epoch: int
    first_chunk: int
    manifest: int
    next_offset: int
    fold_digest: str
    chains: dict[str, tuple[int, str]]
    ends: dict[str, int] = field(default_factory=dict)

    def encode(self) -> str:
        text = json.dumps({"explain": 1, **asdict(self)}, separators=(",", ":"))
        if len(text.encode()) > MAX_POINTER_BYTES:
            raise AssertionError(f"offset metadata of {len(text)} bytes, above {MAX_POINTER_BYTES}")
        return text

    @classmethod
    def decode(cls, metadata: str | None) -> Pointer | None:
        """None where the metadata is not ours: an operator or another program committed the offset."""
        try:
            data = json.loads(metadata or "")
            if not isinstance(data, dict) or data.pop("explain", None) != 1:
                return None
            return cls(**data)
        except (ValueError, TypeError, ValidationError):
            return None


@dataclass(frozen=True)
class Location:
    """The location of a snapshot: the offsets of its first and last record, once Kafka said so, and the state's next offset.

    ``ends``: where the output topics ended before it was stored.
    """

    acknowledged: Ends
    next_offset: int
    ends: dict[str, int]


def point(topic_id: str, state: PartitionState, location: Location) -> Pointer:
    """The pointer to commit with a state's next offset."""
    return Pointer(
        topic_id=topic_id,
        epoch=state.epoch,
        first_chunk=location.acknowledged.first,
        manifest=location.acknowledged.last,
        next_offset=location.next_offset,
        fold_digest=state.fold_digest.hex(),
        chains=links(state),
        ends=location.ends,
    )


def links(state: PartitionState) -> dict[str, tuple[int, str]]:
    """How many messages each output has, and the digest of the last."""
    return {name: (chain.seq, chain.digest.hex()) for name, chain in state.chains.items()}


def key_prefix(app_id: str, topic_id: str, partition: int) -> str:
    return f"{app_id}/{topic_id}/{partition}/"


def to_records(snapshot: Snapshot, chunks_before: int, keys: Keys) -> list[Keyed]:
    """The records that store a snapshot: chunks, tombstones for chunks that the one before had more, the manifest last."""
    manifest = snapshot.manifest.model_copy(update={"key": keys.fingerprint})
    prefix = key_prefix(manifest.app_id, manifest.topic_id, manifest.partition)
    records: list[Keyed] = [
        (f"{prefix}{index}".encode(), chunk, []) for index, chunk in enumerate(snapshot.chunks)
    ]
    records += [
        (f"{prefix}{index}".encode(), None, []) for index in range(len(snapshot.chunks), chunks_before)
    ]
    value = manifest.encode()
    signature = keys.sign(value)
    records.append(
        (f"{prefix}{MANIFEST}".encode(), value, [(SIGNATURE_HEADER, signature)] if signature else [])
    )
    return records


class Undecided(UserError):
    """An open transaction hides the messages after it from a reader of committed ones."""


def undecided(where: TopicPartition, offset: int, own: bool = False) -> Undecided:
    """The message for a transaction that has been open since an offset and hides the messages after it."""
    whose, ends = (
        ("a worker's transaction", "that of a worker that is gone within 20 s")
        if own
        else (
            "another program's transaction",
            "it after that program's transaction.timeout.ms, which the brokers bound by transaction.max.timeout.ms (15 minutes)",
        )
    )
    return Undecided(
        f"{where.topic} partition {where.partition}: {whose} is open since offset {offset} and hides what comes after it; Kafka ends "
        f"{ends}. If it stays: explain-sidecar transactions show"
    )


class SnapshotReader:
    """Reads one snapshot in slices that are short enough for a poll loop.

    ``advance()`` returns the snapshot when it is whole, else None. Nothing is deserialised here but the manifest's JSON,
    and that after its signature was checked.
    """

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        partition: int,
        pointer: Pointer,
        app_id: str,
        keys: Keys,
    ) -> None:
        self._consumer = consumer
        self._pointer = pointer
        self._keys = keys
        self._prefix = key_prefix(app_id, pointer.topic_id, partition)
        self._values: dict[str, bytes] = {}
        self.written_at = 0  # milliseconds since 1970, by the broker or the writer
        self._partition = TopicPartition(topic, partition, pointer.first_chunk)
        consumer.assign([self._partition])

    def advance(self, seconds: float) -> Snapshot | None:
        for message in read(self._consumer, seconds, count=10):
            offset = offset_of(message)
            if message.error() is not None and offset <= self._pointer.manifest:
                _, high = self._consumer.get_watermark_offsets(self._partition, cached=True)
                if high > self._pointer.manifest:
                    raise undecided(self._partition, offset)
            if message.error() is not None or offset > self._pointer.manifest:
                raise Superseded
            key = (message.key() or b"").decode(errors="replace")
            value = message.value()
            if key.startswith(self._prefix) and value is not None:
                self._values[key.removeprefix(self._prefix)] = value
            if offset == self._pointer.manifest:
                self.written_at = message.timestamp()[1]
                self._consumer.unassign()
                if MANIFEST not in self._values:
                    raise DamagedSnapshot(
                        f"{_where(message)}: there is no manifest; the topic was written to by others"
                    )
                return assembled(message, self._values, self._keys)
        return None


def assembled(message: Message, chunks: Mapping[str, bytes], keys: Keys) -> Snapshot:
    """The snapshot whose manifest is in this message. Raises ``SnapshotError`` where no key signed it that has to, or a chunk is missing."""
    value = message.value() or b""
    trusted, manifest = keys.check(value, signature_of(message)), Manifest.decode(value)
    wanted = [str(index) for index in range(len(manifest.chunk_sizes))]
    missing = [index for index in wanted if index not in chunks]
    if missing:
        raise DamagedSnapshot(
            f"{_where(message)}: chunk {missing[0]} of {len(wanted)} is missing; it is torn"
        )
    return Snapshot(manifest=manifest, chunks=[chunks[index] for index in wanted], trusted=trusted)


def _where(message: Message) -> str:
    return (
        f"partition {message.partition()}: the snapshot at offset {message.offset()} of {message.topic()!r}"
    )


def signature_of(message: Message) -> bytes | None:
    return dict(read_headers(message).headers).get(SIGNATURE_HEADER)
