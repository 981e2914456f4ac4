"""``python deploy/grafana/dashboard.py``: writes dashboard.json beside it."""

from pathlib import Path

from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    AnnotationContainer,
    AnnotationQuery,
    DataSourceRef,
    GridPos,
)

WIDTH, HEIGHT = 12, 7
PANELS = [
    (
        "Records folded",
        "reqps",
        "sum by (app_id, partition) (rate(explain_sidecar_records_total[1m]))",
        "{{app_id}} {{partition}}",
    ),
    (
        "Lag",
        "s",
        "max by (app_id, partition) (explain_sidecar_consumer_lag_seconds)",
        "{{app_id}} {{partition}}",
    ),
    (
        "Loss of the model, and of none",
        "none",
        'max by (__name__, app_id, partition, loss, version) ({__name__=~"explain_sidecar_smoothed_loss.*"})',
        "{{app_id}} {{partition}} {{__name__}} {{loss}} {{version}}",
    ),
    (
        "Partitions by state",
        "short",
        "sum by (state) (explain_sidecar_partition_state)",
        "{{state}}",
    ),
    (
        "Time to fold a record, 99 %",
        "s",
        "histogram_quantile(0.99, sum by (le, phase) (rate(explain_sidecar_step_seconds_bucket[1m])))",
        "{{phase}}",
    ),
    (
        "Time to commit, 99 %",
        "s",
        "histogram_quantile(0.99, sum by (le) (rate(explain_sidecar_commit_seconds_bucket[1m])))",
        "commit",
    ),
    (
        "Transactions",
        "ops",
        "sum by (outcome) (rate(explain_sidecar_transactions_total[1m]))",
        "{{outcome}}",
    ),
    (
        "Size of the state",
        "bytes",
        "max by (app_id, partition) (explain_sidecar_state_bytes)",
        "{{app_id}} {{partition}}",
    ),
]
SOMETIMES = [
    (
        "Served predictions that are not the model's",
        "percentunit",
        "max by (app_id, partition, version) (rate(explain_sidecar_predictions_skewed_total[5m]))"
        " / max by (app_id, partition, version) (rate(explain_sidecar_predictions_checked_total[5m]))",
        "{{app_id}} {{partition}} {{version}}",
    ),
    (
        "Loss of the challenger minus the model's, and its interval",
        "none",
        'max by (__name__, app_id, partition, loss, version) ({__name__=~"explain_sidecar_challenger_loss_difference.*"})',
        "{{app_id}} {{partition}} {{__name__}} {{loss}} {{version}}",
    ),
]
"""Panels without data unless the settings have record.prediction, a challenger."""

ALARMS = "changes(max by (app_id, partition) (explain_sidecar_alarms_total)[1m:15s]) > 0"


class Annotation(AnnotationQuery):
    """A mark on every panel where its query has a value; Grafana reads its two texts, which the kit does not know."""

    def to_json(self) -> dict[str, object]:
        return super().to_json() | {
            "titleFormat": "Alarm",
            "textFormat": "{{app_id}} partition {{partition}}",
        }


def build() -> str:
    """The dashboard as JSON: two panels a row."""
    board = (
        dashboard.Dashboard("Explanation sidecar")
        .uid("explanation-sidecar")
        .refresh("10s")
        .time("now-30m", "now")
        .readonly()
    )
    for number, (title, unit, query, legend) in enumerate(PANELS + SOMETIMES):
        place = GridPos(h=HEIGHT, w=WIDTH, x=WIDTH * (number % 2), y=HEIGHT * (number // 2))
        target = prometheus.Dataquery().expr(query).legend_format(legend).ref_id("A")
        board = board.with_panel(
            timeseries.Panel().title(title).unit(unit).grid_pos(place).with_target(target)
        )
    built = board.build()
    marks = Annotation("Alarms", DataSourceRef("prometheus"), icon_color="red", expr=ALARMS)
    built.annotations = AnnotationContainer([marks])
    return JSONEncoder(sort_keys=True, indent=2).encode(built) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "dashboard.json").write_text(build(), encoding="utf-8")
