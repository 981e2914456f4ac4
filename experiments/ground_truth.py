"""iSAGE against sliding-window SAGE where the truth is known (iSAGE, Sect. 4.2 and Table 2), m = 5, cross-entropy.

Six pre-trained forests of three trees, one per Agrawal function, take turns at random in a stream of 20,000 records,
each with the records of its own function; the truth is batch SAGE of the forest in force on 25,000 other records.
iSAGE has α = 2/(w + 1). SW_20 is batch SAGE of the last w records under the current model every w/20 records, 20 times
the cost of iSAGE; SW_1 is that every w records, at equal cost. The error is the sum over the features of the absolute
difference, averaged over the records from 100 (a full reservoir) after the first full window on.

Everything is computed in batches; ``tests/experiments/test_experiments.py`` checks that the values are those of the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.coverage import SIZE, Array, Game, cross_entropy, isage_delta
from experiments.data import agrawal
from explain_core.progress import track
from explain_core.random import Generator, derive_seed
from explain_core.reservoirs import GeometricReservoir
from explain_core.smoothing import Smoother, alpha_of

PAPER = {
    "low": {100: (0.372, 0.384, 0.386), 500: (0.197, 0.227, 0.244), 1000: (0.164, 0.219, 0.246), 2000: (0.153, 0.261, 0.306)},
    "middle": {100: (0.459, 0.492, 0.495), 500: (0.254, 0.335, 0.364), 1000: (0.225, 0.361, 0.426), 2000: (0.226, 0.480, 0.566)},
    "high": {100: (0.454, 0.505, 0.519), 500: (0.284, 0.452, 0.506), 1000: (0.275, 0.575, 0.670), 2000: (0.305, 0.811, 0.921)},
}  # fmt: skip
"""Mean absolute error of iSAGE, SW_20 and SW_1 per scenario and window: iSAGE, Table 2."""

SWITCHES = {"low": 0.0001, "middle": 0.0002, "high": 0.0005, "none": 0.0}
"""Probability that the model changes at a record. The paper has no scenario without: it shows what is noise, and by the model."""
M = 5


class Forest:
    """P(class 1) of a random forest of scikit-learn for rows n × d, without the checks of its ``predict_proba``."""

    def __init__(self, fitted: Any) -> None:
        self._trees = [estimator.tree_ for estimator in fitted.estimators_]

    def __call__(self, X: Array) -> Array:
        rows = np.ascontiguousarray(X, dtype=np.float32)
        p: Array = sum(tree.predict(rows)[:, 1] for tree in self._trees) / len(self._trees)
        return p


@dataclass(frozen=True)
class Stream:
    """Records X (n × d) with truths y, and the number of the game that is in force at each."""

    X: Array
    y: Array
    function: Array


def pretrained(rows: int, truth_rows: int) -> tuple[list[Game], Array]:
    """A game for each function with a pool of ``rows`` records, and the SAGE values of its model (6 × d).

    With 300 records a leaf the forests are about as sure of themselves as river's adaptive random forest of three trees
    (cross-entropy .14 to .36 on four of the functions, .18 to .49 for that): smaller leaves say 0 or 1, and a model that
    meets the records of another then loses up to 34 on one of them.
    """
    from sklearn.ensemble import RandomForestClassifier

    games, truths = [], []
    for function in range(6):
        table = agrawal(rows, function, seed=10 + function)
        fitted = RandomForestClassifier(3, min_samples_leaf=300, random_state=function)
        fresh = agrawal(rows, function, seed=20 + function)
        forest = Forest(fitted.fit(table.X, table.y))
        game = Game(f"agrawal {function}", table.features, fresh.X, fresh.y, forest, cross_entropy, M)
        games.append(game)
        other = agrawal(truth_rows, function, seed=30 + function)
        truths.append(sage(game, other.X, other.y, np.random.Generator(np.random.PCG64(function))))
    return games, np.array(truths)


def switching(games: Sequence[Game], n: int, probability: float, seed: int) -> Stream:
    """n records of games that take turns at random."""
    rng = Generator(derive_seed(seed, "stream"))
    function, functions = rng.below(len(games)), []
    for _ in range(n):
        if rng.uniform() < probability:
            function = (function + 1 + rng.below(len(games) - 1)) % len(games)
        functions.append(function)
    numbers = np.array(functions)
    X, y = np.empty((n, len(games[0].features))), np.empty(n, dtype=int)
    for i, game in enumerate(games):
        start = rng.below(len(game.X))
        rows = (start + np.arange(n)[numbers == i]) % len(game.X)
        X[numbers == i], y[numbers == i] = game.X[rows], game.y[rows]
    return Stream(X, y, numbers)


def sage(game: Game, X: Array, y: Array, rng: np.random.Generator) -> Array:
    """Batch SAGE of rows X, each against m others of them (iSAGE Alg. 5); d values."""
    n, d = X.shape
    others = rng.integers(n - 1, size=(game.m, n))
    others += others >= np.arange(n)
    order = rng.permuted(np.tile(np.arange(d), (n, 1)), axis=1)
    y0 = np.full(n, game.predict(X).mean())
    values: Array = isage_delta(game, X, y, X[others][None], order, y0).mean(axis=0)
    return values


def incremental(games: Sequence[Game], stream: Stream, alphas: Sequence[float], seed: int) -> list[Array]:
    """The values of ``IncrementalSAGE`` after each record for each α; n × d, NaN while the reservoir fills."""
    n, d = stream.X.shape
    reservoir = GeometricReservoir(SIZE, derive_seed(seed, "reservoir"))
    rng = Generator(derive_seed(seed, "isage"))
    drawn, order = np.zeros((n, M), dtype=int), np.zeros((n, d), dtype=int)
    for t in range(n):
        if t >= SIZE:
            drawn[t] = [reservoir.rows[rng.below(SIZE)] for _ in range(M)]
            order[t] = rng.permutation(d)
        reservoir.add(t)  # type: ignore[arg-type]
    own = np.empty(n)
    for i, game in enumerate(games):
        if (of := stream.function == i).any():
            own[of] = game.predict(stream.X[of])
    found = []
    for alpha in alphas:
        y0, smoother = Smoother((), alpha), Smoother((d,), alpha)
        means, delta, values = np.zeros(n), np.zeros((n, d)), np.full((n, d), np.nan)
        for t in range(SIZE, n):
            y0.update(own[t])
            means[t] = y0.value
        for i, game in enumerate(games):
            of = np.flatnonzero((stream.function == i) & (np.arange(n) >= SIZE))
            if len(of):
                rows = stream.X[drawn[of].T][None]
                delta[of] = isage_delta(game, stream.X[of], stream.y[of], rows, order[of], means[of])
        for t in range(SIZE, n):
            smoother.update(delta[t])
            values[t] = smoother.value
        found.append(values)
    return found


def sliding(games: Sequence[Game], stream: Stream, w: int, stride: int, seed: int) -> Array:
    """The values of ``SlidingWindowSAGE`` after each record, up to its draws; n × d, NaN before the first window."""
    rng = np.random.Generator(np.random.PCG64(seed))
    values = np.full(stream.X.shape, np.nan)
    for end in range(w, len(values) + 1, stride):
        game, part = games[stream.function[end - 1]], slice(end - w, end)
        values[end - 1 : end - 1 + stride] = sage(game, stream.X[part], stream.y[part], rng)
    return values


@click.command(help=__doc__)
@click.option("--runs", default=20, show_default=True, help="Streams per scenario.")
@click.option("--records", default=20_000, show_default=True, help="Records of a stream.")
@click.option(
    "--scenario", "scenarios", multiple=True, type=click.Choice(list(SWITCHES)), help="These alone."
)
@click.option(
    "--quick",
    is_flag=True,
    help="One stream of 1,500 records, scenario high, window 500, models of 300 records.",
)
def main(runs: int, records: int, scenarios: tuple[str, ...], quick: bool) -> None:
    windows = [500] if quick else [100, 500, 1000, 2000]
    if quick:
        runs, records, scenarios = 1, 1_500, ("high",)
    games, truths = pretrained(300, 300) if quick else pretrained(20_000, 25_000)
    report = Report("scenario", "w", "iSAGE (SE)", "SW_20 (SE)", "SW_1 (SE)", "paper")
    for scenario in scenarios or PAPER:
        errors = np.empty((runs, len(windows), 3))
        for seed in track(range(runs), scenario, runs, True):
            stream = switching(games, records, SWITCHES[scenario], seed)
            truth = truths[stream.function]
            ours = incremental(games, stream, [alpha_of(w) for w in windows], seed)
            for k, w in enumerate(windows):
                often = sliding(games, stream, w, w // 20, seed)
                rare = np.repeat(often[w - 1 :: w], w, axis=0)[: records - w + 1]
                for column, values in enumerate((ours[k][w - 1 :], often[w - 1 :], rare)):
                    errors[seed, k, column] = np.abs(values - truth[w - 1 :]).sum(axis=1)[SIZE:].mean()
            if scenario == "none":
                each = " ".join(f"{value:.3f}" for value in errors[seed, :, 0])
                print(f"function {stream.function[0]}: iSAGE {each}", flush=True)
        spread = errors.std(axis=0, ddof=min(1, runs - 1)) / np.sqrt(runs)
        for w, mean, error in zip(windows, errors.mean(axis=0), spread, strict=True):
            cells = [f"{value:.3f} ({se:.3f})" for value, se in zip(mean, error, strict=True)]
            paper = " / ".join(f"{value:.3f}" for value in PAPER.get(scenario, {}).get(w, ()))
            report.add_row(scenario, str(w), *cells, paper)
    Console(width=110).print(report)


if __name__ == "__main__":
    main()
