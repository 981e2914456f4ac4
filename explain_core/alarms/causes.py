"""Alarms of one cause: those whose plausible onsets overlap."""

from __future__ import annotations

from explain_core.state import Count, State, check

OPEN = 8
"""The number of newest causes that later alarms may still join."""


class CausesState(State, frozen=True):
    """The number of causes, and (number, earliest, latest) of those that are open, the oldest first."""

    count: Count
    open: list[tuple[Count, int, int]]


class Causes:
    """Numbers the causes from 1.

    An alarm belongs to the newest cause whose plausible onsets have offsets in common with its own; what all have in common is left. One
    with no such cause is a new cause. Of many alarms some miss the onset, so the range counts half as wide again.

    >>> causes = Causes()
    >>> [causes.of(*onsets) for onsets in [(100, 200), (210, 300), (340, 350), (190, 200)]]
    [1, 1, 2, 1]
    """

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[int, int, int]] = []

    def of(self, earliest: int, latest: int) -> int:
        """The number of the cause of an alarm with these plausible onsets."""
        more = (latest - earliest) // 4
        earliest, latest = earliest - more, latest + more
        for at in range(len(self._open) - 1, -1, -1):
            number, first, last = self._open[at]
            if max(first, earliest) <= min(last, latest):
                self._open[at] = number, max(first, earliest), min(last, latest)
                return number
        self._count += 1
        self._open = [*self._open, (self._count, earliest, latest)][-OPEN:]
        return self._count

    def state(self) -> CausesState:
        return CausesState(self._count, list(self._open))

    def restore(self, state: CausesState) -> None:
        """Restore a stored state. Raises ``StateError`` where it is invalid."""
        check(len(state.open) <= OPEN, f"causes: more than {OPEN} open ones")
        check(
            all(1 <= cause[0] <= state.count and cause[1] <= cause[2] for cause in state.open),
            "causes: one that is none",
        )
        self._count, self._open = state.count, list(state.open)
