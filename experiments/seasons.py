"""Do alarms with a season keep their rate, and how late do they notice a change within seasons? 20 subjects, hours and days of the week.

- ``nulls``: false alarms in 26 weeks whose seasons do not change; at most one in N records is the promise. By night there are fewer records than
  by day, at the weekend half as many. The season is of the mean, and of the spread where one comes with the other.
- ``delays``: the median delay of a level shift after eight weeks, of subjects with and without a season, and how many alarms it raised in
  the eight weeks after it. Without a season there is nothing to know, and none is set.
- ``costs``: thread time of a record with 20 subjects, by turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.alarm_streams import SUBJECTS, Array
from explain_core.alarms.detector import Change, ChangeDetector, Position
from explain_core.alarms.seasons import DAY, HOUR, WEEK

WEEKS = 26
BEFORE = 8
"""Weeks before a change, and after it."""

Draw = Callable[[np.random.Generator, Array, Array], Array]
"""Values of records, from their seasons (records × subjects, of mean 0) and those of their amplitudes."""


def moments(rng: np.random.Generator, records: int, weeks: int) -> Array:
    """Times of so many records a week, in hours."""
    hour = np.arange(WEEK)
    rate = (1.2 + np.sin(2.0 * math.pi * (hour % DAY - 8.0) / DAY)) * np.where(hour < 5 * DAY, 1.0, 0.5)
    rate *= records / rate.sum()
    counts = rng.poisson(np.tile(rate, weeks))
    return np.repeat(np.arange(weeks * WEEK), counts)


def profiles(rng: np.random.Generator, daily: bool) -> Array:
    """A season for each subject (hours of the week × subjects): waves and steps of the day, all days alike or not; mean 0, amplitude 1."""
    hour = np.arange(WEEK)[:, None]
    phase = rng.uniform(0.0, DAY, SUBJECTS)
    wave = np.sin(2.0 * math.pi * (hour - phase) / DAY)
    steps = np.where((hour + phase) % DAY < 10, 1.0, -0.5)
    weekend = hour >= 5 * DAY
    kinds = [wave, steps]
    if not daily:
        kinds += [
            wave * np.where(weekend, 0.2, 1.0),
            np.where(weekend, 1.0, -0.4) + 0.0 * phase,
            np.where(weekend, -0.5, steps),
        ]
    found: Array = np.stack([kinds[j % len(kinds)][:, j] for j in range(SUBJECTS)], axis=1)
    return found - found.mean(axis=0)


DRAWS: dict[str, Draw] = {
    "normal, ± 1 SD": lambda rng, season, level: season + level + rng.normal(size=season.shape),
    "normal, ± .2 SD": lambda rng, season, level: 0.2 * season + level + rng.normal(size=season.shape),
    "positives, 5 to 35 %": lambda rng, season, level: (
        (rng.random(season.shape) < np.clip(0.17 + 0.1 * season + 0.38 * level, 0.0, 1.0)) * 1.0
    ),
    "exponential, scale × 3": lambda rng, season, level: (
        np.exp(0.55 * season) * rng.exponential(size=season.shape) + 1.2 * level
    ),
    "t(3), spread × 3": lambda rng, season, level: (
        season + 1.7 * level + np.exp(0.55 * season) * rng.standard_t(3, size=season.shape)
    ),
    "no season": lambda rng, season, level: level + rng.normal(size=season.shape),
}  # fmt: skip
"""Values of a subject, whose level is in standard deviations or so."""


def feed(detector: ChangeDetector, values: Array, hours: Array, start: int) -> list[tuple[int, Change]]:
    """Changes, each with the number of records when it was noticed."""
    found = []
    for i, hour in enumerate(hours.tolist()):
        if detector.add(values[i], [Position(start + i, hour * HOUR)]):
            found += [(start + i + 1, change) for change in detector.end_block()]
    return found


def false_alarms(draw: Draw, season: str, n: int, records: int, weeks: int, seed: int) -> tuple[int, int]:
    """Alarms in so many weeks, and the number of records."""
    rng = np.random.default_rng(seed)
    profile, detector = profiles(rng, season == "day"), ChangeDetector(SUBJECTS, one_in=n, season=season)
    count = start = 0
    for week in range(weeks):
        hours = week * WEEK + moments(rng, records, 1)
        values = draw(rng, profile[hours % WEEK], np.zeros(1))
        count += len(feed(detector, values, hours, start))
        start += len(hours)
    return count, start


def without_season(draw: Draw) -> Draw:
    return lambda rng, season, level: draw(rng, 0.0 * season, level)


def shifted(
    draw: Draw, season: str, n: int, records: int, shift: float, seeds: range
) -> tuple[float, float, int, float]:
    """Median delay in records; alarms for each subject from the change on, mean and most; the share of subjects that noticed."""
    delays, counts = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        profile, detector = profiles(rng, season == "day"), ChangeDetector(SUBJECTS, one_in=n, season=season)
        hours = moments(rng, records, 2 * BEFORE)
        # At any hour of a week.
        at = int(np.searchsorted(hours, BEFORE * WEEK + rng.integers(WEEK)))
        level = np.where(np.arange(len(hours)) >= at, shift, 0.0)[:, None]
        found = feed(detector, draw(rng, profile[hours % WEEK], level), hours, 0)
        for subject in range(SUBJECTS):
            own = [noticed - at for noticed, change in found if change.subject == subject and noticed > at]
            delays.append(min(own, default=len(hours)))
            counts.append(len(own))
    return float(np.median(delays)), float(np.mean(counts)), max(counts), float(np.mean(np.array(counts) > 0))


def costs(records: int) -> dict[str, float]:
    """Microseconds of a record for each setting, the least of five runs by turns."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2_000, SUBJECTS))
    detectors = {
        name: ChangeDetector(SUBJECTS, one_in=1_000_000, season=name)
        for name in ("none", "day", "week", "auto")
    }
    best = dict.fromkeys(detectors, math.inf)
    at = 0
    for _ in range(5):
        for name, detector in detectors.items():
            places = [Position(i, i * 60_000) for i in range(at, at + records)]
            start = time.thread_time()
            for i, place in enumerate(places):
                if detector.add(values[i % 2_000], [place]):
                    detector.end_block()
            best[name] = min(best[name], time.thread_time() - start)
        at += records
    return {name: found / records * 1e6 for name, found in best.items()}


