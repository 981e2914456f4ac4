"""Why iPFI and interval PFI differ on streams with drift, beyond the paper's figures: one cause at a time.

The streams, forest, loss and error are those of ``experiments.incremental_drift``. iPFI and interval PFI answer different
questions, and each row of the table makes them differ in less:

- *iPFI*: explained, then learnt; exponential weights; replacements from a geometric reservoir of 100 rows;
- *another seed*: the same with other draws, against iPFI itself: the noise of the draws;
- *1,000 rows*: the same with a reservoir of 1,000 rows;
- *mean*: the plain mean of that over the interval, in place of exponential weights;
- *learnt first*: each record is learnt before it is explained;
- *before*: batch PFI on the records of the interval by the model as it was at its beginning.

The reference is interval PFI: the model at the end of the interval, on the records of the interval that it has learnt by then.
With ``--still`` the model stops learning, and ``--shuffle`` takes time out of the records: what is left says which of the two it was.
Figures of a model that stands still begin when iPFI has forgotten what was before, 2/α records later.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.data import Table
from experiments.incremental_drift import drifts, share
from experiments.options import data_or_none, quick_option
from explain_core.importance.batch.intervals import IntervalPFI
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.learners.choice import learner_of
from explain_core.models import Model, wrap
from explain_core.progress import track

Array = np.ndarray[Any, Any]
ALPHA = 0.001
LOSSES = ("zero_one", "cross_entropy")
REFERENCE = "interval PFI"
ROWS = {
    "iPFI": REFERENCE,
    "iPFI, another seed": "iPFI",
    "iPFI, 1,000 rows": REFERENCE,
    "iPFI, learnt first": REFERENCE,
    "mean of the interval": REFERENCE,
    "mean, 1,000 rows": REFERENCE,
    "mean, learnt first": REFERENCE,
    "batch PFI, model at the beginning": REFERENCE,
}
"""What is compared, with what."""


class Increments:
    """iPFI that also keeps the increment of each record, losses × features, as its raw values tell it; 0 while it warms up."""

    def __init__(self, model: Model, **settings: Any) -> None:
        self.ipfi = IncrementalPFI(model, alpha=ALPHA, n_samples=10, **settings)
        self._raw: Array | float = 0.0
        self.kept: list[Array] = []

    def explain(self, x: Mapping[str, Any], y: Any, prediction: Any) -> None:
        before, self._raw = self._raw, self.ipfi.explain_one(x, y, prediction).raw.copy()
        self.kept.append((self._raw - (1.0 - ALPHA) * before) / ALPHA)

    def mean(self, records: int) -> Array:
        result: Array = np.mean(self.kept[-records:], axis=0)
        return result


def batch(model: Model, records: list[tuple[Any, Any]], **settings: Any) -> Array:
    """Batch PFI of these records, ten permutations of each feature."""
    pfi = IntervalPFI(model, window=len(records), n_repeats=10, **settings)
    for x, y in records:
        pfi.explain_one(x, y)
    return pfi.explanation.values


def followed(
    table: Table, model: Model, length: int, still: int, title: str
) -> tuple[dict[str, list[Array]], float]:
    """The values of each row of the table, and of the reference, at the end of each interval but the first; the accuracy.

    The model learns from the first ``still`` records.
    """
    settings: dict[str, Any] = {"losses": list(LOSSES), "features": table.features}
    ipfi, other, large, late = (
        Increments(model, **settings, **own) for own in ({}, {"seed": 1}, {"size": 1_000}, {})
    )
    found: dict[str, list[Array]] = {name: [] for name in (*ROWS, REFERENCE)}
    records, right = list(zip(table.rows(), table.y.tolist(), strict=True)), 0
    beginning = copy.deepcopy(model)
    for t, (x, y) in enumerate(track(records, title, len(records), True), start=1):
        prediction: Any = model.predict(x)
        right += bool(prediction) and max(prediction, key=prediction.get) == y
        for estimator in (ipfi, other, large):
            estimator.explain(x, y, prediction)
        if t <= still:
            model.learn(x, y)
        late.explain(x, y, model.predict(x))
        if t % length == 0:
            if t > length:
                interval = records[t - length : t]
                values = (
                    *(estimator.ipfi.explanation.values for estimator in (ipfi, other, large, late)),
                    *(estimator.mean(length) for estimator in (ipfi, large, late)),
                    batch(beginning, interval, **settings),
                    batch(model, interval, **settings),
                )
                for name, value in zip(found, values, strict=True):
                    found[name].append(value.copy())
            beginning = copy.deepcopy(model)
    return found, right / len(records)


@click.command(help=__doc__)
@data_or_none("Directory with elec2.csv.gz.")
@click.option("--trees", default=50, show_default=True, help="Trees of the adaptive random forest.")
@click.option("--stream", "only", multiple=True, help="Those with this in their names.")
@click.option("--interval", default=1_000, show_default=True, help="Records of an interval.")
@click.option("--records", type=int, help="The first ones of each stream.")
@click.option(
    "--still", type=int, help="The model learns from so many records; figures are of what comes after."
)
@click.option("--shuffle", is_flag=True, help="The records that are taken, in random order.")
@quick_option
def main(
    data: Path | None, trees: int, only: tuple[str, ...], interval: int, records: int | None, still: int | None, shuffle: bool, quick: bool
) -> None:  # fmt: skip
    from river import forest

    n, trees, interval = (300, 1, 100) if quick else (20_000, trees, interval)
    for name, (table, drift, _) in drifts(n, data).items():
        if only and not any(part in name for part in only):
            continue
        order = np.arange(len(table.y))[:records]
        table = table.take(np.random.default_rng(0).permutation(order) if shuffle else order)
        made = forest.ARFClassifier(n_models=trees, seed=1)
        model = learner_of(made, "classification") or wrap(made, "classification")
        found, accuracy = followed(table, model, interval, still or len(order), name)
        ends = interval * np.arange(2, len(found[REFERENCE]) + 2)
        report = Report(f"{name}, {trees} trees, accuracy {accuracy:.3f}", "loss", "all", "before", "after")
        for row, (_, against) in zip(found, ROWS.items(), strict=False):
            for i, loss in enumerate(LOSSES):
                pairs = zip(found[row], found[against], strict=True)
                error = np.array([np.abs(share(a[i]) - share(b[i])).sum() for a, b in pairs])
                counted = ends > (still + 2 / ALPHA if still else 0)
                parts = (counted & part for part in (ends > 0, ends <= drift, ends > drift))
                report.add_row(
                    row, loss, *(f"{np.median(error[part]):.3f}" if part.any() else "–" for part in parts)
                )
        Console(width=110).print(report)


if __name__ == "__main__":
    main()
