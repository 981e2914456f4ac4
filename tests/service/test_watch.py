"""``explain_core.watch`` and ``explain-sidecar explain``: a report from records in one line, with the sidecar's numbers and sentences."""

import csv
import json
import math
import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skops.io
from lightgbm import LGBMClassifier
from river import datasets, linear_model, preprocessing, tree
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from xgboost import XGBClassifier

import explain_core as ec
from explain_client.fold import FoldDriver
from explain_core.artefacts.objects import artefact_of
from explain_core.random import Generator
from explain_core.taught import StateFile
from explain_sidecar.cli import cli
from explain_sidecar.commands.state import warm_up
from explain_sidecar.errors import UserError
from explain_sidecar.settings import Settings

ROOT = Path(__file__).parents[2]
QUICK = {"progress": False, "model": "linear"}
NIGHT = datetime(2013, 1, 1, tzinfo=UTC)


def turning(n=6_000, at=3_000, dated=True):
    """What ``a`` says of the label is what ``b`` says of it from the ``at``-th record on; a record each ten minutes."""
    rng, rows = Generator(5), []
    for i in range(n):
        row = {name: rng.uniform() for name in ("a", "b", "noise")}
        row["late"] = "yes" if row["a" if i < at else "b"] > 0.5 else "no"
        rows.append({"time": NIGHT + timedelta(minutes=10 * i), **row} if dated else row)
    return rows


@pytest.fixture(scope="module")
def report():
    return ec.watch(turning(), "late", **QUICK)


PHISHING = [{**x, "label": bool(y)} for x, y in islice(datasets.Phishing(), 400)]
APPROVAL = [{**x, "label": y} for x, y in islice(datasets.TrumpApproval(), 300)]
LONG = [{"hash": 2**64 - 1 - i % 3, "label": (2**64 - 1) * (i % 3 > 0)} for i in range(200)]


@pytest.mark.parametrize(
    ("records", "settings", "given"),
    [
        (PHISHING, {}, {}),
        (PHISHING, {"model.name": "linear"}, {"model": "linear"}),
        (PHISHING, {"model.factory": "river.linear_model:LogisticRegression"}, {"model": linear_model.LogisticRegression()}),
        (APPROVAL, {"model.task": "regression"}, {}),
        (APPROVAL, {"model.task": "regression", "seed": 7}, {"seed": 7}),
        (LONG, {}, {}),
    ],
    ids=["default", "linear", "of river", "regression", "another seed", "64 bits"],
)  # fmt: skip
def test_the_digest_of_a_report_is_the_sidecars_for_the_same_records(records, settings, given):
    driver = FoldDriver({"emit.every": 50, **settings})
    driver.send(records)
    found = ec.watch(records, "label", progress=False, **given)
    assert driver.explanations[-1].records == found.records == len(records)
    assert found.digest == driver._state.fold_digest.hex()


