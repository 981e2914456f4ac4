"""How often does the 95 % band hold the truth?

A static model on independent records, geometric reservoir of 100 rows, n = 8/α explained records, bands of 2,000 streams:

- agrawal: a decision tree of depth 5 with smoothed leaf probabilities, cross-entropy, m = 1: within [0.92, 0.97] for
  each feature with any variance;
- a linear regression on independent normal features, squared loss, m = 10: at least 0.90.

The truth is E[Δ] at the same m, from 4 million independent draws. The streams are simulated together in numpy, draw by
draw as the library's generators do it, and smoothed by the library; ``tests/core/test_coverage.py`` checks that the
values are those of ``IncrementalPFI`` and ``IncrementalSAGE``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.data import agrawal
from explain_core.engine.smoothing import BLOCK
from explain_core.losses import EPSILON
from explain_core.progress import track
from explain_core.random import derive_seed
from explain_core.smoothing import Smoother

Array = np.ndarray[Any, Any]

SIZE = 100
TRUTH_DRAWS = 4_000_000
CHUNK = 20_000


@dataclass(frozen=True)
class Game:
    """A pool of records X (N × d) with truths y, from which streams are drawn; predictions are one number a row."""

    name: str
    features: list[str]
    X: Array
    y: Array
    predict: Callable[[Array], Array]
    loss: Callable[[Array, Array], Array]
    m: int
    low: float = 0.0
    high: float = 1.0
    pairs: bool = False

    def losses(self, y: Array, copies: Array) -> Array:
        """Losses of the mean prediction over copies (m × S × d); with ``pairs`` without its m equal pairs."""
        m, s, d = copies.shape
        predictions = self.predict(copies.reshape(-1, d)).reshape(m, s)
        value = self.loss(y, predictions.mean(axis=0))
        return (m * value - self.loss(y, predictions).mean(axis=0)) / (m - 1) if self.pairs else value


class Tree:
    """P(class 1) of a decision tree of scikit-learn with Laplace's correction, as flat arrays."""

    def __init__(self, fitted: Any) -> None:
        tree = fitted.tree_
        leaf = tree.children_left < 0
        nodes = np.arange(tree.node_count)
        self.feature = np.where(leaf, 0, tree.feature)
        self.threshold = tree.threshold
        self.left, self.right = (
            np.where(leaf, nodes, child) for child in (tree.children_left, tree.children_right)
        )
        share = tree.value[:, 0, :] / tree.value[:, 0, :].sum(axis=1, keepdims=True)
        self.p = (share[:, 1] * tree.n_node_samples + 1.0) / (tree.n_node_samples + 2.0)
        self.depth = tree.max_depth

    def __call__(self, X: Array) -> Array:
        node, rows = np.zeros(len(X), dtype=np.intp), np.arange(len(X))
        for _ in range(self.depth):
            goes_left = X[rows, self.feature[node]] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])
        p: Array = self.p[node]
        return p


def cross_entropy(y: Array, p: Array) -> Array:
    return -np.log(np.clip(np.where(y == 1, p, 1.0 - p), EPSILON, 1.0))


def squared(y: Array, prediction: Array) -> Array:
    return np.square(y - prediction)


def agrawal_game(pool: int = 100_000) -> Game:
    from sklearn.tree import DecisionTreeClassifier

    table = agrawal(pool, seed=1)
    fitted = DecisionTreeClassifier(max_depth=5, min_samples_leaf=100, random_state=0)
    fitted.fit(table.X[:20_000], table.y[:20_000])
    return Game("agrawal, tree", table.features, table.X, table.y, Tree(fitted), cross_entropy, 1, 0.92, 0.97)


def linear_game(pool: int = 100_000, last: float = 0.5) -> Game:
    """y = 2a + b + ``last`` · c and noise."""
    rng = np.random.Generator(np.random.PCG64(1))
    weights = np.array([2.0, 1.0, last])
    X = rng.normal(size=(pool, 3))
    y = X @ weights + 0.5 * rng.normal(size=pool)

    def predict(rows: Array) -> Array:
        return np.asarray(rows[:, 0] * weights[0] + rows[:, 1] * weights[1] + rows[:, 2] * weights[2])

    return Game("linear regression", ["a", "b", "c"], X, y, predict, squared, 10, 0.90, 1.0)


