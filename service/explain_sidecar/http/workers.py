"""The workers of this machine, as they report themselves over their pipes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from explain_sidecar.kafka.report import JoinReport, PartitionReport, Report, decode

SILENT_SECONDS = 10.0
"""A process that has not reported for as long as the session timeout no longer owns what it owned."""

log = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """What a worker is not ready for yet."""

    worker: int
    partition: int | None
    phase: str
    replay_remaining_records: int


class WorkerReports:
    """The newest report of each worker."""

    def __init__(self, count: int) -> None:
        self._started = dict.fromkeys(range(count), time.monotonic())
        self._newest: dict[int, tuple[float, Report]] = {}
        self._past: list[Report] = []
        self.restarts = 0

    def listen(self, worker: int, pipe: int) -> threading.Thread:
        """Take in the reports of a worker, in a thread that ends when it closes its end of the pipe."""
        listener = threading.Thread(
            target=self._read, args=(worker, pipe, self._started[worker]), daemon=True
        )
        listener.start()
        return listener

    def restarting(self, worker: int) -> None:
        """A worker's process ended, and another will take its place."""
        self.restarts += 1
        self._started[worker] = time.monotonic()

    @property
    def reports(self) -> list[Report]:
        """Of every process that has reported, so that what they count never becomes less; those that have ended own nothing."""
        return [*self._past, *(report for _, report in list(self._newest.values()))]

    @property
    def partitions(self) -> dict[int, PartitionReport]:
        """Each partition that a worker of ours owns: the one that was given it last, where a move is not yet reported by both."""
        owned: dict[int, PartitionReport] = {}
        now = time.monotonic()
        for received, report in list(self._newest.values()):
            if now - received > SILENT_SECONDS:
                continue
            for partition in report.partitions:
                if partition.partition not in owned or owned[partition.partition].since < partition.since:
                    owned[partition.partition] = partition
        return dict(sorted(owned.items()))

    def stalled(self, seconds: float) -> dict[int, float]:
        """Workers whose loop has shown no sign of life for longer than this, with the seconds since the last."""
        now = time.monotonic()
        seen = {worker: report.alive_at for worker, (_, report) in list(self._newest.items())}
        ages = {worker: now - seen.get(worker, started) for worker, started in self._alive.items()}
        return {worker: age for worker, age in ages.items() if age > seconds}

    def waiting(self) -> Iterator[Waiting]:
        """What is not running yet; nothing where every partition that was given to us runs."""
        newest = dict(self._newest)
        for worker in self._alive:
            if worker not in newest:
                yield Waiting(worker, None, "starting", 0)
                continue
            received, report = newest[worker]
            if time.monotonic() - received > SILENT_SECONDS:
                yield Waiting(worker, None, "no report", 0)
                continue
            if not report.joined:
                yield Waiting(worker, None, report.reason, 0)
            for partition in report.partitions:
                if partition.phase != "running":
                    yield Waiting(worker, partition.partition, _words(partition), partition.replay_left)
            for hidden in report.hidden:
                words = f"readers of {hidden.topic} stand still at offset {hidden.offset} of {hidden.end}: {hidden.whose}"
                yield Waiting(worker, hidden.partition, words, 0)
            for joins in report.join:
                if joins.phase != "running":
                    yield Waiting(worker, joins.partition, _words(joins), joins.restore_left)

    @property
    def _alive(self) -> dict[int, float]:
        """When each worker that runs, or is started again, did so last."""
        return dict(sorted(self._started.copy().items()))

    def _read(self, worker: int, pipe: int, started: float) -> None:
        with os.fdopen(pipe, "rb") as lines:
            for line in lines:
                try:
                    self._newest[worker] = (time.monotonic(), decode(line))
                except ValueError:  # the worker was killed while it wrote
                    log.debug("worker %d: half a report", worker)
        if worker in self._newest:
            self._past.append(replace(self._newest.pop(worker)[1], partitions=[], join=[], hidden=[]))
        if self._started.get(worker) == started:
            del self._started[worker]


def _words(waits: PartitionReport | JoinReport) -> str:
    return f"{waits.phase}: {waits.reason}" if waits.reason else waits.phase
