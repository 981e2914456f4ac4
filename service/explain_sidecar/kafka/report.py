"""What a worker tells its supervisor: one JSON line each second and after each rebalance, over a pipe.

The line is made and written by a thread of its own: the loop never waits for the reader.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import TypeAdapter

from explain_sidecar.fold.metrics import Samples
from explain_sidecar.kafka.hidden import Hidden
from explain_sidecar.kafka.totals import Histogram, Phase, StepPhase, Totals

if TYPE_CHECKING:  # the supervisor, which reads the reports, has no model and nothing that explains one
    from explain_sidecar.kafka.lifecycle import OwnedPartition

INTERVAL_SECONDS = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartitionReport:
    """A partition that the worker owns, at its last commit.

    ``metrics`` has what ``explain_sidecar.fold.metrics`` declares, by name. ``since`` is when the group gave it, on the monotonic clock that the processes of a machine share. ``folded_at`` is
    Kafka's time of the newest record folded here, in ms since 1970. ``reason`` says why it does not go on. ``explanation`` and ``drift`` are the newest messages that this worker published.
    """

    partition: int
    since: float
    phase: Phase
    position: int | None
    folded_at: int | None
    replay_left: int
    metrics: dict[str, Samples]
    state_bytes: int | None
    snapshot_bytes: int | None
    snapshot_at: float
    explanation: dict[str, Any] | None
    drift: dict[str, Any] | None
    reason: str = ""


@dataclass(frozen=True)
class JoinReport:
    """A partition of the join, at its last commit. ``counts``: those of ``explain_sidecar.join.entries.Counts`` by name, and ``dropped``.

    ``ahead_seconds``: of event time, beyond the slowest partition with a backlog whose records meet its own.
    """

    partition: int
    phase: Phase
    restore_left: int
    counts: dict[str, int]
    ahead_seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """What a worker has done since its start, and what it owns now; ``reason``: why it has not joined its group yet."""

    alive_at: float
    joined: bool
    rebalances: int
    transactions: dict[str, int]
    dead_letters: dict[str, int]
    steps: dict[StepPhase, Histogram]
    commits: Histogram
    partitions: list[PartitionReport] = field(default_factory=list)
    join: list[JoinReport] = field(default_factory=list)
    hidden: list[Hidden] = field(default_factory=list)
    throttled: float = 0.0
    topic_ids: bool = True
    reason: str = "joining the group"


_REPORT = TypeAdapter(Report)


def decode(line: bytes) -> Report:
    return _REPORT.validate_python(orjson.loads(line))


def report_each_second(
    report: Callable[[float], Report], alive_at: Callable[[], float], moved: Event, pipe: int
) -> None:
    """Write reports until the supervisor is gone; ``alive_at`` is when the loop last showed a sign of life.

    Where no report can be made the last one is sent again with that time: a worker that folds is not taken for hung.
    """
    last = Report(alive_at(), False, 0, {}, {}, {}, Histogram(()))
    failing = False
    while True:
        moved.clear()
        alive = alive_at()
        try:
            made = report(alive)
            line = orjson.dumps(made)
            last, failing = made, False
        except Exception:
            if not failing:
                log.exception("no report to the supervisor can be made; it gets the last one again")
            failing = True
            line = orjson.dumps(replace(last, alive_at=alive))
        line += b"\n"
        try:
            while line:
                line = line[os.write(pipe, line) :]
        except BrokenPipeError:
            return
        moved.wait(INTERVAL_SECONDS)


def partition_report(
    owned: OwnedPartition, totals: Totals, read: Callable[[bytes], bytes]
) -> PartitionReport:
    """``read`` gives a published message's JSON."""
    stored = owned.stored
    return PartitionReport(
        partition=owned.partition,
        since=owned.since,
        phase="held" if owned.held is not None else owned.phase,
        position=owned.position,
        folded_at=owned.folded_at,
        replay_left=owned.replay_left,
        metrics=owned.metrics,
        state_bytes=stored.raw_size if stored else None,
        snapshot_bytes=sum(stored.chunk_sizes) if stored else None,
        snapshot_at=owned.stored_at,
        explanation=_as_it_is(totals.explanations.get(owned.partition), read),
        drift=_as_it_is(totals.drift.get(owned.partition), read),
        reason=owned.reason,
    )


def _as_it_is(message: bytes | None, read: Callable[[bytes], bytes]) -> Any:
    """The message's JSON, which only the supervisor takes apart."""
    return None if message is None else orjson.Fragment(read(message))
