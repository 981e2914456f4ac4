"""DBShap: Tables 1, 2 and 3 of the paper beside what the library finds, and what it says where nothing drifts.

- ``synthetic``: Table 1. Real drift (scenario 1: another concept) and virtual drift (scenario 2: one feature of the target
  times U(0, 2), for STAGGER a skewed draw of its category, labels by the old concept) on 5,000 + 5,000 rows, with 2 % of
  the labels flipped, and what the joint game names, as in the service. The paper does not state sizes, concepts or depths.
- ``real``: Table 2, the first half of each data set against the second.
- ``rbf``: Table 3, the CPU time for 10, 15 and 20 features of a drifting radial basis function generator.
- ``windows``: consecutive windows of 5,000 records of elec2, the model frozen before each. ``--shuffle`` takes the drift out.

The hypothesis of the tables is a tree of depth 5, learnt from rows of the baseline that are not explained; the loss is
the misclassification error, the inputs are independent, as in the paper.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as Report
from river import forest, tree
from river.datasets import synth

from experiments.data import load
from experiments.options import data_option, quick_option
from explain_core import losses
from explain_core.drift import RiskChange, dbshap
from explain_core.models import wrap
from explain_core.progress import track

Matrix = np.ndarray[Any, Any]
Concept = Callable[[Matrix], Matrix]
NOISE = 0.02


class Synthetic(NamedTuple):
    """A data set of Table 1: its inputs, the concept before and after, and the paper's figures."""

    draw: Callable[[np.random.Generator, int], Matrix]
    before: Concept
    after: Concept
    held: Concept
    """That of both windows in scenario 2; it uses the first input."""
    paper: tuple[str, str, str, str]
    """Scenario 1: concept, largest input; scenario 2: the same."""


def circle(centre: float, radius: float) -> Concept:
    return lambda x: (x[:, 0] - centre) ** 2 + (x[:, 1] - 0.5) ** 2 < radius**2


SYNTHETIC = {
    "STAGGER": Synthetic(
        lambda rng, n: rng.integers(0, 3, size=(n, 3)),
        lambda x: (x[:, 0] == 0) & (x[:, 1] == 0),
        lambda x: (x[:, 1] == 2) | (x[:, 2] == 0),
        lambda x: (x[:, 0] == 0) & (x[:, 1] == 0),
        ("0.58", "9.06e-3", "-0.08", "0.01"),
    ),
    "SEA": Synthetic(
        lambda rng, n: rng.uniform(0, 10, size=(n, 3)),
        lambda x: x[:, 0] + x[:, 1] > 7.0,
        lambda x: x[:, 0] + x[:, 1] > 9.5,
        lambda x: x[:, 0] + x[:, 1] > 7.0,
        ("0.30", "-2.59e-4", "3.55e-4", "-2.27e-2"),
    ),
    "Sine": Synthetic(
        lambda rng, n: rng.random((n, 2)),
        lambda x: x[:, 0] < np.sin(x[:, 1]),
        lambda x: x[:, 0] < 0.5 + 0.3 * np.sin(3 * np.pi * x[:, 1]),
        lambda x: x[:, 0] < 0.5 + 0.3 * np.sin(3 * np.pi * x[:, 1]),
        ("0.22", "3.8e-5", "-0.07", "-0.03"),
    ),
    "Circle": Synthetic(
        lambda rng, n: rng.random((n, 2)),
        circle(0.4, 0.2),
        circle(0.6, 0.25),
        circle(0.4, 0.2),
        ("0.16", "-1.4e-2", "-0.02", "-0.10"),
    ),
}


@click.group(help=__doc__)
def main() -> None:
    pass


def columns(x: Matrix, y: Matrix) -> dict[str, Any]:
    return {**{f"x{j}": x[:, j] for j in range(x.shape[1])}, "y": y}


def labels(concept: Concept, x: Matrix, rng: np.random.Generator) -> Matrix:
    return concept(x) ^ (rng.random(len(x)) < NOISE)


