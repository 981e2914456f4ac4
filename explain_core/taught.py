"""A model that has learnt, from the file that a sidecar's ``model export`` or ``warm-up`` wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from explain_core.models import FeatureKind
from explain_core.state import StateError, Value, decoded
from explain_core.stream.explained import ExplainedModelData
from explain_core.stream.models import ModelData

MAX_RAW_BYTES = 2**28
"""A snapshot that says it is larger is refused before memory is taken. One of this size is read in half a minute: a worker that does not
ask Kafka for records for 45 s is no longer a member of the group, and is ended."""


class Stored(msgspec.Struct, frozen=True):
    """A snapshot in a file: its manifest (JSON) and chunks; ``tail`` has digests of the last records before its offset, the newest last."""

    manifest: bytes
    chunks: list[bytes]
    signature: bytes | None
    tail: list[Annotated[bytes, msgspec.Meta(max_length=64)]]


class StateFile(msgspec.Struct, frozen=True, tag="explanation-sidecar state/1"):
    """What ``state export`` writes, and with one snapshot of a model alone ``model export`` and ``warm-up``."""

    snapshots: list[Stored]


class _Manifest(msgspec.Struct, frozen=True):
    """What is read here of a snapshot's manifest."""

    app_id: str
    topic: str
    topic_id: str
    partition: int
    next_offset: int
    records: int
    raw_size: Annotated[int, msgspec.Meta(ge=0, le=MAX_RAW_BYTES)]
    sha256: str
    fold_digest: str
    settings: dict[str, Any]
    parts: dict[str, dict[str, int]] = {}


def origin_of(manifest: Any, learnt: str) -> str:
    """Whose a state is, in words; a warm-up learns from a file or a whole topic, which has the name for an id, and neither partition nor offset."""
    if manifest.topic_id == manifest.topic:
        return f"{manifest.topic}, {learnt}"
    return f"{manifest.topic} partition {manifest.partition}, {learnt}, up to offset {manifest.next_offset}"


class Taught(msgspec.Struct, frozen=True):
    """A model that has learnt, as data.

    Parameters
    ----------
    model
        Its state.
    labels
        The classes that it met, in the order of their codes.
    kinds
        Of the features that it met.
    settings
        The sidecar's.
    about
        What it has learnt from, in words.
    """

    model: ModelData
    labels: list[Value]
    kinds: dict[str, FeatureKind]
    settings: Mapping[str, Any]
    about: str


def load_taught(path: str | Path) -> Taught:
    """The model in a file of ``model export`` or ``warm-up``. Nothing that is in the file is run.

    Raises ``ValueError`` where the file cannot be read, is none of these or was altered, and where the model is none that learns in arrays;
    ``ImportError`` without the package backports.zstd before Python 3.14. The signature, for which a sidecar has keys, is not checked.
    """
    try:
        from explain_core.packing import unpacked
    except ImportError:
        raise ImportError("initial: the file is compressed: pip install 'explain-core[taught]'") from None
    try:
        file = msgspec.msgpack.decode(Path(path).read_bytes(), type=StateFile)
    except OSError as error:
        raise ValueError(f"initial: {path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError:
        raise ValueError(
            f"initial: {path} holds no model; `explain-sidecar model export` and `warm-up` write such files"
        ) from None
    if len(file.snapshots) != 1:
        raise ValueError(
            f"initial: {path} holds the states of {len(file.snapshots)} partitions; `model export --partition P` writes the model of one"
        )
    packed = b"".join(file.snapshots[0].chunks)
    try:
        manifest = msgspec.json.decode(file.snapshots[0].manifest, type=_Manifest)
        if hashlib.sha256(packed).hexdigest() != manifest.sha256:
            raise ValueError(f"initial: {path} was altered: its sha256 is not the manifest's")
        raw = unpacked(packed, manifest.raw_size)
        parts = msgspec.msgpack.decode(raw, type=dict[str, msgspec.Raw])
        known: list[Any] = [
            decoded(parts[name], kind, manifest.parts.get(name, {}))
            for name, kind in (
                ("explained", ExplainedModelData | None),
                ("labels", list[Value]),
                ("kinds", dict[str, FeatureKind]),
            )
        ]
    except (msgspec.MsgspecError, StateError, KeyError, RecursionError) as error:
        raise ValueError(f"initial: {path} holds no state that this version knows: {error}") from None
    explained, labels, kinds = known
    if explained is None or explained.model.learner is None:
        raise ValueError(
            f"initial: {path} holds no model that learns in arrays, but one that only its own code can read"
        )
    origin = origin_of(manifest, f"after {manifest.records:,} records")
    about = f"the model is that of {manifest.app_id}, {origin} (fold digest {manifest.fold_digest})"
    return Taught(explained.model, labels, kinds, manifest.settings, about)
