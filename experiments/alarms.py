"""How often do the alarms of ``explain_core.alarms`` ring for nothing, and how late for something?

- ``nulls``: false alarms on streams whose means do not change, 20 subjects; at most one in N records is the promise. The logistic model
  goes on learning and is no null: it is watched with the default tolerance of 5 % of the empty model's loss. Streams of 50 N each.
- ``library``: the same on the raw increments of iPFI and iSAGE (Hoeffding tree, Agrawal's function 1).
- ``delays``: records from a change of so many standard deviations, after 10,000 without, until it is noticed, in the median of 200 subjects
  watched as 20 are; against a CUSUM that knows both means, river's ADWIN with its level divided by the looks and the subjects, and an
  e-detector (Shin, Ramdas & Rinaldo 2023) whose baseline is estimated. The distance of the onset from the truth, and how often the
  plausible interval holds it.
- ``games``: a feature whose importance doubles, and one that is switched off, in the linear game.
- ``costs``: thread time a record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table as Report

from experiments.alarm_streams import (
    NULLS,
    SUBJECTS,
    Array,
    Library,
    LinearGame,
    LogisticGame,
    Stream,
    chunks,
)
from explain_core.alarms import BLOCK
from explain_core.alarms.detector import Change, ChangeDetector, Position
from explain_core.progress import track

TOLERANCE = 0.05
BEFORE = 10_000
STREAMS = 200
"""Subjects whose delays are taken."""
SPAN = 50
"""N per stream."""
EVERY = 72_000
"""Milliseconds from record to record: 50 in an hour."""

KINDS: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], Array], float]] = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 1.0),
    "1 % positives": (lambda rng, shape: (rng.random(shape) < 0.01) * 1.0, math.sqrt(0.0099)),
}
"""Values, and their standard deviation."""


def feed(detector: ChangeDetector, values: Array, start: int, **how: Any) -> list[tuple[int, Change]]:
    """Changes that the records show, each with the number of records when it was noticed."""
    found = []
    for i in range(len(values)):
        if detector.add(values[i], [Position(start + i, (start + i) * EVERY)]):
            found += [(start + i + 1, change) for change in detector.end_block(**how)]
    return found


def false_alarms(
    begin: Callable[[int], Stream],
    n: int,
    spans: int,
    first: int,
    show: bool = False,
    name: str = "",
    season: str = "none",
) -> int:
    """Alarms in ``spans`` · n records, in streams of 50 N."""
    count = 0
    streams = -(-spans // SPAN)
    for number in track(range(streams), f"{name}, N = {n}", streams, show):
        stream = begin(first + number)
        draws = 5 if name.endswith("m = 5") else 1
        limit = TOLERANCE * stream.empty if isinstance(stream, LogisticGame) else 0.0
        detector, start = ChangeDetector(SUBJECTS, one_in=n, draws=draws, season=season), 0
        for values in chunks(stream, min(SPAN, spans - number * SPAN) * n):
            if values.shape[1] != detector.subjects:
                detector = ChangeDetector(values.shape[1], one_in=n, draws=2, season=season)
            count += len(feed(detector, values, start, min_change=limit))
            start += len(values)
    return count


def oracle(change: float, run_length: float, rng: np.random.Generator) -> float:
    """Median delay of a CUSUM that knows both means, of normal values, with that mean run length between false alarms (Siegmund)."""

    def run(b: float) -> float:
        return (math.expm1(change * b) - change * b) / (change * change / 2.0)

    low, high = 0.1, 400.0 / change
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if run(middle) < run_length else (low, middle)
    limit = low - 1.166
    at, delays = np.zeros(400), np.zeros(400)
    for t in range(1, 300_000):
        running = delays == 0.0
        if not running.any():
            break
        at = np.maximum(0.0, at + rng.normal(size=400) + change / 2.0)
        delays[running & (at >= limit)] = t
    return float(np.median(np.where(delays == 0.0, np.inf, delays)))


class EDetector:
    """Shiryaev–Roberts sum of betting e-processes against the baseline's empirical Bernstein bound, as an e-detector."""

    def __init__(self, subjects: int, n: float, among: int) -> None:
        self._lambdas = 0.5 * 2.0 ** -np.arange(12)
        self._psi = -np.log(1.0 - self._lambdas) - self._lambdas
        self._log = math.log(2 * 12 * among / 0.05)
        self._threshold = 2.0 * n * among / BLOCK
        self._first: list[Array] = []
        self._sums = np.zeros((3, subjects))
        self._bounds = np.array([np.full(subjects, -np.inf), np.full(subjects, np.inf)])
        self._wealth = np.zeros((2, len(FRACTIONS), subjects))

    def block(self, values: Array) -> list[int]:
        """Subjects that the block shows to have changed."""
        if len(self._first) * BLOCK < 1_000:
            self._first.append(values)
            first = np.concatenate(self._first)
            self._centre, self._reach = first.mean(axis=0), np.maximum(10.0 * first.std(axis=0), 1e-6)
            return []
        y = np.clip(values - self._centre, -self._reach, self._reach)
        low, high = (
            np.clip(bound * 2.0 * self._reach - self._reach, -0.999 * self._reach, 0.999 * self._reach)
            for bound in self._bounds
        )
        bet(y, high, low, self._reach, self._wealth, FRACTIONS)
        z = y / (2.0 * self._reach) + 0.5
        mean = self._sums[1] / np.maximum(self._sums[0], 1.0) if self._sums[0, 0] else 0.5
        self._sums += np.stack(
            [np.full(len(self._centre), float(len(z))), z.sum(axis=0), np.square(z - mean).sum(axis=0)]
        )
        n, total, spread = self._sums
        half = ((self._log + self._psi[:, None] * spread) / (self._lambdas[:, None] * n)).min(axis=0)
        self._bounds[0] = np.maximum(self._bounds[0], total / n - half)
        self._bounds[1] = np.minimum(self._bounds[1], total / n + half)
        return np.flatnonzero(self._wealth.sum(axis=1).max(axis=0) >= self._threshold).tolist()


