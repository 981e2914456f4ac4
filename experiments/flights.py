"""Which alarms come on the demo's flights, and when: the fold of ``explain-sidecar demo`` with its settings, without Kafka.

Each alarm with the day on which it was noticed, then the demo's own summary. ``--every 1`` takes all flights, ``--season`` another season.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table as Report

from explain_client.messages import utc
from explain_core.progress import track
from explain_sidecar.demo import EVERY, settings_of
from explain_sidecar.demo.flights import ORIGINS, flights
from explain_sidecar.demo.summary import summary
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord

Published = dict[str, list[dict[str, Any]]]


def folded(records: list[dict[str, Any]], season: str | None = None) -> list[Published]:
    """The messages of each output, by partition: an airport each."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of("none:9092", Path(folder) / "demo.yaml")
    if season is not None:
        alarms = settings.alarms.model_copy(update={"season": season})
        settings = settings.model_copy(update={"alarms": alarms})
    found: list[Published] = []
    for partition, origin in enumerate(ORIGINS):
        state = PartitionState(settings, partition)
        own = [record for record in records if record["origin"] == origin]
        published: Published = {name: [] for name in settings.outputs}
        for offset, record in enumerate(track(own, origin, len(own), True)):
            for output in state.step(InputRecord(offset, 0, origin.encode(), orjson.dumps(record), ())):
                published[output.destination].append(orjson.loads(output.value or b"{}"))
        found.append(published)
    return found


@click.command(help=__doc__)
@click.option("--every", default=EVERY, show_default=True, help="Take every so manieth flight.")
@click.option(
    "--season",
    type=click.Choice(["none", "day", "week", "auto"]),
    help="alarms.season instead of the demo's.",
)
@click.option("--quick", is_flag=True, help="A tenth of the demo's flights, which is too few for alarms.")
def main(every: int, season: str | None, quick: bool) -> None:
    found = folded(flights(every * (10 if quick else 1)), season)
    report = Report(
        "airport", "flights until the last explanation", "explanations", "alarms", "drift messages"
    )
    for origin, published in zip(ORIGINS, found, strict=True):
        messages = published["explanations"]
        counts = (
            messages[-1]["records"],
            *(len(published[name]) for name in ("explanations", "alarms", "drift")),
        )
        report.add_row(origin, *(f"{count:,}" for count in counts))
        for alarm in published["alarms"]:
            print(
                f"{origin}, noticed on {utc(alarm['timestamp']):%Y-%m-%d}, cause {alarm['cause']}: {alarm['sentence']}"
            )
    history = {partition: published["explanations"] for partition, published in enumerate(found)}
    parts = ([message for published in found for message in published[name]] for name in ("drift", "alarms"))
    print(summary(history, *parts, ORIGINS))
    Console().print(report)


if __name__ == "__main__":
    main()
