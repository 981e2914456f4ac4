"""Does a band hold the mean of the truths for iSAGE too, and for records of real data?

A decision tree of depth 6 with smoothed leaf probabilities learns from a third of elec2, adult, bank and agrawal (for bike,
whose label is a number, from its upper half as class 1); the streams are random records of the rest, so that the truth is known. iPFI has one draw;
iSAGE ten, or two in product form under the squared error of the probability. A linear regression is explained by iSAGE too.
"drift": elec2 in order of time, of which the first half of a stream takes records from the first half, then from the second.

Looks and columns are those of ``experiments.bands``; features that the model does not use are left out.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report
from sklearn.tree import DecisionTreeClassifier

from experiments.bands import Tally
from experiments.coverage import (
    Game,
    Tree,
    cross_entropy,
    increments,
    linear_game,
    squared,
    truth,
)
from experiments.data import Table, agrawal, load
from experiments.options import data_or_none, quick_option
from explain_core.bands import LEAST
from explain_core.engine.smoothing import BLOCK
from explain_core.smoothing import Smoother

SETS = ("agrawal", "elec2", "adult", "bank", "bike")


@cache
def binary(name: str, data: Path | None, quick: bool) -> Table:
    if name == "agrawal":
        return agrawal(2_000 if quick else 40_000, seed=1)
    if data is None:
        raise click.UsageError(f"{name}: pass --data with the directory of its file")
    table = load(name, data)
    return Table(name, table.X, table.y > np.median(table.y), table.features) if table.regression else table


def make_game(
    name: str, data: Path | None, estimator: str, quadratic: bool, quick: bool, ordered: bool = False
) -> Game:
    """The rest of a data set, of which a random third taught a tree, as a pool; in order where ``ordered``."""
    table = binary(name, data, quick)
    taken = np.random.Generator(np.random.PCG64(0)).permutation(len(table.y))[: len(table.y) // 3]
    rest = np.setdiff1d(np.arange(len(table.y)), taken)
    fitted = DecisionTreeClassifier(max_depth=6, min_samples_leaf=50, random_state=0)
    tree = Tree(fitted.fit(table.X[taken], table.y[taken]))
    used = sorted(set(tree.feature[fitted.tree_.children_left >= 0].tolist()))
    tree.feature = np.searchsorted(used, tree.feature) * (fitted.tree_.children_left >= 0)
    m = (2 if quadratic else 10) if estimator == "isage" else 1
    return Game(
        f"{name}{', drift' if ordered else ''}, {estimator}{', squared' if quadratic else ''}",
        [table.features[j] for j in used],
        table.X[rest][:, used],
        table.y[rest].astype(int),
        tree,
        squared if quadratic else cross_entropy,
        m,
        pairs=quadratic and estimator == "isage",
    )


def looks(
    game: Game, estimator: str, alpha: float, streams: int, n: int, draws: int, switch: int | None
) -> Tally:
    """Bands at the end of each block of streams of n records, from ``LEAST`` records on, beside the weighted mean of the truths."""
    halves = [slice(None)] if switch is None else [slice(0, len(game.X) // 2), slice(len(game.X) // 2, None)]
    parts = [
        truth(
            Game(game.name, game.features, game.X[half], game.y[half], game.predict, game.loss, game.m, pairs=game.pairs),
            estimator, draws, True,
        )
        for half in halves
    ]  # fmt: skip
    varies = np.all([sigma > 0.0 for _, sigma in parts], axis=0)
    smoother = Smoother((streams, len(game.features)), alpha)
    tally, weight, target = Tally(), 0.0, np.zeros(len(game.features))
    for t, delta in enumerate(increments(game, estimator, alpha, n, range(streams), True, switch), start=1):
        smoother.update(delta)
        weight = 1.0 + (1.0 - alpha) * weight
        target = (1.0 - alpha) * target + parts[-1 if switch is not None and t > switch else 0][0]
        if t % BLOCK == 0:
            smoother.end_block()
            if t >= LEAST:
                low, high = smoother.band(0.95)
                mean = np.broadcast_to(target / weight, low.shape)
                tally.add(*(of[:, varies] for of in (low, high, smoother.value, mean)))
    return tally


@click.command(help=__doc__)
@data_or_none("Directory of the data sets; without it agrawal and the linear regression alone.")
@click.option("--streams", default=100, show_default=True, help="Streams of each game.")
@click.option("--draws", default=400_000, show_default=True, help="For the truth.")
@click.option("--set", "sets", multiple=True, type=click.Choice(SETS), help="These alone.")
@quick_option
def main(data: Path | None, streams: int, draws: int, sets: tuple[str, ...], quick: bool) -> None:
    if quick:
        streams, draws = 1, 2_000
    made = [
        (make_game(name, data, estimator, quadratic, quick), estimator, False)
        for name in sets or (SETS if data else SETS[:1])
        for estimator, quadratic in (("ipfi", False), ("isage", False), ("isage", True))
    ]
    if data and (not sets or "elec2" in sets):
        made.append((make_game("elec2", data, "ipfi", False, quick, ordered=True), "ipfi", True))
    if not sets:
        linear = linear_game()
        made.append(
            (Game("linear, isage, squared", linear.features, linear.X, linear.y, linear.predict, squared, 2, pairs=True), "isage", False)
        )  # fmt: skip
    report = Report("game", "α", "all", "worst", "low", "high", "width", "≥ .93")
    missed = 0
    for game, estimator, drifts in made:
        for alpha, n in ((0.01, 600),) if quick else ((0.01, 2_500), (0.001, 7_000)):
            tally = looks(game, estimator, alpha, streams, n, draws, n // 2 if drifts else None)
            report.add_row(game.name, str(alpha), *tally.cells)
            missed += tally.cells[-1] == "NO"
    Console(width=110).print(report)
    raise SystemExit(1 if missed and not quick else 0)


if __name__ == "__main__":
    main()
