"""Alarms and drift messages as the dashboard keeps and shows them: what a page needs, of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from explain_client.alarm_words import what
from explain_client.messages import Alarm
from explain_client.stories import Story
from explain_client.words import of_loss
from explain_core.drift.change import RiskChange

TOP = 8
"""Features that are steps of a waterfall of their own."""

LONGEST = 2_000
"""Characters of a sentence."""

ARROW = " → "
"""What sentences have between two numbers; not every font of a browser has it."""

_WORDS = {
    "concept": "the concept",
    "hypothesis": "the model itself",
    "inputs": "the inputs",
    "dependence": "inputs together",
    "rows not evaluated": "records not evaluated",
}


def shown_change(message: Mapping[str, Any]) -> dict[str, Any]:
    """A drift message: its sentence, its windows, and the steps from one risk to the other where it has them: none where the change
    cannot be attributed.

    ``alarm`` is the id of the alarm that asked for it. ``cause`` is what changed most among what the data bear out: ``concept``, ``inputs``, ``model``, ``none``, or ``unknown`` where
    the change cannot be attributed.
    """
    shown: dict[str, Any] = {
        "id": f"{message['epoch']}.{message['seq']}",
        "sentence": str(message.get("sentence", "")).replace(ARROW, " to ")[:LONGEST],
        "timestamp": message.get("timestamp"),
        "target": message.get("target"),
        "baseline": message.get("baseline"),
        "alarm": f"{message['epoch']}.{message['alarm']['seq']}" if message.get("alarm") else None,
        "cause": "unknown",
    }
    try:
        change = RiskChange.from_dict(message["change"])
        # After the players of the joint game come features, which may be called like one of them.
        joint, features = change.joint, min(len(change.product.inputs), TOP) if change.product else 0
        first = 1 + bool(joint.hypothesis) + (0 if change.product else len(joint.inputs))
        causes = [cause.name for cause in change.causes]
        learnt = [cause for cause in (joint.hypothesis, change.learning) if cause and cause.stands_out]
        return shown | {
            "sentence": of_loss(shown["sentence"], change.loss),
            "loss": change.loss,
            "from": change.baseline.observed,
            "to": change.target.observed,
            "cause": _cause(change.verdict == "attributed", causes, bool(learnt)),
            "steps": [
                step._asdict()
                | ({} if first <= place < first + features else {"name": _WORDS.get(step.name, step.name)})
                for place, step in enumerate(change.steps(TOP))
            ],
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return shown


def _cause(attributed: bool, causes: list[str], learnt: bool) -> str:
    if not attributed:
        return "unknown"
    if causes:
        return "concept" if causes[0] == "concept" else "inputs"
    return "model" if learnt else "none"


def shown_story(story: Story) -> dict[str, Any]:
    """What one cause changed, in words; ``over`` is the event time from which on it was as before."""
    return {
        "key": story.key,
        "sentence": story.sentence().replace(ARROW, " to ")[:LONGEST],
        "over": None if story.over is None else story.over.timestamp,
        "known": story.expected is not None or story.acknowledged is not None,
    }


def shown_alarm(alarm: Alarm, story: Story) -> dict[str, Any]:
    """An alarm with what it says in a few words, without what no page shows; ``story`` is the one that it is part of, or ends."""
    content = asdict(alarm)
    told = what(content)
    return {
        "id": f"{alarm.epoch}.{alarm.seq}",
        "title": told if alarm.feature else told[0].upper() + told[1:],
        "subject": alarm.subject,
        "feature": alarm.feature,
        "estimator": alarm.estimator,
        "loss": alarm.loss,
        "direction": alarm.direction,
        "before": [alarm.before.value, alarm.before.low, alarm.before.high],
        "after": [alarm.after.value, alarm.after.low, alarm.after.high],
        "onset": alarm.onset.timestamp,
        "earliest": alarm.earliest.timestamp,
        "latest": alarm.latest.timestamp,
        "noticed": alarm.timestamp,
        "story": story.key,
        "version": alarm.version,
        "segment": content["segment"],
        "one_in": alarm.one_in,
        "sentence": alarm.sentence.replace(ARROW, " to ")[:LONGEST],
    }
