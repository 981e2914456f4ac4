"""The rows topic: means over periods that ended, flat, once each, and one SELECT away from an answer."""

import json
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explain_client import SchemaError, merge_periods
from explain_client.chain import next_link
from explain_client.fold import FIRST_TIMESTAMP, FoldDriver
from explain_client.frames import to_pandas
from explain_client.messages import Row
from explain_core.packing import zstd
from tests.documentation import blocks
from tests.folds import values

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


@pytest.fixture(scope="module")
def compared():
    """Segments and a challenger."""
    ipfi = {"kind": "ipfi", "alpha": 0.05, "reservoir": {"size": 20}, "by": "colour"}
    isage = {"kind": "isage", "alpha": 0.05, "n_samples": 2, "reservoir": {"size": 20}}
    challenger = {"factory": "river.tree:HoeffdingTreeClassifier", "every": 1}
    driver = FoldDriver({**ASKED, "explainers": [ipfi, isage], "challenger": challenger})
    driver.send({**row, "at": FIRST_TIMESTAMP + i * HOUR // 10} for i, row in enumerate(values(700)))
    return driver


def told_smoothed(explanation):
    """By role, segment, estimator, loss and feature: n, value, low and high of what an explanation tells of segments and the challenger."""
    found = {}

    def importances(where, n, by_estimator):
        for name, by_loss in by_estimator.items():
            for loss, cells in by_loss.items():
                found.update({(*where, name, loss, f): (n, c.value, c.low, c.high) for f, c in cells.items()})

    def losses(where, n, performance):
        for loss, of in performance.items():
            gain = None if of.empty is None or of.model is None else of.empty - of.model
            found[*where, "performance", loss, "loss"] = n, of.model, None, None
            found[*where, "performance", loss, "gain"] = n, gain, None, None

    for name, segment in explanation.segments.items():
        where = ("model", segment.feature, segment.value)
        losses(where, segment.records, segment.performance)
        importances(where, segment.records, {name: segment.importances})
    challenger, where = explanation.challenger, ("challenger", None, None)
    losses(where, explanation.explained, challenger.performance)
    importances(where, explanation.explained, challenger.importances)
    where = ("difference", None, None)
    for loss, of in challenger.difference.items():
        found[*where, "performance", loss, "loss"] = of.records, of.value, of.low, of.high
    importances(where, explanation.explained, challenger.importance_differences)
    return found


def test_rows_tell_of_segments_and_the_challenger_what_each_explanation_does(compared):
    by_offset = {}
    for row in compared.rows:
        if row.period != "smoothed":
            assert (row.role, row.segment_by, row.segment) == ("model", None, None)
            continue
        key = row.role, row.segment_by, row.segment, row.estimator, row.loss, row.feature
        told = by_offset.setdefault(row.offset, {})
        assert key not in told
        told[key] = row.n, row.value, row.low, row.high
        assert (row.begin, row.sum, row.var, row.third, row.var2) == (None,) * 5
        assert row.until == row.time
    assert by_offset == {one.offset: told_smoothed(one) for one in compared.explanations}
    assert len({row.segment for row in compared.rows}) > 3
    compared.verify(every=379)


def test_rows_have_a_chain_of_their_own_and_change_no_other_message(driven):
    link = None
    for row in driven.rows:
        link = next_link(link, row)
    assert link.seq == len(driven.rows) - 1
    without = FoldDriver({**ASKED, "rows.enabled": False, "alarms.enabled": True})
    without.send(json.loads(record.value) for record in driven._inputs)
    assert without.explanations == driven.explanations and without.alarms == driven.alarms
    assert without.rows == []


@pytest.mark.parametrize("of", ["driven", "compared"])
def test_rows_take_less_room_than_the_explanations(of, request):
    sizes = {"rows": 0, "explanations": 0}
    for name in sizes:
        outputs = request.getfixturevalue(of)._outputs
        said = b"".join(out.value for out in outputs if out.destination == name)
        sizes[name] = len(zstd.compress(said))
    assert 0 < sizes["rows"] < 2 * sizes["explanations"]


def test_a_row_that_is_none_is_refused_with_its_reason(driven):
    raw = json.loads(driven.rows[0].raw)
    for changed, named in (
        ({"schema": "row/2"}, "row/2"),
        ({"begin": 3}, "begin"),
        ({"begin": "yesterday"}, "yesterday"),
        ({"value": "x"}, "value is 'x', and has to be a number"),
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
