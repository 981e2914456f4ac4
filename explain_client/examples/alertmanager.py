"""Hand stories to Prometheus' Alertmanager, which groups, silences and routes them: ``alertmanager.py SERVERS ALARMS --url URL``.

What one cause changed is one alert: it has the same labels whenever it is posted, and annotations that say what is known by then. It ends when the change is over, when
people say on the control topic that they expected or have seen it, or else a day after the last news of it. Without ``--url`` it prints the payloads, one a line.

``--drift``, ``--explanations`` and ``--control`` name the topics that tell why it changed, when it was over, and what people know. All topics are read from their beginning. So a
restart posts the same alerts, and none is lost; the Alertmanager takes those that it has for what they are.
"""

import argparse
import json
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.error import URLError

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from explain_client import Acknowledged, Alarm, Drift, Expected, Explanation, Stories, Story, control_of
from explain_client.errors import SchemaError
from explain_client.fields import is_date, utc

PATH = "/api/v2/alerts"
KEEP = timedelta(days=1)
Part = Alarm | Drift | Explanation | Expected | Acknowledged
READ: dict[str, Callable[[bytes], Part]] = {
    "alarms": Alarm.from_json,
    "drift": Drift.from_json,
    "explanations": Explanation.from_json,
    "control": control_of,
}


def payloads(
    parts: Iterable[tuple[Part, datetime] | None], dashboard: str | None = None
) -> Iterator[list[dict[str, Any]]]:
    """The body of a POST to the Alertmanager's ``PATH`` for the stories that changed until each None among the messages, which come with the time they were published.

    ``dashboard`` is the address of the sidecar's.
    """
    stories = Stories()
    changed: dict[tuple[str, int, str], tuple[Story, datetime]] = {}
    for part in parts:
        if part is not None:
            message, at = part
            changed |= {(one.app_id, one.partition, one.key): (one, at) for one in stories.add(message)}
        elif changed:
            yield [_alert(story, at, dashboard) for story, at in changed.values()]
            changed = {}


def _alert(story: Story, at: datetime, dashboard: str | None) -> dict[str, Any]:
    """``at`` is when the last news of the story came."""
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
        "segment": ", ".join(f"{feature}={value or 'others'}" for feature, value in story.segments),
        "value": f"{lead.after.value:.4g}",
        "before": _interval(lead.before.low, lead.before.high),
        "after": _interval(lead.after.low, lead.after.high),
        "offset": str(lead.onset.offset),
    }
    ended = story.over or story.expected or story.acknowledged
    ends = at if ended else at + KEEP
    alert: dict[str, Any] = {
        # Without a value they are none to the Alertmanager.
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "endsAt": ends.isoformat(),
    }
    if is_date(lead.onset.timestamp) and lead.onset.time <= ends:
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


def parts_of(servers: str, topics: Mapping[str, str], follow: bool) -> Iterator[tuple[Part, datetime] | None]:
    """The messages of these topics, by what is on them; None once all that was there has been read, and from then on after each batch."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "alertmanager",  # nothing is committed under it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    known, kinds = consumer.list_topics(timeout=10).topics, {name: kind for kind, name in topics.items()}
    if missing := [name for name in kinds if name not in known]:
        sys.exit(f"topic {missing[0]!r} is not on {servers}")
    left = {(name, number) for name in kinds for number in known[name].partitions}
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in left])
    while left or follow:
        for message in consumer.consume(500, 1.0):
            topic, error = str(message.topic()), message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    sys.exit(f"topic {topic!r}: {error.str()}")
                left.discard((topic, message.partition() or 0))
                continue
            try:
                yield READ[kinds[topic]](message.value() or b""), utc(message.timestamp()[1])
            except SchemaError as wrong:
                print(f"{topic} offset {message.offset()}: {wrong}", file=sys.stderr)
        if not left:
            yield None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("alarms", help="topic of the alarms")
    for kind, what in (
        ("drift", "why something changed"),
        ("explanations", "when it was over"),
        ("control", "what is expected, and was seen"),
    ):
        parser.add_argument(f"--{kind}", metavar="TOPIC", help=f"topic that says {what}")
    parser.add_argument("--url", help="of the Alertmanager, such as http://127.0.0.1:9093")
    parser.add_argument("--dashboard", help="of the sidecar, such as http://127.0.0.1:8080, for the link")
    parser.add_argument("--until-caught-up", action="store_true")
    arguments = parser.parse_args()

    topics = {kind: name for kind in READ if (name := getattr(arguments, kind)) is not None}
    parts = parts_of(arguments.servers, topics, not arguments.until_caught_up)
    for payload in payloads(parts, arguments.dashboard):
        if arguments.url is None:
            print(json.dumps(payload), flush=True)
            continue
        try:
            post(arguments.url, payload)
        except URLError as error:
            sys.exit(f"{arguments.url} did not take an alert: {error}; it is sent again at the next start")


if __name__ == "__main__":
    main()
