"""A local store in memory. It outlives the process that a test kills, as a disk does."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from explain_sidecar.join.store import Changes


class Memory:
    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.index: dict[int, list[bytes]] = {}
        self.checkpoint: bytes | None = None

    def get(self, id: bytes) -> bytes | None:
        return self.entries.get(id)

    def get_all(self, ids: Sequence[bytes]) -> list[bytes | None]:
        return [self.entries.get(id) for id in ids]

    def rows(self, kind: int, start: bytes, count: int) -> list[bytes]:
        rows = self.index.get(kind, [])
        first = bisect_left(rows, start)
        return rows[first : first + count]

    def write(
        self,
        changes: Changes,
        rows: Sequence[tuple[int, bytes]],
        passed: Mapping[int, bytes],
        checkpoint: bytes,
    ) -> None:
        for kind, row in passed.items():
            known = self.index.get(kind, [])
            del known[: bisect_left(known, row)]
        for id, value in changes.items():
            if value is None:
                self.entries.pop(id, None)
            else:
                self.entries[id] = value
        for kind, row in rows:
            known = self.index.setdefault(kind, [])
            at = bisect_left(known, row)
            if known[at : at + 1] != [row]:
                insort(known, row)
        self.checkpoint = checkpoint

    def close(self) -> None:
        """Nothing to let go of."""
