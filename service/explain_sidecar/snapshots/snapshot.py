"""Snapshots: a partition's state as bytes, in chunks, under a manifest that is checked before anything is loaded.

The bytes are zstd over MessagePack of ``explain_sidecar.fold.partition.PartitionData``: named parts, of which the manifest says in which
version each is. A part that an earlier version of the sidecar stored is migrated (see ``explain_core.state.State``); one that is missing is
as it is at the beginning; one that this version does not know, or in a later version, is refused. What a topic holds is not trusted. The sha256,
and with a key the HMAC, is verified before decompression, and the size before memory is taken. Decoding builds nothing but numbers,
strings, lists and arrays, and each part checks what it takes on. The exception is a model that is no learner: bytes that only its own
code understands. They are loaded only from a snapshot that a key signed.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from explain_core.foreign import dumps, loads
from explain_core.packing import packed, unpacked
from explain_core.state import NewerState, StateError, Unpack, decoded, states_in, types_of, versions_of
from explain_core.taught import MAX_RAW_BYTES, origin_of
from explain_sidecar.errors import DamagedSnapshot, LaterVersion, SnapshotError, UserError
from explain_sidecar.fold.carry import Carry, carried
from explain_sidecar.fold.partition import PartitionData, PartitionState
from explain_sidecar.settings import Settings

CHUNK_BYTES = 700_000
"""Below librdkafka's and the broker's default of 1,000,000 bytes a message, with room for headers and key."""

MAX_EPOCH = 2**53 - 1
"""Integers up to here are exact in every reader of JSON."""


SCHEMA: Literal["checkpoint/4"] = "checkpoint/4"


class Versions(BaseModel):
    """What a replay's last bits depend on."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    python: str = Field(examples=["3.11.7"])
    """Version of Python."""
    river: str = Field(examples=["0.22.0"])
    """Version of river."""
    numpy: str = Field(examples=["2.1.0"])
    """Version of numpy."""
    sidecar: str = Field("", examples=["0.1.0"])
    """Version of the sidecar."""
    cpu: str = Field(examples=["x86_64 AVX2,FMA3"])
    """Machine type and the CPU features that numpy uses."""

    @classmethod
    @functools.cache  # a version is read from a file of its package
    def here(cls) -> Versions:
        return cls(
            python=platform.python_version(),
            river=version("river"),
            numpy=np.__version__,
            sidecar=version("explanation-sidecar"),
            cpu=_cpu(),
        )


