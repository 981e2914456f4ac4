"""``python -m benchmarks.challenger``: what a challenger costs: the fold of a model with one beside the folds of both models alone.

The whole fold, in blocks as a worker folds: JSON, prediction, explaining by iPFI and iSAGE (m = 1), learning, performance, messages; 30 numbers. Each pair is two models of one
kind, with different parameters. Blocks of all three ways take turns; a figure is the median over blocks of microseconds per record of the thread's CPU
time; the ratio is that of the time with the challenger over the mean of the two alone, the median over blocks.
"""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.fold import folds
from benchmarks.trained import NAMES, data
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.settings import Settings

WARM_UP = 300
BLOCKS = 9

Section = dict[str, Any]


def pairs(x: Any, y: Any, folder: Path) -> Iterator[tuple[str, Section, Section]]:
    """Name, model and challenger."""
    linear = "river.linear_model:LogisticRegression"
    yield "logistic regressions", {"factory": linear}, {"factory": linear, "params": {"l2": 0.001}}
    tree = "river.tree:HoeffdingTreeClassifier"
    yield "Hoeffding trees", {"factory": tree}, {"factory": tree, "params": {"grace_period": 100}}
    forest = {"factory": "river.forest:ARFClassifier", "params": {"n_models": 5}}
    yield "random forests of 5", forest, {**forest, "params": {"n_models": 5, "grace_period": 100}}
    import xgboost

    found = []
    for name, rate in (("first", 0.3), ("second", 0.1)):
        settings = {"objective": "binary:logistic", "max_depth": 6, "nthread": 1, "eta": rate}
        booster = xgboost.train(settings, xgboost.DMatrix(x, y, feature_names=NAMES), 500)
        booster.save_model(folder / f"{name}.ubj")
        found.append({"uri": str(folder / f"{name}.ubj")})
    yield "XGBoost, 500 trees of depth 6", found[0], found[1]


def settings(model: Section, challenger: Section | None = None) -> Settings:
    explainers = [{"kind": "ipfi", "n_samples": 1}, {"kind": "isage", "n_samples": 1}]
    given = {"model": model, "explainers": explainers, "record": {"features": NAMES, "label": "label"}}
    return Settings.model_validate(given if challenger is None else {**given, "challenger": challenger})


def measured(states: list[PartitionState], values: list[bytes], size: int) -> list[list[float]]:
    """Seconds per record of each state, block by block."""
    found: list[list[float]] = [[] for _ in states]
    for block in range(-1, BLOCKS):
        begin, count = (0, WARM_UP) if block < 0 else (WARM_UP + block * size, size)
        turn = max(block, 0) % len(states)
        for which in [*range(turn, len(states)), *range(turn)]:
            state = states[which]
            started = time.thread_time()
            deque(folds(state, values[begin : begin + count]), maxlen=0)
            if block >= 0:
                found[which].append((time.thread_time() - started) / count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=400, help="of a block")
    parser.add_argument("--every", type=int, default=4, help="challenger.every (default 4)")
    arguments = parser.parse_args()
    x, y = data(WARM_UP + BLOCKS * arguments.records)
    lines = [dict(zip(NAMES, row, strict=True)) for row in x.tolist()]
    values = [
        json.dumps({**row, "label": label}).encode() for row, label in zip(lines, y.tolist(), strict=True)
    ]
    print("| model and challenger | µs per record: model | challenger alone | both | ratio |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name, model, challenger in pairs(x, y, Path(folder)):
            compared = settings(model, {**challenger, "every": arguments.every})
            ways = (settings(model), settings(challenger), compared)
            found = measured([PartitionState(way, 0) for way in ways], values, arguments.records)
            ratio = statistics.median(
                2.0 * both / (first + second) for first, second, both in zip(*found, strict=True)
            )
            figures = " | ".join(f"{1e6 * statistics.median(seconds):,.0f}" for seconds in found)
            print(f"| {name} | {figures} | {ratio:.2f}× |", flush=True)


if __name__ == "__main__":
    main()
