"""How often does a band that is shown hold the truth, at every emission, and how often is one shown?

Ten games, iPFI with m = 1 and a geometric reservoir of 100 rows, streams of 20/α explained records (α = .01: 60/α), a look each
100 records. The truth is that of the moment: after the switch it is the new one, and for the learning model E[Δ] of the
model as it is. Coverage is that over all streams and features whose band is settled; the worst look is that of smallest
coverage among those where at least 2 % of the bands are shown (fewer are the lucky ones of a heavy tail, see "shown").
"Without" is the coverage of all bands, settled or not, without what ``explain_core.steadiness`` adds, over all looks and at the worst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from explain_core.alarms.detector import ChangeDetector, Position
from explain_core.progress import track
from explain_core.random import derive_seed
from explain_core.smoothing import Smoother, half_width
from explain_core.steadiness import BLOCK, TURNOVER, Steadiness

Array = np.ndarray[Any, Any]

SIZE = 100
BETA = np.array([2.0, 1.0, 0.5])
WIDTH = half_width("normal", 0.95)
LEAST = 0.02
"""Share of bands that a look must show to count for the worst."""


class Game:
    """y = 2a + b + c/2 and noise, explained for S streams at once: a linear model that knows it, squared loss, normal features.

    The truth is then 2 β². A subclass changes what its name says.
    """

    features = 3

    def __init__(self, streams: int, n: int, seed: int) -> None:
        self.streams, self.n = streams, n
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.weights: Array = BETA

    def known(self, t: int) -> int:
        """How many features there are at record t: the first ones."""
        return self.features

    def begin(self, t: int) -> None:
        """Record t comes."""

    def rows(self, count: int) -> Array:
        return self.rng.normal(size=(count, self.features))

    def noise(self) -> Array:
        return 0.5 * self.rng.normal(size=self.streams)

    def label(self, x: Array) -> Array:
        y: Array = self.predict(x) + self.noise()
        return y

    def predict(self, x: Array) -> Array:
        p: Array = (self.weights * x).sum(axis=-1)
        return p

    def loss(self, y: Array, p: Array) -> Array:
        return np.square(y - p)

    def learn(self, x: Array, y: Array) -> None:
        """Nothing: the model is static."""

    def truth(self) -> Array:
        """E[Δ] at this moment, for all streams or for each (S × d)."""
        return 2.0 * np.square(self.weights)


class Interaction(Game):
    """a·b + c: each matters by 2."""

    def predict(self, x: Array) -> Array:
        p: Array = x[:, 0] * x[:, 1] + x[:, 2]
        return p

    def truth(self) -> Array:
        return np.full(3, 2.0)


class Lognormal(Game):
    """Inputs exp(N(0, 1)): the squares of their differences have a skewness of hundreds."""

    spread = 1.0

    def rows(self, count: int) -> Array:
        return np.exp(self.spread * super().rows(count))

    def truth(self) -> Array:
        variance = self.spread**2
        return np.asarray(super().truth() * np.expm1(variance) * np.exp(variance))


class WiderLognormal(Lognormal):
    """Inputs exp(N(0, 1.5²))."""

    spread = 1.5


class HeavyNoise(Game):
    """Noise of Student's t with 2.5 degrees of freedom: no third moment."""

    def noise(self) -> Array:
        return 0.5 * self.rng.standard_t(2.5, size=self.streams)


class Rare(Game):
    """About 1 % positives, cross-entropy; the model knows their probability."""

    times, least = 1.0, -6.5

    def __init__(self, streams: int, n: int, seed: int) -> None:
        super().__init__(streams, n, seed)
        rng = np.random.Generator(np.random.PCG64(0))
        total, chunks = np.zeros(self.features), 100
        for _ in range(chunks):
            x, z = rng.normal(size=(2, 50_000, self.features))
            p = self._probability(x)
            own = self._expected(p, self.predict(x))
            for j in range(self.features):
                total[j] += (self._expected(p, self.predict(_replaced(x, z, j))) - own).mean()
        self._truth = total / chunks

    def _log_odds(self, x: Array) -> Array:
        return np.asarray(self.least + (BETA * x).sum(axis=-1))

    def _probability(self, x: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-self._log_odds(x))))

    def _expected(self, p: Array, log_odds: Array) -> Array:
        return np.asarray(p * np.logaddexp(0.0, -log_odds) + (1.0 - p) * np.logaddexp(0.0, log_odds))

    def predict(self, x: Array) -> Array:
        return self.times * self._log_odds(x)

    def label(self, x: Array) -> Array:
        return self.rng.random(self.streams) < self._probability(x)

    def loss(self, y: Array, p: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, np.where(y, -p, p)))

    def truth(self) -> Array:
        return self._truth


