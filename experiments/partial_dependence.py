"""``python -m experiments.partial_dependence``: iPDP beside the batch partial dependence of the same frozen model, over the same records.

Five trained models of ``experiments.label_free``, each on streams of 2,000 records that do not change, with the default α. The error is the largest over the points of a curve, the range that of
the predictions between their 1 % and 99 % quantiles. A sign counts where the batch curve's ends differ by more than 1 % of the range.
"""

from __future__ import annotations

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.label_free import NAMES, models, rows
from experiments.options import quick_option
from explain_core import IncrementalPDP


@click.command(help=__doc__)
@quick_option
def main(quick: bool) -> None:
    seeds, length = (1, 500) if quick else (2, 2_000)
    report = Report("model", "curves", "mean error, of the range", "largest", "right signs")
    errors, right, signs = [], 0, 0
    for name, make in models().items():
        own, good, counted = [], 0, 0
        for seed in range(seeds):
            rng = np.random.default_rng([seed, 5])
            model, given = make(rng), list(rows(rng, length))
            label = None if model.task == "regression" else 1
            pdp = IncrementalPDP(model, list(NAMES), task=model.task, label=label, seed=seed)
            for x in given:
                pdp.explain_one(x)
            low, high = np.quantile([pdp._value(one) for one in model.predict_many(given)], [0.01, 0.99])
            for curve in pdp.curves:
                truth = [
                    np.mean(
                        [
                            pdp._value(one)
                            for one in model.predict_many([{**x, curve.feature: point} for x in given])
                        ]
                    )
                    for point in curve.points
                ]
                own.append(float(np.abs(np.array(curve.values) - truth).max() / (high - low)))
                effect = truth[-1] - truth[0]
                if abs(effect) > 0.01 * (high - low):
                    counted += 1
                    good += effect * curve.effect > 0.0
        report.add_row(
            name,
            str(len(own)),
            f"{100 * np.mean(own):.2f} %",
            f"{100 * max(own):.2f} %",
            f"{good} of {counted}",
        )
        errors, right, signs = errors + own, right + good, signs + counted
    report.add_row(
        "all",
        str(len(errors)),
        f"{100 * np.mean(errors):.2f} %",
        f"{100 * max(errors):.2f} %",
        f"{right} of {signs}",
    )
    Console(width=110).print(report)
    raise SystemExit(0 if quick or (np.mean(errors) <= 0.02 and right >= 0.99 * signs) else 1)


if __name__ == "__main__":
    main()