class Manifest(BaseModel):
    """What the chunks of a snapshot are, and what state they hold. Written last: a manifest means a whole snapshot.

    The schema's number is that of this container alone. It changes where an earlier version could not even tell what it cannot read.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, use_attribute_docstrings=True
    )

    schema_: Literal["checkpoint/4"] = Field(SCHEMA, alias="schema")
    """Name and version of this schema."""
    app_id: str = Field(examples=["explanation-sidecar"])
    """The sidecar's app_id."""
    topic: str = Field(examples=["records"])
    """Records topic."""
    topic_id: str = Field(examples=["J8p3nJrHQZ2v0n8nq1d2Wg"])
    """Its id: a topic that is deleted and created again gets another."""
    partition: int = Field(ge=0, examples=[0])
    """Partition of the records topic."""
    epoch: int = Field(ge=0, le=MAX_EPOCH, examples=[0])
    """Epoch of the state."""
    next_offset: int = Field(ge=0, examples=[5750])
    """Offset of the first record that the state has not folded."""
    records: int = Field(ge=0, examples=[5750], json_schema_extra={"x-unit": "records"})
    """Records folded in this epoch."""
    chunk_sizes: list[int] = Field(examples=[[700000, 12345]], json_schema_extra={"x-unit": "bytes"})
    """Bytes of each chunk, in order."""
    raw_size: int = Field(ge=0, examples=[2600000], json_schema_extra={"x-unit": "bytes"})
    """Bytes after decompression."""
    sha256: str = Field(pattern="^[0-9a-f]{64}$", examples=["5f" * 32])
    """Over all chunks, joined."""
    partitions: int = Field(0, ge=0, examples=[4])
    """Partitions of the records topic when this one had its first state; 0 where that is not known."""
    fold_digest: str = Field(pattern="^[0-9a-f]{32}$", examples=["353e5fe3e0f90657de874ddbf2d630b3"])
    """Over (offset, prediction, losses) of every folded record."""
    key: str | None = Field(None, pattern="^[0-9a-f]{16}$", examples=["9c1d0f3a5b7e2846"])
    """Fingerprint of the key that signed it; null without a key."""
    superseded: list[str] = Field(default_factory=list, examples=[["0f5a1c2e7b3d4f60"]])
    """Digests of the settings of the last epochs before this one: an instance that still has them is behind."""
    settings: dict[str, Any] = Field(examples=[{"seed": 0}])
    """The settings that the fold depends on."""
    parts: dict[str, dict[str, int]] = Field(
        default_factory=dict, examples=[{"explained": {}, "windows": {}}]
    )
    """The parts of the state that have versions: by part, the version of each class in it that is no longer in its first one."""

    @property
    def learnt(self) -> str:
        """What the state has learnt, in words: one that a change of settings began knows more than the records of its epoch."""
        more = (
            f" of epoch {self.epoch} and what that took over from the one before" if self.superseded else ""
        )
        return f"after {self.records:,} records{more}"

    @property
    def origin(self) -> str:
        """Whose the state is and what it has learnt, in words."""
        return origin_of(self, self.learnt)

    versions: Versions = Field(
        examples=[{"python": "3.11.7", "river": "0.22.0", "numpy": "2.1.0", "cpu": "x86_64 AVX2,FMA3"}]
    )
    """What the state was computed with."""

    def encode(self) -> bytes:
        return self.model_dump_json(by_alias=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Manifest:
        """Raises ``SnapshotError`` where the bytes are no manifest of this version."""
        try:
            return cls.model_validate_json(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            number = str(first["input"]).removeprefix("checkpoint/")
            if first["loc"] == ("schema",) and number.isdecimal():
                earlier = int(number) < int(SCHEMA.removeprefix("checkpoint/"))
                if not earlier:
                    raise LaterVersion("checkpoint manifest", first["input"]) from None
                raise SnapshotError(
                    "checkpoint manifest: the snapshot was written by an earlier version of the sidecar, in another format; "
                    "to go on from it, return to that version"
                ) from None
            problem = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
            raise DamagedSnapshot(f"checkpoint manifest: it was altered: {problem}") from None


class Snapshot(BaseModel):
    """A manifest and its chunks."""

    model_config = ConfigDict(frozen=True)

    manifest: Manifest
    chunks: list[bytes]
    trusted: bool = False
    """Whether what only foreign code understands may be loaded: a key signed the manifest."""

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return sum(self.manifest.chunk_sizes)


class Before(NamedTuple):
    """The state of the epoch before, and what of it the new epoch takes over."""

    data: PartitionData
    carry: Carry
    unpack: Unpack

    @classmethod
    def of(cls, snapshot: Snapshot, carry: Carry) -> Before:
        """The state in a snapshot."""
        return cls(load_parts(snapshot), carry, unpacking(snapshot))


def begin(
    settings: Settings, partition: int, epoch: int = 0, start: int = 0, before: Before | None = None
) -> PartitionState:
    """The first state of an epoch. Raises ``SnapshotError`` where it could not be stored, or be restored later: now nothing is lost."""
    if epoch > MAX_EPOCH:
        raise SnapshotError(
            f"partition {partition}: the newest manifest names epoch {epoch - 1}, the last there can be, so that this sidecar did not write it. "
            "Set checkpoint.hmac_key_file: a reset passes over manifests that no key signed"
        )
    if before is None:
        state = PartitionState(settings, partition, epoch, start)
    else:
        data, carry, unpack = before
        try:
            state = carried(data, carry, settings, partition, epoch, start, unpack)
        except (StateError, UserError) as error:
            raise SnapshotError(f"the state of epoch {data.epoch} cannot be carried over: {error}") from None
    # The state that is restored, as after a crash.
    return decode(encode(state), settings, partition, epoch, loads)


def take(
    state: PartitionState,
    app_id: str,
    topic: str,
    topic_id: str,
    settings: dict[str, Any],
    partitions: int = 0,
) -> Snapshot:
    """The snapshot of a state as it is now. Raises ``SnapshotError`` for one so large that it would not be restored."""
    data = _data(state)
    raw = ENCODER.encode(data)
    if len(raw) > MAX_RAW_BYTES:
        raise SnapshotError(
            f"{topic} partition {state.partition}: the state has {len(raw)} bytes and a snapshot at most {MAX_RAW_BYTES}; nothing was lost, "
            "the last snapshot is whole. Name the features in record.features without those of ever new strings (ids, free text), or take a "
            "smaller model, and begin a new epoch by checkpoint.on_mismatch=reset"
        )
    whole = packed(raw)
    chunks = [whole[start : start + CHUNK_BYTES] for start in range(0, len(whole), CHUNK_BYTES)]
    manifest = Manifest(
        app_id=app_id,
        topic=topic,
        topic_id=topic_id,
        partition=state.partition,
        epoch=state.epoch,
        next_offset=state.next_offset,
        records=state.records,
        chunk_sizes=[len(chunk) for chunk in chunks],
        raw_size=len(raw),
        partitions=partitions,
        sha256=hashlib.sha256(whole).hexdigest(),
        fold_digest=state.fold_digest.hex(),
        settings=settings,
        superseded=state.superseded,
        parts={
            name: versions_of(kind)
            for name, kind in types_of(PartitionData).items()
            if states_in(kind) and getattr(data, name) is not None
        },
        versions=Versions.here(),
    )
    return Snapshot(manifest=manifest, chunks=chunks)


def verify(snapshot: Snapshot) -> bytes:
    """The compressed bytes, once size and sha256 are those of the manifest; else ``SnapshotError``."""
    manifest = snapshot.manifest
    where = f"snapshot of partition {manifest.partition} at offset {manifest.next_offset}"
    if [len(chunk) for chunk in snapshot.chunks] != manifest.chunk_sizes:
        raise DamagedSnapshot(
            f"{where}: {len(snapshot.chunks)} chunks differ in number or size from the manifest's; it is torn"
        )
    packed = b"".join(snapshot.chunks)
    if hashlib.sha256(packed).hexdigest() != manifest.sha256:
        raise DamagedSnapshot(f"{where}: the chunks' sha256 is not the manifest's; they were altered")
    return packed


def load(snapshot: Snapshot, settings: Settings) -> PartitionState:
    """The state in a snapshot, after everything about it was verified."""
    raw, manifest = _unpacked(snapshot), snapshot.manifest
    unpack = unpacking(snapshot)
    return decode(raw, settings, manifest.partition, manifest.epoch, unpack, manifest.parts)


def load_parts(snapshot: Snapshot) -> PartitionData:
    """The parts of the state in a snapshot, of whatever settings, after everything about it was verified but what restoring them checks."""
    where = f"snapshot of partition {snapshot.manifest.partition}"
    try:
        return parts_of(_unpacked(snapshot), snapshot.manifest.parts)
    except NewerState as error:
        raise LaterVersion(where, error) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{where}: it is no state of this version: {error}") from None


def unpacking(snapshot: Snapshot) -> Unpack:
    """What reads a model that only its own code understands: nothing, unless a key signed the snapshot."""
    return loads if snapshot.trusted else _refuse


def _unpacked(snapshot: Snapshot) -> bytes:
    whole, manifest = verify(snapshot), snapshot.manifest
    where = f"snapshot of partition {manifest.partition}"
    if manifest.raw_size > MAX_RAW_BYTES:
        raise SnapshotError(f"{where}: its size is not that of the manifest, or above {MAX_RAW_BYTES}")
    try:
        return unpacked(whole, manifest.raw_size)
    except StateError as error:
        raise SnapshotError(f"{where}: {error}") from None


def encode(state: PartitionState) -> bytes:
    """The state as MessagePack of ``PartitionData``. Raises ``SnapshotError`` where foreign code cannot be stored, or would not be restored."""
    return ENCODER.encode(_data(state))


def _data(state: PartitionState) -> PartitionData:
    try:
        return state.state(dumps)
    except StateError as error:
        raise SnapshotError(f"snapshot of partition {state.partition}: {error}") from None


def parts_of(raw: bytes, parts: Mapping[str, Mapping[str, int]] | None = None) -> PartitionData:
    """The parts in MessagePack; ``parts`` are their versions where these are not those of now.

    Raises ``NewerState`` for what only a later version knows, and ``msgspec.MsgspecError`` or ``StateError`` for what is none.
    """
    kinds = types_of(PartitionData)
    found: dict[str, Any] = {}
    for name, part in CONTAINER.decode(raw).items():
        if name not in kinds:
            raise NewerState(f"a part {name!r}, which this software does not know")
        versions = versions_of(kinds[name]) if parts is None else parts.get(name, {})
        found[name] = decoded(part, kinds[name], versions)
    try:
        return PartitionData(**found)
    except TypeError as error:
        raise StateError(f"a part is missing: {error}") from None


def decode(
    raw: bytes,
    settings: Settings,
    partition: int,
    epoch: int,
    unpack: Unpack,
    parts: Mapping[str, Mapping[str, int]] | None = None,
) -> PartitionState:
    """The state in MessagePack. Raises ``SnapshotError`` where the bytes are none of these settings, partition and epoch."""
    where = f"snapshot of partition {partition}"
    try:
        state = PartitionState(settings, partition, epoch)
        state.restore(parts_of(raw, parts), unpack)
    except NewerState as error:
        raise LaterVersion(where, error) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{where}: it is no state of this version and these settings: {error}") from None
    if (state.partition, state.epoch) != (partition, epoch):
        raise SnapshotError(f"{where}: it holds partition {state.partition} in epoch {state.epoch}")
    return state


def _refuse(packed: bytes) -> Any:
    raise SnapshotError(
        f"snapshot: it holds {len(packed)} bytes of a model that only its own code can read, and no key signed it. Set "
        "checkpoint.hmac_key_file, and begin a new epoch where the snapshot has no signature: explain-sidecar reset"
    )


ENCODER = msgspec.msgpack.Encoder()
CONTAINER = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


@functools.cache
def _cpu() -> str:
    # The public show_config() prints it, and no more.
    from numpy._core._multiarray_umath import __cpu_features__

    return platform.machine() + ":" + ",".join(sorted(name for name, on in __cpu_features__.items() if on))