FRACTIONS = 0.9 * 2.0 ** -np.arange(7)


@njit(cache=True)
def bet(y: Any, high: Any, low: Any, reach: Any, wealth: Any, fractions: Any) -> None:
    """One more start, and the bets of a block's records, on a mean above ``high`` and on one below ``low``."""
    for j in range(y.shape[1]):
        for q in range(len(fractions)):
            up, down = wealth[0, q, j] + 1.0 / len(fractions), wealth[1, q, j] + 1.0 / len(fractions)
            for i in range(len(y)):
                up *= 1.0 + fractions[q] / (reach[j] + high[j]) * (y[i, j] - high[j])
                down *= 1.0 - fractions[q] / (reach[j] - low[j]) * (y[i, j] - low[j])
            wealth[0, q, j], wealth[1, q, j] = up, down


class Adwins:
    """One ADWIN (river) for each subject, on values scaled by the first 1,000 records."""

    def __init__(self, subjects: int, n: float, among: int) -> None:
        from river.drift import ADWIN

        level = BLOCK / (n * among)
        self._each = [
            ADWIN(delta=level, clock=BLOCK, min_window_length=100, grace_period=1_000)
            for _ in range(subjects)
        ]
        self._first: list[Array] = []

    def block(self, values: Array) -> list[int]:
        """Subjects that the block shows to have changed."""
        if len(self._first) * BLOCK < 1_000:
            self._first.append(values)
            first = np.concatenate(self._first)
            self._centre, self._reach = first.mean(axis=0), np.maximum(5.0 * first.std(axis=0), 1e-6)
            return []
        z = np.clip((values - self._centre) / (2.0 * self._reach) + 0.5, 0.0, 1.0)
        found = []
        for j, adwin in enumerate(self._each):
            for value in z[:, j].tolist():
                adwin.update(value)
                if adwin.drift_detected:
                    found.append(j)
                    break
        return found


