"""The example that hands alarms to an Alertmanager: what it posts is what the Alertmanager's API takes (v2, POST /alerts)."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from urllib.error import HTTPError

import pytest

from explain_client import Acknowledged, Alarm, Expected, Stories
from tests.folds import fold, new_state
from tests.loopback import serving
from tests.service.test_alarms import EARLY, ONE, STATIC
from tests.service.test_windows import stream
from tests.told import alarm_of, drift_of

example = import_module("explain_client.examples.alertmanager")

NOW = datetime.now(UTC)
LOSS = {"subject": "loss", "feature": None, "estimator": None, "loss": "cross_entropy", "cause": 1}
LABELS = {
    "type": "object",
    "patternProperties": {"^[a-zA-Z_][a-zA-Z0-9_]*$": {"type": "string", "minLength": 1}},
    "additionalProperties": False,
}
TIME = {"type": "string", "format": "date-time"}
POSTABLE = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "labels": {**LABELS, "required": ["alertname"]},
            "annotations": LABELS,
            "startsAt": TIME,
            "endsAt": TIME,
            "generatorURL": {"type": "string", "format": "uri"},
        },
        "required": ["labels"],
        "additionalProperties": False,
    },
}
"""``postableAlerts``, and what the Alertmanager asks of names and values of labels beyond it."""


@pytest.fixture(scope="module")
def alarms():
    state = new_state(alarms=EARLY, model=STATIC, explainers=ONE, emit={"every": 500})
    outputs = fold(state, stream(1_300, flips_at=1_000))
    raised = [Alarm.from_json(output.value) for output in outputs if output.destination == "alarms"]
    return [replace(alarm, void=False) for alarm in raised]  # as if it were no worse than no model since


def posted(payloads):
    """The bodies that an Alertmanager got, each as its API takes it."""
    taken = []
    with serving(lambda path, body: (200, taken.append((path, json.loads(body))) or b"")) as url:
        for payload in payloads:
            example.post(url, payload)
    assert {path for path, _ in taken} <= {"/api/v2/alerts"}
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(POSTABLE, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for _, body in taken:
        validator.validate(body)
    return [body for _, body in taken]


def test_what_one_cause_changed_is_one_alert_that_says_all_that_is_known(alarms):
    bodies = posted(payloads(alarms, dashboard="http://127.0.0.1:8080/"))
    assert len(bodies) == len(alarms) >= 3
    # The Alertmanager takes two alerts with the same labels for one.
    assert len({json.dumps(alert["labels"], sort_keys=True) for body in bodies for alert in body}) == 1
    (alert,) = bodies[-1]
    (story,) = told(alarms)
    begins, ends = (datetime.fromisoformat(alert[name]) for name in ("startsAt", "endsAt"))
    assert begins == story.lead.onset.time and begins.tzinfo is not None
    assert ends == NOW + example.KEEP
    said = alert["annotations"]
    assert said["summary"] == story.sentence() and (said["subject"], said["feature"]) == ("loss", "a")
    assert said["value"] == f"{story.lead.after.value:.4g}"
    assert (
        alert["generatorURL"]
        == f"http://127.0.0.1:8080/#view=changes&partition={story.partition}&at=alarm-0.{story.lead.seq}"
    )
    assert "feature" not in alert["labels"] and alert["labels"]["cause"] == "1"


def payloads(*parts, **how):
    """Those that are posted after each of these groups of messages, one after the other."""
    each = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    news = [given for message in each for given in ((message, NOW), None)]
    return list(example.payloads(news, **how))


def told(alarms):
    stories = Stories()
    for alarm in alarms:
        stories.add(alarm)
    return list(stories)


def test_an_alert_ends_when_its_change_is_over_and_when_people_say_that_they_know_of_it():
    rose = alarm_of(seq=0, cause=1, feature="a", before=0.1, after=0.3)
    fell = alarm_of(seq=1, cause=2, feature="a", before=0.3, after=0.1, onset=2_000)
    expected = Expected(rose.onset.timestamp, rose.onset.timestamp, "a test")
    for last in (fell, expected, Acknowledged(0, 0, None, 1, "")):
        (first,), (second,) = posted(payloads(rose, last))
        assert first["labels"] == second["labels"]
        assert [datetime.fromisoformat(one["endsAt"]) for one in (first, second)] == [NOW + example.KEEP, NOW]
    ((only,),) = posted(payloads(expected, rose))
    assert only["endsAt"] == second["endsAt"] and only["annotations"]["summary"].endswith("Expected: a test.")


def test_why_it_changed_is_posted_as_soon_as_that_is_known():
    rose = alarm_of(**LOSS, seq=0, before=0.4, after=0.6)
    (first,), (second,) = posted(payloads(rose, drift_of(0)))
    assert first["labels"] == second["labels"] and "concept" not in first["annotations"]["summary"]
    assert ": the concept changed; nothing else" in second["annotations"]["summary"]


def test_all_that_was_there_at_the_start_is_posted_once():
    alarms = [
        alarm_of(seq=number, cause=1, feature=name, before=0.1, after=0.3) for number, name in enumerate("ab")
    ]
    (payload,) = example.payloads([*((alarm, NOW) for alarm in alarms), None, None])
    assert [alert["annotations"]["feature"] for alert in payload] == ["a, b"]


def test_an_onset_that_is_no_date_or_still_to_come_is_left_out(alarms):
    late = int((NOW + example.KEEP).timestamp() * 1000) + 1
    for time in (2**62, late):
        body = json.loads(json.dumps({**_body(alarms[0]), "onset": {"offset": 7, "timestamp": time}}))
        ((alert,),) = payloads(Alarm.from_json(json.dumps(body).encode()))
        assert "startsAt" not in alert and alert["annotations"]["offset"] == "7"


def test_what_the_alertmanager_refuses_is_an_error_so_that_it_is_not_committed(alarms):
    (payload,) = payloads(alarms[:1])
    with serving(lambda path, body: (503, b"")) as url, pytest.raises(HTTPError):
        example.post(url, payload)


def _body(alarm):
    return json.loads(alarm.raw)