class Generators:
    """``explain_core.random.Generator`` for many seeds at once."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.state = np.array(seeds, dtype=np.uint64)

    def below(self, n: int) -> Array:
        """A whole number in [0, n) from each generator, n < 2³²."""
        z = self.state = self.state + np.uint64(0x9E37_79B9_7F4A_7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
        z = z ^ (z >> np.uint64(31))
        high, low, half = z >> np.uint64(32), z & np.uint64(0xFFFF_FFFF), np.uint64(32)
        wide = np.uint64(n)
        return ((high * wide + (low * wide >> half)) >> half).astype(np.intp)

    def permutation(self, n: int) -> Array:
        """A permutation of 0 … n−1 from each generator, generators × n."""
        every = np.arange(len(self.state))
        order = np.tile(np.arange(n), (len(every), 1))
        for i in range(n - 1, 0, -1):
            j = self.below(i + 1)
            order[every, i], order[every, j] = order[every, j], order[every, i].copy()
        return order


def ipfi_delta(game: Game, x: Array, y: Array, rows: Array, order: Array, y0: Array) -> Array:
    """Δ of records x (S × d) with rows (d × m × S × d), S × d."""
    d, m, s, _ = rows.shape
    copies = np.broadcast_to(x, rows.shape).copy()
    for j in range(d):
        copies[j, :, :, j] = rows[j, :, :, j]
    losses = game.loss(y, game.predict(copies.reshape(-1, d)).reshape(d, m, s))
    delta: Array = losses.mean(axis=1) - game.loss(y, game.predict(x))
    return delta.T


def isage_delta(game: Game, x: Array, y: Array, rows: Array, order: Array, y0: Array) -> Array:
    """Δ of records x (S × d) with rows (1 × m × S × d) shared along the order (S × d) of joining; S × d."""
    copies, every = rows[0].copy(), np.arange(len(x))
    delta = np.empty(x.shape)
    before = game.loss(y, y0)
    for joins in order.T[:-1]:
        copies[:, every, joins] = x[every, joins]
        after = game.losses(y, copies)
        delta[every, joins] = before - after
        before = after
    delta[every, order[:, -1]] = before - game.loss(y, game.predict(x))
    return delta


DELTA = {"ipfi": ipfi_delta, "isage": isage_delta}


def stream_seed(seed: int) -> int:
    return derive_seed(seed, "stream")


def increments(
    game: Game,
    name: str,
    alpha: float,
    n: int,
    seeds: Sequence[int],
    progress: bool,
    switch: int | None = None,
) -> Iterator[Array]:
    """Δ (S × d) of each of n records of one stream per seed, explained with that seed.

    The records are drawn from all of the pool; with ``switch`` from its first half up to that record, then from its second.
    """
    records = Generators([stream_seed(seed) for seed in seeds])
    slots = Generators([derive_seed(seed, "reservoir") for seed in seeds])
    draws = Generators([derive_seed(seed, name) for seed in seeds])
    every, d = np.arange(len(seeds)), len(game.features)
    among, first = len(game.X) if switch is None else len(game.X) // 2, 0
    reservoir = np.stack([records.below(among) for _ in range(SIZE)], axis=1)
    y0 = Smoother((len(seeds),), alpha)
    order = np.zeros((len(seeds), d), dtype=np.intp)
    for t in track(range(n), f"{game.name}, {name}, α = {alpha}", n, progress):
        if t == switch:
            first = among
        index = records.below(among) + first
        x, y = game.X[index], game.y[index]
        if name == "ipfi":  # the features share the rows that are replaced next
            draws.state = slots.state.copy()
        drawn = np.array([reservoir[every, draws.below(SIZE)] for _ in range(game.m)])
        rows = np.broadcast_to(drawn, (d if name == "ipfi" else 1, *drawn.shape))
        if name == "isage":
            order = draws.permutation(d)
        y0.update(game.predict(x))
        yield DELTA[name](game, x, y, game.X[rows], order, y0.value)
        reservoir[every, slots.below(SIZE)] = index


def simulate(game: Game, name: str, alpha: float, n: int, seeds: Sequence[int], progress: bool) -> Smoother:
    """The estimator on one stream per seed, with that seed: its smoother after n explained records, S × d."""
    smoother = Smoother((len(seeds), len(game.features)), alpha)
    for t, delta in enumerate(increments(game, name, alpha, n, seeds, progress), start=1):
        smoother.update(delta)
        if t % BLOCK == 0:
            smoother.end_block()
    return smoother


def truth(game: Game, name: str, draws: int, progress: bool) -> tuple[Array, Array]:
    """E[Δ] and σ of each feature, from independent records and rows and the mean prediction of the pool."""
    rng = np.random.Generator(np.random.PCG64(2))
    d, y0 = len(game.features), np.full(CHUNK, game.predict(game.X).mean())
    total, squares, chunks = np.zeros(d), np.zeros(d), -(-draws // CHUNK)
    for _ in track(range(chunks), f"{game.name}, {name}, truth", chunks, progress):
        index = rng.integers(len(game.X), size=CHUNK)
        rows = rng.integers(len(game.X), size=(d if name == "ipfi" else 1, game.m, CHUNK))
        order = rng.permuted(np.tile(np.arange(d), (CHUNK, 1)), axis=1)
        delta = DELTA[name](game, game.X[index], game.y[index], game.X[rows], order, y0)
        total += delta.sum(axis=0)
        squares += (delta**2).sum(axis=0)
    mean = total / (chunks * CHUNK)
    return mean, np.sqrt(np.maximum(squares / (chunks * CHUNK) - mean**2, 0.0))


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="10 streams, α = 0.01 alone, 20,000 draws for the truth.")
@click.option("--streams", default=2_000, show_default=True)
@click.option("--draws", default=TRUTH_DRAWS, show_default=True, help="For the truth.")
@click.option("--game", "games", multiple=True, type=click.Choice(["agrawal", "linear"]), help="These alone.")
@click.option("--alpha", "alphas", multiple=True, type=float, default=(0.01, 0.001), show_default=True)
def main(quick: bool, streams: int, draws: int, games: tuple[str, ...], alphas: tuple[float, ...]) -> None:
    if quick:
        streams, draws, alphas = 10, 20_000, (0.01,)
    seeds = range(streams)
    report = Report(
        "game", "estimator", "α", "coverage of each feature", "smallest", "largest", "wanted", "met"
    )
    missed = 0
    pool = 2_000 if quick else 100_000
    makers = {"agrawal": agrawal_game, "linear": linear_game}
    for game in (makers[name](pool) for name in games or makers):
        for name in DELTA:
            mean, sigma = truth(game, name, draws, True)
            for alpha in alphas:
                smoother = simulate(game, name, alpha, round((5.5 if quick else 8) / alpha), seeds, True)
                low, high = smoother.band(0.95)
                inside = (low <= mean) & (mean <= high)
                varies = sigma > 0.0
                found = inside.mean(axis=0)[varies]
                met = bool(game.low <= found.min() and found.max() <= game.high)
                missed += not met
                cells = [
                    f"{feature} {share:.3f}"
                    for feature, share in zip(np.array(game.features)[varies], found, strict=True)
                ]
                wanted = f"{game.low:.2f} to {game.high:.2f}"
                report.add_row(
                    game.name, f"{name}, m = {game.m}", str(alpha), ", ".join(cells),
                    f"{found.min():.3f}", f"{found.max():.3f}", wanted, "yes" if met else "NO",
                )  # fmt: skip
    Console().print(report)
    raise SystemExit(1 if missed and not quick else 0)


if __name__ == "__main__":
    main()
