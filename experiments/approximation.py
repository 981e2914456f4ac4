"""How close iPFI comes to batch PFI on a static model: Table 1 of the iPFI preprint, all ten cells.

The model is fitted on 67 % of the rows and the whole shuffled data set is explained: 0/1 loss on labels, absolute
error for bike; α = 0.001, reservoir of 1,000 rows. The final raw values, mean of ten realisations, are compared with
batch PFI of ten permutations times N/(N−1): negative values set to 0, each divided by its sum, the error is the sum of
absolute differences. Median and interquartile range over ten orderings of the data.

Since the model does not change, the copies are predicted together (a test shows that this is what IncrementalPFI
computes); records with a weight below 1e-6 of the newest are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.data import Table, agrawal, load
from experiments.options import data_or_none
from explain_core.progress import track
from explain_core.random import Generator, derive_seed
from explain_core.reservoirs import GeometricReservoir, Kind, make_reservoir

ALPHA, SIZE, LIMIT = 0.001, 1_000, 1.75
PAPER = {
    "agrawal": {"uniform": 0.011, "geometric": 0.010},
    "elec2": {"uniform": 0.038, "geometric": 0.037},
    "adult": {"uniform": 0.126, "geometric": 0.114},
    "bank": {"uniform": 0.126, "geometric": 0.132},
    "bike": {"uniform": 0.022, "geometric": 0.019},
}
"""Median errors of the preprint's Table 1."""
Array = np.ndarray[Any, Any]
Loss = Callable[[Array, Array], Array]


def fitted(table: Table) -> Any:
    """The preprint's model, on a random 67 % of the rows."""
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    models = {
        "adult": lambda: GradientBoostingClassifier(n_estimators=200, random_state=0),
        "bank": lambda: MLPClassifier((128, 64), random_state=0),
        "bike": lambda: HistGradientBoostingRegressor(random_state=0),
    }
    model = models.get(table.name, lambda: HistGradientBoostingClassifier(random_state=0))()
    X, _, y, _ = train_test_split(table.X, table.y, train_size=0.67, random_state=0)
    return model.fit(X, y)


def zero_one(y: Array, predicted: Array) -> Array:
    return (y != predicted).astype(float)


def absolute(y: Array, predicted: Array) -> Array:
    return np.abs(y - predicted)


def raw_values(
    model: Any,
    loss: Loss,
    table: Table,
    own: Array,
    kind: Kind,
    seed: int,
    *,
    alpha: float = ALPHA,
    size: int = SIZE,
) -> Array:
    """The raw values of ``IncrementalPFI`` with m = 1 at the end of the table, from the same draws; ``own`` are the losses."""
    n, d = table.X.shape
    newest = min(n - size, math.ceil(math.log(1e-6) / math.log1p(-alpha)))
    reservoir = make_reservoir(kind, size, derive_seed(seed, "reservoir"))
    rng = Generator(derive_seed(seed, "ipfi"))
    donors = np.empty((newest, d), dtype=int)
    for t in range(n):
        if len(reservoir.rows) == size:
            source = reservoir.next_slots if isinstance(reservoir, GeometricReservoir) else rng
            drawn = reservoir.rows[source.below(size)]
            if t >= n - newest:
                donors[t - n + newest] = drawn
        reservoir.add(t)  # type: ignore[arg-type]
    X, y = table.X[-newest:], table.y[-newest:]
    weights = alpha * (1.0 - alpha) ** np.arange(newest - 1, -1, -1)
    values = np.empty(d)
    for j in range(d):
        copies = X.copy()
        copies[:, j] = table.X[donors[:, j], j]
        values[j] = weights @ (loss(y, model.predict(copies)) - own[-newest:])
    return values


def batch_values(model: Any, loss: Loss, table: Table, own: Array, rng: np.random.Generator) -> Array:
    """Batch PFI with ten permutations, times N/(N−1) for their fixed points."""
    n, d = table.X.shape
    values = np.zeros(d)
    for j in range(d):
        for _ in range(10):
            copies = table.X.copy()
            copies[:, j] = rng.permutation(copies[:, j])
            values[j] += np.mean(loss(table.y, model.predict(copies)) - own) / 10
    return values * n / (n - 1)


