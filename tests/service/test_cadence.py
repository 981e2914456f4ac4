from types import SimpleNamespace
from typing import Any

from explain_sidecar.kafka.cadence import Cadence
from explain_sidecar.kafka.clock import Clock
from explain_sidecar.settings.checkpoint import CheckpointSettings

SECONDS = 600


class Hands(Clock):
    """A clock that a test sets."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def snapshots(loads: list[float], seconds: float, size: int, **settings: Any) -> tuple[list[int], float]:
    """How many snapshots each partition gets, where records take these shares of the time; and the longest replay of all of them."""
    clock = Hands()
    cadence = Cadence(CheckpointSettings(**settings), clock)
    owned: list[Any] = [
        SimpleNamespace(partition=i, fold_seconds=0.0, snapshot_at=0.0, location=0, unsaved=True)
        for i in range(len(loads))
    ]
    count, longest = [0] * len(loads), 0.0
    for turn in range(SECONDS * 10):
        clock.now = turn / 10
        for one, load in zip(owned, loads, strict=True):
            one.fold_seconds += load / 10
        for one in cadence.due(owned):
            cadence.spent(one.partition, seconds, size)
            count[one.partition] += 1
            one.fold_seconds, one.snapshot_at = 0.0, clock.now
        longest = max(longest, sum(one.fold_seconds for one in owned))
    return count, longest


def test_where_a_cap_binds_the_partitions_with_few_records_are_saved_too() -> None:
    count, _ = snapshots([0.4, 0.4, *[0.001] * 4], seconds=0.05, size=5_000_000)
    assert sum(count) * 5_000_000 > 0.9 * 1_000_000 * SECONDS  # the cap binds
    assert min(count) >= 2


def test_the_replays_together_stay_below_their_bound_with_few_snapshots() -> None:
    count, longest = snapshots([0.2, 0.1, 0.05, 0.02, *[0.001] * 60], seconds=0.001, size=10_000)
    assert longest <= 0.5 + 0.1
    assert sum(count) < 7_000  # twice as many if the longest replays come first
    assert min(count) >= SECONDS / 16  # and checkpoint.max_age


def test_partitions_with_like_records_are_saved_in_turns() -> None:
    count, _ = snapshots([0.1] * 4, seconds=0.001, size=10_000)
    # All at once, each would be saved whenever the four together take half a second: every 1.25 s.
    assert sum(count) < 0.7 * 4 * SECONDS / 1.25
    assert max(count) - min(count) <= 1
