"""How often do messages name what drives the model, and how often do they name noise?

The sidecar's estimators and one of its models on real streams, a message each 100 records, from the 600th on. *Shown*: cells with a band. *Gain*: messages in which the
model is better than none for certain. *Named*: messages that name a driver, of all, and of those with a gain.

*Noise*: five features that have nothing to do with the label are added: normal, uniform, lognormal, a flag of 3 %, a category of five. Then the labels of the set are permuted, so that
every feature is noise. Looks 4,000 records apart count as independent, and so do runs with other noise or another permutation: there are as many runs as ``--looks`` need. *Band*: a feature of noise whose lower end is above 0, of all of them; *named*: looks
that name any. Regression and multi-class sets join in where the default model can learn them.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as Report

from experiments.options import data_or_none, quick_option
from explain_client import Explanation
from explain_client.fold import FoldDriver

Record = dict[str, Any]

SETS = {
    "elec2": ("elec2.csv.gz", "class", "binary"),
    "adult": ("adult.csv.gz", "class", "binary"),
    "bank": ("bank_full.csv.gz", "y", "binary"),
    "airlines": ("airlines_moa_5pct.csv.gz", "Delay", "binary"),
    "covtype": ("covtype_train15120.csv.gz", "Cover_Type", "multiclass"),
    "housing": ("california_housing.csv.gz", "MedHouseVal", "regression"),
}
AIRPORTS = ("EWR", "JFK", "LGA")
NOISE = tuple(f"noise_{kind}" for kind in ("normal", "uniform", "lognormal", "flag", "category"))
APART = 4_000
FIRST = 600


def records(name: str, data: Path | None, most: int) -> tuple[list[Record], str]:
    """The records of a set, label under ``label``, and the model's task."""
    if name in AIRPORTS:
        from explain_sidecar.demo.flights import flights

        own = [record for record in flights(5) if record.pop("origin") == name and record.pop("scheduled")]
        return [{"label": record.pop("late"), **record} for record in own[:most]], "binary"
    if name in ("Phishing", "Bananas", "CreditCard"):
        from river import datasets

        pairs = getattr(datasets, name)()
        return [{**x, "label": str(y)} for x, y in pairs][:most], "binary"
    if data is None:
        raise click.UsageError(f"{name}: pass --data with the directory of its file")
    file, label, task = SETS[name]
    with gzip.open(data / file, "rt") as lines:
        frame = pd.read_csv(lines, nrows=most)
    if task != "regression":
        frame[label] = frame[label].astype(str)
    return frame.rename(columns={label: "label"}).to_dict("records"), task


def with_noise(rows: list[Record], seed: int) -> list[Record]:
    rng = np.random.Generator(np.random.PCG64(seed))
    n = len(rows)
    columns = (
        rng.normal(size=n), rng.random(n), rng.lognormal(size=n), (rng.random(n) < 0.03).astype(float),
        rng.choice(list("abcde"), n),
    )  # fmt: skip
    noise = (
        dict(zip(NOISE, values, strict=True)) for values in zip(*(c.tolist() for c in columns), strict=True)
    )
    return [record | added for record, added in zip(rows, noise, strict=True)]


def permuted(rows: list[Record], seed: int) -> list[Record]:
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(rows)).tolist()
    return [record | {"label": rows[i]["label"]} for record, i in zip(rows, order, strict=True)]


def messages(rows: list[Record], task: str, model: str, seed: int = 0, every: int = 100) -> list[Explanation]:
    missing = [{k: v for k, v in record.items() if v == v and v is not None} for record in rows]
    driver = FoldDriver({"record.label": "label", "model.task": task, "model.name": model, "seed": seed, "emit.every": every})  # fmt: skip
    driver.send(missing)
    return [explanation for explanation in driver.explanations if explanation.records >= FIRST]


def named(explanation: Explanation, estimator: str) -> list[str]:
    driven = explanation.driven(estimator)
    return [driver.feature for driver in driven.drivers] if driven else []


def power(explanations: list[Explanation], estimator: str) -> list[float]:
    """Shown, gain, named of all, named of those with a gain."""
    cells = [
        cell for e in explanations for cell in e.importance(estimator).values() if cell.value is not None
    ]
    shown = float(np.mean([cell.low is not None for cell in cells]))
    gains = [(driven := e.driven(estimator)) is not None and driven.gain_low > 0.0 for e in explanations]
    names = [bool(named(e, estimator)) for e in explanations]
    of = [name for name, gain in zip(names, gains, strict=True) if gain]
    return [shown, float(np.mean(gains)), float(np.mean(names)), float(np.mean(of)) if of else float("nan")]


def false(
    explanations: list[Explanation], estimator: str, noise: tuple[str, ...] | None
) -> Iterator[tuple[float, bool]]:
    """Of each look the share of noise with a lower end above 0, and whether any noise is named."""
    for explanation in explanations:
        cells = explanation.importance(estimator)
        features = noise or tuple(cells)
        above = [cell.low is not None and cell.low > 0.0 for name, cell in cells.items() if name in features]
        yield float(np.mean(above)), any(name in features for name in named(explanation, estimator))


@click.command(help=__doc__)
@data_or_none()
@click.option("--set", "sets", multiple=True, help="These alone.")
@click.option("--model", default="mixture", show_default=True, help="`model.name`.")
@click.option("--records", "most", default=20_000, show_default=True, help="Of each set.")
@click.option(
    "--looks", default=300, show_default=True, help="At noise, and at permuted labels, of each set."
)
@quick_option
def main(data: Path | None, sets: tuple[str, ...], model: str, most: int, looks: int, quick: bool) -> None:
    apart = APART
    if quick:
        most, looks, apart = 800, 1, 800
    chosen = sets or (*(SETS if data else ()), *(() if quick else AIRPORTS), "Bananas")
    report = Report("set", "estimator", "shown", "gain", "named", "named, with a gain", "looks", "noise: band", "named", "permuted: band", "named")  # fmt: skip
    missed = 0
    for name in chosen:
        rows, task = records(name, data, most)
        plain = messages(rows, task, model)
        seeds = range(math.ceil(looks / (len(rows) // apart)))
        noisy = [messages(with_noise(rows, seed), task, model, seed, apart) for seed in seeds]
        mixed = [messages(permuted(rows, seed), task, model, seed, apart) for seed in seeds]
        for estimator in ("ipfi", "isage"):
            found = [
                list(false([look for run in runs for look in run], estimator, noise))
                for runs, noise in ((noisy, NOISE), (mixed, None))
            ]
            rates = [[float(np.mean(column)) for column in zip(*looks, strict=True)] for looks in found]
            missed += any(band > 0.025 or names > 0.05 for band, names in rates)
            report.add_row(
                name, estimator, *(f"{value:.3f}" for value in power(plain, estimator)), str(len(found[0])),
                *(f"{value:.3f}" for rate in rates for value in rate),
            )  # fmt: skip
        Console(width=150).print(report) if not quick else None
    Console(width=150).print(report)
    raise SystemExit(1 if missed and not quick else 0)


if __name__ == "__main__":
    main()
