"""The time of a worker."""

from __future__ import annotations

import time


class Clock:
    """What a worker's loop knows of time, in seconds. A test gives one of its own, which nothing but the test moves."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        """Since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
