"""Which alarms come on the demo's flights, and when: the fold of ``explain-sidecar demo`` with its settings, without Kafka.

Each alarm with the day on which it was noticed, the share of late flights in the 24 hours from its onset and on how many days more were late at that airport, then the demo's own summary. ``--every 1`` takes all flights, ``--season`` another season, ``--model`` another model, ``--plot FILE`` makes
the README's picture of what drove the delays month by month.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table as Report

from explain_client.fields import read, utc
from explain_client.periods import Period, merge_periods
from explain_core.progress import track
from explain_sidecar.demo import EVERY, settings_of
from explain_sidecar.demo.flights import ORIGINS, flights
from explain_sidecar.demo.summary import NAMES, shown, summary
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord

Published = dict[str, list[dict[str, Any]]]


def folded(
    records: list[dict[str, Any]], season: str | None = None, model: str | None = None
) -> list[Published]:
    """The messages of each output, by partition: an airport each."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of("none:9092", Path(folder) / "demo.yaml")
    if season is not None:
        alarms = settings.alarms.model_copy(update={"season": season})
        settings = settings.model_copy(update={"alarms": alarms})
    if model is not None:
        named = settings.model.model_copy(update={"name": model})
        settings = settings.model_copy(update={"model": named})
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


def late(records: list[dict[str, Any]], origin: str, since: int) -> str:
    """How many flights from an airport were late in the 24 hours from ``since`` on, and on how many days more."""
    first, last = utc(since).isoformat(), utc(since + 86_400_000).isoformat()
    days: dict[str, list[bool]] = {}
    hours: list[bool] = []
    for record in records:
        if record["origin"] == origin:
            days.setdefault(record["scheduled"][:10], []).append(record["late"])
            if first <= record["scheduled"] < last:
                hours.append(record["late"])
    share = sum(hours) / max(len(hours), 1)
    more = sum(sum(of) / len(of) > share for of in days.values())
    return f"{share:.0%} late, more on {more} days"


def picture(found: list[Published], file: Path) -> None:
    """What drove each airport's model, month by month, with bands, and when an alarm said that it changed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.6), dpi=130, layout="constrained")
    axes = figure.subplots(1, len(ORIGINS), sharey=True, squeeze=False)[0]
    estimator, loss = shown(found[0]["explanations"])
    weeks = [
        [
            read(Period, period)
            for message in published["explanations"]
            for period in message["periods"]
            if period["name"] == "week"
        ]
        for published in found
    ]
    years = [merge_periods(of).importances[estimator][loss] for of in weeks]
    sizes = {name: max(year[name].value or 0.0 for year in years) for name in years[0]}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    for ax, origin, of, published in zip(axes, ORIGINS, weeks, found, strict=True):
        months: dict[int, list[Period]] = {}
        for period in of:
            months.setdefault(utc((period.begin + period.until) // 2).month, []).append(period)
        means = {
            month: merge_periods(several).importances[estimator][loss] for month, several in months.items()
        }
        for place, name in enumerate(largest):
            known = [
                (month, of[name]) for month, of in means.items() if name in of and of[name].low is not None
            ]
            where, values = [month for month, _ in known], [mean.value for _, mean in known]
            ends = [[getattr(mean, end) for _, mean in known] for end in ("low", "high")]
            ax.plot(where, values, "o-", markersize=3, color=f"C{place}", label=NAMES.get(name, name))
            ax.fill_between(where, *ends, color=f"C{place}", alpha=0.15, linewidth=0)
        onsets = {alarm["cause"]: alarm["onset"]["timestamp"] for alarm in published["alarms"]}
        for onset in onsets.values():
            begin = utc(onset)
            ax.axvline(begin.month + (begin.day - 15) / 30, color="0.4", linestyle=":", linewidth=1.2)
        driven = merge_periods(of).driven(estimator, loss)
        names = [NAMES.get(driver.feature, driver.feature) for driver in driven.drivers[:3]] if driven else []
        ax.set_title(f"{origin}: {', '.join(names) or 'nothing for certain'}", fontsize=9)
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.set_xticks(range(1, 13), list("JFMAMJJASOND"), fontsize=8)
    axes[0].set_ylabel("share of the gain in log loss (iSAGE)", fontsize=9)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=9
    )
    figure.suptitle(
        "What drives arrival delays, month by month (95 % bands; dotted lines: onsets of alarms)", fontsize=10
    )
    figure.savefig(file)


@click.command(help=__doc__)
@click.option("--every", default=EVERY, show_default=True, help="Take every so manieth flight.")
@click.option(
    "--season",
    type=click.Choice(["none", "day", "week", "auto"]),
    help="alarms.season instead of the demo's.",
)
@click.option("--model", help="model.name instead of the demo's.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="A picture's file.")
@click.option("--quick", is_flag=True, help="A fortieth of the demo's flights, which is too few for alarms.")
def main(every: int, season: str | None, model: str | None, plot: Path | None, quick: bool) -> None:
    records = flights(every * (40 if quick else 1))
    found = folded(records, season, model)
    if plot is not None:
        picture(found, plot)
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
            day = late(records, origin, alarm["onset"]["timestamp"])
            print(
                f"{origin}, noticed on {utc(alarm['timestamp']):%Y-%m-%d}, cause {alarm['cause']}, {day}: {alarm['sentence']}"
            )
    history = {partition: published["explanations"] for partition, published in enumerate(found)}
    changes, alarms = (
        [message for published in found for message in published[name]] for name in ("drift", "alarms")
    )
    print(summary(history, changes, alarms, ORIGINS))
    Console().print(report)


if __name__ == "__main__":
    main()
