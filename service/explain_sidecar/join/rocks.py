"""The local store of a partition in RocksDB. It is written after a commit only, so that it never holds what is not on the changelog."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from explain_sidecar.errors import UserError
from explain_sidecar.join.store import Changes

if TYPE_CHECKING:
    from rocksdict import Cache, Rdict

MEMORY_BYTES = 32 * 2**20
"""Of a partition, for the newest writes."""

CACHE_BYTES = 96 * 2**20
"""Of a process, for the blocks that are read in all its partitions."""

_ENTRY, _INDEX, _CHECKPOINT = b"e", b"i", b"p"


Method = TypeVar("Method", bound=Callable[..., Any])


def _unusable(folder: Path, error: Exception) -> UserError:
    return UserError(
        f"join.state_dir: {folder} cannot be used: {error}; give this worker a folder of its own with room on its disk, "
        "or delete it: it is restored from the changelog"
    )


def _in_words(method: Method) -> Method:
    """A full disk or a damaged file, for which rocksdict raises ``Exception`` itself, as ``UserError``."""

    @functools.wraps(method)
    def called(self: Rocks, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Exception as error:
            if type(error) is not Exception:
                raise
            raise _unusable(self._folder, error) from None

    return cast(Method, called)


class Rocks:
    """What is kept of a partition on this machine: entries by id, and an index of them, a row for each by kind in ascending order.

    A row is when the entry is due, then its id. Rows may outlive their entries. Entries are under ``e`` + id, rows under ``i`` + kind + row, the
    position on the changelog under ``p``.

    Raises ``UserError`` where the folder cannot be used or ``rocksdict`` is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from rocksdict import BlockBasedOptions, Options, Rdict, WriteBatch
        except ImportError:
            raise UserError("join: its store needs rocksdict; install explanation-sidecar[join]") from None
        blocks = BlockBasedOptions()
        blocks.set_block_cache(_cache())
        # Most ids that are looked up are not there: an event's, before it is taken in.
        blocks.set_bloom_filter(10, False)
        blocks.set_cache_index_and_filter_blocks(False)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_size(MEMORY_BYTES // 2)
        options.set_max_write_buffer_number(2)
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(0.02)
        options.set_max_open_files(256)
        options.set_keep_log_file_num(1)
        self._batch = WriteBatch
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._db: Rdict = Rdict(str(folder), options)
        except Exception as error:  # rocksdict raises Exception itself
            raise _unusable(folder, error) from None
        self._folder = folder

    @_in_words
    def get(self, id: bytes) -> bytes | None:
        found: bytes | None = self._db.get(_ENTRY + id)
        return found

    @_in_words
    def get_all(self, ids: Sequence[bytes]) -> list[bytes | None]:
        found: Any = self._db.get([_ENTRY + id for id in ids])
        return list(found)

    @_in_words
    def rows(self, kind: int, start: bytes, count: int) -> list[bytes]:
        """The first rows that are not below ``start``."""
        prefix = _INDEX + bytes([kind])
        found = []
        for key in islice(self._db.keys(from_key=prefix + start), count):
            assert isinstance(key, bytes)
            if not key.startswith(prefix):
                break
            found.append(key[2:])
        return found

    @_in_words
    def write(
        self,
        changes: Changes,
        rows: Sequence[tuple[int, bytes]],
        passed: Mapping[int, bytes],
        checkpoint: bytes,
    ) -> None:
        """All or nothing: delete each kind's rows below ``passed``, then take in changes, new rows, and the checkpoint on the changelog."""
        batch = self._batch(raw_mode=True)
        for kind, row in passed.items():
            if row:
                prefix = _INDEX + bytes([kind])
                batch.delete_range(prefix, prefix + row)
        for id, value in changes.items():
            if value is None:
                batch.delete(_ENTRY + id)
            else:
                batch.put(_ENTRY + id, value)
        for kind, row in rows:
            batch.put(_INDEX + bytes([kind]) + row, b"")
        batch.put(_CHECKPOINT, checkpoint)
        self._db.write(batch)

    @property
    @_in_words
    def checkpoint(self) -> bytes | None:
        """Written with the last changes."""
        found: bytes | None = self._db.get(_CHECKPOINT)
        return found

    def close(self) -> None:
        self._db.close()


@functools.cache
def _cache() -> Cache:
    from rocksdict import Cache

    return Cache(CACHE_BYTES)
