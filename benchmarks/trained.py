"""``python -m benchmarks.trained``: the fold over trained models, by compiled code and by their own library's predict, in records/s.

500 trees of depth 6 by XGBoost and LightGBM, and a random forest of 100 trees by scikit-learn and as ONNX, trained on 30 numbers; iPFI and iSAGE
with one draw each. The library predicts all copies of a record in one call of one thread. Blocks of both ways take turns; a figure is the
median over blocks of records per second of the thread's CPU time, of the whole fold: JSON, prediction, explaining, performance, messages.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explain_core.losses import Prediction
from explain_core.models import Model, Row
from service.fold.partition import PartitionState
from service.fold.records import InputRecord
from service.settings import Settings

N_FEATURES = 30
NAMES = [f"x{column}" for column in range(N_FEATURES)]
WARM_UP = 150


class Own(Model):
    """A classifier of two classes whose library predicts a matrix."""

    in_batches = True

    def __init__(self, predict: Callable[[Any], Any]) -> None:
        super().__init__(predict, "classification")
        self.features = NAMES

    def predict(self, x: Row) -> Prediction:
        return self.predict_many([x])[0]

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        if not rows:
            return []
        matrix = np.array([[row.get(name, np.nan) for name in NAMES] for row in rows], np.float32)
        return [{0: 1.0 - p, 1: p} for p in np.asarray(self.wrapped(matrix), float).tolist()]


CURRENT: Callable[[Any], Any]


def own() -> Model:
    """The factory of the settings."""
    return Own(CURRENT)


def data(n: int) -> tuple[Any, Any]:
    rng = np.random.Generator(np.random.PCG64(1))
    x = rng.normal(size=(n, N_FEATURES)).astype(np.float32).astype(float)
    score = x[:, 0] * x[:, 1] + x[:, 2] + np.sin(2 * x[:, 3]) + 0.5 * x[:, 4:12].sum(axis=1) * x[:, 12]
    return x, (score + rng.normal(size=n) > 0).astype(int)


def models(x: Any, y: Any, folder: Path) -> Iterator[tuple[str, Path, Callable[[Any], Any]]]:
    """Name, file, and the library's probability of class 1 for each row of a matrix."""
    import lightgbm
    import skops.io
    import xgboost
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier

    boosted = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 6, "nthread": 1},
        xgboost.DMatrix(x, y, feature_names=NAMES),
        500,
    )
    boosted.save_model(folder / "xgboost.ubj")
    yield (
        "XGBoost, 500 trees of depth 6",
        folder / "xgboost.ubj",
        lambda rows: boosted.inplace_predict(rows, validate_features=False),
    )
    light = lightgbm.train(
        {"objective": "binary", "max_depth": 6, "num_leaves": 64, "num_threads": 1, "verbose": -1},
        lightgbm.Dataset(x, y, feature_name=NAMES),
        500,
    )
    light.save_model(folder / "lightgbm.txt")
    yield (
        "LightGBM, 500 trees of depth 6",
        folder / "lightgbm.txt",
        lambda rows: light.predict(rows, num_threads=1),
    )
    forest = RandomForestClassifier(100, n_jobs=1, random_state=0).fit(x, y)
    skops.io.dump(forest, folder / "forest.skops")
    yield (
        "random forest of scikit-learn, 100 trees",
        folder / "forest.skops",
        lambda rows: forest.predict_proba(rows)[:, 1],
    )
    graph = to_onnx(forest, x[:1].astype(np.float32), options={id(forest): {"zipmap": False}})
    (folder / "forest.onnx").write_bytes(graph.SerializeToString())
    yield (
        "the same forest in ONNX",
        folder / "forest.onnx",
        lambda rows: forest.predict_proba(rows)[:, 1],
    )


def settings(**model: Any) -> Settings:
    explainers = [{"kind": "ipfi", "n_samples": 1}, {"kind": "isage", "n_samples": 1}]
    return Settings.model_validate(
        {"model": model, "explainers": explainers, "record": {"features": NAMES, "label": "label"}}
    )


def measured(states: list[PartitionState], values: list[bytes], blocks: list[int]) -> list[float]:
    """Records/s of each state, by turns; a block has so many records for each."""
    found: list[list[float]] = [[] for _ in states]
    for state in states:
        for value in values[:WARM_UP]:
            state.step(InputRecord(state.next_offset, 0, None, value))
    for block in range(5):
        for state, size, rates in zip(states, blocks, found, strict=True):
            begin = WARM_UP + block * size
            started = time.thread_time()
            for value in values[begin : begin + size]:
                state.step(InputRecord(state.next_offset, 0, None, value))
            rates.append(size / (time.thread_time() - started))
    return [statistics.median(rates) for rates in found]


def main() -> None:
    global CURRENT
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000, help="of a block, by compiled code")
    arguments = parser.parse_args()
    x, y = data(10_000)
    lines = [dict(zip(NAMES, row, strict=True)) for row in x.tolist()]
    values = [
        json.dumps({**row, "label": label}).encode() for row, label in zip(lines, y.tolist(), strict=True)
    ]
    print(
        "| model | records/s from its file | records/s by its library's predict | ratio | largest relative difference |"
    )
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name, path, predict in models(x, y, Path(folder)):
            named = {"features": NAMES} if path.suffix in (".onnx", ".skops") else {}
            ours = PartitionState(settings(uri=str(path), **named), 0)
            CURRENT = predict
            theirs = PartitionState(settings(factory="benchmarks.trained:own", static=True), 0)
            size = arguments.records
            fast, slow = measured([ours, theirs], values, [size, max(size // 20, 20)])
            expected = np.asarray(predict(x[:2_000].astype(np.float32)), float)
            found = np.array(
                [prediction[1] for prediction in ours.explained.model.predict_many(lines[:2_000])]
            )
            difference = np.abs(found - expected).max(where=expected > 0, initial=0.0)
            relative = (np.abs(found - expected) / np.where(expected > 0, expected, 1.0)).max()
            assert difference < 1e-5
            print(f"| {name} | {fast:,.0f} | {slow:,.0f} | {fast / slow:.1f} | {relative:.1e} |", flush=True)


if __name__ == "__main__":
    from benchmarks import trained  # the module that the settings' factory is in

    trained.main()
