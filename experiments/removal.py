"""Conditional against marginal removal on dependent features (iSAGE, Sect. 4.3 and E.3.4, Fig. 14).

Agrawal records by the paper's function (river's 1, of age and salary), where the commission is 0 for a salary of 75,000 or
more. An adaptive random forest of three trees learns; iSAGE (m = 1, α = 0.001, L = 100) explains every record before. What
the model has learnt to read from the commission counts for it under marginal removal; given the salary there is little
left to learn from it, so that conditional removal should give most of that to salary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.data import agrawal
from explain_core import plots
from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners.choice import learner_of
from explain_core.models import wrap
from explain_core.progress import track

Removal = Literal["marginal", "conditional"]
REMOVALS: tuple[Removal, ...] = ("marginal", "conditional")


def explained(n: int, seed: int) -> dict[Removal, IncrementalSAGE]:
    """Both estimators after n records of a stream of this seed, and of a forest of it."""
    from river import forest

    table = agrawal(n, 1, seed=seed)
    made = forest.ARFClassifier(n_models=3, seed=seed)
    model = learner_of(made, "classification") or wrap(made, "classification")
    both = {
        removal: IncrementalSAGE(model, removal=removal, n_samples=1, features=table.features, seed=seed)
        for removal in REMOVALS
    }
    stream = list(zip(table.rows(), table.y.tolist(), strict=True))
    for x, y in track(stream, f"agrawal, seed {seed}", len(stream), True):
        prediction = model.predict(x)
        for sage in both.values():
            sage.explain_one(x, y, prediction)
        model.learn(x, y)
    return both


@click.command(help=__doc__)
@click.option("--records", default=10_000, show_default=True, help="Records of a stream.")
@click.option("--seeds", default=10, show_default=True, help="Streams, each with a forest of its own.")
@click.option("--quick", is_flag=True, help="2 streams of 300 records.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="File for a plot of the first.")
def main(records: int, seeds: int, quick: bool, plot: Path | None) -> None:
    if quick:
        records, seeds = 300, 2
    found = [explained(records, seed) for seed in range(1, seeds + 1)]
    features = found[0]["marginal"].explanation.features
    values = {
        kind: np.array([by_removal[kind].explanation.values[0] for by_removal in found]) for kind in REMOVALS
    }
    columns = [*values.values(), values["conditional"] - values["marginal"]]
    report = Report("feature", *(f"{kind} (SE)" for kind in REMOVALS), "conditional − marginal (SE)")
    for j, feature in enumerate(features):
        cells = (
            f"{of[:, j].mean():+.3f} ({of[:, j].std(ddof=1) / np.sqrt(seeds):.3f})"
            if seeds > 1
            else f"{of[0, j]:+.3f}"
            for of in columns
        )
        report.add_row(feature, *cells)
    Console(width=110).print(report)
    if plot:
        axes = plots.drift(found[0]["marginal"].explanation, found[0]["conditional"].explanation)
        axes.legend(REMOVALS)
        axes.figure.savefig(plot, dpi=150)


if __name__ == "__main__":
    main()
