"""Hand alarms to Prometheus' Alertmanager, which groups, silences and routes them: ``alertmanager.py SERVERS TOPIC --url URL``.

Without ``--url`` it prints the payloads, one a line. It is a member of a consumer group and commits an alarm once the Alertmanager has it,
so none is lost when the program stops. What one cause changed is one alert: it has the same labels whenever it is posted, and annotations that say what is known
by then. ``--control`` names the topic on which people say what they expect, and what they have seen: that is not posted.
"""

import argparse
import json
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import URLError

from confluent_kafka import Consumer, TopicPartition

from explain_client import Acknowledged, Alarm, Alarms, Expected, Stories, Story, control_of
from explain_client.errors import SchemaError
from explain_client.messages import is_date

PATH = "/api/v2/alerts"


def payloads(
    alarms: Iterable[Alarm],
    keep: timedelta = timedelta(days=1),
    dashboard: str | None = None,
    known: Iterable[Expected | Acknowledged] = (),
) -> Iterator[list[dict[str, Any]]]:
    """The body of a POST to the Alertmanager's ``PATH`` after each alarm: the stories that it changes.

    An alert begins with the onset. It ends when an alarm says that its change is over, or else ``keep`` from now.
    ``dashboard`` is the address of the sidecar's; ``known`` is what people expect or have seen, looked at before each alarm.
    """
    stories = Stories()
    for alarm in alarms:
        for message in known:
            stories.add(message)
        told = [
            _alert(story, keep, dashboard)
            for story in stories.add(alarm)
            if story.expected is None and story.acknowledged is None
        ]
        if told:
            yield told


def _alert(story: Story, keep: timedelta, dashboard: str | None) -> dict[str, Any]:
    lead = story.lead
    labels = {
        "alertname": "ModelChanged",
        "severity": "warning",
        "app_id": story.app_id,
        "topic": story.topic,
        "partition": str(story.partition),
        "epoch": str(story.epoch),
        "cause": str(story.cause),
        "version": story.version,
        "key": story.keys,
    }
    annotations = {
        "summary": story.sentence(),
        "subject": lead.subject,
        "feature": ", ".join(story.features),
        "segment": ", ".join(f"{feature}={value}" for feature, value in story.segments),
        "value": f"{lead.after.value:.4g}",
        "before": _interval(lead.before.low, lead.before.high),
        "after": _interval(lead.after.low, lead.after.high),
        "offset": str(lead.onset.offset),
    }
    ends = datetime.now(UTC)
    alert: dict[str, Any] = {
        # Without a value they are none to the Alertmanager.
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "endsAt": (ends if story.over is not None else ends + keep).isoformat(),
    }
    if is_date(lead.onset.timestamp):
        alert["startsAt"] = lead.onset.time.isoformat()
    if dashboard is not None:
        view = f"view=changes&partition={story.partition}&at=alarm-{story.epoch}.{lead.seq}"
        alert["generatorURL"] = f"{dashboard.rstrip('/')}/#{view}"
    return alert


def _interval(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}"


def post(url: str, payload: list[dict[str, Any]]) -> None:
    """Raises ``URLError`` where the Alertmanager does not take it."""
    request = urllib.request.Request(
        url.rstrip("/") + PATH, json.dumps(payload).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10):
        pass


class Control:
    """What is on the control topic, and what comes there, each time that it is asked for."""

    def __init__(self, servers: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "alertmanager-control"})
        found = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in found])

    def __iter__(self) -> Iterator[Expected | Acknowledged]:
        while messages := self._consumer.consume(100, 0.5):
            for message in messages:
                try:
                    if message.error() is None:
                        yield control_of(message.value() or b"")
                except SchemaError as error:
                    print(error, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--url", help="of the Alertmanager, such as http://127.0.0.1:9093")
    parser.add_argument("--dashboard", help="of the sidecar, such as http://127.0.0.1:8080, for the link")
    parser.add_argument("--control", help="topic of what is expected, and was seen")
    parser.add_argument("--until-caught-up", action="store_true")
    arguments = parser.parse_args()

    follow = not arguments.until_caught_up
    known = () if arguments.control is None else Control(arguments.servers, arguments.control)
    with Alarms(arguments.servers, arguments.topic, follow=follow, group_id="alertmanager") as stream:
        for payload in payloads(stream, dashboard=arguments.dashboard, known=known):
            if arguments.url is None:
                print(json.dumps(payload), flush=True)
                continue
            try:
                post(arguments.url, payload)
            except URLError as error:
                sys.exit(
                    f"{arguments.url} did not take an alarm: {error}; it is sent again at the next start"
                )


if __name__ == "__main__":
    main()
