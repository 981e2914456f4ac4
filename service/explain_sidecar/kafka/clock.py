"""The time of a worker."""

from __future__ import annotations

import time

SLICE_SECONDS = 0.1
"""How long one turn of a loop may work on one thing, so that partitions, heartbeats and commits do not wait for each other."""

BEHIND_SECONDS = 10.0
"""What a coordinator may take to load what was committed, once it answers."""


class Clock:
    """The clock of a worker's loop, in seconds. A test passes a clock that only the test advances."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        """Since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
