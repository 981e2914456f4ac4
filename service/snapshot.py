"""Snapshots: a partition's state as bytes, in chunks, under a manifest that is checked before anything is loaded.

The bytes are zstd over a pickle. What a topic holds is not trusted: sha256 (and an HMAC where a key is set) is verified
before decompression, the size before memory is taken, and the unpickler knows an allow-list of names only.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import importlib
import inspect
import io
import pickle
import platform
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from copyreg import dispatch_table
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import zstandard
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from river.proba import Gaussian
from river.stats import Var
from river.tree.splitter.ebst_splitter import EBSTNode

from service.errors import UserError
from service.partition import PartitionState

CHUNK_BYTES = 700_000
"""Below librdkafka's and the broker's default of 1,000,000 bytes a message, with room for headers and key."""

MAX_RAW_BYTES = 2**30
"""A snapshot that says it is larger is refused before memory is taken."""

MAX_DEPTH = 20_000
"""Recursion limit while pickling: linked nodes of deep trees take some five levels each."""


class SnapshotError(UserError):
    """A snapshot that is torn, altered, not ours or not allowed. Nothing of it was loaded."""


class Versions(BaseModel):
    """What a replay's last bits depend on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    python: str
    river: str
    numpy: str
    cpu: str = Field(description="Machine type and the CPU features that numpy uses.")

    @classmethod
    def here(cls) -> Versions:
        return cls(python=platform.python_version(), river=version("river"), numpy=np.__version__, cpu=_cpu())