def taught(tmp_path: Path, records, **given: object) -> Path:
    """The model of the records' first half, as ``warm-up`` writes it."""
    rows, out = tmp_path / "history.jsonl", tmp_path / f"model of {given.get('name', 'others')}"
    rows.write_text("".join(json.dumps(record) + "\n" for record in records[: len(records) // 2]))
    warm_up(Settings(model=given), file=rows, out=out)
    return out


@pytest.mark.parametrize(
    ("records", "settings", "given"),
    [
        (PHISHING, {}, {}),
        (PHISHING, {"name": "forest"}, {"model": "forest"}),
        (PHISHING, {"factory": "river.linear_model:LogisticRegression"}, {"model": linear_model.LogisticRegression()}),
        (APPROVAL, {"task": "regression", "name": "linear"}, {}),
    ],
    ids=["default", "by name", "of river", "regression"],
)  # fmt: skip
def test_a_report_begins_with_what_the_model_of_a_sidecar_has_learnt(records, settings, given, tmp_path):
    file, rest = taught(tmp_path, records, **settings), records[len(records) // 2 :]
    driver = FoldDriver(
        {
            "emit.every": 50,
            "model.initial": str(file),
            **{f"model.{name}": value for name, value in settings.items()},
        }
    )
    driver.send(rest)
    found = ec.watch(rest, "label", initial=file, progress=False, **given)
    assert found.digest == driver._state.fold_digest.hex()
    assert found.digest != ec.watch(rest, "label", progress=False, **{"task": settings.get("task"), **given}).digest  # fmt: skip


@pytest.mark.parametrize("on_alarm", [False, True])
def test_a_window_is_judged_by_the_model_of_the_file_and_not_by_a_new_one(on_alarm, tmp_path):
    file = ec.load_taught(taught(tmp_path, PHISHING, name="linear"))
    assert "history.jsonl, after 200 records (fold" in file.about
    drift = ec.Windowing(window=50, on_alarm=on_alarm)
    live = ec.watch(model="linear", task="binary", drift=drift).explainer
    live.begin_with(file)
    record = PHISHING[200]
    live.update({name: value for name, value in record.items() if name != "label"}, record["label"])
    parts = live.state().parts
    assert (parts.recent.chunks[0] if on_alarm else parts.windows.current).model == file.model


def test_a_file_that_does_not_fit_is_refused_in_words(tmp_path):
    file = taught(tmp_path, PHISHING, name="linear")
    of_river = taught(tmp_path, PHISHING, factory="river.linear_model:LogisticRegression")
    raw = file.read_bytes()
    (tmp_path / "none").write_bytes(b"a")
    (tmp_path / "altered").write_bytes(raw.replace(raw[-300:-290], bytes(10)))
    two = msgspec.msgpack.decode(raw, type=StateFile)
    (tmp_path / "two").write_bytes(msgspec.msgpack.encode(StateFile(two.snapshots * 2)))
    static = LogisticRegression().fit(pd.DataFrame({"a": [0.0, 1.0]}), [False, True])
    for given, reason in [
        ({"initial": tmp_path / "nowhere"}, "No such file"),
        ({"initial": tmp_path / "none"}, "holds no model; `explain-sidecar model export`"),
        ({"initial": tmp_path / "altered"}, "its sha256 is not the manifest's"),
        ({"initial": tmp_path / "two"}, "the states of 2 partitions"),
        ({"initial": file, "model": "forest"}, "what the model linear has learnt, and model is 'forest'"),
        ({"initial": file, "task": "regression"}, "of the task binary, and task is regression"),
        ({"initial": file, "model": tree.HoeffdingTreeClassifier()}, "the state of a linear learner instead"),
        ({"initial": file, "model": static}, "never learns"),
        ({"initial": of_river}, "river.linear_model:LogisticRegression has learnt"),
    ]:
        with pytest.raises(ValueError, match=reason):
            ec.watch(PHISHING, "label", progress=False, **given)


def test_records_give_the_same_report_whatever_holds_them(tmp_path):
    rows = turning(700, 350)
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    table = pa.Table.from_pandas(frame)

    class Arrow:  # what polars and DuckDB give
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    forms = [rows, iter(rows), frame, Arrow(), tmp_path / "rows.csv", str(tmp_path / "rows.parquet")]
    pairs = [({name: row[name] for name in ("a", "b", "noise")}, row["late"]) for row in rows]
    found = {ec.watch(form, "late", **QUICK).digest for form in forms}
    assert found | {ec.watch(pairs, **QUICK).digest} == found and len(found) == 1


def test_missing_cells_are_missing_and_rows_without_a_label_are_left_out():
    frame = pd.DataFrame({"a": [1.0, math.nan, 2.0], "b": ["x", None, "y"], "c": pd.array([1, None, 3], "Int64"), "y": [True, False, None]})  # fmt: skip
    found = ec.watch(frame, "y", **QUICK)
    assert (found.records, found.unlabelled) == (2, 1)
    assert "1 without a label" in found.summary
    live = ec.watch(task="binary", **QUICK)
    live.update({"a": 1.0, "b": "x", "c": 1}, True)
    live.update({}, False)
    assert live.digest == found.digest


def test_a_change_is_told_once_with_its_time_its_drivers_and_its_cause(report):
    turned = NIGHT + timedelta(minutes=10 * 3_000)
    (change,) = [story for story in report.changes() if story.lead.subject == "loss" and story.lead.direction == "up"]  # fmt: skip
    assert abs(change.lead.onset.time - turned) < timedelta(days=2)
    assert "concept" in change.why.causes
    assert {alarm.feature for alarm in report.alarms() if alarm.subject == "importance"} <= {"a", "b"}
    assert [driver.feature for driver in report.drivers()] == ["b"]
    assert str(report.drivers()).startswith("b drives the model")
    assert any("concept" in drift.causes for drift in report.why())
    assert "offset" not in str(report.why())  # where the changes are dated
    assert change.sentence().split(" the model's")[0].removeprefix("Since ") in str(report.why())
    said = str(report)
    for told in (report.changes(), report.why(), report.drivers()):
        assert all(sentence in said for sentence in told.sentences)
    assert "Since Mon" in str(report.changes()) or "Since Tue" in str(report.changes())


def judged(*shares):
    """A trained model's report: to it ``a`` above 0.5 is late, as it is in these shares of each 3,000 records."""
    rng, rows = Generator(5), []
    for share in shares:
        for _ in range(3_000):
            row = {"a": rng.uniform(), "b": rng.uniform()}
            rows.append({**row, "late": ("no", "yes")[(row["a"] > 0.5) == (rng.uniform() < share)]})
    grid = pd.DataFrame([{"a": i / 500, "b": i % 7 / 7} for i in range(500)])
    trained = RandomForestClassifier(10, max_depth=2, random_state=1)
    trained.fit(grid, [("no", "yes")[(i > 250) == (i % 9 > 0)] for i in range(500)])
    return ec.watch(rows, "late", model=trained, progress=False)


def test_importances_of_a_model_that_was_worse_than_none_are_not_told_as_changes():
    found = judged(0.0, 0.5)
    assert "a matters more" in str(found.alarms())
    assert "matters" not in str(found) and "the model's log loss fell" in str(found.changes())
    (line,) = [
        line for line in dict(found.sections)["What changed, and when"] if line.startswith("By its smoothed")
    ]
    assert found.plot().axes[0].get_title(loc="left").startswith("importance now: it says nothing while")
    since = re.search(r"than no model (since offset \d+); its importances say nothing", str(found.drivers()))[
        1
    ]
    assert line.startswith(
        f"By its smoothed log loss the model has been worse than no model {since}: importances of that time say"
    )


def test_a_change_that_was_taken_back_is_told_once_in_both_lists():
    found = judged(1.0, 0.0, 1.0)
    first, *_ = dict(found.sections)["Whether the risk moved with it, and why"]
    assert first == "The risk here is the error rate; the changes above are of the log loss."
    (change,), (why,) = found.changes(), found.why()
    assert why.alarm.seq in [alarm.seq for alarm in change.alarms] and change.over.offset == 6_000
    assert {alarm.onset.offset for alarm in found.alarms()} == {3_000, 6_000}
    assert re.search(r"the model was worse than no model from offset 3\d+ to offset [67]\d+: ", str(found))


def test_what_brackets_and_at_least_are_is_said_once_where_the_first_ones_are(report):
    for said in (str(report), report.to_html()):
        assert said.count("Brackets are 95 % bands.") == said.count("“At least” is what is certain: ") == 1
        assert (
            said.index("[")
            < said.index("Brackets are")
            < said.index("“At least” is")
            < said.index("by at least")
        )


def test_the_losses_are_those_of_the_records_of_which_the_drivers_are_told(report):
    since = report.alarms()[-1]
    for found in (report, ec.watch(turning(1_500, 1_500, dated=False), "late", progress=False)):
        summary, said = found.summary, str(found.drivers())
        own, no_model = (float(text) for text in re.findall(r"(?:loss|no model) (\d\.\d+)", summary))
        gain = float(re.search(r"no model by (\d\.\d+)", said)[1])
        (span,) = re.findall(r"over (the .*?), that of no model", summary)
        assert no_model - own == pytest.approx(gain, abs=0.002) and f"over {span}" in said
        alarmed = f" since the last alarm (noticed {since.time:%A %Y-%m-%d %H:%M} UTC, of the change since "
        assert (alarmed in said) == (found is report)
        of = re.findall(r"of the change (since .*?)\), in which", said)
        assert all(str(found.changes()).count(f"{begun.capitalize()[:1]}{begun[1:]} ") == 1 for begun in of)
    short = ec.watch(turning(200, 200, dated=False), "late", progress=False)
    assert "log loss " in short.summary and " of late, that of no model " in short.summary


def test_what_moves_the_predictions_is_told_where_importances_need_no_label():
    own = [ec.Explainer(kind="ipfi", losses=["prediction"])]
    rows = turning(1_500, 1_500, dated=False)
    found = ec.watch(rows, "late", explainers=own, **QUICK)
    assert str(found.drivers()).startswith(
        "Over the last 1,500 records: the predictions are moved most by a "
    )
    assert "log loss" in found.summary and "log loss" in found.to_html()
    for n in (90, 150):
        short = ec.watch(rows[:n], "late", explainers=own, **QUICK)
        assert str(short.drivers()) == f"{n} records are too few to say what drives the model."


def test_periods_are_long_enough_for_a_band_unless_others_are_asked_for():
    found = ec.watch(turning(1_500, 1_500, dated=False), "late", **QUICK)
    assert [period.records for period in found.periods()] == [600, 600, 300]
    assert [str(found.periods()).count(word) for word in ("a drives the model", "too few")] == [2, 1]
    assert len(found.periods(100)) == 15 and "too few to say" in str(found.periods(100))
    assert (
        str(found.periods(500)).splitlines()[0]
        == "offset 0: 500 records are too few to say what drives the model"
    )


def test_periods_have_the_means_of_the_blocks_that_end_in_them(report):
    weeks = report.periods("7D")
    assert sum(week.records for week in weeks) == report.records
    begin, *_ = weeks
    assert begin.begin == NIGHT.timestamp() * 1_000
    assert [[driver.feature for driver in week.driven().drivers] for week in (weeks[0], weeks[-1])] == [["a"], ["b"]]  # fmt: skip
    assert str(weeks).splitlines()[0].startswith("2013-01-01: a drives the model")
    halves = report.periods(3_000)
    assert [half.records for half in halves] == [3_000, 3_000]
    frame = report.to_pandas(3_000)
    row = frame[(frame.feature == "a") & (frame.estimator == "ipfi")].iloc[0]
    mean = halves[0].importances["ipfi"]["cross_entropy"]["a"]
    assert (row["value"], row["low"], row["high"]) == (mean.value, mean.low, mean.high)
    monday = report.periods("1W")[1]
    assert datetime.fromtimestamp(monday.until / 1_000, UTC) >= NIGHT + timedelta(days=6)


def test_records_without_times_are_told_by_offset():
    found = ec.watch(turning(4_500, 2_500, dated=False), "late", **QUICK)
    assert found.changes() and "1970" not in str(found) and "9999-" not in str(found)
    assert "Since offset 2" in str(found.changes())
    assert "begin" not in found.to_pandas()
    assert "9999-" not in found.to_html() + str(found.periods())


def test_columns_that_are_unique_to_each_record_are_named_beside_the_drivers():
    rows = [
        {**row, "id": f"customer {i}", "row": i, "score": "?" if i % 9 == 0 else f"{i % 7}"}
        for i, row in enumerate(turning(600, 600, dated=False))
    ]
    live = ec.watch(model="linear", task="binary")
    for row in rows:
        live.update({name: value for name, value in row.items() if name != "late"}, row["late"])
    for found in (ec.watch(rows, "late", **QUICK), live):
        heading, (drivers, *remarks) = found.sections[0]
        assert heading == "What drives the model" and drivers == found.drivers().sentences[0]
        assert [remark.split(":")[0] for remark in remarks] == ["id", "row", "score"]
        assert "leave the column out." in remarks[0] and "leave the column out." in remarks[1]
        assert "'?' in 11%" in remarks[2]
        assert "id" in found.explainer.kinds  # nothing is dropped


def test_times_in_another_unit_are_named_beside_the_drivers():
    rows = [{**row, "time": 1_700_000_000 + i} for i, row in enumerate(turning(600, 600))]
    (remark,) = ec.watch(rows, "late", time="time", **QUICK).remarks
    assert (
        remark.startswith("times: the newest is 17000005")
        and ec.watch(turning(600, 600), "late", **QUICK).remarks == []
    )


@pytest.mark.parametrize(
    ("rows", "at", "says"),
    [
        (900, 500, "No change could be found yet: alarms need 2,000 records before one."),
        (
            3_000,
            1_500,
            "Nothing changed for certain after the first 2,000 records: alarms compare with these",
        ),
    ],
)
def test_alarms_that_could_not_find_a_change_do_not_say_that_there_is_none(rows, at, says):
    found = ec.watch(turning(rows, at), "late", **QUICK)
    assert not found.changes()
    assert dict(found.sections)["What changed, and when"][0].startswith(says)


def test_a_live_report_is_that_of_all_records_at_once(report):
    live = ec.watch(task="binary", **QUICK)
    told = []
    for row in turning():
        x = {name: row[name] for name in ("a", "b", "noise")}
        told += live.update(x, row["late"], timestamp=round(row["time"].timestamp() * 1_000))
    assert str(live) == str(report)
    assert told == [*live.alarms(), *live.why()] or len(told) == len(live.alarms()) + len(live.why())


def test_rows_without_a_label_between_others_are_left_out_of_blocks_too():
    rows = [{**row, "late": None} if n % 37 == 5 else row for n, row in enumerate(turning())]
    found, live = ec.watch(rows, "late", **QUICK), ec.watch(task="binary", **QUICK)
    for row in rows:
        x = {name: row[name] for name in ("a", "b", "noise")}
        live.update(x, row["late"], timestamp=round(row["time"].timestamp() * 1_000))
    assert (live.digest, live.unlabelled, str(live)) == (found.digest, found.unlabelled, str(found))
    assert found.unlabelled == 163


def test_a_model_of_river_learns_as_a_copy_and_a_trained_one_is_explained_as_it_is():
    own = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    x = {"a": 1.0, "b": 0.0, "noise": 0.5}
    before = own.predict_proba_one(x)
    rows = turning(700, 700, dated=False)
    found = ec.watch(rows, "late", model=own, progress=False)
    assert [driver.feature for driver in found.drivers()] == ["a"]
    assert own.predict_proba_one(x) == before
    frame = pd.DataFrame(rows)
    trained = LogisticRegression().fit(frame[["a", "b", "noise"]], frame["late"])
    told = ec.watch(frame, "late", model=trained, explainers=[ec.Explainer()], progress=False)
    assert [driver.feature for driver in told.drivers()] == ["a"]


@pytest.mark.parametrize(
    "made",
    [
        RandomForestClassifier(10, random_state=0),
        XGBClassifier(n_estimators=10),
        LGBMClassifier(n_estimators=10, verbose=-1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_trees_in_memory_are_explained_as_those_of_their_file_are(made, tmp_path):
    frame = pd.DataFrame(turning(800, 800, dated=False))
    frame["late"] = (frame["late"] == "yes").astype(int)
    trained = made.fit(frame[["a", "b", "noise"]], frame["late"])
    file, kind = tmp_path / "model", type(made).__module__.partition(".")[0]
    {
        "sklearn": lambda: skops.io.dump(trained, file),
        "xgboost": lambda: file.write_bytes(trained.get_booster().save_raw("ubj")),
        "lightgbm": lambda: trained.booster_.save_model(file),
    }[kind]()
    own = ec.watch(frame, "late", model=trained, progress=False)
    assert own.digest == ec.watch(frame, "late", model=file, progress=False).digest
    assert [driver.feature for driver in own.drivers()] == ["a"]


def test_an_object_that_predicts_otherwise_than_its_trees_is_asked_itself():
    class Wary(RandomForestClassifier):
        def predict_proba(self, X):
            return 0.5 * super().predict_proba(X) + 0.25

    frame = pd.DataFrame(turning(300, 300, dated=False))
    trained = Wary(3, random_state=0).fit(frame[["a", "b", "noise"]], frame["late"])
    model = ec.wrap(trained, "classification")
    trained.__class__.__module__ = "sklearn.ensemble"
    assert artefact_of(trained, model, "classification", None, ["no", "yes"]) is None
    plain = RandomForestClassifier(3, random_state=0).fit(frame[["a", "b", "noise"]], frame["late"])
    assert artefact_of(plain, model, "classification", None, ["no", "yes"]) is None
    assert (
        artefact_of(plain, ec.wrap(plain, "classification"), "classification", None, ["no", "yes"])
        is not None
    )
    strict = ec.wrap(lambda x: {"no": x["category"], "yes": 0.0}, "classification")
    assert artefact_of(plain, strict, "classification", None, ["no", "yes"]) is None


def test_a_report_as_html_needs_nothing_from_elsewhere(report):
    page = report.to_html()
    assert page == report.to_html()
    for part in ("<script", "src=", "@import", "url(http", "<link"):
        assert part not in page
    assert page.count("<svg") == 1 and "drives the model" in page
    assert report._repr_html_() in page and str(report) == repr(report)
    odd = ec.watch(
        [{**row, "<b>": row["a"], "late": row["late"]} for row in turning(600, 600, dated=False)], "late", **QUICK
    )  # fmt: skip
    assert "<b>" not in odd.to_html()


ROWS = turning(30, 30, dated=False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((ROWS, "delay"), "'delay'; the first has a, b, noise, late|no record has 'delay'"),
        ((ROWS,), "pass label='column'"),
        (([], "late"), "there are no records"),
        (({"a": [1]}, "late"), "pass a data frame, the path"),
        ((["a"], "late"), "has to be a dict"),
        (([({"a": 1.0}, None)],), "^label: no record has a label, but None; the first has a"),
        ((pd.Series([1, 2]), "late"), "^data: a Series is no table; pass a data frame"),
        (("rows.txt", "late"), "must end in .csv"),
        (([{**ROWS[0], "a": math.inf}], "late"), "row 0: a is infinite; replace it"),
        (([{"late": 1}, {"late": 0}], "late"), "data: no record has a feature; give the columns"),
        (([{**ROWS[0], "a": 1e200}], "late"), "row 0: a is 1e[+]200; replace it by a number between"),
        (([{**ROWS[0], "a": 10**400}], "late"), "row 0: a is 1000"),
        (([ROWS[0], {**ROWS[1], "a": "x"}], "late"), "row 1: a is 'x', and was a number before"),
        (([{**ROWS[0], "a": [1.0]}], "late"), "row 0: a is a list; a feature is"),
        (([{**ROWS[0], "late": [1]}], "late"), r"label: \[1\] is a list; a label is"),
        (([*ROWS, {**ROWS[0], "late": {"at": 1}}], "late"), "label: {'at': 1} is a dict; a label is"),
        (
            ([{**ROWS[0], "at": 1e18}, {**ROWS[0], "at": 1e19}], "late", "at"),
            "row 1: at is 1e[+]19; a time is",
        ),
        (([{**ROWS[0], "t": NIGHT, "u": NIGHT}], "late"), "t, u are moments; pass time='t'"),
    ],
)
def test_what_is_wrong_with_the_records_is_said_with_the_remedy(given, says):
    data, *label, time = (*given, None) if len(given) < 3 else given
    with pytest.raises(ValueError, match=says):
        ec.watch(data, *label, time=time, **QUICK)


def test_columns_may_have_numbers_for_names() -> None:
    frame = pd.DataFrame([[i % 3, i % 3 > 1] for i in range(30)])
    assert ec.watch(frame, 1, **QUICK).digest == ec.watch(frame, "1", **QUICK).digest


def test_what_would_be_read_as_letters_or_says_nothing_is_refused(report) -> None:
    with pytest.raises(ValueError, match=r"^ignore: 'day' is one string; pass a list"):
        ec.watch(ROWS, "late", ignore="day")
    with pytest.raises(ValueError, match=r"^features: no record has 'A'; there are a, b"):
        ec.watch(ROWS, "late", features=["a", "A"])
    with pytest.raises(ValueError, match=r"^explainers: there is none; pass at least one"):
        ec.watch(ROWS, "late", explainers=[])
    with pytest.raises(ValueError, match=r"^every: 500.0; pass a length such as '7D', or at least 1 record"):
        report.periods(500.0)
    assert report.periods(np.int64(500)) == report.periods(500)


@pytest.mark.parametrize("model", ["mixture", "linear", linear_model.LogisticRegression()])
def test_a_third_label_of_a_binary_model_is_refused_by_its_name(model):
    live = ec.watch(turning(400), "late", model=model, progress=False)
    with pytest.raises(ValueError, match=r"record 400: the label 'perhaps' .* has seen .*'yes'.* multiclass"):
        live.update({"a": 0.1}, "perhaps")
    live.update({"a": 0.1}, "yes")
    assert live.records == 401


def test_what_is_wrong_with_the_model_or_the_question_is_said_with_the_remedy(report):
    with pytest.raises(ValueError, match="pass task='binary'"):
        ec.watch()
    for kind in (linear_model.LogisticRegression, RandomForestClassifier, XGBClassifier, dict):
        with pytest.raises(
            ValueError, match=f"model: {kind.__name__} is a class; pass a model of it, such as"
        ):
            ec.watch(ROWS, "late", model=kind, progress=False)
    few = LogisticRegression().fit([[0.0], [1.0]], ["late", "early"])
    with pytest.raises(ValueError, match="does not name its columns; pass features"):
        ec.watch(ROWS, "late", model=few, progress=False)
    trained = LogisticRegression().fit([[0.0] * 3, [1.0] * 3], ["late", "early"])
    with pytest.raises(ValueError, match="the label 'no' is none of the model's classes 'early', 'late'"):
        ec.watch(ROWS, "late", model=trained, progress=False)
    with pytest.raises(ValueError, match="pass a length such as '7D'"):
        report.periods("soon")
    with pytest.raises(ValueError, match="pass time='column'"):
        ec.watch(turning(200, 200, dated=False), "late", **QUICK).periods("7D")
    with pytest.raises(ValueError, match="time: there is no column 'when'"):
        ec.watch(ROWS, "late", time="when", **QUICK)
    with pytest.raises(KeyError, match="there are ipfi, isage"):
        report.drivers("shap")


def explain(capsys, *arguments):
    cli.main(["explain", *map(str, arguments)], standalone_mode=False)
    return capsys.readouterr().out


def test_the_command_prints_and_writes_the_report_of_a_file(capsys, tmp_path, report):
    rows, file, page = turning(), tmp_path / "rows.csv", tmp_path / "report.html"
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    printed = explain(capsys, file, "--label", "late", "--model", "linear", "--html", page)
    assert printed == f"{report}\n"
    assert page.read_text(encoding="utf-8") == report.to_html()
    for wrong, says in (
        (("--label", "delay"), "--label delay: rows.csv has no such column; it has time, a, b, noise, late"),
        (("--label", "late", "--ignore", "day"), "--ignore day: rows.csv has no such column"),
        (("--label", "late", "--model", tmp_path / "none.ubj"), "none.ubj"),
        (("--label", "late", "--model", "bla"), "--model bla: .*; by name there are mixture, linear"),
        (("--label", "late", "--html", tmp_path / "no" / "report.html"), "there is no directory"),
    ):
        with pytest.raises(UserError, match=says):
            explain(capsys, file, *wrong)
    file.write_text("a,late\n")
    with pytest.raises(UserError, match=r"rows\.csv: there are no rows"):
        explain(capsys, file, "--label", "late")


def test_the_notebook_runs_and_shows_what_it_says(monkeypatch, capsys):
    notebook = json.loads((ROOT / "examples" / "watch.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    monkeypatch.setenv("MPLBACKEND", "Agg")
    exec(compile("\n".join(cells) + "\nprint(report)", "watch.ipynb", "exec"), {})
    assert re.search("drives? the model", capsys.readouterr().out)


@pytest.mark.parametrize("labels", [(0, 1), (1, 0), ("no", "yes"), (True, False)])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_function_predicts_the_labels_that_records_have_in_whatever_order_they_come(
    labels: tuple[Any, Any], wrapped: bool
) -> None:
    def model(x: dict[str, Any]) -> dict[Any, float]:
        p = 0.1 if x["a"] > 2 else 0.9
        return {labels[1]: 1.0 - p, labels[0]: p}

    records = [({"a": i % 5, "b": i % 3}, labels[i % 5 > 2]) for i in range(300)]
    report = ec.watch(records, model=ec.wrap(model, "classification") if wrapped else model, progress=False)
    loss, _, _ = report.explainer.slots[""].explained.performance.of("cross_entropy")
    assert loss == pytest.approx(-math.log(0.9))
    assert report.explainer.explanation["ipfi"].top(1)[0][0] == "a"


def test_a_classifier_without_probabilities_is_none_of_numbers() -> None:
    records = [{"a": i % 5, "b": i % 3, "late": int(i % 5 > 2)} for i in range(300)]
    fitted = LinearSVC(random_state=0).fit(
        np.array([[one["a"], one["b"]] for one in records]), [one["late"] for one in records]
    )
    report = ec.watch(records, "late", model=fitted, progress=False)
    assert report.task == "classification" and report.explainer.explanation["ipfi"].top(1)[0][0] == "a"