class Overconfident(Rare):
    """The same with log odds twice as large."""

    times = 2.0


class Rarer(Rare):
    """About 0.1 % positives."""

    least = -9.0


class Correlated(Game):
    """Inputs with a correlation of .9."""

    def rows(self, count: int) -> Array:
        common = self.rng.normal(size=(count, 1))
        return np.asarray(np.sqrt(0.9) * common + np.sqrt(0.1) * super().rows(count))


class Late(Game):
    """The feature that matters most comes after a quarter of the records."""

    def __init__(self, streams: int, n: int, seed: int) -> None:
        super().__init__(streams, n, seed)
        self.weights, self._there = BETA[::-1].copy(), False

    def known(self, t: int) -> int:
        return 3 if t >= self.n // 4 + 37 else 2

    def begin(self, t: int) -> None:
        self._there = self.known(t) == 3

    def rows(self, count: int) -> Array:
        x = super().rows(count)
        if not self._there:
            x[:, 2] = 0.0  # absent
        return x


class Switch(Game):
    """After a third of the records concept and model exchange the weights of a and c."""

    def begin(self, t: int) -> None:
        if t == self.n // 3 + 37:
            self.weights = BETA[::-1].copy()


class SmallSwitch(Game):
    """After half of the records all weights grow by a fifth, and all importances by 44 %."""

    def begin(self, t: int) -> None:
        if t == self.n // 2:
            self.weights = 1.2 * BETA


class Learning(Game):
    """A linear model that begins with 0 and learns by gradient descent at a constant rate of .005: the truth is 2 w β."""

    def __init__(self, streams: int, n: int, seed: int) -> None:
        super().__init__(streams, n, seed)
        self.weights = np.zeros((streams, self.features))

    def label(self, x: Array) -> Array:
        return np.asarray((BETA * x).sum(axis=-1) + self.noise())

    def learn(self, x: Array, y: Array) -> None:
        self.weights = self.weights + 0.005 * (y - self.predict(x))[:, None] * x

    def truth(self) -> Array:
        return np.asarray(2.0 * self.weights * BETA)


GAMES: dict[str, Callable[[int, int, int], Game]] = {
    "additive": Game,
    "interaction": Interaction,
    "lognormal inputs": Lognormal,
    "t(2.5) noise": HeavyNoise,
    "1 % labels, confident": Rare,
    "1 % labels, overconfident": Overconfident,
    "correlated inputs": Correlated,
    "late feature": Late,
    "abrupt switch": Switch,
    "learning model": Learning,
}
BEYOND: dict[str, Callable[[int, int, int], Game]] = {
    "small switch": SmallSwitch,
    "0.1 % labels, confident": Rarer,
    "lognormal inputs, 1.5": WiderLognormal,
}
"""A change that only alarms can see in time, and tails of which a stream tells too little: followed where they are asked for."""


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
            delta[:, j] = game.loss(y, game.predict(_replaced(x, drawn, j))) - own
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


def _replaced(x: Array, rows: Array, feature: int) -> Array:
    copy = x.copy()
    copy[:, feature] = rows[:, feature]
    return copy


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
@click.option("--quick", is_flag=True, help="20 streams, α = .01 alone.")
def main(streams: int, games: tuple[str, ...], one_in: int | None, quick: bool) -> None:
    streams = 20 if quick else streams
    found = {}
    for name in games or GAMES:
        for alpha, length in ((0.01, 60),) if quick else ((0.01, 60), (0.001, 20)):
            found[name, alpha] = looks(
                name, alpha, streams, round(length / alpha), progress=True, one_in=one_in
            )
            print(" | ".join([name, str(alpha), *summary(found[name, alpha])[0]]), flush=True)
    raise SystemExit(1 if shown(found) and not quick else 0)


if __name__ == "__main__":
    main()
