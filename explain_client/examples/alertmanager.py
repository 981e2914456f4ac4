"""Hand alarms to Prometheus' Alertmanager, which groups, silences and routes them: ``alertmanager.py SERVERS TOPIC --url URL``.

Without ``--url`` it prints the payloads, one a line. It is a member of a consumer group and commits an alarm once the Alertmanager has it,
so none is lost when the program stops. An alarm that is posted twice is one alert, because its labels are the same.
In the Alertmanager ``group_by: [app_id, topic, partition, epoch, cause]`` makes one notification of what one cause changed.
"""

import argparse
import json
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import URLError

from explain_client import Alarm, Alarms
from explain_client.messages import is_date

PATH = "/api/v2/alerts"


def payloads(alarms: Iterable[Alarm], keep: timedelta = timedelta(days=1)) -> Iterator[list[dict[str, Any]]]:
    """The body of a POST to the Alertmanager's ``PATH`` for each alarm.

    An alert begins with the onset. It ends ``keep`` from now, as an alarm says that something changed and not how long it stays so.
    """
    for alarm in alarms:
        labels = {
            "alertname": "ModelChanged",
            "severity": "warning",
            "app_id": alarm.app_id,
            "topic": alarm.topic,
            "partition": str(alarm.partition),
            "epoch": str(alarm.epoch),
            "cause": str(alarm.cause),
            "subject": alarm.subject,
            "direction": alarm.direction,
            # A label without a value is none to the Alertmanager.
            "feature": alarm.feature,
            "estimator": alarm.estimator,
            "loss": alarm.loss,
            "segment": alarm.segment and f"{alarm.segment.feature}={alarm.segment.value}",
            "version": alarm.version,
            "key": alarm.keys,
        }
        alert: dict[str, Any] = {
            "labels": {name: value for name, value in labels.items() if value},
            "annotations": {
                "summary": alarm.sentence,
                "before": _interval(alarm.before.low, alarm.before.high),
                "after": _interval(alarm.after.low, alarm.after.high),
                "offset": str(alarm.onset.offset),
            },
            "endsAt": (datetime.now(UTC) + keep).isoformat(),
        }
        if is_date(alarm.onset.timestamp):
            alert["startsAt"] = alarm.onset.time.isoformat()
        yield [alert]


def _interval(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}"


def post(url: str, payload: list[dict[str, Any]]) -> None:
    """Raises ``URLError`` where the Alertmanager does not take it."""
    request = urllib.request.Request(
        url.rstrip("/") + PATH, json.dumps(payload).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--url", help="of the Alertmanager, such as http://127.0.0.1:9093")
    parser.add_argument("--until-caught-up", action="store_true")
    arguments = parser.parse_args()

    follow = not arguments.until_caught_up
    with Alarms(arguments.servers, arguments.topic, follow=follow, group_id="alertmanager") as stream:
        for payload in payloads(stream):
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