def delays(kind: str, change: float, n: int, streams: int, rivals: bool, most: int) -> list[str]:
    """A row of the report."""
    draw, spread = KINDS[kind]
    rng = np.random.default_rng(7)
    detector = ChangeDetector(streams, one_in=n)
    others = {"e": EDetector(streams, n, SUBJECTS)} if rivals else {}
    few = min(streams, 40)  # ADWIN is slow
    adwins = Adwins(few, n, SUBJECTS) if rivals else None
    noticed: dict[str, dict[int, int]] = {"this": {}, "e": {}, "adwin": {}}
    onsets: dict[int, Change] = {}
    for start in range(0, BEFORE + most, BLOCK):
        values = draw(rng, (BLOCK, streams))
        if start >= BEFORE:
            if kind == "normal":
                values = values + change
            else:
                values = (rng.random((BLOCK, streams)) < 0.01 + change * spread) * 1.0
        for at, alarm in feed(detector, values, start, among=SUBJECTS):
            if at > BEFORE and alarm.subject not in noticed["this"]:
                noticed["this"][alarm.subject], onsets[alarm.subject] = at - BEFORE, alarm
        for name, other in others.items():
            for j in other.block(values):
                noticed[name].setdefault(j, start + BLOCK - BEFORE)
        if adwins is not None:
            for j in adwins.block(values[:, :few]):
                noticed["adwin"].setdefault(j, start + BLOCK - BEFORE)
        beaten = not rivals or (len(noticed["e"]) > 0.6 * streams and len(noticed["adwin"]) > 0.6 * few)
        if beaten and len(noticed["this"]) > 0.95 * streams:
            break
    known = oracle(change, n * SUBJECTS, rng) if kind == "normal" else math.nan

    def median(name: str, size: int) -> float:
        found = sorted(noticed[name].values())
        return float(found[size // 2]) if len(found) > size // 2 else math.inf

    own = median("this", streams)
    off = float(np.median([abs(alarm.onset.offset - BEFORE) for alarm in onsets.values()]))
    held = np.mean([alarm.earliest.offset <= BEFORE <= alarm.latest.offset for alarm in onsets.values()])
    before = np.mean(
        [
            alarm.before.low <= (0.0 if kind == "normal" else 0.01) <= alarm.before.high
            for alarm in onsets.values()
        ]
    )
    truth = change if kind == "normal" else 0.01 + change * spread
    after = np.mean([alarm.after.low <= truth <= alarm.after.high for alarm in onsets.values()])
    return [
        kind, f"{n:,}", f"{change}", f"{known:,.0f}" if known == known else "–", f"{own:,.0f}",
        f"{own / known:.1f}" if known == known else "–",
        f"{median('e', streams):,.0f}" if rivals else "–", f"{median('adwin', few):,.0f}" if rivals else "–",
        f"{off:,.0f}", f"{held:.2f}", f"{before:.2f} / {after:.2f}",
    ]  # fmt: skip


def game(name: str, n: int, streams: int, most: int) -> list[str]:
    """Feature 12 doubles its importance, or is used no more, from record 10,000 on; truth and features stay what they are."""
    found, off, others = [], [], 0
    for number in range(streams):
        stream = LinearGame(500 + number)
        detector = ChangeDetector(SUBJECTS, one_in=n)
        stream.weights[12] = 0.5
        changes = feed(detector, stream(BEFORE), 0)
        stream.weights[12] = 0.5 * math.sqrt(2.0) if name == "doubles" else 0.0
        changes += feed(detector, stream(most), BEFORE)
        mine = [(at, alarm) for at, alarm in changes if alarm.subject == 12 and at > BEFORE]
        others += len(changes) - len(mine)
        if mine:
            found.append(mine[0][0] - BEFORE)
            off.append(abs(mine[0][1].onset.offset - BEFORE))
    middle = sorted(found)[streams // 2] if len(found) > streams // 2 else math.inf
    return [
        name,
        f"{n:,}",
        f"{middle:,.0f}",
        f"{np.median(off):,.0f}",
        f"{len(found)}/{streams}",
        str(others),
    ]


def cost(subjects: int, records: int) -> float:
    """Thread time of a record in microseconds, the least of five runs, of which the first also fills the window."""
    values = np.random.default_rng(0).normal(size=(2_000, subjects))
    detector, place, best = ChangeDetector(subjects, one_in=1_000_000), Position(0, 0), math.inf
    for _ in range(5):
        start = time.thread_time()
        for i in range(records):
            if detector.add(values[i % 2_000], [place]):
                detector.end_block()
        best = min(best, time.thread_time() - start)
    return best / records * 1e6


PARTS = ("nulls", "library", "delays", "games", "costs")


@click.command(help=__doc__)
@click.option(
    "--n",
    "sizes",
    multiple=True,
    type=int,
    default=(20_000,),
    show_default=True,
    help="N, records between false alarms.",
)
@click.option("--spans", default=1_000, show_default=True, help="Records of each null stream, in N.")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS, help="What to run.")
@click.option("--only", help="Only null streams whose name contains this.")
@click.option("--seed", default=1, show_default=True, help="Number of the first null stream.")
@click.option(
    "--season", default="none", show_default=True, help="The season that null streams are watched with."
)
@click.option("--rivals/--no-rivals", default=True, help="Also the e-detector and ADWIN.")
@click.option("--quick", is_flag=True, help="A small part, for a check that it runs.")
def main(
    sizes: tuple[int, ...],
    spans: int,
    parts: tuple[str, ...],
    only: str | None,
    seed: int,
    season: str,
    rivals: bool,
    quick: bool,
) -> None:
    streams = STREAMS
    if quick:
        sizes, spans, streams = (2_000,), 1, 2
    console = Console()
    if "nulls" in parts or "library" in parts:
        report = Report("null stream", "N", "alarms", "in N", "per N")
        chosen: dict[str, Callable[[int], Stream]] = dict(NULLS) if "nulls" in parts else {}
        if "library" in parts:
            chosen["iPFI and iSAGE"] = partial(Library, learnt=1_000 if quick else 20_000)
        for name, begin in chosen.items():
            for n in sizes if not only or only in name else ():
                # the library's own increments take 30 µs a record
                amount = max(min(spans, 1_000_000 // n), 1) if isinstance(begin, partial) else spans
                count = false_alarms(begin, n, amount, seed, not quick, name, season)
                report.add_row(name, f"{n:,}", str(count), f"{amount:,}", f"{count / amount:.3f}")
        console.print(report)
    if "delays" in parts:
        report = Report(
            "values",
            "N",
            "SD",
            "oracle",
            "this",
            "×",
            "e-detector",
            "ADWIN",
            "onset off",
            "held",
            "before / after",
        )
        for kind in KINDS:
            for n in sizes:
                for change in (0.5,) if quick else (0.5, 0.2, 0.1):
                    report.add_row(*delays(kind, change, n, streams, rivals, 200 if quick else 60_000))
        console.print(report)
    if "games" in parts:
        report = Report("feature", "N", "delay", "onset off", "noticed", "other alarms")
        for name in ("doubles", "switched off"):
            for n in sizes:
                report.add_row(*game(name, n, *((1, 1_000) if quick else (40, 20_000))))
        console.print(report)
    if "costs" in parts:
        report = Report("subjects", "µs a record")
        for subjects in (1, 20, 100):
            report.add_row(str(subjects), f"{cost(subjects, 200 if quick else 20_000):.2f}")
        console.print(report)


if __name__ == "__main__":
    main()