def scenario(data: Synthetic, number: int, seed: int, n: int = 5_000) -> RiskChange:
    """Scenario 1 or 2 of Table 1; the tree learns from n more rows of the baseline."""
    rng = np.random.Generator(np.random.PCG64(seed))
    x, z = data.draw(rng, 2 * n), data.draw(rng, n)
    if number == 2 and z.dtype.kind == "i":
        z[:, 0] = rng.choice(3, size=n, p=[0.7, 0.2, 0.1])
    elif number == 2:
        z[:, 0] *= rng.uniform(0, 2, size=n)
    before, after = (data.before, data.after) if number == 1 else (data.held, data.held)
    baseline, target = columns(x, labels(before, x, rng)), columns(z, labels(after, z, rng))
    return dbshap(baseline, target, label="y", bootstrap=20, seed=seed)


def found(change: RiskChange, number: int) -> bool:
    """Scenario 1: the concept is ten times the largest input. Scenario 2: of the inputs the altered one is the largest."""
    assert change.product is not None
    inputs = {cause.name: abs(cause.value) for cause in change.product.inputs}
    if number == 1:
        return abs(change.product.concept.value) >= 10.0 * max(inputs.values())
    return max(inputs, key=inputs.__getitem__) == "x0"


@main.command()
@quick_option
def synthetic(quick: bool) -> None:
    """Table 1: STAGGER, SEA, Sine and Circle, seeds 0 to 9."""
    seeds = range(2 if quick else 10)
    report = Report(
        "data", "drift", "found", "named", "concept", "paper", "inputs", "paper's largest", box=None
    )
    failed = False
    for name, data in SYNTHETIC.items():
        for number in (1, 2):
            changes = [scenario(data, number, seed) for seed in seeds]
            right = sum(found(change, number) for change in changes)
            failed |= right < len(seeds) - (number == 2)
            named = Counter("+".join(cause.name for cause in change.causes) or "none" for change in changes)
            games = [change.product for change in changes if change.product is not None]
            values = np.mean([[cause.value for cause in game.inputs] for game in games], axis=0)
            report.add_row(
                name,
                "concept" if number == 1 else "x0",
                f"{right} of {len(seeds)}",
                ", ".join(f"{count} {name}" for name, count in named.items()),
                f"{np.mean([game.concept.value for game in games]):.3f}",
                data.paper[2 * number - 2],
                ", ".join(f"{value:.4f}" for value in values),
                data.paper[2 * number - 1],
            )
    Console().print(report)
    raise SystemExit(1 if failed else 0)


REAL = {
    "Electricity": ("elec2.csv.gz", "class", ["date"], "0.05; transfer -0.06, vicdemand -0.064"),
    "Airlines": ("airlines_moa_5pct.csv.gz", "Delay", [], "0.01; Airline 3.8e-4, Length 2e-4"),
    "Covertype": (
        "covtype_train15120.csv.gz",
        "Cover_Type",
        [],
        "1.45e-3; roadways 1.59e-3, fire points 1.29e-3",
    ),
}
"""File, label, columns left out (the paper's Electricity has 7 features), the paper's concept and two largest inputs."""


