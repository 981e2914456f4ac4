"""Where bytes of others come in, and what must hold for any of them: the random and the guided fuzzing share these."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import orjson

from explain_core.foreign import dumps
from explain_sidecar.errors import SettingsError, SnapshotError, UserError
from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.kafka.checkpoints import Pointer
from explain_sidecar.settings import Settings, load_settings
from explain_sidecar.snapshots.signatures import Keys
from explain_sidecar.snapshots.snapshot import Manifest, Snapshot, load, take
from tests.folds import fold, new_state, values
from tests.folds import settings as fold_settings
from tests.fuzz import states
from tests.fuzz.partitions import SECTIONS, outcome
from tests.fuzz.partitions import stored as stored_states

tried: Counter[str] = Counter()
"""Inputs, by the entry that they were tried at."""

# --- records -----------------------------------------------------------------------------------------------------------

RECORD = {"weight": "weight", "timestamp": "when", "id": "id"}
EXPLAINERS = [{"kind": "ipfi", "alpha": 0.1, "reservoir": {"size": 3}}]
MAX_BYTES = 50_000
KNOWN = {
    task: fold_settings(
        task,
        record={**record, "deletes": "dead_letter"},
        explainers=EXPLAINERS,
        emit={"every": 1, "max_bytes": MAX_BYTES},
    )
    for task, record in (("binary", {}), ("multiclass", {"id": "id"}), ("regression", {"timestamp": "when"}))
}


def records(task: str, stream: list[tuple[bytes | None, list[bytes]]]) -> None:
    """Values, each with the names of its headers. Each is folded or dead-lettered; those that are folded give what they give
    without the others, and no message is larger than it may be.
    """
    all_of_them, good_alone = PartitionState(KNOWN[task], 0), PartitionState(KNOWN[task], 0)
    for offset, (value, names) in enumerate(stream):
        given = record(offset, value, names)
        folded, rejected = all_of_them.records, all_of_them.rejections.total
        before = all_of_them.fold_digest
        outputs = all_of_them.step(given)
        assert all(size(output) < MAX_BYTES for output in outputs)
        tried["records"] += 1
        assert [output.destination for output in outputs] in (["explanations"], ["dead_letters"])
        if outputs[0].destination == "explanations":
            assert (all_of_them.records, all_of_them.rejections.total) == (folded + 1, rejected)
            assert [essence(output) for output in outputs] == [
                essence(output) for output in good_alone.step(given)
            ]
        else:
            assert (all_of_them.records, all_of_them.rejections.total) == (folded, rejected + 1)
            assert (outputs[0].key, outputs[0].value) == (b"k", value)
            assert outputs[0].headers[: len(given.headers)] == given.headers
            assert all_of_them.fold_digest == before
        assert all_of_them.next_offset == offset + 1
    assert all_of_them.fold_digest == good_alone.fold_digest
    assert (all_of_them.labels, all_of_them.kinds) == (good_alone.labels, good_alone.kinds)
    assert all_of_them.state(dumps).explained == good_alone.state(dumps).explained


def essence(output: Output) -> dict[str, Any]:
    """What neighbours may not change: all but what counts rejected records, and the digest over it."""
    assert output.value is not None
    message: dict[str, Any] = orjson.loads(output.value)
    moved = ("rejected", "rejected_recently", "status", "digest")
    return {name: value for name, value in message.items() if name not in moved}


def size(output: Output) -> int:
    """Bytes of a message without Kafka's frame."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in output.headers)
    return len(output.key or b"") + len(output.value or b"") + headers


def record(offset: int, value: bytes | None, names: list[bytes]) -> InputRecord:
    """A record with headers of these names, as far as they are text."""
    readable: list[tuple[str, bytes]] = []
    for name in names:
        with suppress(UnicodeDecodeError):
            readable.append((name.decode(), b"v"))
    unreadable = len(names) - len(readable)
    return InputRecord(offset, 1_700_000_000_000 + offset, b"k", value, tuple(readable), unreadable)


# --- settings ----------------------------------------------------------------------------------------------------------


def _paths(model: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if hasattr(inner, "model_fields"):
            yield from _paths(inner, (*prefix, name))
        else:
            yield (*prefix, name)


VARIABLES = ["EXPLAIN_" + "__".join(path).upper() for path in _paths(Settings)]


def environment(variables: dict[str, str]) -> None:
    """They are taken, or refused in words that name one of them."""
    tried["settings"] += 1
    try:
        found = load_settings(environ=variables)
    except SettingsError as error:
        assert any(name.removeprefix("EXPLAIN_").lower()[:3] in str(error).lower() for name in variables)
    else:
        assert isinstance(found, Settings)


# --- snapshots, manifests, pointers ------------------------------------------------------------------------------------


@cache
def stored() -> Snapshot:
    known, state = fold_settings(), new_state()
    fold(state, values(60))
    return take(state, known.app_id, "records", "topic-id", {})


def chunk_of_it() -> bytes:
    return stored().chunks[0]


def manifest_of_it() -> bytes:
    return stored().manifest.encode()


def warm() -> None:
    """Make what the entries need, and compile what they run: afterwards their memory is that of inputs."""
    chunk_of_it()
    for name in SECTIONS:
        for case in stored_states(name):
            outcome(case.raw, case)


KEYS = Keys((b"a key of sixteen", b"one that was before"))
POINTER = Pointer("id", 0, 1, 2, 3, "0" * 32, {"explanations": (1, "0" * 32)}).encode()


def state(name: str, index: int) -> None:
    """A damaged one is refused, folds on, or stops in words."""
    tried["states"] += 1
    what = states.tried(name, index)
    assert what in states.GOOD, f"{name}, state {index}: {what}"


def chunk(packed: bytes) -> None:
    """One that is not the stored one is refused."""
    tried["snapshots"] += 1
    try:
        load(Snapshot(manifest=stored().manifest, chunks=[packed]), fold_settings())
    except SnapshotError:
        return
    assert packed == chunk_of_it()


def manifest(value: bytes) -> None:
    """An altered one has no signature that fits; it is refused, or does not say what the chunks are."""
    tried["manifests"] += 1
    try:
        KEYS.check(value, KEYS.sign(manifest_of_it()))
    except SnapshotError:
        assert value != manifest_of_it()
    else:
        assert value == manifest_of_it()
    try:
        decoded = Manifest.decode(value)
        load(Snapshot(manifest=decoded, chunks=stored().chunks), fold_settings())
    except UserError:
        return
    assert (decoded.sha256, decoded.raw_size) == (stored().manifest.sha256, stored().manifest.raw_size)


def metadata(text: str) -> None:
    """That of a committed offset is a pointer, or not ours."""
    tried["pointers"] += 1
    pointer = Pointer.decode(text)
    assert pointer is None or isinstance(pointer.next_offset, int)