class Manifest(BaseModel):
    """What the chunks of a snapshot are, and what state they hold. Written last: a manifest means a whole snapshot."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["checkpoint/1"] = Field(
        "checkpoint/1", alias="schema", description="Name and version of this schema."
    )
    app_id: str = Field(description="The sidecar's app_id.")
    topic: str = Field(description="Records topic.")
    topic_id: str = Field(description="Its id: a topic that is deleted and created again gets another.")
    partition: int = Field(ge=0, description="Partition of the records topic.")
    epoch: int = Field(ge=0, description="Epoch of the state.")
    next_offset: int = Field(ge=0, description="Offset of the first record that the state has not folded.")
    records: int = Field(ge=0, description="Records folded in this epoch.")
    chunk_sizes: list[int] = Field(description="Bytes of each chunk, in order.")
    raw_size: int = Field(ge=0, description="Bytes after decompression.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="Over all chunks, joined.")
    fold_digest: str = Field(
        pattern="^[0-9a-f]{32}$", description="Over (offset, prediction, losses) of every folded record."
    )
    settings: dict[str, Any] = Field(description="The settings that the fold depends on.")
    versions: Versions

    def encode(self) -> bytes:
        return self.model_dump_json(by_alias=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Manifest:
        """Raises ``SnapshotError`` where the bytes are no manifest of this version."""
        try:
            return cls.model_validate_json(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise SnapshotError(
                f"checkpoint manifest: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            ) from None


class Snapshot(BaseModel):
    """A manifest and its chunks."""

    model_config = ConfigDict(frozen=True)

    manifest: Manifest
    chunks: list[bytes]

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return sum(self.manifest.chunk_sizes)


def take(state: PartitionState, app_id: str, topic: str, topic_id: str, settings: dict[str, Any]) -> Snapshot:
    """The snapshot of a state as it is now."""
    raw = dumps(state)
    packed = zstandard.ZstdCompressor(level=3, write_checksum=False, write_content_size=True).compress(raw)
    chunks = [packed[start : start + CHUNK_BYTES] for start in range(0, len(packed), CHUNK_BYTES)]
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
        sha256=hashlib.sha256(packed).hexdigest(),
        fold_digest=state.fold_digest.hex(),
        settings=settings,
        versions=Versions.here(),
    )
    return Snapshot(manifest=manifest, chunks=chunks)


def verify(snapshot: Snapshot) -> bytes:
    """The compressed bytes, once size and sha256 are those of the manifest; else ``SnapshotError``."""
    manifest = snapshot.manifest
    where = f"snapshot of partition {manifest.partition} at offset {manifest.next_offset}"
    if [len(chunk) for chunk in snapshot.chunks] != manifest.chunk_sizes:
        raise SnapshotError(
            f"{where}: {len(snapshot.chunks)} chunks differ in number or size from the manifest's; it is torn"
        )
    packed = b"".join(snapshot.chunks)
    if hashlib.sha256(packed).hexdigest() != manifest.sha256:
        raise SnapshotError(f"{where}: the chunks' sha256 is not the manifest's; they were altered")
    return packed


def load(snapshot: Snapshot, modules: Collection[str] = ()) -> PartitionState:
    """The state in a snapshot, after everything about it was verified.

    ``modules`` are those of the user's own model classes, which the settings name.
    """
    packed = verify(snapshot)
    manifest = snapshot.manifest
    if manifest.raw_size > MAX_RAW_BYTES or zstandard.frame_content_size(packed) != manifest.raw_size:
        raise SnapshotError(
            f"snapshot of partition {manifest.partition}: its size is not that of the manifest, or above {MAX_RAW_BYTES}"
        )
    raw = zstandard.ZstdDecompressor().decompress(packed, max_output_size=manifest.raw_size)
    state = loads(raw, modules)
    if not isinstance(state, PartitionState):
        raise SnapshotError(
            f"snapshot of partition {manifest.partition}: it holds a {type(state).__name__}, not a state"
        )
    return state


def sign(value: bytes, keys: Sequence[bytes]) -> bytes | None:
    """HMAC-SHA-256 of a manifest under the first key; None without keys."""
    return hmac.digest(keys[0], value, "sha256") if keys else None


def check_signature(value: bytes, signature: bytes | None, keys: Sequence[bytes]) -> None:
    """Raise ``SnapshotError`` unless one of the keys (where there are any) signed the manifest."""
    if keys and not any(
        hmac.compare_digest(hmac.digest(key, value, "sha256"), signature or b"") for key in keys
    ):
        raise SnapshotError(
            f"checkpoint manifest: {'its' if signature else 'it has no'} signature{' fits none of the keys' if signature else ''} "
            "in checkpoint.hmac_key_file; it was not written by this sidecar, or with another key"
        )


def dumps(state: Any) -> bytes:
    """A slim pickle."""
    buffer = io.BytesIO()
    with _deep():
        pickler = pickle.Pickler(buffer, 5)
        pickler.dispatch_table = _REDUCERS
        pickler.dump(state)
    return buffer.getvalue()


def loads(raw: bytes, modules: Collection[str] = ()) -> Any:
    """Unpickle with the allow-list. Raises ``SnapshotError`` for a name outside it or bytes that are no pickle."""
    try:
        with _deep():
            return _Unpickler(io.BytesIO(raw), frozenset(modules)).load()
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(f"snapshot: it cannot be read: {type(error).__name__}: {error}") from error


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, modules: frozenset[str]) -> None:
        super().__init__(file)
        self._modules = modules

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _method
        if (module, name) in _NAMES:
            return super().find_class(module, name)
        package = module.partition(".")[0]
        trusted = package in _PACKAGES and not module.startswith(_EXCLUDED)
        if trusted or module in self._modules:
            found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
            if isinstance(found, type) and found.__module__ == module:
                return found
            # A static method, or a method without its object; ``__init__`` and its like stay out.
            if (
                trusted
                and inspect.isfunction(found)
                and (found.__module__, found.__qualname__) == (module, name)
            ):
                owner, _, method = name.rpartition(".")
                if owner and not method.startswith("__"):
                    return found
        raise SnapshotError(
            f"snapshot: {module}.{name} is not on the allow-list; if it is a class of your model, "
            "name its module in model.modules"
        )


_PACKAGES = frozenset({"river", "explain_core"})
_EXCLUDED = (
    "river.datasets",
    "river.bandit.datasets",
    "river.bandit.envs",
    "river.stream",
    "river.evaluate",
    "river.checks",
    "river.utils.param_grid",
    "river.api",
)
_NAMES = frozenset(
    {
        ("builtins", "bool"),
        ("builtins", "bytearray"),
        ("builtins", "complex"),
        ("builtins", "dict"),
        ("builtins", "float"),
        ("builtins", "frozenset"),
        ("builtins", "int"),
        ("builtins", "list"),
        ("builtins", "object"),
        ("builtins", "range"),
        ("builtins", "set"),
        ("builtins", "slice"),
        ("builtins", "str"),
        ("builtins", "tuple"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("copy", "deepcopy"),
        ("copyreg", "_reconstructor"),
        ("datetime", "date"),
        ("explain_core.losses", "get"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("functools", "partial"),
        ("numbers", "Number"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.random._mt19937", "MT19937"),
        ("numpy.random._pickle", "__bit_generator_ctor"),
        ("numpy.random._pickle", "__randomstate_ctor"),
        ("random", "Random"),
        ("river._river_rust.vectordict", "euclidean_distance_tuple"),
        ("service.messages", "Chain"),
        ("service.partition", "PartitionState"),
        ("service.snapshot", "_ebst"),
        ("service.snapshot", "_gaussian"),
        ("statistics", "NormalDist"),
    }
)


def _method(instance: Any, name: str) -> Any:
    """What a bound method's pickle calls in place of ``getattr``: methods of river's objects, nothing else."""
    owner = instance if isinstance(instance, type) else type(instance)
    if (
        owner.__module__.partition(".")[0] != "river"
        or name.startswith("__")
        or not callable(getattr(owner, name, None))
    ):
        raise SnapshotError(f"snapshot: the method {owner.__qualname__}.{name} is not on the allow-list")
    return getattr(instance, name)


def _reduce_gaussian(gaussian: Gaussian) -> Any:
    """Leaves out a ``Gaussian``'s private Mersenne Twister, which trees never use: over 90 % of a tree's pickle."""
    return (_gaussian, (gaussian._var,)) if gaussian.seed is None else gaussian.__reduce_ex__(5)


def _gaussian(var: Var) -> Gaussian:
    gaussian = Gaussian(seed=0)  # type: ignore[no-untyped-call]
    gaussian.seed, gaussian._var = None, var
    return gaussian


def _reduce_ebst(root: EBSTNode) -> Any:
    """A binary search tree as flat lists: linked nodes of a sorted stream are deeper than any recursion limit."""
    nodes, multivariate = [root], root._update_estimator is EBSTNode._update_estimator_multivariate
    left: list[int] = []
    right: list[int] = []
    for node in nodes:
        for child, indices in ((node._left, left), (node._right, right)):
            indices.append(0 if child is None else len(nodes))
            if child is not None:
                nodes.append(child)
    return _ebst, (
        [node.att_val for node in nodes],
        [node.estimator for node in nodes],
        left,
        right,
        multivariate,
    )


def _ebst(
    values: list[Any], estimators: list[Any], left: list[int], right: list[int], multivariate: bool
) -> EBSTNode:
    nodes = [EBSTNode.__new__(EBSTNode) for _ in values]
    update = (
        EBSTNode._update_estimator_multivariate if multivariate else EBSTNode._update_estimator_univariate
    )
    for index, node in enumerate(nodes):
        node.att_val, node.estimator, node._update_estimator = values[index], estimators[index], update
        node._left = nodes[left[index]] if left[index] else None
        node._right = nodes[right[index]] if right[index] else None
    return nodes[0]


_REDUCERS: Any = {**dispatch_table, Gaussian: _reduce_gaussian, EBSTNode: _reduce_ebst}


@contextmanager
def _deep() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@functools.cache
def _cpu() -> str:
    from numpy._core._multiarray_umath import (
        __cpu_features__,
    )  # the public show_config() prints it, and no more

    return platform.machine() + ":" + ",".join(sorted(name for name, on in __cpu_features__.items() if on))
