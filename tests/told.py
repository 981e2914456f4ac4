"""Messages of the alarms and drift topics as a reader has them, made of their examples."""

import json
from dataclasses import fields

from explain_client import Alarm, Drift

NOON = 1_700_000_000_000


def alarm(**known):
    """The content of an alarm's message; of moments and sides what is given."""
    body = {
        field.name: field.metadata["examples"][0] for field in fields(Alarm) if "examples" in field.metadata
    }
    body |= {"version": None, "segment": None, "model": None, **known}
    for name in ("onset", "earliest", "latest"):
        at = known.get(name, known.get("onset", 1_000))
        body[name] = at if isinstance(at, dict) else {"offset": at, "timestamp": NOON + 60_000 * at}
    for name in ("before", "after"):
        value = body[name]["value"] if isinstance(body[name], dict) else body[name]
        body[name] = {"value": value, "low": value - 0.02, "high": value + 0.02, "records": 500}
    body["direction"] = known.get(
        "direction", "up" if body["after"]["value"] > body["before"]["value"] else "down"
    )
    body["least"] = known.get("least", abs(body["after"]["value"] - body["before"]["value"]) / 2.0)
    return json.loads(json.dumps(body))


def alarm_of(**known):
    return Alarm.from_json(json.dumps(alarm(**known)).encode())


def drift_of(seq, **change):
    """The answer to the alarm with this number."""
    body = {
        field.name: field.metadata["examples"][0] for field in fields(Drift) if "examples" in field.metadata
    }
    found = {
        "verdict": "attributed",
        "causes": ["concept"],
        "joint": {"hypothesis": None, "concept": {"value": 0.1}, "inputs": [{"value": 0.1}]},
        "learning": None,
    } | change
    example = body["differences"][0]
    body["differences"] = [{**example, "words": "", **one} for one in found.pop("differences", [])]
    body |= {"app_id": "explanation-sidecar", "alarm": {"seq": seq, "offset": 1, "cause": 1}, "change": found}
    return Drift.from_json(json.dumps(body | {"separation": None, "id": None}).encode())
