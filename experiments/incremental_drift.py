"""iPFI while data and model change (the preprint's experiments on streams with drift, Table 3).

An adaptive random forest learns; iPFI (0/1 loss, α 0.001, L 100, ten draws) is compared with interval PFI over twenty
intervals: negative values set to 0, each divided by its sum, the error is the sum of absolute differences. A Hoeffding
adaptive tree's ranks by iPFI stand beside those by mean decrease in impurity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.data import Table, agrawal, load
from experiments.options import data_or_none
from explain_core import plots
from explain_core.explanation import Explanation
from explain_core.importance.batch.intervals import IntervalPFI
from explain_core.importance.batch.mdi import mean_decrease_impurity
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.learners.choice import learner_of
from explain_core.models import Model, wrap
from explain_core.progress import track

PAPER_IPFI = {
    "agrawal, function drift": (0.052, 0.071, 0.022),
    "agrawal, feature drift": (0.035, 0.023, 0.047),
    "elec2, feature drift, uniform": (0.270, 0.041, 0.353),
    "elec2, feature drift, geometric": (0.037, 0.037, 0.037),
}
"""Preprint, Table 3: median error against interval PFI over the stream, before and after the drift."""


def exchange(table: Table, start: int, pairs: list[tuple[str, str]]) -> Table:
    """Feature drift: from ``start`` on, the values of each pair of features change places."""
    X = table.X.copy()
    for a, b in pairs:
        i, j = table.features.index(a), table.features.index(b)
        X[start:, [i, j]] = X[start:, [j, i]]
    return Table(table.name, X, table.y, table.features)


def drifts(n: int, data: Path | None) -> dict[str, tuple[Table, int, list[str]]]:
    """The streams of n records (elec2: of 45,312, or of n below 20,000), where each drifts, and its kinds of reservoir."""
    half = n // 2
    function = [agrawal(half, 1, seed=1), agrawal(half, 2, seed=2)]
    both = Table(
        "agrawal",
        np.vstack([t.X for t in function]),
        np.concatenate([t.y for t in function]),
        function[0].features,
    )
    found = {
        "agrawal, function drift": (both, half, ["geometric"]),
        "agrawal, feature drift": (
            exchange(agrawal(n, 2, seed=3), half, [("elevel", "car"), ("age", "salary")]),
            half,
            ["geometric"],
        ),
    }
    if data:
        elec2, middle = load("elec2", data), n
        if n < 20_000:
            elec2, middle = elec2.take(slice(0, n)), half
        elec2 = exchange(elec2, middle, [("nswprice", "day")])
        found["elec2, feature drift"] = elec2, middle, ["uniform", "geometric"]
    return found


def share(values: Any) -> Any:
    positive = np.maximum(np.nan_to_num(values), 0.0)
    return positive / (positive.sum() or 1.0)


def prequential(
    table: Table, model: Model, kinds: list[str], interval: int, title: str
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
        prediction: Any = model.predict(x)
        right += bool(prediction) and max(prediction, key=prediction.get) == y
        for estimator in ipfi.values():
            estimator.explain_one(x, y, prediction)
        batch.explain_one(x, y)
        if t % interval == 0:
            reference.append(batch.explanation)
            for kind in kinds:
                series[kind].append(ipfi[kind].explanation)
        model.learn(x, y)
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
            axes.plot(
                at,
                [explanation.values[0, j] for explanation in reference],
                "--",
                color=colours[name],
                linewidth=1.0,
            )
    axes.axvline(drift, color="black", linestyle=":")
    axes.set_xlabel("records (dashed: interval PFI; dotted: drift)")
    axes.figure.savefig(file, dpi=150)


@click.command(help=__doc__)
@data_or_none("Directory with elec2.csv.gz.")
@click.option(
    "--trees", default=10, show_default=True, help="Trees of the adaptive random forest (the paper: 50)."
)
@click.option(
    "--stream",
    "only",
    multiple=True,
    type=click.Choice(["function", "feature", "elec2"]),
    help="These alone.",
)
@click.option("--quick", is_flag=True, help="300 records a stream, 1 tree.")
@click.option(
    "--plot", type=click.Path(file_okay=False, path_type=Path), help="Directory for a plot of each stream."
)
def main(data: Path | None, trees: int, only: tuple[str, ...], quick: bool, plot: Path | None) -> None:
    from river import forest, tree

    n, trees = (300, 1) if quick else (20_000, trees)
    interval, half = n // 20, n // 2
    streams = drifts(n, data)
    (both, _, _), *_ = streams.values()
    if only:
        streams = {name: stream for name, stream in streams.items() if any(part in name for part in only)}
    report = Report("stream", "accuracy", "median error: all", "before", "after", "paper")
    for name, (table, drift, kinds) in streams.items():
        made = forest.ARFClassifier(n_models=trees, seed=1)
        model = learner_of(made, "classification") or wrap(made, "classification")
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
    ranked = [("agrawal, function drift", both, (half, n))]
    if data:
        elec2 = load("elec2", data).take(slice(0, n if quick else None))
        ranked.append(("elec2", elec2, (len(elec2.y), len(elec2.y))))
    for name, table, ends in ranked:
        if only and not any(part in name for part in only):
            continue
        hat = tree.HoeffdingAdaptiveTreeClassifier(seed=1)
        estimator = IncrementalPFI(hat, losses="zero_one", features=table.features)
        for t, (x, y) in enumerate(zip(table.rows(), table.y.tolist(), strict=True), start=1):
            hat.learn_one(x, y)
            estimator.explain_one(x, y)
            if t in ends:
                found = (estimator.explanation, mean_decrease_impurity(hat, table.features))
                ranks.add_row(
                    name, f"{t:,}", *(", ".join(feature for feature, _ in top.top(3)) for top in found)
                )
    Console().print(ranks)


if __name__ == "__main__":
    main()