def share(values: Array) -> Array:
    positive = np.maximum(values, 0.0)
    return positive / positive.sum()


def errors(table: Table, orderings: int, realisations: int, console: Console) -> dict[str, Array]:
    """The error of each ordering, per kind of reservoir."""
    model, loss = fitted(table), absolute if table.regression else zero_one
    own = loss(table.y, model.predict(table.X))
    console.print(f"{table.name}: {table.X.shape}, mean loss {own.mean():.4f} (whole set)")
    rng = np.random.Generator(np.random.PCG64(derive_seed("approximation", table.name)))
    reference = share(batch_values(model, loss, table, own, rng))
    found: dict[str, list[float]] = {"uniform": [], "geometric": []}
    orders = [rng.permutation(len(table.y)) for _ in range(orderings)]
    jobs = [(k, kind) for k in range(orderings) for kind in found]
    for k, kind in track(jobs, table.name, len(jobs), True):
        shuffled, losses = table.take(orders[k]), own[orders[k]]
        runs = [
            raw_values(model, loss, shuffled, losses, kind, derive_seed(k, r))  # type: ignore[arg-type]
            for r in range(realisations)
        ]
        found[kind].append(float(np.abs(share(np.mean(runs, axis=0)) - reference).sum()))
    return {kind: np.array(values) for kind, values in found.items()}


def draw(medians: dict[str, dict[str, float]], file: Path) -> None:
    import matplotlib.pyplot as plt

    axes = plt.subplots(figsize=(7.0, 3.5), layout="constrained")[1]
    for k, (kind, colour) in enumerate((("uniform", "tab:blue"), ("geometric", "tab:orange"))):
        where = np.arange(len(medians)) + 0.4 * k
        axes.bar(
            where,
            [PAPER[name][kind] for name in medians],
            0.18,
            color=colour,
            alpha=0.4,
            label=f"{kind}, paper",
        )
        axes.bar(
            where + 0.18,
            [by_kind[kind] for by_kind in medians.values()],
            0.18,
            color=colour,
            label=f"{kind}, here",
        )
    axes.set_xticks(np.arange(len(medians)) + 0.29, list(medians))
    axes.set_ylabel("median error of iPFI")
    axes.legend(frameon=False, fontsize=8)
    axes.figure.savefig(file, dpi=150)


@click.command(help=__doc__)
@data_or_none("Directory of the real sets.")
@click.option("--only", multiple=True, type=click.Choice(list(PAPER)), help="These data sets alone.")
@click.option("--quick", is_flag=True, help="2 orderings, 1 realisation, 1,200 records of agrawal.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="File for a bar chart beside the paper's."
)
def main(data: Path | None, only: tuple[str, ...], quick: bool, plot: Path | None) -> None:
    orderings, realisations = (2, 1) if quick else (10, 10)
    report = Report("data", "reservoir", "median error", "IQR", "paper", "ratio", f"≤ {LIMIT}")
    console, medians, missed = Console(stderr=True), {}, 0
    for name in only or PAPER:
        if name != "agrawal" and data is None:
            console.print(f"{name}: left out; name the directory with --data")
            continue
        table = agrawal(1_200 if quick else 20_000, seed=1) if name == "agrawal" else load(name, data)  # type: ignore[arg-type]
        found = errors(table, orderings, realisations, console)
        medians[name] = {kind: float(np.median(values)) for kind, values in found.items()}
        for kind, values in found.items():
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            ratio = middle / PAPER[name][kind]
            missed += ratio > LIMIT
            cells = (f"{middle:.3f}", f"{high - low:.3f}", f"{PAPER[name][kind]:.3f}", f"{ratio:.2f}")
            report.add_row(name, kind, *cells, "yes" if ratio <= LIMIT else "NO")
    Console().print(report)
    if plot:
        draw(medians, plot)
    raise SystemExit(1 if missed and not quick else 0)


if __name__ == "__main__":
    main()
