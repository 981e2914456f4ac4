"""What the demo says at its end: which alarms came, in words and by their cause."""

import orjson
import pytest

from explain_sidecar.demo import settings_of
from explain_sidecar.demo.flights import ORIGINS
from explain_sidecar.demo.summary import summary
from tests.told import alarm as told

DAY = 86_400_000
SEPTEMBER = 1_378_166_400_000
"""The 3rd of September 2013."""


def explanation(partition, timestamp, loss):
    cells = {
        name: {"value": value, "std": 0.001, "low": value - 0.002, "high": value + 0.002, "steady": True}
        for name, value in (("dep_hour", 0.05), ("temp", 0.0))
    }
    return {
        "app_id": "flights-demo",
        "epoch": 0,
        "partition": partition,
        "timestamp": timestamp,
        "status": "ready",
        "performance": {
            "cross_entropy": {"model": loss, "empty": 0.6, "mean_prediction": 0.6, "floor": 0.01}
        },
        "importance": {"isage": {"cross_entropy": cells}},
        "periods": [period(timestamp, {"dep_hour": 0.05, "temp": 0.0}, 0.1)],
    }


def mean(value):
    sums = {"n": 1_000.0, "sum": 1_000.0 * value, "var": 1.0, "third": 0.0, "var2": 0.1}
    return {**sums, "value": value, "low": value - 0.002, "high": value + 0.002}


def period(until, importances, gain):
    return {
        "name": "1000",
        "records": 1_000,
        "first_offset": 0,
        "last_offset": 999,
        "from": until - DAY,
        "until": until,
        "performance": {"cross_entropy": {"loss": mean(0.5), "gain": mean(gain)}},
        "importance": {
            "isage": {"cross_entropy": {name: mean(value) for name, value in importances.items()}}
        },
    }


def alarm(partition, subject, cause, before, after, **known):
    how = {
        "estimator": "ipfi" if subject == "importance" else None,
        "feature": None,
        "onset": 1,
        "offset": 1_000,
    }
    found = {"app_id": "flights-demo", "seq": 10 * cause, "evidence": 1.1, "one_in": 100_000, **how, **known}
    return told(partition=partition, subject=subject, cause=cause, before=before, after=after, **found)


def said(alarms):
    history = {
        number: [explanation(number, SEPTEMBER + i * 40 * DAY, 0.5 - i / 10) for i in (0, 1)]
        for number in (0, 1)
    }
    return summary(history, [], alarms, ORIGINS, width=10_000).strip().split("\n\n")


def test_the_summary_names_the_alarms_of_each_cause_once_and_in_words():
    first, later = ({"offset": at, "timestamp": SEPTEMBER + 10 * at * DAY} for at in (0, 9))
    newark, kennedy = said(
        [
            alarm(0, "loss", 1, 0.516, 0.223, evidence=1.2, onset=first),
            alarm(0, "importance", 1, 0.05, 0.02, feature="dep_hour", onset=first),
            alarm(0, "importance", 1, 0.06, 0.03, feature="dep_hour", evidence=1.5, onset=first),
            alarm(0, "gain", 2, 0.03, 0.21, onset=later),
        ]
    )
    assert (
        "  What changed, at most once in 100,000 flights by chance alone:\n  - Since Tuesday 2013-09-03 00:00 UTC the model's log loss fell by at least 28 % "
        "(0.516 → 0.223 ± 0.020); departure hour matters less, by at least 0.015 (0.060 → 0.030 ± 0.020); nothing else raised an alarm.\n"
        "  - Since Monday 2013-12-02 00:00 UTC the model's gain over no model rose, by at least 0.090 (0.030 → 0.210 ± 0.020); nothing else raised an alarm."
    ) in newark
    assert newark.startswith(
        "EWR\n  Departure hour drives the model: 0.050 [0.049, 0.051], over the 2,000 flights of the year, "
        "in which it is better than no model by 0.100 [0.099, 0.101] of log loss."
    )
    assert kennedy.startswith("JFK\n") and "No alarm: " in kennedy and "What changed" not in kennedy


def test_the_summary_tells_of_whatever_estimator_and_loss_the_demo_has() -> None:
    messages = orjson.dumps([explanation(0, SEPTEMBER + i * 40 * DAY, 0.5 - i / 10) for i in (0, 1)])
    other = orjson.loads(messages.replace(b"isage", b"ipfi").replace(b"cross_entropy", b"brier"))
    assert "by 0.100 [0.099, 0.101] of brier" in summary({0: other}, [], [], ORIGINS, width=10_000)


def test_alarms_that_could_not_come_yet_say_so() -> None:
    message = explanation(0, SEPTEMBER, 0.5)
    assert "No alarm: nothing changed" in summary({0: [message]}, [], [], ORIGINS)
    message["performance"]["cross_entropy"]["floor"] = None
    assert "No alarm: these flights are too few" in summary({0: [message]}, [], [], ORIGINS)


def test_the_summary_s_lines_fit_the_terminal() -> None:
    history = {0: [explanation(0, SEPTEMBER + i * 40 * DAY, 0.5 - i / 10) for i in (0, 1)]}
    lines = summary(history, [], [alarm(0, "loss", 1, 0.516, 0.223)], ORIGINS, width=60).splitlines()
    assert max(map(len, lines)) <= 60 and any(line.startswith("      ") for line in lines)


def test_bands_that_do_not_overlap_are_no_change_to_the_summary():
    """Only an alarm is: many bands are compared, and some differ by chance."""
    moved = [explanation(0, SEPTEMBER + i * 40 * DAY, 0.5) for i in (0, 1)]
    moved[1]["importance"]["isage"]["cross_entropy"]["dep_hour"].update(value=0.5, low=0.49, high=0.51)
    text = summary({0: moved}, [], [], ORIGINS)
    assert "No alarm" in text and "0.500" not in text.replace("(0.500)", "")


@pytest.mark.parametrize("name", ["explanations", "drift", "alarms"])
def test_the_demo_runs_with_alarms_and_names_all_its_topics(name, tmp_path):
    settings = settings_of("none:9092", tmp_path / "demo.yaml")
    assert name in settings.outputs
    assert getattr(settings.topics, name).startswith("flights-")
