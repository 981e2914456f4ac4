"""How many of the last records of a partition could not be folded."""

from __future__ import annotations

from typing import Annotated

import msgspec

LAST = 1_000
"""Length of the window, in records."""

MANY = 50
"""With more rejected records than this, 5 %, the partition counts as rejecting."""

Bits = Annotated[bytes, msgspec.Meta(max_length=LAST // 8)]
"""A bit for each of the last records, the newest last: whether it was rejected."""


class Rejections:
    """Which of the last ``LAST`` records were rejected; ``total`` counts those of the whole epoch.

    >>> rejections = Rejections()
    >>> for i in range(2_000):
    ...     rejections.add(rejected=i % 10 == 0)
    >>> rejections.total, rejections.recent, rejections.many
    (200, 100, True)
    """

    def __init__(self) -> None:
        self.total = 0
        self._bits = 0

    def add(self, *, rejected: bool) -> None:
        """Note the next record."""
        self._bits = (self._bits << 1 | rejected) & _ALL
        self.total += rejected

    def accept(self, records: int) -> None:
        """Note that many that were not rejected."""
        self._bits = self._bits << records & _ALL

    @property
    def recent(self) -> int:
        """How many of the last ``LAST`` records were rejected."""
        return self._bits.bit_count()

    @property
    def many(self) -> bool:
        return self.recent > MANY

    def state(self) -> bytes:
        return self._bits.to_bytes(LAST // 8)

    def restore(self, total: int, bits: bytes) -> None:
        self.total, self._bits = total, int.from_bytes(bits)


_ALL = (1 << LAST) - 1
