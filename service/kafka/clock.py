"""The time of a worker."""

from __future__ import annotations

import time


class Clock:
    """The clock of a worker's loop, in seconds. A test passes a clock that only the test advances."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        """Since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
