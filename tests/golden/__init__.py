"""Golden snapshots: small states of every family of models and with every part, which later versions must read.

``python -m tests.golden`` (``make golden``) writes those of this version, unless they are there, and what each version's give under the
arithmetic of now. A version's states are never written again once it is released.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from explain_core.foreign import dumps, loads
from explain_core.packing import zstd
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.identity import fold_settings, settings_of
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.schemas import StoredSchema
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.files import Stored, stored
from explain_sidecar.snapshots.signatures import Keys
from explain_sidecar.snapshots.snapshot import Before, Manifest, Snapshot, begin, load, take
from tests.folds import record, settings, values
from tests.fuzz.partitions import ISAGE, SECTIONS, fold, labelled_later, some_unlabelled
from tests.service.test_alarms import STATIC
from tests.service.test_drift_on_alarm import sections as asking
from tests.service.test_windows import stream
from tests.versions import records as versioned_records
from tests.versions import versioned, write

FOLDER = Path(__file__).parent
LEARNT, FURTHER = 100, 40
"""Records before a snapshot, and after it."""

ASKED = 1_105
"""Records after which an alarm's answer waits for more of them."""

FAMILIES: dict[str, dict[str, Any]] = {
    **SECTIONS,
    "mixture": {"model": {"name": "mixture"}},
    "mixture, several classes": {"task": "multiclass", "model": {"name": "mixture"}},
    "mixture, numbers": {"task": "regression", "model": {"name": "mixture"}},
    "tree": {"model": {"name": "tree"}},
    "forest": {"model": {"name": "forest"}},
    "own code": {"explainers": [ISAGE], "model": {"factory": "river.naive_bayes:GaussianNB"}},
    "season": {"alarms": {"enabled": True, "one_in": 1_000, "season": "day"}, "record": {"timestamp": "time"}},
    "served predictions": {"record": {"prediction": "p"}},
    "a schema": {"record": {"format": "json_schema"}, "registry": {"url": "http://127.0.0.1:1"}},
    "an epoch that took over": {"explain": {"every": 2}},
    "an answer that waits": asking(model=STATIC),
    "groups and periods": {
        "explainers": [{"kind": "ipfi", "groups": {"look": ["colour", "flag"]}, "reservoir": {"size": 20}}],
        "emit": {"every": 7, "periods": [100, "day"]},
    },
}  # fmt: skip


class Golden(msgspec.Struct, frozen=True):
    """A snapshot, the records that follow it, and the fold digest and chains after these."""

    snapshot: Stored
    further: list[InputRecord]
    fold_digest: str
    chains: dict[str, tuple[int, str]]


def path_of(release: str) -> Path:
    return FOLDER / f"{release}.zst"


@cache
def read(release: str) -> dict[str, Golden]:
    """The golden snapshots of a release, by what they are of."""
    raw = zstd.decompress(path_of(release).read_bytes())
    return msgspec.msgpack.decode(raw, type=dict[str, Golden])


def save(release: str, golden: Mapping[str, Golden]) -> None:
    packed = zstd.compress(msgspec.msgpack.encode(golden), 19)
    path_of(release).write_bytes(packed)


@cache
def _models() -> str:
    """The pattern of files with the models that two of the families need."""
    return write(Path(tempfile.mkdtemp(prefix="golden-")), "v1", "v2", "v3")


def settings_now(name: str) -> Settings:
    """The settings of a family as this version's tests have them."""
    sections = FAMILIES[name]
    if name == "versions":
        return versioned(_models(), **sections)
    if name == "trained model":
        return settings(**sections, model={"uri": _models().replace("{version}", "v1")})
    return settings(**sections)


def _given(name: str) -> list[InputRecord]:
    sections, count = FAMILIES[name], LEARNT + FURTHER
    task, numeric = sections.get("task", "binary"), name.endswith("models") or name == "own code"
    if name in ("versions", "trained model"):
        return [record(i, x) for i, x in enumerate(versioned_records([f"v{1 + i // 7 % 3}" for i in range(count)]))]  # fmt: skip
    if name == "an answer that waits":
        return [record(i, x) for i, x in enumerate(stream(ASKED + FURTHER, flips_at=1_030))]
    if name == "estimated losses":
        return [record(i, x) for i, x in enumerate(some_unlabelled(values(ASKED + FURTHER)))]
    given = [
        {**x, "time": 1_700_000_000_000 + i * 600_000, "p": i % 7 / 7}
        for i, x in enumerate(values(count, task, numeric=numeric))
    ]
    if name == "a schema":
        return [record(i, b"\0\0\0\0\1" + json.dumps(x).encode()) for i, x in enumerate(given)]
    if "predictions" in sections:
        given = labelled_later(given)
    return [record(i, x) for i, x in enumerate(given)]


def made(name: str) -> Golden:
    """The golden snapshot of a family as this version writes it."""
    known, given = settings_now(name), _given(name)
    learnt, further = given[:-FURTHER], given[-FURTHER:]
    state = PartitionState(known, 3)
    if name == "a schema":
        state.schemas.learn("1", StoredSchema("1", "JSON", b'{"": {}}'))
    if name == "an epoch that took over":
        state, before = PartitionState(settings(), 3), settings()
        fold(state, learnt[:50], before)
        carry = carry_over(fold_settings(before), known)
        state = begin(known, 3, 1, 50, Before(state.state(dumps), carry, loads))
        learnt = learnt[50:]
    fold(state, learnt, known)
    snapshot = take(state, known.app_id, known.topics.records, "golden", fold_settings(known))
    return folded(name, Golden(stored(snapshot, Keys()), further, "", {}))


def folded(name: str, golden: Golden) -> Golden:
    """The same with the digests that this version gives: the state restored, and the records that follow folded."""
    manifest = Manifest.decode(golden.snapshot.manifest)
    known = settings_of(manifest.settings, settings_now(name))
    state = load(Snapshot(manifest=manifest, chunks=golden.snapshot.chunks, trusted=True), known)
    fold(state, golden.further, known)
    chains = {name: (chain.seq, chain.digest.hex()) for name, chain in state.chains.items()}
    return Golden(golden.snapshot, golden.further, state.fold_digest.hex(), chains)


def main() -> None:
    here = version("explanation-sidecar")
    if not path_of(here).exists():
        save(here, {name: made(name) for name in FAMILIES})
    for path in FOLDER.glob("*.zst"):
        known = read(path.stem)
        now = {name: folded(name, golden) for name, golden in known.items()}
        if now != known:
            save(path.stem, now)
