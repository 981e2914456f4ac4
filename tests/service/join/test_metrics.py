"""What the join has committed, as metrics, and when it is ready."""

from __future__ import annotations

import os
import time

import orjson
from prometheus_client.parser import text_string_to_metric_families

from explain_sidecar.http.metrics import PREFIX, exposition
from explain_sidecar.http.workers import Waiting, WorkerReports
from explain_sidecar.join.entries import Counts
from explain_sidecar.kafka.report import JoinReport, Report
from explain_sidecar.kafka.totals import Histogram, Phase

NO_TIMES = Histogram(())


def test_the_outcomes_and_what_is_pending_add_up_to_the_events() -> None:
    counts = Counts(
        events=20, matched=7, expired=5, pending=2, unlabelled=3, duplicates=2, bad_events=1, evicted=4
    )
    report = Report(
        alive_at=0.0,
        joined=True,
        rebalances=1,
        transactions={},
        dead_letters={},
        steps={"replaying": NO_TIMES, "running": NO_TIMES},
        commits=NO_TIMES,
        partitions=[],
        join=[JoinReport(3, "restoring", 12, counts.by_name(), 4.5)],
    )
    text = exposition([report], {}, {}, importance=False).decode()
    found = {
        (sample.name.removeprefix(PREFIX), sample.labels.get("outcome")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("partition") == "3"
    }
    outcomes = {name: found["join_outcomes_total", name] for name in ("matched", "expired", "dropped")}
    assert outcomes == {"matched": 7, "expired": 5, "dropped": 6}
    assert found["join_events_total", None] == sum(outcomes.values()) + found["join_pending", None] == 20
    assert found["join_evicted_total", None] == 4
    assert found["join_ahead_seconds", None] == 4.5
    assert found["join_restore_remaining_records", None] == 12


def test_a_worker_of_the_join_is_ready_once_what_waits_is_restored() -> None:
    def waiting(phase: Phase, left: int) -> list[Waiting]:
        times = {"replaying": NO_TIMES, "running": NO_TIMES}
        joins = [JoinReport(3, phase, left, Counts().by_name())]
        report = Report(0.0, True, 1, {}, {}, times, NO_TIMES, [], joins)  # type: ignore[arg-type]
        workers, (reading, writing) = WorkerReports(1), os.pipe()
        workers.listen(0, reading)
        os.write(writing, orjson.dumps(report) + b"\n")
        deadline = time.monotonic() + 30
        while not workers.reports and time.monotonic() < deadline:
            time.sleep(0.01)
        found = list(workers.waiting())
        os.close(writing)
        return found

    assert waiting("restoring", 12) == [Waiting(0, 3, "restoring", 12)]
    assert waiting("running", 0) == []
