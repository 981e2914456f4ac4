"""``python -m benchmarks.reasons``: reasons of single predictions, by explain_core and by shap's interventional TreeExplainer, in records/s.

XGBoost, 100 trees of depth 6 on twelve numbers of which 5 % are missing, against 100 rows. Both explain the same records in one thread, block by block in turns;
a figure is the median over the blocks of records per second of CPU time. The largest difference between both, and what the values lack of adding up,
are over all of these records. The second table is of learners after 2,000 records of eight features, one record at a time. The third is of the sidecar's fold of such records by the
default model, one in so many of which has its five largest reasons published: µs of CPU time a record.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from numpy.typing import NDArray
from river import forest, linear_model, preprocessing

from explain_core import Mixture, PredictionExplainer, Reasons, learner_of, load_model
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

BACKGROUND = 100
BLOCK, BLOCKS = 1_000, 5
FEW = 100
"""Records of a block that shap explains, and that are explained one by one."""
COLUMNS, N_LEARNT, N_SINGLE, N_BEFORE, N_FOLDED = 12, 2_000, 20, 200, 2_000


def table(n: int, columns: int, missing: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.Generator(np.random.PCG64(0))
    x = rng.normal(size=(n, columns))
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] ** 2 + x[:, 4] * (x[:, 5] > 0)
    y = (score + 0.3 * rng.normal(size=n) > 0.8).astype(np.int64)
    x[rng.random(x.shape) < missing] = np.nan
    return x, y


def records(x: NDArray[np.float64]) -> list[dict[str, float]]:
    return [{f"x{i}": value for i, value in enumerate(row)} for row in x.tolist()]


def timed(explain: Callable[[], Any], n: int) -> tuple[Any, float]:
    """What it returns, and records per second of CPU time."""
    start = time.thread_time()
    found = explain()
    return found, n / (time.thread_time() - start)


def lacking(reasons: Reasons) -> float:
    return float(np.abs(reasons.baseline + reasons.values.sum(axis=1) - reasons.prediction).max())


def trained() -> None:
    import shap
    import xgboost

    x, y = table(20_000, COLUMNS, 0.05)
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1).fit(x, y)
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(path := Path(folder, "model.json"))
        own_model = load_model(path, features=[f"x{i}" for i in range(COLUMNS)])
    rows = records(x[: BACKGROUND + BLOCK * BLOCKS])
    print(
        "| output | explain_core, in blocks | explain_core, one by one | shap | times shap | largest difference | not adding up |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for space, output in (("margin", "raw"), ("prediction", "probability")):
        own = PredictionExplainer(own_model, rows[:BACKGROUND], space=space)  # type: ignore[arg-type]
        theirs = shap.TreeExplainer(
            model, x[:BACKGROUND], feature_perturbation="interventional", model_output=output
        )
        speeds: list[tuple[float, float, float]] = []
        apart = lacks = 0.0
        for block in range(BLOCKS):
            first = BACKGROUND + block * BLOCK
            found, many = timed(lambda: own.explain(rows[first : first + BLOCK]), BLOCK)  # noqa: B023
            _, alone = timed(lambda: [own.explain([row]) for row in rows[first : first + FEW]], FEW)  # noqa: B023
            values, other = timed(lambda: theirs.shap_values(x[first : first + FEW]), FEW)  # noqa: B023
            speeds.append((many, alone, other))
            apart = max(apart, float(np.abs(found.values[:FEW, :, -1] - values).max()))
            lacks = max(lacks, lacking(found))
        many, alone, other = (statistics.median(one) for one in zip(*speeds, strict=True))
        times = statistics.median(one[0] / one[2] for one in speeds)
        print(
            f"| {output} | {many:,.0f} | {alone:,.0f} | {other:,.0f} | {times:.0f} | {apart:.1e} | {lacks:.1e} |"
        )


def learners() -> None:
    x, y = table(N_LEARNT + BACKGROUND + N_SINGLE, 8, 0.0)
    rows = records(x)

    def line() -> Any:
        return preprocessing.StandardScaler() | linear_model.LogisticRegression()

    models = {
        "linear, margin": (line(), "margin", 0),
        "forest of ten": (forest.ARFClassifier(10, seed=0), "prediction", 0),
        "mixture": (Mixture({"linear": line(), "forest": forest.ARFClassifier(10, seed=0)}), "prediction", 0),
        "mixture, sampled": (
            Mixture({"linear": line(), "forest": forest.ARFClassifier(10, seed=0)}), "prediction", 3_200,
        ),
    }  # fmt: skip
    print("\n| learner | method | records/s | not adding up |\n| --- | --- | --- | --- |")
    for name, (model, space, most) in models.items():
        learner = learner_of(model, "classification")
        assert learner is not None
        for row, label in zip(rows[:N_LEARNT], y.tolist(), strict=False):
            learner.learn(row, bool(label))
        explainer = PredictionExplainer(
            learner,
            rows[N_LEARNT : N_LEARNT + BACKGROUND],
            space=space,
            most=most or 32_768,  # type: ignore[arg-type]
        )
        found, speed = timed(lambda: [explainer.explain([row]) for row in rows[-N_SINGLE:]], N_SINGLE)  # noqa: B023
        print(f"| {name} | {found[0].method} | {speed:,.0f} | {max(map(lacking, found)):.1e} |")


def published() -> None:
    x, y = table(N_BEFORE + N_FOLDED, 8, 0.0)
    given = [
        InputRecord(offset, 1_000 * offset, b"k", orjson.dumps({**row, "label": bool(label)}))
        for offset, (row, label) in enumerate(zip(records(x), y.tolist(), strict=True))
    ]
    print("\n| reasons of | µs a record |\n| --- | --- |")
    for name, chosen in {
        "none": {},
        "one in 100": {"enabled": True, "every": 100},
        "one in 10": {"enabled": True, "every": 10},
        "each": {"enabled": True},
    }.items():
        state = PartitionState(Settings(predictions=chosen), 0)
        fold(state, given[:N_BEFORE])
        _, speed = timed(lambda: fold(state, given[N_BEFORE:]), N_FOLDED)  # noqa: B023
        print(f"| {name} | {1e6 / speed:,.0f} |")


def fold(state: PartitionState, given: Sequence[InputRecord]) -> None:
    """As a worker does, in blocks where that is possible."""
    done = 0
    while done < len(given):
        folded, _ = state.fold(given[done : done + 500])
        if not folded:
            state.step(given[done])
        done += len(folded) or 1


@click.command(help=__doc__)
def main() -> None:
    warnings.simplefilter("ignore")
    trained()
    learners()
    published()


if __name__ == "__main__":
    main()
