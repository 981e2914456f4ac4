"""Snapshots in a file: the state of partitions on its way to another cluster, or a model on its way to another sidecar."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec
from msgspec.structs import replace

from explain_core.taught import StateFile, Stored
from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.signatures import Keys, read_keys
from explain_sidecar.snapshots.snapshot import Before, Manifest, Snapshot, begin, verify

MODEL = ("labels", "model")
"""The parts that a model consists of."""


def stored(snapshot: Snapshot, keys: Keys, tail: list[bytes] | None = None) -> Stored:
    """A snapshot as a file holds it, signed where there are keys."""
    value = snapshot.manifest.encode()
    return Stored(value, snapshot.chunks, keys.sign(value), tail or [])


def write_file(path: Path, snapshots: list[Stored]) -> int:
    """Write the snapshots; returns the file's size in bytes. Raises ``UserError`` where that is not possible."""
    return written(path, msgspec.msgpack.encode(StateFile(snapshots)))


def written(path: Path, raw: bytes) -> int:
    """Write the bytes; returns their number. Raises ``UserError`` where that is not possible."""
    try:
        path.write_bytes(raw)
    except OSError as error:
        raise UserError(f"{path}: it cannot be written: {error.strerror}") from None
    return len(raw)


def read_file(path: Path, keys: Keys) -> list[tuple[Snapshot, list[bytes]]]:
    """The snapshots in a file, verified, each with the digests of its last records.

    Raises ``UserError`` where the file cannot be read, is none of these, or was altered.
    """
    try:
        found = msgspec.msgpack.decode(path.read_bytes(), type=StateFile)
    except OSError as error:
        raise UserError(f"{path}: it cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError:
        raise UserError(
            f"{path}: it holds no state of a sidecar; `state export`, `model export` and `warm-up` write such files"
        ) from None
    snapshots = []
    for each in found.snapshots:
        try:
            trusted = keys.check(each.manifest, each.signature)
            snapshot = Snapshot(manifest=Manifest.decode(each.manifest), chunks=each.chunks, trusted=trusted)
            verify(snapshot)
        except SnapshotError as error:
            raise UserError(f"{path}: {error}") from None
        snapshots.append((snapshot, each.tail))
    return snapshots


def first_state(
    settings: Settings, partition: int, epoch: int = 0, start: int = 0, donor: Snapshot | None = None
) -> PartitionState:
    """The state of a partition that has none yet: with the model of ``donor``, else with that of ``model.initial``, or with a new one.

    Raises ``UserError`` where the file holds another model.
    """
    path = settings.model.initial
    if donor is None and path is None:
        return begin(settings, partition, epoch, start)
    snapshot = donor or _model(path, read_keys(settings.checkpoint))
    manifest = snapshot.manifest
    carry = carry_over(manifest.settings, settings).of(MODEL)
    if carry.other_model:
        raise UserError(
            f"model.initial: {path} holds another model than model and record.label say: {carry.other_model}; set these as they were, or take it out"
        )
    try:
        state = begin(settings, partition, epoch, start, Before.of(snapshot, carry))
    except SnapshotError as error:
        where = f"model.initial: {path}" if donor is None else "model.on_new_partition"
        raise UserError(f"{where}: {error}") from None
    state.superseded = []
    if donor is not None and state.carried is not None:
        state.carried = replace(
            state.carried, from_partition=manifest.partition, from_offset=manifest.next_offset
        )
    state.notices = [
        f"the model is that of {manifest.app_id}, {manifest.origin} (fold digest {manifest.fold_digest})"
    ]
    return state


def check_first(settings: Settings) -> None:
    """Raise ``UserError`` where no partition could begin: with these explainers, or with ``model.initial``."""
    first_state(settings, 0)


@functools.lru_cache(maxsize=2)
def _model(path: Path, keys: Keys) -> Snapshot:
    try:
        found = read_file(path, keys)
    except UserError as error:
        raise UserError(f"model.initial: {error}") from None
    if len(found) != 1:
        raise UserError(
            f"model.initial: {path} holds the states of {len(found)} partitions; `model export --partition P` writes the model of one"
        )
    return found[0][0]
