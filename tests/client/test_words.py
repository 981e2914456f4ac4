"""What people read has one name, one form of a time and one of a number, wherever they read it."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import explain_core as ec
from explain_client import Drift, Stories, words
from explain_core import figures, losses
from explain_sidecar.commands.printing import print_rows
from explain_sidecar.http.changes import shown_alarm
from tests.documentation import ROOT
from tests.told import alarm_of, drift_of

NUMBERS = (0.0, 0.5, -0.0123, 22.73, 999.4, 14_925.66, -6_881.4, 0.00052, 1.2e-7, 3.21e12, -2.5e-12)


def test_the_engine_and_the_client_which_do_not_import_each_other_write_alike():
    for loss in (*losses.NAMED, "late_by_hours"):
        assert words.loss_name(loss) == losses.called(loss)
    for value in NUMBERS:
        assert words.figure(value) == figures.figure(value)
        assert words.rough(value) == figures.rough(value)
        assert words.signed(value) == figures.signed(value)


@pytest.mark.parametrize(
    "written", ["log loss", "Log-Loss", "squared loss", "Error Rate", "brier_score", "mse"]
)
def test_a_loss_by_the_name_that_we_or_others_have_for_it_is_told_which_it_is(written):
    with pytest.raises(ValueError, match=r"is (cross_entropy|squared|zero_one|brier) here; name that"):
        losses.get(written)


def test_every_name_of_a_loss_in_our_sentences_leads_back_to_it():
    for loss in losses.NAMED:
        with pytest.raises(ValueError, match=f"is {loss} here; name that"):
            losses.get(words.loss_name(loss).title())


def test_no_module_writes_dates_in_a_form_of_its_own():
    own = re.compile(r"strftime|[a-z_)]:%[A-Z]|asctime|ctime\(|isoformat\(sep")
    # Keys and values of the demo's input, months in a sentence, the clock of a log's lines.
    allowed = {"words.py", "alarm_words.py", "flights.py", "summary.py", "logs.py"}
    found = {
        path.name
        for folder in ("explain_core", "explain_client", "service")
        for path in (ROOT / folder).rglob("*.py")
        if own.search(path.read_text())
    }
    assert found == allowed


def test_a_row_s_time_is_the_form_of_people_in_a_table_and_that_of_iso_8601_in_json(capsys):
    rows = [{"time": datetime(2013, 5, 14, 6, 5, 7, tzinfo=UTC)}, {"time": None}]
    print_rows(rows, as_json=False)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        "time",
        "2013-05-14 06:05:07 UTC",
        "–",
    ]
    print_rows(rows, as_json=True)
    assert json.loads(capsys.readouterr().out) == [{"time": "2013-05-14T06:05:07+00:00"}, {"time": None}]


def test_the_risk_that_a_drift_message_names_by_the_setting_has_the_loss_s_name_for_people():
    drift = json.loads(drift_of(0, loss="squared").raw) | {"sentence": "squared risk rose by 7 ± 2"}
    assert Drift.from_json(json.dumps(drift).encode()).told == "squared loss rose by 7 ± 2"
    without = drift | {"change": None}
    assert Drift.from_json(json.dumps(without).encode()).told == "squared risk rose by 7 ± 2"


def test_the_report_of_a_regression_calls_its_loss_by_one_name():
    rows = [{"a": float(n % 17), "y": 3.0 * (n % 17) + 40.0 * (n > 1_500) * (n % 2)} for n in range(4_000)]
    report = str(ec.watch(rows, "y", model="linear", progress=False))
    assert "squared loss" in report and "and why\n  Squared loss " in report
    assert not re.search(r"squared (risk|error)|\d{4,}\.\d|\de[+-]\d", report), report


def test_the_dashboard_has_an_alarm_s_title_in_the_words_of_its_story():
    alarm = alarm_of(subject="loss", feature=None, loss="cross_entropy", before=0.4, after=0.5)
    assert shown_alarm(alarm, story_of(alarm))["title"] == "The model's log loss rose"
    of_feature = alarm_of(subject="importance", feature="dep_hour", before=0.5, after=0.4)
    assert shown_alarm(of_feature, story_of(of_feature))["title"] == "dep_hour matters less"


def story_of(alarm):
    return Stories().add(alarm)[0]


def test_a_report_tells_changes_and_risks_in_the_order_in_which_they_began():
    report = ec.watch(None, "y", model="linear", task="binary")
    for seq, onset in enumerate((900, 300)):  # noticed the other way round
        report._alarms.append(alarm_of(seq=seq, cause=1 + seq, feature="ab"[seq], onset=onset))
        report._stories.add(report._alarms[-1])
    assert [story.lead.onset.offset for story in report.changes()] == [300, 900]
    first, second = drift_of(0), drift_of(1)
    report._drifts += [
        replace(drift, target=replace(drift.target, first_offset=offset))
        for drift, offset in ((first, 7), (second, 3))
    ]
    assert [drift.target.first_offset for drift in report.why()] == [3, 7]
    assert str(report.why()).startswith("Error rate ")
