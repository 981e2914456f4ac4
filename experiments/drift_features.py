"""``python -m experiments.drift_features --data DIR``: whether DBShap names the feature that changed, at the service's defaults.

A gradient boosting learns from a random part of the data; the windows are random rows of the rest. In the target one feature is altered, each
feature in turn of which a tenth of the rows or more differ from its most frequent value:

- *drawn*: rows are drawn with a chance that grows ninefold with the rank of the feature, so that all that depends on it moves as well;
- *shuffled*: its values are dealt out to other rows, so that its distribution stays;
- *missing* in 30 % of the rows; a *new* value in 10 % of them;
- *offset* by one standard deviation, *scaled* by 1.5, of numbers with more than ten values;
- *concept*: other labels where the feature is among its highest 20 %, and *labels*: 15 % of the labels at random; no feature changed;
- *none*: nothing changed.

A cell has how often the feature comes first, another one first, none; how often the sense is right, a fault is seen, and the concept is said to have changed where the
feature has some values. A
feature that is one to one with the altered one counts as it, for nothing can tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.data import FILES
from experiments.drift_naming import WINDOW, Fitted, Matrix, attribute, prepare, rank
from experiments.options import data_option, quick_option
from explain_core.drift import RiskChange
from explain_core.progress import track

Alteration = Callable[[Matrix, Matrix, int, np.random.Generator], None]
"""Alters in place n × d inputs of the target, or their labels, by the column of a feature."""


def shuffled(X: Matrix, y: Matrix, j: int, rng: np.random.Generator) -> None:
    X[:, j] = rng.permutation(X[:, j])


def missing(X: Matrix, y: Matrix, j: int, rng: np.random.Generator) -> None:
    X[rng.random(len(X)) < 0.3, j] = np.nan


def new(X: Matrix, y: Matrix, j: int, rng: np.random.Generator) -> None:
    X[rng.random(len(X)) < 0.1, j] = X[:, j].max() + 1.0


def offset(X: Matrix, y: Matrix, j: int, rng: np.random.Generator) -> None:
    X[:, j] += X[:, j].std()


def scaled(X: Matrix, y: Matrix, j: int, rng: np.random.Generator) -> None:
    X[:, j] *= 1.5


def nothing(X: Matrix, y: Matrix, j: int, rng: np.random.Generator) -> None:
    pass


def concept(X: Matrix, y: Matrix, j: int, rng: np.random.Generator) -> None:
    _relabel(y, rank(X[:, j]) > 0.8)


def labels(X: Matrix, y: Matrix, j: int, rng: np.random.Generator) -> None:
    _relabel(y, rng.random(len(y)) < 0.15)


def _relabel(y: Matrix, hit: Matrix) -> None:
    """The next class, or a standard deviation more."""
    y[hit] = y[hit] + 1.0 if y.dtype.kind == "f" else (y[hit] + 1) % (int(y.max()) + 1)


KINDS: dict[str, tuple[Alteration, tuple[str, ...]]] = {
    "drawn": (nothing, ("shares", "shifted", "scaled", "new", "gone")),
    "shuffled": (shuffled, ("unlike",)),
    "missing": (missing, ("missing",)),
    "new": (new, ("new",)),
    "offset": (offset, ("shifted",)),
    "scaled": (scaled, ("scaled",)),
    "concept": (concept, ()),
    "labels": (labels, ()),
    "none": (nothing, ()),
}
"""How the target is altered, and the senses that this is."""
FAULTS = ("offset", "scaled")


def explain(fitted: Fitted, kind: str, j: int, seed: int) -> RiskChange:
    """Two windows of random rows, the target altered in feature j."""
    rng = np.random.Generator(np.random.PCG64(seed))
    rest = fitted.rest
    order = rng.permutation(len(rest.y))
    if kind == "drawn":  # about half of the rows are drawn
        size = min(WINDOW, len(order) // 3)
        chance = (0.1 + 0.8 * rank(rest.X[:, j])) / 0.9
        others = order[size:]
        target = rest.take(others[rng.random(len(others)) < chance[others]][:size])
    else:
        size = min(WINDOW, len(order) // 2)
        target = rest.take(order[size : 2 * size])
    baseline = rest.take(order[:size])
    X, y = target.X.copy(), target.y.copy()
    KINDS[kind][0](X, y, j, rng)
    return attribute(fitted, baseline, X, y, seed)


def twins(X: Matrix, j: int) -> set[int]:
    """The features that are one to one with a feature."""
    own = np.unique(X[:, j], return_inverse=True)[1]
    found = set()
    for k in range(X.shape[1]):
        other = np.unique(X[:, k], return_inverse=True)[1]
        pairs = len(np.unique(own * (other.max() + 1) + other))
        if pairs == own.max() + 1 == other.max() + 1:
            found.add(k)
    return found


@click.command(help=__doc__)
@data_option
@click.option("--windows", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--first-seed", default=0, show_default=True, help="Of the windows: others are other rows.")
@click.option("--set", "sets", multiple=True, type=click.Choice([*FILES]), help="These data sets alone.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice([*KINDS]), help="These changes alone.")
@quick_option
def main(
    data: Path, windows: int, first_seed: int, sets: tuple[str, ...], kinds: tuple[str, ...], quick: bool
) -> None:
    if quick:
        windows, sets = 2, ("bike",)
    total: dict[str, list[int]] = {}
    report = Report("data", *(kinds or KINDS), box=None)
    for name in sets or FILES:
        fitted = prepare(name, data)
        X = fitted.rest.X
        values = [np.unique(column, return_counts=True)[1] for column in X.T]
        varied = [j for j, counts in enumerate(values) if counts.max() <= 0.9 * len(X)]
        many = [j for j in varied if len(values[j]) > 10]
        cells = []
        for kind in kinds or KINDS:
            pool = many if kind in FAULTS else varied
            count = np.zeros(7, dtype=int)
            for i in track(range(windows), f"{name}, {kind}", windows, True):
                j = pool[i % len(pool)]
                change = explain(fitted, kind, j, first_seed + i)
                count += counted(change, {fitted.rest.features[k] for k in twins(X, j)}, kind)
            total[kind] = (np.array(total.get(kind, np.zeros(7, dtype=int))) + count).tolist()
            cells.append(told(count.tolist()))
            print(name, kind, cells[-1], flush=True)
        report.add_row(name, *cells)
    report.add_row("all", *(told(total[kind]) for kind in kinds or KINDS))
    console = Console(width=200)
    console.print(report)
    for kind, (first, other, none, sense, fault, place, all_) in total.items():
        console.print(
            f"{kind}: the feature first in {first / all_:.1%}, another in {other / all_:.1%}, none in {none / all_:.1%}; the sense right in {sense / all_:.1%}; a fault in {fault / all_:.1%}; a place in {place / all_:.1%} of {all_}"
        )


def counted(change: RiskChange, truth: set[str], kind: str) -> Any:
    """Whether the feature is first, another one, or none; the sense right; a fault seen; a place of the concept, the right one if that changed; one."""
    senses = KINDS[kind][1]
    first = change.differences[0] if change.differences else None
    right = first is not None and first.feature in truth and bool(senses)
    return np.array(
        [
            right,
            first is not None and not right,
            first is None,
            first is not None and right and first.sense in senses,
            any(one.fault for one in change.differences),
            change.where is not None and (kind != "concept" or change.where.feature in truth),
            1,
        ],
        dtype=int,
    )


def told(count: list[int]) -> str:
    first, other, none, sense, fault, place, _ = count
    return f"{first}, {other}, {none}; {sense}, {fault}, {place}"


if __name__ == "__main__":
    main()
