"""How often does a band that is shown hold the truth, at every emission, and how often is one shown?

Ten games, iPFI with m = 1 and a geometric reservoir of 100 rows, streams of 20/α explained records (α = .01: 60/α), a look each
100 records. The truth is that of the moment: after the switch it is the new one, and for the learning model E[Δ] of the
model as it is. Coverage is that over all streams and features whose band is settled; the worst look is that of smallest
coverage among those where at least 2 % of the bands are shown (fewer are the lucky ones of a heavy tail, see "shown").
"Without" is the coverage of all bands, settled or not, without what ``explain_core.steadiness`` adds, over all looks and at the worst.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.settled_games import BEYOND, GAMES, Array, Game, replaced
from explain_core.alarms.detector import ChangeDetector, Position
from explain_core.progress import track
from explain_core.random import derive_seed
from explain_core.smoothing import Smoother, half_width
from explain_core.steadiness import BLOCK, TURNOVER, Steadiness

SIZE = 100
WIDTH = half_width("normal", 0.95)
LEAST = 0.02
"""Share of bands that a look must show to count for the worst."""


class Look(NamedTuple):
    """Bands at one moment: all, those shown, those shown that hold the truth, and those of all that do by the smoother alone."""

    n: int
    bands: int
    shown: int
    inside: int
    alone: int


def follow(
    game: Game, alpha: float, title: str, progress: bool = False, one_in: int | None = None
) -> Iterator[tuple[int, Smoother, Steadiness]]:
    """The number of records, the means and what is known of them, at the end of each block of a game.

    With ``one_in`` alarms watch the increments of each stream, with at most one false one in so many records.
    """
    streams, n = game.streams, game.n
    game.begin(0)
    reservoir = np.stack([game.rows(streams) for _ in range(SIZE)], axis=1)
    every, known = np.arange(streams), game.known(0)
    smoother = Smoother((streams, known), alpha, SIZE)
    steadiness = Steadiness(smoother, SIZE)
    detector = (
        None
        if one_in is None
        else ChangeDetector(streams * known, one_in=one_in, memory=SIZE, warm_up=TURNOVER * SIZE)
    )
    for t in track(range(n), title, n, progress):
        game.begin(t)
        if game.known(t) > known:
            known = game.known(t)
            smoother.grow(known)
            steadiness.grow(known, late=True)
        x = game.rows(streams)
        y = game.label(x)
        own = game.loss(y, game.predict(x))
        delta = np.empty((streams, known))
        for j in range(known):
            drawn = reservoir[every, game.rng.integers(SIZE, size=streams)]
            delta[:, j] = game.loss(y, game.predict(replaced(x, drawn, j))) - own
        smoother.update(delta)
        if detector is not None:
            watched(smoother, steadiness, detector, delta, t)
        reservoir[every, game.rng.integers(SIZE, size=streams)] = x
        if (t + 1) % BLOCK == 0:
            steadiness.end_block(smoother)
            yield t + 1, smoother, steadiness
        game.learn(x, y)


def watched(
    smoother: Smoother, steadiness: Steadiness, detector: ChangeDetector, delta: Array, t: int
) -> None:
    """Tell ``steadiness`` of the alarms that record t raises, as the sidecar does."""
    streams, known = delta.shape
    if known * streams > detector.subjects:
        detector.grow(known * streams)
    # By feature, so that those of a feature that comes late are the last ones.
    if detector.add(delta.T.ravel(), Position(t, 0)):
        for change in detector.end_block(0.0, among=known):
            column, row = divmod(change.subject, streams)
            distance = change.after.value - change.before.value
            steadiness.changed(smoother, row, column, distance, change.after.records)


def looks(
    name: str,
    alpha: float,
    streams: int,
    n: int,
    seed: int = 0,
    progress: bool = False,
    one_in: int | None = None,
) -> list[Look]:
    """Follow the streams of a game for n records; a look at the end of each block."""
    game = (GAMES | BEYOND)[name](streams, n, derive_seed(seed, name, str(alpha)))
    found = []
    for t, smoother, steadiness in follow(game, alpha, f"{name}, α = {alpha}", progress, one_in):
        truth = np.broadcast_to(game.truth(), (streams, game.features))[:, : smoother.value.shape[-1]]
        found.append(look_at(t, smoother, steadiness, truth))
    return found


def summary(found: list[Look]) -> tuple[list[str], bool]:
    """The cells of a row of the table, and whether it misses the goal."""
    bands, all_shown = sum(look.bands for look in found), sum(look.shown for look in found)
    counted = [look for look in found if look.shown >= LEAST * look.bands]
    worst = min(counted, key=lambda look: look.inside / look.shown, default=None)
    missed = worst is not None and worst.inside < 0.93 * worst.shown
    there = (
        ["–", "–", "–"]
        if worst is None
        else [f"{worst.inside / worst.shown:.3f}", str(worst.n), f"{worst.shown / worst.bands:.3f}"]
    )
    return [
        f"{all_shown / bands:.3f}",
        f"{sum(look.inside for look in found) / all_shown:.3f}" if all_shown else "–",
        *there,
        f"{sum(look.alone for look in found) / bands:.3f}",
        f"{min(look.alone / look.bands for look in found):.3f}",
        "–" if worst is None else "NO" if missed else "yes",
    ], missed


def shown(found: dict[tuple[str, float], list[Look]]) -> int:
    """Print the table of looks by game and α; how many rows miss the goal."""
    report = Report(
        "game", "α", "shown", "coverage", "worst look", "its record", "shown there", "without", "without, worst", "≥ .93"
    )  # fmt: skip
    rows = {key: summary(of) for key, of in found.items()}
    for (name, alpha), (cells, _) in rows.items():
        report.add_row(name, str(alpha), *cells)
    Console(width=130).print(report)
    return sum(missed for _, missed in rows.values())


def look_at(
    t: int, smoother: Smoother, steadiness: Steadiness, truth: Array, columns: Any = slice(None)
) -> Look:
    """The bands of these columns at record t beside the truth, which has the smoother's shape."""
    off = np.abs(smoother.value - truth)
    settled = steadiness.settled(smoother)
    inside = off <= smoother.std * steadiness.widths(smoother, WIDTH)
    alone = off <= WIDTH * smoother.std
    settled, inside, alone = (of[:, columns] for of in (settled, inside, alone))
    return Look(t, settled.size, int(settled.sum()), int(inside.sum()), int(alone.sum()))


@click.command(help=__doc__)
@click.option("--streams", default=500, show_default=True, help="Streams of each game.")
@click.option("--game", "games", multiple=True, type=click.Choice([*GAMES, *BEYOND]), help="These alone.")
@click.option(
    "--one-in", type=int, help="Watch the increments too, with at most one false alarm in so many records."
)
@click.option("--quick", is_flag=True, help="2 short streams, α = .01 alone.")
def main(streams: int, games: tuple[str, ...], one_in: int | None, quick: bool) -> None:
    streams = 2 if quick else streams
    found = {}
    for name in games or GAMES:
        for alpha, length in ((0.01, 25),) if quick else ((0.01, 60), (0.001, 20)):
            found[name, alpha] = looks(
                name, alpha, streams, round(length / alpha), progress=True, one_in=one_in
            )
            print(" | ".join([name, str(alpha), *summary(found[name, alpha])[0]]), flush=True)
    raise SystemExit(1 if shown(found) and not quick else 0)


if __name__ == "__main__":
    main()
