"""What the sidecar wrote, asked in SQL by Apache Flink as docs/how-to/consume.md shows it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from explain_client import Explanations, Rows, merge_periods, newest_segments
from tests.broker.flink import Flink
from tests.broker.harness import SMALL, Factory
from tests.documentation import blocks
from tests.folds import values

FIRST, STEP = datetime(2023, 11, 15, 0, 1, tzinfo=UTC), timedelta(minutes=12)


@pytest.mark.timeout(
    900
)  # Flink compiles each statement; on a machine that others use too that takes minutes
def test_the_importance_of_a_feature_over_a_week_is_one_select_in_flink(pipeline: Factory) -> None:
    explainers = [{**SMALL[0], "by": "colour"}, SMALL[1]]
    line = pipeline(
        1,
        EXPLAIN_ROWS__ENABLED="true",
        EXPLAIN_RECORD__TIMESTAMP="at",
        EXPLAIN_MODEL__NAME="linear",
        EXPLAIN_EXPLAINERS=json.dumps(explainers),
        EXPLAIN_EMIT__EVERY="100",
    )
    made = ({**row, "at": (FIRST + i * STEP).isoformat()} for i, row in enumerate(values(1_500)))
    line.feed((0, json.dumps(row).encode()) for row in made)
    line.run_to_end()
    line.verify()
    servers = line.broker.bootstrap_servers
    with Explanations(servers, line.topics["explanations"], follow=False) as stream:
        explanations = list(stream)
    begin, end = datetime(2023, 11, 15, tzinfo=UTC), datetime(2023, 11, 22, tzinfo=UTC)
    days = [
        period
        for explanation in explanations
        for period in explanation.periods
        if period.name == "day" and begin.timestamp() * 1_000 <= period.until < end.timestamp() * 1_000
    ]
    mean = merge_periods(days).importances["ipfi"]["cross_entropy"]["a"]
    assert len(days) > 3

    table, week, segments = (
        block.text for block in blocks("docs/how-to/consume.md") if block.heading == "### In Flink SQL"
    )
    table = table.replace("127.0.0.1:9092", servers).replace("'rows'", f"'{line.topics['rows']}'")
    week = week.replace("2013-12-16", f"{begin:%Y-%m-%d}").replace("2013-12-23", f"{end:%Y-%m-%d}")
    with Flink() as flink:
        flink.run(table)
        ((value, low, high),) = flink.run(week.replace("dep_hour", "a"))
        assert value == pytest.approx(mean.value)
        assert (low, high) == pytest.approx((mean.low, mean.high), abs=0.1 * (mean.high - mean.low))
        found = flink.run(segments.replace("dep_hour", "a").replace("carrier", "colour"))
        counted = flink.run("SELECT COUNT(*), COUNT(`begin`), COUNT(`until`) FROM explained")

    told = newest_segments(explanations)
    expected = {name: one.importance().get("a") for name, one in told.items()}
    assert {name: value for name, value, _, _ in found} == {
        n: one.value for n, one in expected.items() if one
    }
    with Rows(servers, line.topics["rows"], follow=False) as rows:
        read = list(rows)
    assert counted == [[len(read), sum(row.begin is not None for row in read), len(read)]]
