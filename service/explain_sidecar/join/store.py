"""The entries of a partition: the committed ones in a local store, the others in memory above it, and all of them in the order in which they are due."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from explain_sidecar.errors import RecoveryError
from explain_sidecar.join.entries import KINDS, Entry

if TYPE_CHECKING:
    from explain_sidecar.join.rocks import Rocks

CHUNK = 1_000
"""Rows of the index that are read at a time."""

MOST_ROWS = 10_000
"""Rows of the index kept in memory after a commit; the rest is in the local store."""

_LEAST = -(2**63)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode

Changes = Mapping[bytes, bytes | None]
"""Entries by id, encoded; None is a deleted entry."""


def row_of(due: int, id: bytes) -> bytes:
    """Sorts by due, then by id. A due beyond 64 bits counts as the last one or the first."""
    rank = due - _LEAST
    if not 0 <= rank < 2**64:
        rank = 0 if rank < 0 else 2**64 - 1
    return rank.to_bytes(8, "big") + id


class Store:
    """Entries by id. ``changes`` since the last commit go to the changelog; once they are committed ``committed`` writes them to ``local``."""

    def __init__(self, local: Rocks) -> None:
        self._local = local
        self._changed: dict[bytes, Entry | None] = {}
        self._read: dict[bytes, bytes | None] = {}
        """What the local store has of ids to come; never older than the local store."""
        self._queues = [_Queue(kind, local) for kind in KINDS]
        self.first_due = _LEAST
        """Nothing is due as long as time has not passed this."""

    def get(self, id: bytes) -> Entry | None:
        changed = self._changed
        if id in changed:
            return changed[id]
        read = self._read
        found = read.pop(id) if id in read else self._local.get(id)
        return None if found is None else _decode(found)

    def read(self, ids: Sequence[bytes]) -> None:
        """Read ids that ``get`` will be asked for: many together take less time than each by itself."""
        self._read.update(zip(ids, self._local.get_all(ids), strict=True))

    def put(self, id: bytes, entry: Entry) -> None:
        self._changed[id] = entry
        self._queues[entry.kind].add(row_of(entry.due, id))
        if entry.due < self.first_due:
            self.first_due = entry.due

    def update_first_due(self) -> None:
        """Call after all due entries were taken out: the first one left is the next to be due."""
        firsts = [row for queue in self._queues if (row := queue.first()) is not None]
        self.first_due = int.from_bytes(min(firsts)[:8], "big") + _LEAST if firsts else 2**63

    def delete(self, id: bytes) -> None:
        self._changed[id] = None

    def pop(self, kind: int, before: int | None = None) -> tuple[bytes, Entry] | None:
        """The entry of this kind that is due first, if that is before a time; its row is used up, the entry stays."""
        queue = self._queues[kind]
        limit = None if before is None else row_of(before, b"")
        while (row := queue.pop(limit)) is not None:
            id = row[8:]
            entry = self.get(id)
            # Rows of replaced or deleted entries are skipped.
            if entry is not None and entry.kind == kind and row_of(entry.due, id) == row:
                return id, entry
        return None

    @property
    def changed(self) -> bool:
        """Whether there are ``changes``."""
        return bool(self._changed)

    def changes(self) -> dict[bytes, bytes | None]:
        return {id: None if entry is None else _encode(entry) for id, entry in self._changed.items()}

    def committed(self, changes: Changes, checkpoint: bytes) -> None:
        """The ``changes`` are committed; ``checkpoint`` is the position on the changelog."""
        rows = [(kind, row) for kind, queue in enumerate(self._queues) for row in queue.new]
        self._local.write(changes, rows, {kind: self._queues[kind].passed for kind in KINDS}, checkpoint)
        for id in changes:
            self._read.pop(id, None)
        self._changed.clear()
        for queue in self._queues:
            queue.written()


def restore(local: Rocks, changes: Changes, checkpoint: bytes, who: str) -> None:
    """Take part of the changelog into a local store. Raises ``RecoveryError`` for what is no entry; ``who`` names the partition."""
    rows = []
    for id, value in changes.items():
        if value is not None:
            try:
                entry = _decode(value)
            except msgspec.MsgspecError as error:
                raise RecoveryError(
                    f"{who}: the entry of the id {id[:100]!r} on the changelog cannot be read: {error}; another program or version wrote it"
                ) from None
            rows.append((entry.kind, row_of(entry.due, id)))
    local.write(changes, rows, {}, checkpoint)


class _Queue:
    """The rows of one kind in ascending order: a part of those in the local store, read ahead, and those that are new."""

    def __init__(self, kind: int, local: Rocks) -> None:
        self._kind, self._local = kind, local
        self._heap: list[bytes] = []
        self._ahead: deque[bytes] = deque()
        self._unread: bytes | None = b""
        """Rows of the local store from here on have not been read; None: all have been."""
        self.new: list[bytes] = []
        self.passed = b""
        """Every row below has been used up."""

    def add(self, row: bytes) -> None:
        self.new.append(row)
        heappush(self._heap, row)
        if row < self.passed:
            self.passed = row

    def first(self) -> bytes | None:
        heap, ahead = self._heap, self._ahead
        if not ahead and self._unread is not None and not (heap and heap[0] < self._unread):
            self._read()
        if heap and not (ahead and ahead[0] < heap[0]):
            return heap[0]
        return ahead[0] if ahead else None

    def pop(self, limit: bytes | None) -> bytes | None:
        """The first row if it is below ``limit``."""
        row = self.first()
        if row is None or (limit is not None and row >= limit):
            return None
        if self._heap and self._heap[0] == row:
            heappop(self._heap)
        else:
            self._ahead.popleft()
        self.passed = row + b"\0"
        return row

    def _read(self) -> None:
        assert self._unread is not None
        rows = self._local.rows(self._kind, self._unread, CHUNK)
        self._ahead.extend(rows)
        self._unread = rows[-1] + b"\0" if len(rows) == CHUNK else None

    def written(self) -> None:
        self.new.clear()
        if len(self._heap) > MOST_ROWS:
            self._heap.clear()
            self._ahead.clear()
            self._unread = self.passed
