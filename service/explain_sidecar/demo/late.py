"""``explain-sidecar demo --late-labels``: the fields known at a flight's departure are on one topic, in Avro; whether it was late arrives on another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from explain_sidecar.commands.produce import write
from explain_sidecar.demo.flights import ORIGINS, by_origin
from explain_sidecar.formats.inferred import kinds_of, schema_of
from explain_sidecar.formats.writing import value_writer
from explain_sidecar.settings import Settings

DEPARTURES, ARRIVALS = "flights-departures", "flights-arrivals"
AT_ARRIVAL = ("arrived", "late")
"""Fields that are unknown at departure."""

LONGEST_SECONDS = 3 * 86_400
"""The latest flight arrived within two days of its schedule."""


def settings_of_join(folder: Path) -> str:
    """The section ``join``, as a user would write it."""
    return f"""join:
  events: {{topic: {DEPARTURES}, format: avro, framing: none, schema_file: {folder}/departures.avsc, id: flight, timestamp: scheduled}}
  labels: {{topic: {ARRIVALS}, id: flight, timestamp: arrived, label: late}}
  wait: {LONGEST_SECONDS}
  state_dir: {folder}/join-state
"""


def write_schema(folder: Path, records: list[dict[str, Any]]) -> None:
    kinds, _ = kinds_of(map(_departure, records))
    (folder / "departures.avsc").write_text(schema_of("avro", kinds))


def feed(settings: Settings, records: list[dict[str, Any]]) -> None:
    """Both topics, each in the order of its times, a partition for each airport."""
    encode = value_writer(settings.join.events, settings.registry, DEPARTURES, {}, "join.events")
    departures = ((record, encode(_departure(record))) for record in records)
    landed = sorted(records, key=lambda record: record["arrived"])
    arrivals = (
        (record, orjson.dumps({name: record[name] for name in ("flight", *AT_ARRIVAL)})) for record in landed
    )
    for topic, values in ((DEPARTURES, departures), (ARRIVALS, arrivals)):
        write(
            settings,
            by_origin(values),
            count=len(records),
            topic=topic,
            partitions=len(ORIGINS),
            progress=False,
        )


def _departure(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in AT_ARRIVAL}
