"""The example that hands alarms to an Alertmanager: what it posts is what the Alertmanager's API takes (v2, POST /alerts)."""

import json
from datetime import UTC, datetime
from importlib import import_module
from urllib.error import HTTPError

import pytest
from jsonschema import Draft202012Validator

from explain_client import Alarm
from tests.folds import fold, new_state
from tests.loopback import serving
from tests.service.test_alarms import EARLY, ONE, STATIC
from tests.service.test_windows import stream

example = import_module("explain_client.examples.alertmanager")

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
    return [Alarm.from_json(output.value) for output in outputs if output.destination == "alarms"]


def test_each_alarm_is_posted_as_an_alert_of_its_own(alarms):
    taken = []
    with serving(lambda path, body: (200, taken.append((path, json.loads(body))) or b"")) as url:
        for payload in example.payloads(alarms):
            example.post(url, payload)
    assert [path for path, _ in taken] == ["/api/v2/alerts"] * len(alarms)
    validator = Draft202012Validator(POSTABLE, format_checker=Draft202012Validator.FORMAT_CHECKER)
    alerts = []
    for _, body in taken:
        validator.validate(body)
        alerts += body
    for alarm, alert in zip(alarms, alerts, strict=True):
        begins, ends = (datetime.fromisoformat(alert[name]) for name in ("startsAt", "endsAt"))
        assert begins == alarm.onset.time and begins.tzinfo is not None
        assert ends > datetime.now(UTC) > begins
        assert alert["annotations"]["summary"] == alarm.sentence
    # The Alertmanager takes two alerts with the same labels for one.
    assert len({json.dumps(alert["labels"], sort_keys=True) for alert in alerts}) == len(alarms) >= 3
    loss = next(alert["labels"] for alert in alerts if alert["labels"]["subject"] == "loss")
    assert "feature" not in loss and loss["cause"] == "1" and loss["direction"] == "up"


def test_an_onset_that_is_no_date_is_left_out(alarms):
    body = json.loads(json.dumps({**_body(alarms[0]), "onset": {"offset": 7, "timestamp": 2**62}}))
    (payload,) = example.payloads([Alarm.from_json(json.dumps(body).encode())])
    assert "startsAt" not in payload[0] and payload[0]["annotations"]["offset"] == "7"


def test_what_the_alertmanager_refuses_is_an_error_so_that_it_is_not_committed(alarms):
    (payload,) = example.payloads(alarms[:1])
    with serving(lambda path, body: (503, b"")) as url, pytest.raises(HTTPError):
        example.post(url, payload)


def _body(alarm):
    return json.loads(alarm.raw)
