"""What does a draw more cost iPFI, and what is it worth?

*Error*: the root mean square error of the mean over 4,000 records in games whose truth is known, relative to one row drawn at random for each feature. *At random* are
rows drawn from the reservoir; *next* are the rows that are replaced next, the library's. *Cost*: CPU time of a record, explained by iPFI alone, by turns in one process, the least of
several. *Worth*: one over error² × cost, relative to one drawn row: how many times less time the same error takes.

Two ways that need no draws are tried on the same increments. *Antithetic*: a second row of each draw is the one whose value of the feature has the opposite rank. *Control*: the
share of the variance of the mean of 100 increments that a linear regression on the mean difference of the model's predictions explains, the most that a control variate would save.
"""

from __future__ import annotations

import time

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.games import GAMES, Array, L
from experiments.options import quick_option
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.learners.choice import learner_of
from explain_core.reservoirs import GeometricReservoir

DRAWS = (1, 2, 5, 10, 30)
CHOSEN = ("additive", "interaction", "t(2.5) noise", "1 % labels, confident", "clustered inputs")
N = 4_000


class Drawn(GeometricReservoir):
    """One of which iPFI draws rows at random."""


def rows_of(rng: np.random.Generator, streams: int, m: int, kind: str) -> Array:
    """The records that rows come from (3, m, streams, N)."""
    slots, every = np.tile(np.arange(L), (streams, 1)), np.arange(streams)
    replaced = rng.integers(L, size=(N + m, streams))
    found = np.empty((3, m, streams, N), np.int32)
    for t in range(N):
        if kind == "next":
            found[..., t] = slots[every, replaced[t : t + m]]
        else:
            found[..., t] = slots[every, rng.integers(L, size=(3, m, streams))]
        slots[every, replaced[t]] = t + L
    return found


def errors(name: str, streams: int, m: int, kind: str, antithetic: bool = False) -> tuple[Array, Array]:
    """The root mean square errors of three features, and what a control variate would save of the variance."""
    rng = np.random.default_rng([0, list(GAMES).index(name)])
    game = GAMES[name](N, rng)
    x, noise = game.inputs(streams), game.noise(streams)
    w, beta = game.weights(x, noise)
    y = game.label(game.score(x, beta), noise)[:, L:]
    now = w if w.shape[1] == 1 else w[:, L:]
    prediction = game.score(x[:, L:], now)
    rows, own = rows_of(np.random.default_rng(1), streams, m, kind), game.loss(y, prediction)
    truth = np.asarray(game.truth(w, beta)).mean(1)
    found, saved = np.empty(3), np.empty(3)
    for j in range(3):
        total, moved = np.zeros_like(own), np.zeros_like(own)
        values = [np.take_along_axis(x[..., j], of, 1) for of in rows[j]]
        if antithetic:  # of inputs that are symmetric about 0
            values += [-of for of in values]
        for of in values:
            copy = x[:, L:].copy()
            copy[..., j] = of
            other = game.score(copy, now)
            total += game.loss(y, other)
            moved += other - prediction
        delta = total / len(values) - own
        found[j] = np.sqrt(np.square(delta.mean(1) - truth[:, j]).mean())
        means = (of.reshape(streams, -1, 100).mean(2).ravel() for of in (delta, moved))
        saved[j] = np.corrcoef(*means)[0, 1] ** 2
    return found, saved


def models() -> dict[str, object]:
    from river import forest, linear_model, tree

    made = {
        "logistic": linear_model.LogisticRegression(), "Hoeffding tree": tree.HoeffdingTreeClassifier(),
        "forest of 10": forest.ARFClassifier(n_models=10, seed=1),
    }  # fmt: skip
    return {name: learner_of(model, "classification") for name, model in made.items()}


def costs(records: int, turns: int) -> dict[tuple[str, int], float]:
    """µs of CPU time of a record with nine features, by model and draws."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(records, 9))
    labels = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=records) > 0.0).tolist()
    rows = [dict(zip("abcdefghi", row, strict=True)) for row in X.tolist()]
    found: dict[tuple[str, int], float] = {}
    for name, model in models().items():
        for row, label in zip(rows, labels, strict=True):
            model.learn(row, label)  # type: ignore[attr-defined]
        estimators = {m: IncrementalPFI(model, n_samples=m) for m in DRAWS}
        for turn in range(turns + 1):
            for m, estimator in estimators.items():
                begin = time.process_time()
                for row, label in zip(rows, labels, strict=True):
                    estimator.explain_one(row, label)
                spent = 1e6 * (time.process_time() - begin) / records
                if turn:  # the first one fills the reservoir, and compiles
                    found[name, m] = min(spent, found.get((name, m), spent))
    return found


@click.command(help=__doc__)
@click.option("--streams", default=300, show_default=True, help="Of each game.")
@quick_option
def main(streams: int, quick: bool) -> None:
    streams, chosen, draws = (10, CHOSEN[:1], (1, 5)) if quick else (streams, CHOSEN, DRAWS)
    spent = costs(200 if quick else 4_000, 1 if quick else 5)
    of_models = dict.fromkeys(name for name, _ in spent)
    cost = Report("draws", *of_models)
    for m in DRAWS:
        cost.add_row(str(m), *(f"{spent[name, m]:.1f}" for name in of_models))
    Console(width=120).print("CPU time of a record, µs", cost)
    report = Report("rows", "draws", *chosen, "median", *(f"worth, {name}" for name in of_models))
    first: dict[str, Array] = {}
    for kind in ("at random", "next"):
        for m in draws:
            ratios = []
            for game in chosen:
                found, _ = errors(game, streams, m, kind)
                ratios.append(float(np.median(found / first.setdefault(game, found))))
            median = float(np.median(ratios))
            worth = (f"{spent[name, 1] / spent[name, m] / median**2:.2f}" for name in of_models)
            report.add_row(kind, str(m), *(f"{of:.2f}" for of in ratios), f"{median:.2f}", *worth)
    Console(width=150).print(report)
    report = Report(
        "game", "next, 5 rows", "next, 5 and their antithetic", "next, 10", "control variate saves"
    )
    for game in chosen:
        if game == "clustered inputs":
            continue
        plain, saved = errors(game, streams, 5, "next")
        others = [errors(game, streams, m, "next", paired)[0] for m, paired in ((5, True), (10, False))]
        report.add_row(
            game, *(f"{np.median(of / first[game]):.2f}" for of in (plain, *others)), f"{saved.max():.3f}"
        )
    Console(width=150).print(report)


if __name__ == "__main__":
    main()
