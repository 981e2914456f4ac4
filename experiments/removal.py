"""Conditional against marginal removal on dependent features (iSAGE, Sect. 4.3 and E.3.4, Fig. 14).

Agrawal records by the paper's function (river's 1, of age and salary), where the commission is 0 for a salary of 75,000 or
more. An adaptive random forest of three trees learns; iSAGE (m = 1, α = 0.001, L = 100) explains every record before. What
the model has learnt to read from the commission counts for it under marginal removal; given the salary there is little
left to learn from it, so that conditional removal should give most of that to salary.
"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table as Report

from experiments.data import agrawal
from explain_core import plots
from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners.choice import learner_of
from explain_core.models import wrap
from explain_core.progress import track
from explain_core.smoothing import half_width

WIDTH = half_width("normal", 0.95)


@click.command(help=__doc__)
@click.option("--records", default=10_000, show_default=True, help="Records of the stream.")
@click.option("--quick", is_flag=True, help="300 records.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="File for a plot of the two.")
def main(records: int, quick: bool, plot: Path | None) -> None:
    from river import forest

    table = agrawal(300 if quick else records, 1, seed=1)
    made = forest.ARFClassifier(n_models=3, seed=1)
    model = learner_of(made, "classification") or wrap(made, "classification")
    both = {
        removal: IncrementalSAGE(model, removal=removal, n_samples=1, features=table.features)
        for removal in ("marginal", "conditional")
    }
    stream = list(zip(table.rows(), table.y.tolist(), strict=True))
    for x, y in track(stream, "agrawal", len(stream), True):
        prediction = model.predict(x)
        for sage in both.values():
            sage.explain_one(x, y, prediction)
        model.learn(x, y)
    found = {removal: sage.explanation.importance() for removal, sage in both.items()}
    report = Report("feature", *(f"{removal} ± half its band" for removal in found))
    for feature in table.features:
        cells = (one[feature] for one in found.values())
        report.add_row(feature, *(f"{one.value:+.3f} ± {WIDTH * one.std:.3f}" for one in cells))
    Console(width=110).print(report)
    if plot:
        axes = plots.drift(both["marginal"].explanation, both["conditional"].explanation)
        axes.legend(["marginal", "conditional"])
        axes.figure.savefig(plot, dpi=150)


if __name__ == "__main__":
    main()
