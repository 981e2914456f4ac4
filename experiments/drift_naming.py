"""How often DBShap names the right cause, a wrong one, or none, at the service's defaults.

- ``without``: pairs of windows without drift. Any cause is wrong; how often is one named, and are values 0 on average, also
  where the windows differ in size?
- ``injected``: eight drifts on four real data sets. A gradient boosting learns from a random part of the data; the windows
  are random rows of the rest, and the target is altered. A change of labels is one of the concept. Other shares of the
  rows by their inputs, values that are missing at random or replaced by a new one are changes of the inputs. An offset of a
  sensor is both: other inputs come, and what they say about the label is another thing. ``label shift`` is beside the table:
  other shares of the labels change both by definition. A column says in how many pairs it is called so.

Right: all causes that there are and no other. Wrong: a cause that there is not. The loss is the error rate, for bike the
absolute error in standard deviations of the label.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from experiments.data import Table, load
from experiments.options import data_option, quick_option
from explain_core.drift import RiskChange, dbshap
from explain_core.models import Model, wrap
from explain_core.progress import track

Matrix = np.ndarray[Any, Any]
DEFAULTS: dict[str, Any] = {"factorisation": "joint", "max_samples": 5_000, "bootstrap": 20}
"""Those of ``drift`` in the settings of the service; its windows have 5,000 records."""
WINDOW = 5_000


class Fitted(NamedTuple):
    """A model, the rows that it has not learnt from, its errors and doubts there, and its features by permutation importance.

    A doubt is 1 − the chance of the class that is predicted, in a regression the prediction.
    """

    model: Model
    rest: Table
    losses: Matrix
    doubts: Matrix
    order: list[int]


def prepare(name: str, directory: Path, seed: int = 0) -> Fitted:
    """The model of a data set, and what the drifts need to know about it; bike's label in standard deviations."""
    rng = np.random.Generator(np.random.PCG64(seed))
    table = load(name, directory)
    table = table.take(rng.permutation(len(table.y)))
    if table.regression:
        table = Table(name, table.X, table.y / table.y.std(), table.features)
    learnt = min(8_000, len(table.y) // 3)
    kind = HistGradientBoostingRegressor if table.regression else HistGradientBoostingClassifier
    fitted = kind(max_iter=50, random_state=0).fit(table.X[:learnt], table.y[:learnt])
    rest = table.take(np.arange(learnt, len(table.y)))

    def losses(X: Matrix, y: Matrix) -> Matrix:
        predicted = fitted.predict(X)
        return np.abs(predicted - y) if rest.regression else (predicted != y).astype(float)

    some = rest.take(rng.permutation(len(rest.y))[:3_000])
    importance = []
    for j in range(len(rest.features)):
        permuted = some.X.copy()
        permuted[:, j] = rng.permutation(permuted[:, j])
        importance.append(float(np.mean(losses(permuted, some.y))))
    task = "regression" if rest.regression else "classification"
    order = sorted(range(len(importance)), key=lambda j: -importance[j])
    doubts = fitted.predict(rest.X) if rest.regression else 1.0 - fitted.predict_proba(rest.X).max(axis=1)
    return Fitted(
        wrap(fitted, task, features=rest.features), rest, losses(rest.X, rest.y), np.asarray(doubts), order
    )


Drift = Callable[[Fitted, Matrix, int, np.random.Generator], tuple[Matrix, Matrix]]
"""From the rows that are left for it, by number, the inputs and labels of a target of n rows."""


def rank(values: Matrix) -> Matrix:
    """In (0, 1], equal values alike."""
    return np.asarray(np.searchsorted(np.sort(values), values, side="right") / len(values))


def relabelled(share: Callable[[Matrix, Matrix, np.random.Generator], Matrix]) -> Drift:
    """Other labels with a chance by the ranks of the two most important features: the next class, or one deviation more."""

    def apply(fitted: Fitted, rows: Matrix, n: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
        X, y = fitted.rest.X[rows[:n]], fitted.rest.y[rows[:n]].copy()
        first, second = (rank(fitted.rest.X[:, j])[rows[:n]] for j in fitted.order[:2])
        hit = rng.random(n) < share(first, second, rng)
        y[hit] = y[hit] + 1 if fitted.rest.regression else (y[hit] + 1) % len(np.unique(fitted.rest.y))
        return X, y

    return apply


def drawn(weigh: Callable[[Fitted], Matrix]) -> Drift:
    """Rows with a chance by their weight."""

    def apply(fitted: Fitted, rows: Matrix, n: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
        weights = weigh(fitted)
        kept = rows[rng.random(len(rows)) < weights[rows] / weights.max()][:n]
        return fitted.rest.X[kept], fitted.rest.y[kept]

    return apply


def altered(change: Callable[[Fitted, Matrix, np.random.Generator], None]) -> Drift:
    """Inputs that are changed in place."""

    def apply(fitted: Fitted, rows: Matrix, n: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
        X = fitted.rest.X[rows[:n]].copy()
        change(fitted, X, rng)
        return X, fitted.rest.y[rows[:n]]

    return apply


def costly(fitted: Fitted) -> Matrix:
    """More of the rows at the end of a feature where the model errs more: of the first five the one that tells most."""
    ranks = [rank(fitted.rest.X[:, j]) for j in fitted.order[:5]]
    told = [float(np.corrcoef(rank, fitted.losses)[0, 1]) for rank in ranks]
    best = int(np.argmax(np.abs(told)))
    return (0.1 + 0.9 * (ranks[best] if told[best] > 0.0 else 1.0 - ranks[best])) ** 2


def unsure(fitted: Fitted) -> Matrix:
    """More of the rows of which the model is unsure, in a regression of those with a large prediction: many features at once."""
    return 0.05 + rank(fitted.doubts) ** 1.5


def missing(fitted: Fitted, X: Matrix, rng: np.random.Generator) -> None:
    X[rng.random(len(X)) < 0.4, fitted.order[0]] = np.nan


def new(fitted: Fitted, X: Matrix, rng: np.random.Generator) -> None:
    X[rng.random(len(X)) < 0.3, fitted.order[0]] = fitted.rest.X[:, fitted.order[0]].max() + 1.0


def offset(fitted: Fitted, X: Matrix, rng: np.random.Generator) -> None:
    many = (j for j in fitted.order if len(np.unique(fitted.rest.X[:, j])) > 10)
    j = next(many)
    X[:, j] += fitted.rest.X[:, j].std()


def rarer(fitted: Fitted) -> Matrix:
    """Fewer of the most frequent label, of a number fewer small ones."""
    y = fitted.rest.y
    if fitted.rest.regression:
        return rank(y)
    values, counts = np.unique(y, return_counts=True)
    return np.where(y == values[counts.argmax()], 0.3, 1.0)


CONCEPT, INPUTS = {"concept"}, {"inputs"}
DRIFTS: dict[str, tuple[set[str], Drift]] = {
    "flipped in the top 20 %": (CONCEPT, relabelled(lambda a, b, rng: (a > 0.8).astype(float))),
    "15 % of labels at random": (CONCEPT, relabelled(lambda a, b, rng: np.full(len(a), 0.15))),
    "half of a quadrant": (CONCEPT, relabelled(lambda a, b, rng: 0.5 * ((a > 0.5) & (b > 0.5)))),
    "shares of one feature": (INPUTS, drawn(costly)),
    "shares of unsure rows": (INPUTS, drawn(unsure)),
    "40 % missing": (INPUTS, altered(missing)),
    "30 % a new value": (INPUTS, altered(new)),
    "offset of a sensor": (CONCEPT | INPUTS, altered(offset)),
}
LABEL_SHIFT = "label shift"


def rows(X: Matrix, y: Matrix, features: list[str]) -> list[tuple[dict[str, float], Any]]:
    """Records without what is missing, and labels."""
    lines = (
        {name: cell for name, cell in zip(features, line, strict=True) if cell == cell} for line in X.tolist()
    )
    return list(zip(lines, y.tolist(), strict=True))


def attribute(fitted: Fitted, baseline: Table, X: Matrix, y: Matrix, seed: int) -> RiskChange:
    """From the baseline to a target of these inputs and labels."""
    return dbshap(
        rows(baseline.X, baseline.y, baseline.features),
        rows(X, y, baseline.features),
        hypothesis=fitted.model,
        loss="absolute" if baseline.regression else "zero_one",
        seed=seed,
        **DEFAULTS,
    )


def explain(fitted: Fitted, drift: Drift | None, seed: int, sizes: tuple[int, int]) -> RiskChange:
    """Two windows of random rows, the target altered."""
    rng = np.random.Generator(np.random.PCG64(seed))
    rest = fitted.rest
    order = rng.permutation(len(rest.y))
    # Where few rows are left both windows are shorter.
    first, second = (min(size, len(order) * size // sum(sizes)) for size in sizes)
    baseline = rest.take(order[:first])
    others = order[first:]
    X, y = (
        (rest.X[others[:second]], rest.y[others[:second]])
        if drift is None
        else drift(fitted, others, second, rng)
    )
    return attribute(fitted, baseline, X, y, seed)


SETS = ("elec2", "adult", "bank", "bike")


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@data_option
@click.option("--pairs", type=click.IntRange(min=2), default=100, show_default=True)
@click.option("--first-seed", default=0, show_default=True, help="Of the pairs: others are other rows.")
@click.option("--unequal", is_flag=True, help="Windows of unequal size alone.")
@click.option("--set", "sets", multiple=True, type=click.Choice(SETS), help="These data sets alone.")
@quick_option
def without(
    data: Path, pairs: int, first_seed: int, unequal: bool, sets: tuple[str, ...], quick: bool
) -> None:
    """Windows without drift."""
    sizes = [(500, 8_000), (8_000, 500)]
    if not unequal:
        sizes = [(150, 150), (500, 500), (WINDOW, WINDOW), *sizes]
    if quick:
        pairs, sizes = 3, sizes[:2]
    report = Report("data", "rows", "pairs", "a cause", "concept: mean", "SE of it", "SD / SE", "inputs: mean", "SE of it", "SD / SE", box=None)  # fmt: skip
    total = named = 0
    for name in (sets or SETS)[: 1 if quick else None]:
        fitted = prepare(name, data)
        for size in sizes:
            each = track(range(first_seed, first_seed + pairs), f"{name}, {size}", pairs, True)
            changes = [explain(fitted, None, seed, size) for seed in each]
            found = sum(bool(change.causes) for change in changes)
            total, named = total + pairs, named + found
            cells = []
            for i in (0, 1):
                values = np.array([change.joint.players[i].value for change in changes])
                errors = np.array([change.joint.players[i].std for change in changes])
                cells += [f"{values.mean():+.4f}", f"{values.std() / np.sqrt(pairs):.4f}", f"{values.std() / errors.mean():.2f}"]  # fmt: skip
            cells = [name, f"{size[0]:,} and {size[1]:,}", str(pairs), str(found), *cells]
            report.add_row(*cells)
            print(" | ".join(cells), flush=True)
    Console(width=160).print(report)
    print(f"a cause is named in {named} of {total}: {named / total:.1%}")


@main.command()
@data_option
@click.option("--pairs", type=click.IntRange(min=1), default=20, show_default=True)
@quick_option
def injected(data: Path, pairs: int, quick: bool) -> None:
    """Eight drifts on four data sets."""
    report = Report(
        "drift", "data", "change", "concept", "inputs", "right", "wrong", "none", "label shift", box=None
    )
    right_all = wrong_all = total = called = found = shifts = 0
    for name in SETS[: 1 if quick else None]:
        fitted = prepare(name, data)
        for kind, (truth, drift) in [*DRIFTS.items(), (LABEL_SHIFT, (CONCEPT | INPUTS, drawn(rarer)))]:
            each = track(range(1 if quick else pairs), f"{name}, {kind}", pairs, True)
            changes = [explain(fitted, drift, seed, (WINDOW, WINDOW)) for seed in each]
            causes = [{cause.name for cause in change.causes} for change in changes]
            right = sum(cause == truth for cause in causes)
            wrong = sum(bool(cause - truth) for cause in causes)
            shifted = sum(change.label_shift for change in changes)
            if kind != LABEL_SHIFT:
                right_all, wrong_all, total = right_all + right, wrong_all + wrong, total + len(causes)
                called += shifted
            else:
                found, shifts = found + shifted, shifts + len(changes)
            means = [
                np.mean([change.change for change in changes]),
                *(np.mean([change.joint.players[i].value for change in changes]) for i in (0, 1)),
            ]
            cells = [
                kind,
                name,
                *(f"{mean:+.3f}" for mean in means),
                str(right),
                str(wrong),
                str(sum(not cause for cause in causes)),
                str(shifted),
            ]
            report.add_row(*cells)
            print(" | ".join(cells), flush=True)
    Console(width=120).print(report)
    print(f"right in {right_all} of {total}: {right_all / total:.1%}; wrong in {wrong_all / total:.1%}")
    print(f"called a label shift: {found} of {shifts} that are, {called} of {total} others")


if __name__ == "__main__":
    main()
