"""The rows topic: means over periods that ended, flat, once each, and one SELECT away from an answer."""

import json
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from explain_client import SchemaError, merge_periods
from explain_client.chain import next_link
from explain_client.fold import FIRST_TIMESTAMP, FoldDriver
from explain_client.frames import to_pandas
from explain_client.messages import Row
from explain_sidecar.fold.partition import PartitionState
from tests.documentation import blocks
from tests.folds import fold, record, settings, values

ASKED = {"rows.enabled": True, "model.name": "linear", "record.timestamp": "at"}
HOUR = 3_600_000


@pytest.fixture(scope="module")
def driven():
    """Ten days of records, one each six minutes."""
    driver = FoldDriver({**ASKED, "alarms.enabled": True})
    driver.send({**row, "at": FIRST_TIMESTAMP + i * HOUR // 10} for i, row in enumerate(values(2_400)))
    return driver


def test_rows_are_the_means_of_the_periods_that_ended_and_of_no_others(driven):
    expected = [
        (period.name, period.records, estimator, loss, feature, mean.n, mean.value, mean.low, mean.high, mean.var)
        for explanation in driven.explanations
        for period in explanation.periods
        if period.name not in ("alarm", "all")
        for estimator, by_loss in {"performance": period.performance, **period.importances}.items()
        for loss, means in by_loss.items()
        for feature, mean in means.items()
    ]  # fmt: skip
    assert [
        (row.period, row.records, row.estimator, row.loss, row.feature, row.n, row.value, row.low, row.high, row.var)
        for row in driven.rows
    ] == expected  # fmt: skip
    assert {row.period for row in driven.rows} >= {"1000", "day", "week"}
    first = driven.rows[0]
    assert first.begin.timestamp() * 1_000 == FIRST_TIMESTAMP and first.begin.tzinfo is not None


def test_rows_have_a_chain_of_their_own_and_change_no_other_message(driven):
    link = None
    for row in driven.rows:
        link = next_link(link, row)
    assert link.seq == len(driven.rows) - 1
    without = FoldDriver({**ASKED, "rows.enabled": False, "alarms.enabled": True})
    without.send(json.loads(record.value) for record in driven._inputs)
    assert without.explanations == driven.explanations and without.alarms == driven.alarms
    assert without.rows == []


def test_rows_are_the_same_bytes_after_restarts_and_in_blocks(driven):
    driven.verify(every=379)
    chosen = settings(rows={"enabled": True}, emit={"every": 100, "periods": [500]})
    state, objects = PartitionState(chosen, 3), values(1_500)
    slow = [out for out in fold(state, objects) if out.destination == "rows"]
    fast, blocks_of = PartitionState(chosen, 3), []

    waiting = [record(offset, value) for offset, value in enumerate(objects)]
    while waiting:
        folded, outputs = fast.fold(waiting)
        if not folded:
            folded, outputs = waiting[:1], fast.step(waiting[0])
        blocks_of += [out for out in outputs if out.destination == "rows"]
        waiting = waiting[len(folded) :]
    assert blocks_of == slow and len(slow) > 0


def test_rows_take_less_room_than_the_explanations(driven):
    sizes = {"rows": 0, "explanations": 0}
    for name in sizes:
        said = b"".join(out.value for out in driven._outputs if out.destination == name)
        sizes[name] = len(zstandard.compress(said))
    assert 0 < sizes["rows"] < 2 * sizes["explanations"]


def test_a_row_that_is_none_is_refused_with_its_reason(driven):
    raw = json.loads(driven.rows[0].raw)
    for changed, named in (
        ({"schema": "row/2"}, "row/2"),
        ({"begin": 3}, "begin"),
        ({"begin": "yesterday"}, "yesterday"),
        ({"value": "x"}, "value is 'x', and has to be a number or null"),
    ):
        with pytest.raises(SchemaError, match=named):
            Row.from_json(json.dumps({**raw, **changed}).encode())


def test_the_importance_of_a_feature_over_a_week_is_one_select(driven, tmp_path, monkeypatch):
    frame = to_pandas(driven.rows)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    (asked,) = [block.text for block in blocks("docs/how-to/consume.md") if "rows.parquet" in block.text]
    begin, end = datetime(2023, 11, 15, tzinfo=UTC), datetime(2023, 11, 22, tzinfo=UTC)
    asked = asked.replace("2013-12-16", f"{begin:%Y-%m-%d}").replace("2013-12-23", f"{end:%Y-%m-%d}")
    value, low, high = duckdb.sql(asked.replace("dep_hour", "a")).fetchall()[0]
    days = [
        period
        for explanation in driven.explanations
        for period in explanation.periods
        if period.name == "day" and begin.timestamp() * 1_000 <= period.until < end.timestamp() * 1_000
    ]
    mean = merge_periods(days).importances["ipfi"]["cross_entropy"]["a"]
    assert len(days) > 3
    assert value == pytest.approx(mean.value)
    assert (low, high) == pytest.approx((mean.low, mean.high), abs=0.1 * (mean.high - mean.low))
    kinds = dict(duckdb.sql("SELECT column_name, column_type FROM (DESCRIBE FROM 'rows.parquet')").fetchall())
    assert kinds["begin"] == kinds["until"] == "TIMESTAMP WITH TIME ZONE"
