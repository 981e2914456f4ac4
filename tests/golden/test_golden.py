"""Every later version reads what an earlier one stored, goes on from it, and gives the same bytes."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import msgspec
import pytest

from explain_core.state import State, states_in
from explain_sidecar.fold.partition import PartitionData
from explain_sidecar.snapshots.snapshot import Manifest, Snapshot, load_parts
from tests.golden import FAMILIES, FOLDER, folded, path_of, read

RELEASES = sorted(path.stem for path in FOLDER.glob("*.zst"))


@pytest.mark.parametrize(("release", "name"), [(release, name) for release in RELEASES for name in read(release)])  # fmt: skip
def test_a_snapshot_of_a_release_is_restored_and_goes_on_with_the_same_bytes(release: str, name: str) -> None:
    known = read(release)[name]
    now = folded(name, known)
    assert now.fold_digest == known.fold_digest and now.chains == known.chains, (
        "the arithmetic or a message of this family changed: say so in CHANGELOG.md, and run `make golden`"
    )


def test_this_version_has_written_its_own() -> None:
    here = version("explanation-sidecar")
    assert path_of(here).exists(), "run `make golden`"
    assert set(read(here)) == set(FAMILIES), "a family is new: before the release, remove the file and run `make golden`"  # fmt: skip


def test_they_are_small() -> None:
    assert 0 < sum(path.stat().st_size for path in FOLDER.glob("*.zst")) < 1_000_000


def _states(data: Any) -> Iterator[type[State]]:
    """The classes of the states in a value."""
    if isinstance(data, State):
        yield type(data)
        data = msgspec.structs.asdict(data)
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list | tuple) else ()
    for value in inner:
        yield from _states(value)


def test_every_class_of_states_is_in_one_of_them() -> None:
    """So that none changes its shape without a test that reads the one before."""
    found: set[type[State]] = set()
    for golden in read(version("explanation-sidecar")).values():
        stored = golden.snapshot
        found |= set(_states(load_parts(Snapshot(manifest=Manifest.decode(stored.manifest), chunks=stored.chunks))))  # fmt: skip
    assert states_in(PartitionData) - found == set()
