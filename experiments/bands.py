"""How often does a band hold the mean of the truths, at every look, and how wide is it?

19 games whose truth is known at every record (``experiments.games``), iPFI with m = 5 and a geometric reservoir of 100 rows, α = .001. A
look each 100 records from 500 on; each of them shows every band. "all" is the coverage over all looks, "worst" that of the worst look, whose
standard error is .0073 with 900 bands; "low" and "high" how often the truth is below and above the band. "width" is the median half-width over
1.96 times the root mean square error. Then the same of the means over periods of 1,000 to 20,000 records, and of the sums of three streams as of three
partitions, merged as ``merge_periods`` of the client and the SQL of its documentation merge them.
"""

from __future__ import annotations

from collections.abc import Iterator

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.games import GAMES, Array, Streams, run
from experiments.options import quick_option
from explain_client.periods import _mean
from explain_core.bands import LEAST
from explain_core.engine.smoothing import BLOCK
from explain_core.periods import Sums
from explain_core.progress import track
from explain_core.smoothing import Smoother

ALPHA = 0.001
LENGTHS = (1_000, 2_000, 5_000, 20_000)


def follow(streams: Streams, alpha: float, title: str) -> Iterator[tuple[int, Smoother, Array, Array]]:
    """The records so far, the smoother, the weighted mean of the truths, and the closed sums, at the end of each block."""
    n, count, features = streams.delta.shape
    known = sum(born == 0 for born in streams.born)
    smoother = Smoother((count, known), alpha)
    weight, target = np.zeros(features), np.zeros((count, features))
    for t in track(range(n), title, n, False):
        there = np.array([t >= born for born in streams.born])
        if there.sum() > known:
            known = int(there.sum())
            smoother.grow(known)
        smoother.update(np.ascontiguousarray(streams.delta[t, :, :known]))
        weight = np.where(there, (1.0 - alpha) * weight + 1.0, 0.0)
        target = np.where(there, (1.0 - alpha) * target + streams.truth[t], 0.0)
        if (t + 1) % BLOCK == 0:
            closed = smoother.end_block()
            yield t + 1, smoother, (target / np.maximum(weight, 1.0))[:, :known], closed


class Tally:
    """Coverage, misses and widths of bands at several looks."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.halves: list[Array] = []
        self.errors: list[Array] = []

    def add(self, low: Array, high: Array, value: Array, truth: Array) -> None:
        self.low.append(float((low > truth).mean()))
        self.high.append(float((high < truth).mean()))
        self.halves.append((high - low) / 2.0)
        self.errors.append((value - truth) ** 2)

    @property
    def coverage(self) -> list[float]:
        return [1.0 - low - high for low, high in zip(self.low, self.high, strict=True)]

    @property
    def width(self) -> float:
        """Of the later two thirds, where there are many."""
        late = slice(len(self.halves) // 3 if len(self.halves) > 10 else 0, None)
        ideal = 1.96 * np.sqrt(np.mean(self.errors[late], (0, 1)))
        return float(np.mean(np.median(self.halves[late], (0, 1)) / ideal))

    @property
    def cells(self) -> list[str]:
        """Of the report; the last is whether the coverage is high enough."""
        means = (f"{np.mean(shares):.3f}" for shares in (self.low, self.high))
        coverage = float(np.mean(self.coverage))
        least = f"{min(self.coverage):.3f}"
        return [f"{coverage:.3f}", least, *means, f"× {self.width:.2f}", "NO" if coverage < 0.93 else "yes"]


def tallies(name: str, streams: int, n: int) -> dict[str, Tally]:
    """Of the smoothed mean, of periods of each length, and of the sums of three streams."""
    played = run(name, streams, n)
    late = max(played.born)
    found = {
        key: Tally() for key in ("smoothed", *(f"{length}" for length in LENGTHS if length <= n), "merged")
    }
    sums: dict[int, list[Array]] = {length: [] for length in LENGTHS}
    for t, smoother, target, closed in follow(played, ALPHA, name):
        columns = slice(2, 3) if late else slice(None)  # the late feature alone
        if smoother.value.shape[-1] == 3 and t - late >= LEAST:
            low, high = smoother.band(0.95)
            if np.isfinite(low[:, columns]).all():
                found["smoothed"].add(*(of[:, columns] for of in (low, high, smoother.value, target)))
        if late:
            continue
        for length in (length for length in LENGTHS if length <= n):
            sums[length].append(closed)
            if t % length:
                continue
            period = Sums(np.sum(sums[length], axis=0))
            sums[length] = []
            truth = np.broadcast_to(played.truth[t - length : t].mean(0), period.value.shape)
            found[f"{length}"].add(*period.band(), period.value, truth)
            if length == 5_000:
                whole = streams // 3 * 3
                parts = period.array[:, :whole].reshape(5, -1, 3, 3).sum(2)  # three streams each
                merged = [[_mean(*cell) for cell in row] for row in np.moveaxis(parts, 0, -1).tolist()]
                low, high, value = (
                    np.array([[getattr(mean, end) for mean in row] for row in merged])
                    for end in ("low", "high", "value")
                )
                found["merged"].add(low, high, value, truth[:whole].reshape(-1, 3, 3).mean(1))
    return {key: tally for key, tally in found.items() if tally.low}


@click.command(help=__doc__)
@click.option("--streams", default=300, show_default=True, help="Streams of each game.")
@click.option("--game", "games", multiple=True, type=click.Choice(list(GAMES)), help="These alone.")
@quick_option
def main(streams: int, games: tuple[str, ...], quick: bool) -> None:
    if quick:
        streams = 6
    report = Report("game", "mean", "all", "worst", "low", "high", "width", "≥ .93")
    missed = 0
    for name in games or list(GAMES)[: 2 if quick else None]:
        for key, tally in tallies(name, streams, 5_000 if quick else 20_000).items():
            report.add_row(name, key, *tally.cells)
            missed += tally.cells[-1] == "NO"
    Console(width=110).print(report)
    raise SystemExit(1 if missed and not quick else 0)


if __name__ == "__main__":
    main()
