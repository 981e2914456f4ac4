"""Incremental explanations while data and model change: iPFI Experiment A and iSAGE's ground-truth table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.data import Table, agrawal, load
from explain_core import plots
from explain_core.explanation import Explanation
from explain_core.importance.intervals import IntervalPFI
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.importance.mdi import mean_decrease_impurity
from explain_core.importance.sage import SAGE, SlidingWindowSAGE
from explain_core.losses import Prediction
from explain_core.models import Model, Row, wrap
from explain_core.progress import track
from explain_core.random import Generator, derive_seed
from explain_core.smoothing import alpha_of

PAPER_IPFI = {
    "agrawal, function drift": (0.052, 0.071, 0.022),
    "agrawal, feature drift": (0.035, 0.023, 0.047),
    "elec2, feature drift, uniform": (0.270, 0.041, 0.353),
    "elec2, feature drift, geometric": (0.037, 0.037, 0.037),
}
"""Preprint, Table 3: median error against interval PFI over the stream, before and after the drift."""

PAPER_ISAGE = {
    "low": {100: (0.372, 0.384, 0.386), 500: (0.197, 0.227, 0.244), 1000: (0.164, 0.219, 0.246), 2000: (0.153, 0.261, 0.306)},
    "middle": {100: (0.459, 0.492, 0.495), 500: (0.254, 0.335, 0.364), 1000: (0.225, 0.361, 0.426), 2000: (0.226, 0.480, 0.566)},
    "high": {100: (0.454, 0.505, 0.519), 500: (0.284, 0.452, 0.506), 1000: (0.275, 0.575, 0.670), 2000: (0.305, 0.811, 0.921)},
}  # fmt: skip
"""iSAGE, Table 2: mean absolute error (summed over the features) of iSAGE, SW_20 and SW_1 per scenario and window."""

SWITCHES = {"low": 0.0001, "middle": 0.0002, "high": 0.0005}
"""Probability that the model changes at a record."""


@click.group(help=__doc__)
def main() -> None:
    pass


def exchange(table: Table, start: int, pairs: list[tuple[str, str]]) -> Table:
    """Feature drift: from ``start`` on, the values of each pair of features change places."""
    X = table.X.copy()
    for a, b in pairs:
        i, j = table.features.index(a), table.features.index(b)
        X[start:, [i, j]] = X[start:, [j, i]]
    return Table(table.name, X, table.y, table.features)


def share(values: Any) -> Any:
    positive = np.maximum(np.nan_to_num(values), 0.0)
    return positive / (positive.sum() or 1.0)


def prequential(
    table: Table, model: Any, kinds: list[str], interval: int, title: str
) -> tuple[dict[str, list[Explanation]], list[Explanation], float]:
    """Explain, then learn, every record; iPFI per reservoir kind and interval PFI at the end of each interval."""
    ipfi = {
        kind: IncrementalPFI(model, losses="zero_one", n_samples=10, reservoir=kind, features=table.features)  # type: ignore[arg-type]
        for kind in kinds
    }
    batch = IntervalPFI(model, losses="zero_one", window=interval, n_repeats=10, features=table.features)
    series: dict[str, list[Explanation]] = {kind: [] for kind in kinds}
    reference: list[Explanation] = []
    right = 0
    stream = list(zip(table.rows(), table.y.tolist(), strict=True))
    for t, (x, y) in enumerate(track(stream, title, len(stream), True), start=1):
        prediction = model.predict_proba_one(x)
        right += bool(prediction) and max(prediction, key=prediction.get) == y
        for estimator in ipfi.values():
            estimator.explain_one(x, y, prediction)
        batch.explain_one(x, y)
        if t % interval == 0:
            reference.append(batch.explanation)
            for kind in kinds:
                series[kind].append(ipfi[kind].explanation)
        model.learn_one(x, y)
    return series, reference, right / len(stream)


def draw(
    series: list[Explanation], reference: list[Explanation], interval: int, drift: float, file: Path
) -> None:
    """iPFI with its band, interval PFI dashed, the drift as a vertical line."""
    at = [interval * (k + 1) for k in range(len(series))]
    axes = plots.over_time(series, at, top=4)
    colours = {line.get_label(): line.get_color() for line in axes.lines}
    for j, name in enumerate(reference[0].features):
        if name in colours:
            axes.plot(at, [one.values[0, j] for one in reference], "--", color=colours[name], linewidth=1.0)
    axes.axvline(drift, color="black", linestyle=":")
    axes.set_xlabel("records (dashed: interval PFI; dotted: drift)")
    axes.figure.savefig(file, dpi=150)


@main.command()
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory with elec2.csv.gz.",
)
@click.option(
    "--trees", default=10, show_default=True, help="Trees of the adaptive random forest (the paper: 50)."
)
@click.option("--quick", is_flag=True, help="A fifth of the records, 3 trees.")
@click.option(
    "--plot", type=click.Path(file_okay=False, path_type=Path), help="Directory for a plot of each stream."
)
def ipfi(data: Path | None, trees: int, quick: bool, plot: Path | None) -> None:
    """iPFI on streams with drift against interval PFI (0/1 loss, α 0.001, L 100, ten draws) and against MDI."""
    from river import forest, tree

    n, trees = (4_000, 3) if quick else (20_000, trees)
    interval, half = n // 20, n // 2
    function = [agrawal(half, 1, seed=1), agrawal(half, 2, seed=2)]
    both = Table(
        "agrawal",
        np.vstack([t.X for t in function]),
        np.concatenate([t.y for t in function]),
        function[0].features,
    )
    streams = {
        "agrawal, function drift": (both, half, ["geometric"]),
        "agrawal, feature drift": (
            exchange(agrawal(n, 2, seed=3), half, [("elevel", "car"), ("age", "salary")]),
            half,
            ["geometric"],
        ),
    }
    if data:
        elec2 = load("elec2", data)
        elec2 = elec2.take(slice(0, 8_000)) if quick else elec2
        middle = 4_000 if quick else 20_000
        streams["elec2, feature drift"] = (
            exchange(elec2, middle, [("nswprice", "day")]),
            middle,
            ["uniform", "geometric"],
        )
    report = Report("stream", "accuracy", "median error: all", "before", "after", "paper")
    for name, (table, drift, kinds) in streams.items():
        model = forest.ARFClassifier(n_models=trees, seed=1)
        series, reference, accuracy = prequential(table, model, kinds, interval, name)
        ends = interval * np.arange(1, len(reference) + 1)
        for kind in kinds:
            error = np.array(
                [
                    np.abs(share(a.values[0]) - share(b.values[0])).sum()
                    for a, b in zip(series[kind], reference, strict=True)
                ]
            )
            label = f"{name}, {kind}" if len(kinds) > 1 else name
            medians = [np.median(error[part]) for part in (ends > 0, ends <= drift, ends > drift)]
            paper = " / ".join(f"{value:.3f}" for value in PAPER_IPFI[label])
            report.add_row(label, f"{accuracy:.3f}", *(f"{value:.3f}" for value in medians), paper)
            if plot:
                plot.mkdir(parents=True, exist_ok=True)
                draw(
                    series[kind],
                    reference,
                    interval,
                    drift,
                    plot / f"ipfi-{label.replace(', ', '-').replace(' ', '-')}.png",
                )
    Console().print(report)
    ranks = Report("stream, one HAT", "at", "first three by iPFI", "first three by MDI")
    for name, table, ends in [("agrawal, function drift", both, (half, n))] + (
        [("elec2", elec2, (len(elec2.y),))] if data else []
    ):
        hat = tree.HoeffdingAdaptiveTreeClassifier(seed=1)
        estimator = IncrementalPFI(hat, losses="zero_one", features=table.features)
        for t, (x, y) in enumerate(zip(table.rows(), table.y.tolist(), strict=True), start=1):
            hat.learn_one(x, y)
            estimator.explain_one(x, y)
            if t in ends:
                found = (estimator.explanation, mean_decrease_impurity(hat, table.features))
                ranks.add_row(name, f"{t:,}", *(", ".join(one for one, _ in top.top(3)) for top in found))
    Console().print(ranks)


class Switching(Model):
    """Several fitted models, of which one is in force."""

    def __init__(self, models: list[Model]) -> None:
        super().__init__(models, "classification")
        self.current = models[0]

    def predict(self, x: Row) -> Prediction:
        return self.current.predict(x)

    def predict_many(self, rows: Any) -> list[Prediction]:
        return self.current.predict_many(rows)


def pretrained(m: int, quick: bool) -> tuple[list[Model], list[Any]]:
    """Six forests of three trees, one per Agrawal function, and the batch SAGE values of each at the same m.

    With 300 records a leaf they are about as sure of themselves as river's adaptive random forest of three trees
    (cross-entropy .14 to .36 on four of the functions, .18 to .49 for that), and many times faster: smaller leaves say 0
    or 1, and a model that meets the records of another then loses up to 34 on one of them.
    """
    from sklearn.ensemble import RandomForestClassifier

    fit, explain = (20_000, 2_000) if quick else (20_000, 25_000)
    models, truths = [], []
    for function in track(range(6), "ground truth", 6, True):
        table = agrawal(fit, function, seed=10 + function)
        forest = RandomForestClassifier(3, min_samples_leaf=300, random_state=function).fit(table.X, table.y)
        models.append(wrap(forest, "classification", table.features))
        fresh = agrawal(explain, function, seed=20 + function)
        truths.append(SAGE(models[-1], n_samples=m).explain(fresh.X, fresh.y, tolerance=None).values[0])
    return models, truths


def switching_stream(n: int, probability: float, seed: int) -> Iterator[tuple[int, dict[str, float], int]]:
    """n records, each with the number of the function in force, which changes at random."""
    rng = Generator(derive_seed(seed, "stream"))
    changes = [0, *(t for t in range(1, n) if rng.uniform() < probability), n]
    order = rng.permutation(6)
    for k, (start, end) in enumerate(pairwise(changes)):
        function = order[k % 6]
        table = agrawal(end - start, function, seed=rng.below(2**31))
        for x, y in zip(table.rows(), table.y.tolist(), strict=True):
            yield function, x, y


@main.command()
@click.option("--runs", default=20, show_default=True, help="Streams per scenario.")
@click.option("--records", default=20_000, show_default=True, help="Records of a stream.")
@click.option(
    "--scenario", "scenarios", multiple=True, type=click.Choice(list(SWITCHES)), help="These alone."
)
@click.option("--window", "windows", multiple=True, type=int, help="These windows alone.")
@click.option("--quick", is_flag=True, help="One stream of 3,000 records, scenario high, window 500.")
def isage(runs: int, records: int, scenarios: tuple[str, ...], windows: tuple[int, ...], quick: bool) -> None:
    """iSAGE (α = 2/(w+1)) and sliding-window SAGE against the known values of models that are switched (m = 5).

    SW_c is recomputed every w/c records and costs c times what iSAGE costs; the error is the sum over the features of
    the absolute difference, averaged over the records from the first full window on.
    """
    if quick:
        runs, records, scenarios, windows = 1, 3_000, ("high",), (500,)
    m = 5
    models, truths = pretrained(m, quick)
    report = Report(
        "scenario", "w", "iSAGE", "SW_20", "SW_1", "squared: iSAGE", "SW_20", "SW_1", "paper (absolute)"
    )
    for scenario in scenarios or SWITCHES:
        for w in windows or (100, 500, 1000, 2000):
            found = []
            for seed in range(runs):
                model = Switching(models)
                ours = IncrementalSAGE(model, alpha=alpha_of(w), n_samples=m, seed=seed)
                sliding = SlidingWindowSAGE(model, window=w, stride=w // 20, n_samples=m, seed=seed)
                differences = []
                rare: Any = None
                stream = switching_stream(records, SWITCHES[scenario], seed)
                title = f"{scenario}, w = {w}, stream {seed + 1} of {runs}"
                for t, (function, x, y) in enumerate(track(stream, title, records, True), start=1):
                    model.current = models[function]
                    ours.explain_one(x, y)
                    sliding.explain_one(x, y)
                    if t < w:
                        continue
                    if t % w == 0:
                        rare = sliding.explanation.values[0]
                    values = (ours.explanation.values[0], sliding.explanation.values[0], rare)
                    differences.append([one - truths[function] for one in values])
                error = np.array(differences)
                found.append([np.abs(error).sum(axis=2).mean(axis=0), (error**2).sum(axis=2).mean(axis=0)])
            means = np.mean(found, axis=0)
            paper = " / ".join(f"{value:.3f}" for value in PAPER_ISAGE[scenario].get(w, ()))
            report.add_row(scenario, str(w), *(f"{value:.3f}" for value in means.ravel()), paper)
    Console().print(report)


if __name__ == "__main__":
    main()
