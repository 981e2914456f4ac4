"""RocksDB keeps what a plain dictionary keeps, also across a process that ends without closing it."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explain_sidecar.errors import UserError
from explain_sidecar.join.rocks import Rocks
from explain_sidecar.join.store import row_of
from tests.service.join.local import Memory

IDS = st.binary(min_size=1, max_size=3)
ROWS = st.builds(row_of, st.integers(-(2**63), 2**63), IDS)
WRITES = st.tuples(
    st.dictionaries(IDS, st.one_of(st.none(), st.binary(max_size=4)), max_size=8),
    st.lists(st.tuples(st.integers(0, 2), ROWS), max_size=8),
    st.dictionaries(st.integers(0, 2), ROWS, max_size=2),
    st.binary(max_size=4),
)


@settings(max_examples=8, derandomize=True, database=None, deadline=None)
@given(
    writes=st.lists(st.one_of(WRITES, WRITES, st.just("again")), max_size=12), ids=st.lists(IDS), start=ROWS
)
def test_it_keeps_what_a_dictionary_keeps(
    tmp_path_factory: pytest.TempPathFactory, writes: list, ids: list[bytes], start: bytes
) -> None:
    folder = tmp_path_factory.mktemp("rocks")
    memory, rocks = Memory(), Rocks(folder)
    for write in writes:
        if write == "again":
            rocks.close()
            rocks = Rocks(folder)
        else:
            memory.write(*write)
            rocks.write(*write)
    assert rocks.checkpoint == memory.checkpoint
    for id in {*ids, *memory.entries}:
        assert rocks.get(id) == memory.get(id)
    assert rocks.get_all(ids) == memory.get_all(ids)
    for kind in range(3):
        for first in (b"", start):
            for count in (2, 100):
                assert rocks.rows(kind, first, count) == memory.rows(kind, first, count)
    rocks.close()


def test_what_was_written_is_there_after_a_kill(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from explain_sidecar.join.rocks import Rocks\n"
        "Rocks(Path(sys.argv[1])).write({b'a': b'1'}, [(0, b'12345678a')], {}, b'checkpoint')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == -9
    rocks = Rocks(tmp_path)
    assert (rocks.get(b"a"), rocks.checkpoint, rocks.rows(0, b"", 9)) == (b"1", b"checkpoint", [b"12345678a"])


def test_a_folder_that_another_has_open_is_refused(tmp_path: Path) -> None:
    rocks = Rocks(tmp_path)
    with pytest.raises(UserError, match=r"join\.state_dir: .* cannot be used"):
        Rocks(tmp_path)
    rocks.close()


def test_a_store_that_is_damaged_while_it_is_open_is_named_with_what_to_do(tmp_path: Path) -> None:
    rocks = Rocks(tmp_path)
    rocks.write({b"%05d" % n: random.Random(n).randbytes(1_000) for n in range(3_000)}, [], {}, b"")
    rocks.close()
    (table,) = (file for file in tmp_path.glob("*.sst") if file.stat().st_size > 1_000_000)
    data = bytearray(table.read_bytes())
    data[5_000:-200_000:5_000] = bytes(len(data[5_000:-200_000:5_000]))
    table.write_bytes(data)
    rocks = Rocks(tmp_path)
    with pytest.raises(UserError, match=r"join\.state_dir: .*restored from the changelog"):
        rocks.get_all([b"%05d" % n for n in range(3_000)])
    rocks.close()
