"""Reports of workers, and the exposition of every metric."""

import time
from dataclasses import replace
from typing import Any

from explain_sidecar.http.metrics import exposition
from explain_sidecar.join.entries import Counts
from explain_sidecar.kafka.report import JoinReport, PartitionReport, Report
from explain_sidecar.kafka.totals import COMMIT_SECONDS, STEP_SECONDS, Histogram


def message(features: int) -> dict[str, Any]:
    cells = {f"feature{n}": {"value": n / 10, "std": 0.1, "low": 0.0, "high": 1.0} for n in range(features)}
    return {
        "importance": {name: {"cross_entropy": cells} for name in ("ipfi", "isage")},
        "estimators": {name: {"evaluator": "generic"} for name in ("ipfi", "isage")},
    }


def partition(number: int, since: float = 0.0, features: int = 0) -> PartitionReport:
    return PartitionReport(
        partition=number,
        since=since,
        phase="running",
        position=90,
        folded_at=1_700_000_000_000,
        replay_left=0,
        metrics={
            "records_total": [([], 80)],
            "explanations_total": [([], 8)],
            "rejected_recently": [([], 70)],
            "alarms_total": [([], 2)],
            "skipped_records_total": [([], 3)],
            "unlabelled_records_total": [([], 4)],
            "evaluator_fallbacks_total": [([], 3)],
            "smoothed_loss": [(["cross_entropy", ""], 0.4)],
            "smoothed_loss_empty": [(["cross_entropy", ""], 0.7)],
            "smoothed_loss_mean_prediction": [(["cross_entropy", ""], 0.75)],
            "version_records_total": [([""], 80)],
            "predictions_checked_total": [([""], 80)],
            "predictions_skewed_total": [([""], 2)],
        },
        state_bytes=1000,
        snapshot_bytes=100,
        snapshot_at=1.7e9,
        explanation=message(features) if features else None,
        drift=None,
    )


def histogram(bounds: tuple[float, ...], *values: float) -> Histogram:
    made = Histogram(bounds)
    for value in values:
        made.observe(value)
    return made


def report(*partitions: PartitionReport, **changes: Any) -> Report:
    made = Report(
        alive_at=time.monotonic(),
        joined=True,
        rebalances=1,
        transactions={"committed": 5, "aborted": 1},
        dead_letters={"not_json": 2},
        steps={"replaying": histogram(STEP_SECONDS), "running": histogram(STEP_SECONDS, 0.003, 0.0001, 9.0)},
        commits=histogram(COMMIT_SECONDS, 0.02),
        partitions=list(partitions),
    )
    return replace(made, **changes)


def complete_exposition() -> bytes:
    """Every metric there is, of two partitions."""
    drift = {"target": {"number": 7}, "change": None}
    partitions = {number: replace(partition(number, features=50), drift=drift) for number in range(2)}
    joins = [JoinReport(0, "running", 0, Counts().by_name())]
    return exposition([report(*partitions.values(), join=joins)], partitions, {0: 100}, importance=True)
