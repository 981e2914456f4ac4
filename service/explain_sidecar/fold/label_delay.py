"""How long after their events the labels of a partition arrived, by the headers of joined records."""

from __future__ import annotations

from collections import deque
from typing import Annotated

import msgspec

from explain_sidecar.fold.rejections import LAST
from explain_sidecar.formats.errors import Headers

DELAY_HEADER, OUTCOME_HEADER = "label_delay_ms", "outcome"
"""Of the records of ``explain-sidecar join``; any other producer may set them too."""

IMPLIED = b"expired"
"""The outcome of a record whose label is implied: none arrived in time."""

PERCENTILES = (10, 50, 90, 99)

_LONGEST = 2**53

Delay = Annotated[int, msgspec.Meta(ge=-_LONGEST, le=_LONGEST)]
Delays = Annotated[list[Delay | None], msgspec.Meta(max_length=LAST)]
"""Milliseconds, the newest last; None for an implied label."""


class LabelDelays:
    """The delays of the last ``LAST`` records that report one.

    >>> delays = LabelDelay()
    >>> for second in range(10):
    ...     delays.add((("label_delay_ms", b"%d" % (1_000 * second)),))
    >>> delays.add((("outcome", b"expired"),))
    >>> delays.summary()
    {'labels': 10, 'implied': 1, 'p10': 0, 'p50': 4000, 'p90': 8000, 'p99': 9000}
    """

    def __init__(self) -> None:
        self._recent: deque[int | None] = deque(maxlen=LAST)

    def add(self, headers: Headers) -> None:
        """Note a folded record. Headers without a number are ignored."""
        implied = False
        for name, value in headers:
            if name == DELAY_HEADER and value is not None:
                digits = value.removeprefix(b"-")
                if digits.isdigit() and len(digits) < 20:
                    self._recent.append(max(-_LONGEST, min(int(value), _LONGEST)))
                    return
            implied = implied or (name == OUTCOME_HEADER and value == IMPLIED)
        if implied:
            self._recent.append(None)

    def summary(self) -> dict[str, int | None] | None:
        """How many came, how many were implied, and percentiles by nearest rank in milliseconds; None where nothing is known."""
        if not self._recent:
            return None
        known = sorted(delay for delay in self._recent if delay is not None)
        counts: dict[str, int | None] = {"labels": len(known), "implied": len(self._recent) - len(known)}
        ranks = {f"p{p}": -(-p * len(known) // 100) - 1 for p in PERCENTILES}
        return counts | {name: known[rank] if known else None for name, rank in ranks.items()}

    def state(self) -> list[int | None]:
        return list(self._recent)

    def restore(self, recent: list[int | None]) -> None:
        self._recent = deque(recent, maxlen=LAST)