@main.command()
@data_option
@quick_option
def real(data: Path, quick: bool) -> None:
    """Table 2: Electricity, Airlines and Covertype, half against half."""
    report = Report("data", "features", "concept", "two largest inputs", "paper", "CPU s", box=None)
    for name, (file, label, dropped, paper) in REAL.items():
        frame = pd.read_csv(data / file).drop(columns=dropped)
        if quick:
            frame = frame.iloc[:: max(1, len(frame) // 4_000)]
        half = len(frame) // 2
        started = time.process_time()
        change = dbshap(
            frame.iloc[:half], frame.iloc[half:], label=label, bootstrap=0 if quick else 50, progress=True
        )
        seconds = time.process_time() - started
        assert change.product is not None
        largest = sorted(change.product.inputs, key=lambda cause: -abs(cause.value))[:2]
        report.add_row(
            name,
            str(frame.shape[1] - 1),
            f"{change.product.concept.value:.3g}",
            ", ".join(f"{cause.name} {cause.value:.2g}" for cause in largest),
            paper,
            f"{seconds:.1f}",
        )
        Console().print(f"{name}: {change.sentence('the first half', 'the second half')}")
    Console().print(report)


@main.command()
@quick_option
def rbf(quick: bool) -> None:
    """Table 3: 10, 15 and 20 features."""
    paper = {10: "0.18; 0.07, 0.05", 15: "0.03; -0.02, 0.01", 20: "7.3e-4; 9.1e-4, 2.6e-4"}
    clock = {10: "64.76 (1.4)", 15: "192.66 (8.2)", 20: "695.5 (94)"}
    report = Report(
        "features", "concept", "two largest inputs", "paper", "CPU s (SD)", "paper", "boxes", box=None
    )
    for k in paper:
        seconds = []
        for run in range(1 if quick else 3):
            stream = synth.RandomRBFDrift(
                seed_model=run, seed_sample=run, n_features=k, change_speed=0.87, n_drift_centroids=50
            )
            rows = list(islice(stream, 15_000))
            started = time.process_time()
            change = dbshap(rows[:10_000], rows[10_000:], bootstrap=0)
            seconds.append(time.process_time() - started)
        assert change.product is not None
        largest = sorted((cause.value for cause in change.product.inputs), key=abs, reverse=True)[:2]
        report.add_row(
            str(k),
            f"{change.product.concept.value:.3g}",
            ", ".join(f"{value:.2g}" for value in largest),
            paper[k],
            f"{np.mean(seconds):.2f} ({np.std(seconds):.2f})",
            clock[k],
            str(change.product.size),
        )
    Console().print(report)


MODELS: dict[str, Callable[[int], Any]] = {
    "HAT": lambda seed: tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
    "ARF": lambda seed: forest.ARFClassifier(n_models=10, seed=seed),
}


def pairs(
    x: list[dict[str, float]], y: list[Any], model: Any, size: int, seed: int
) -> Iterator[tuple[RiskChange, RiskChange]]:
    """For each two consecutive windows why the risk changed: of the learning model, and of the one frozen before both."""
    learner = wrap(model, "classification")
    loss = losses.get("zero_one")
    before: tuple[Any, list[float], slice] | None = None
    for start in range(0, len(x) - size + 1, size):
        window = slice(start, start + size)
        frozen, seen = copy.deepcopy(learner), []
        for row, truth in zip(x[window], y[window], strict=True):
            seen.append(loss(truth, learner.predict(row)))
            learner.learn(row, truth)
        if before is not None:
            first, earlier, baseline = before
            both = [list(zip(x[rows], y[rows], strict=True)) for rows in (baseline, window)]
            settings: dict[str, Any] = {"factorisation": "joint", "seed": seed}
            yield (
                dbshap(*both, hypothesis=(first, frozen), prequential=(earlier, seen), **settings),
                dbshap(*both, hypothesis=first, **settings),
            )
        before = frozen, seen, window


@main.command()
@data_option
@click.option("--model", "models", type=click.Choice(list(MODELS)), multiple=True, default=list(MODELS))
@click.option("--shuffle", is_flag=True, help="Shuffle the records first, again and again: no drift.")
@click.option("--pairs", "n", type=click.IntRange(min=1), default=100, show_default=True)
@quick_option
def windows(data: Path, models: tuple[str, ...], shuffle: bool, n: int, quick: bool) -> None:
    """What is named between consecutive windows of 5,000 records of elec2; at most --pairs of them."""
    table = load("elec2", data)
    if quick:
        n, models = min(n, 3), models[:1]
    report = Report(
        "model",
        "hypothesis",
        "pairs",
        "concept",
        "inputs",
        "a cause",
        "its own change",
        box=None,
    )
    for name in models:
        results: list[tuple[RiskChange, RiskChange]] = []
        for seed in range(n if shuffle else 1):
            rng = np.random.Generator(np.random.PCG64(seed))
            order = rng.permutation(len(table.y)) if shuffle else np.arange(len(table.y))
            part = table.take(order)
            stream = pairs(part.rows(), part.y.tolist(), MODELS[name](seed), 5_000, seed)
            left = n - len(results)
            results += track(islice(stream, left), f"{name}, order {seed}", min(left, 8), True)
            if len(results) == n:
                break
        for kind, changes in zip(("learns", "frozen"), zip(*results, strict=True), strict=True):
            named = Counter(cause.name for change in changes for cause in change.causes)
            own = [change.joint.hypothesis for change in changes]
            report.add_row(
                name,
                kind,
                str(len(changes)),
                str(named["concept"]),
                str(named["inputs"]),
                str(sum(bool(change.causes) for change in changes)),
                str(sum(hypothesis.stands_out for hypothesis in own if hypothesis)),
            )
        if not shuffle:
            for i, (change, _) in enumerate(results):
                print(f"{name}: {change.sentence(f'window {i}', f'window {i + 1}')}")
    Console().print(report)


if __name__ == "__main__":
    main()