PARTS = ("nulls", "delays", "costs")


@click.command(help=__doc__)
@click.option("--n", default=20_000, show_default=True, help="N, records between false alarms.")
@click.option(
    "--weekly",
    "weekly",
    multiple=True,
    type=int,
    default=(2_000, 20_000),
    show_default=True,
    help="Records of a week.",
)
@click.option("--streams", default=2, show_default=True, help="Streams of each kind.")
@click.option("--seed", default=1, show_default=True)
@click.option("--season", "chosen", multiple=True, default=("none", "day", "week", "auto"), show_default=True)
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS)
@click.option("--quick", is_flag=True, help="A small part, for a check that it runs.")
def main(
    n: int,
    weekly: tuple[int, ...],
    streams: int,
    seed: int,
    chosen: tuple[str, ...],
    parts: tuple[str, ...],
    quick: bool,
) -> None:
    console, weeks = Console(), WEEKS
    if quick:
        weekly, streams, weeks = (500,), 1, 4
    if "nulls" in parts:
        report = Report("values", "records a week", "season", "alarms", "in N", "per N")
        for name, draw in DRAWS.items():
            for records in weekly:
                for season in chosen:
                    found = [
                        false_alarms(draw, season, n, records, weeks, seed + number)
                        for number in range(streams)
                    ]
                    alarms, total = (sum(part) for part in zip(*found, strict=True))
                    report.add_row(
                        name,
                        f"{records:,}",
                        season,
                        str(alarms),
                        f"{total / n:.1f}",
                        f"{alarms * n / total:.3f}",
                    )
        console.print(report)
    if "delays" in parts:
        report = Report(
            "values",
            "records a week",
            "shift",
            "without a season",
            "season",
            "delay",
            "×",
            "noticed",
            "alarms, mean",
            "most",
        )
        for name in ("normal, ± 1 SD", "positives, 5 to 35 %"):
            for records in weekly:
                for shift in (1.0, 0.5) if quick else (1.0, 0.5, 0.2):
                    seeds = range(seed, seed + streams)
                    known, *_ = shifted(without_season(DRAWS[name]), "none", n, records, shift, seeds)
                    for season in chosen[1:]:
                        delay, mean, most, noticed = shifted(DRAWS[name], season, n, records, shift, seeds)
                        report.add_row(
                            name,
                            f"{records:,}",
                            f"{shift}",
                            f"{known:,.0f}",
                            season,
                            f"{delay:,.0f}",
                            f"{delay / known:.2f}",
                            f"{noticed:.2f}",
                            f"{mean:.2f}",
                            str(most),
                        )
        console.print(report)
    if "costs" in parts:
        report = Report("season", "µs a record, 20 subjects")
        for name, cost in costs(2_000 if quick else 40_000).items():
            report.add_row(name, f"{cost:.2f}")
        console.print(report)


if __name__ == "__main__":
    main()
