"""``python -m benchmarks.trained``: trained models, by compiled code and by their own library's predict, in records/s.

500 trees of depth 6 by XGBoost and LightGBM, and a random forest of 100 trees by scikit-learn and as ONNX, trained on 30 numbers; iPFI and iSAGE
with one draw each. The library predicts all copies of an estimator in one call of one thread. The first table is of the whole fold:
JSON, prediction, explaining, performance, messages. Blocks of both ways take turns; a figure is the median over blocks of records per second of the
thread's CPU time. The second is of the whole service on the embedded broker, a worker with one partition, from its first fold to its
last commit: ``--service`` prints it too.
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

from benchmarks.processes import Bench, Case
from explain_core.losses import Prediction
from explain_core.models import Model, Row
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

N_FEATURES = 30
NAMES = [f"x{column}" for column in range(N_FEATURES)]
WARM_UP = 150
SERVICE_RECORDS = 8_000, 800
"""That the service folds, by compiled code and by the library. The first 100 are not explained, which favours the library."""


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


def own(file: str) -> Model:
    """The factory of the settings: the model in a file, predicted by its library."""
    return Own(library(Path(file)))


def library(file: Path) -> Callable[[Any], Any]:
    """The library's probability of class 1 for each row of a matrix."""
    if file.suffix == ".ubj":
        import xgboost

        booster = xgboost.Booster({"nthread": 1}, model_file=file)
        return lambda rows: booster.inplace_predict(rows, validate_features=False)
    if file.suffix == ".txt":
        import lightgbm

        light = lightgbm.Booster(model_file=file)
        return lambda rows: light.predict(rows, num_threads=1)
    if file.suffix == ".skops":
        import skops.io

        forest = skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file))
        return lambda rows: forest.predict_proba(rows)[:, 1]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options)
    return lambda rows: session.run(None, {"X": rows})[1][:, 1]


def data(n: int) -> tuple[Any, Any]:
    rng = np.random.Generator(np.random.PCG64(1))
    x = rng.normal(size=(n, N_FEATURES)).astype(np.float32).astype(float)
    score = x[:, 0] * x[:, 1] + x[:, 2] + np.sin(2 * x[:, 3]) + 0.5 * x[:, 4:12].sum(axis=1) * x[:, 12]
    return x, (score + rng.normal(size=n) > 0).astype(int)


def models(x: Any, y: Any, folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and file."""
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
    yield "XGBoost, 500 trees of depth 6", folder / "xgboost.ubj"
    light = lightgbm.train(
        {"objective": "binary", "max_depth": 6, "num_leaves": 64, "num_threads": 1, "verbose": -1},
        lightgbm.Dataset(x, y, feature_name=NAMES),
        500,
    )
    light.save_model(folder / "lightgbm.txt")
    yield "LightGBM, 500 trees of depth 6", folder / "lightgbm.txt"
    forest = RandomForestClassifier(100, n_jobs=1, random_state=0).fit(x, y)
    skops.io.dump(forest, folder / "forest.skops")
    yield "random forest of scikit-learn, 100 trees", folder / "forest.skops"
    graph = to_onnx(forest, x[:1].astype(np.float32), options={id(forest): {"zipmap": False}})
    (folder / "forest.onnx").write_bytes(graph.SerializeToString())
    yield "the same forest in ONNX", folder / "forest.onnx"


def ways(file: Path) -> list[dict[str, Any]]:
    """The settings of the model in a file, by compiled code and by its library."""
    named = {"features": NAMES} if file.suffix in (".onnx", ".skops") else {}
    return [
        {"uri": str(file), **named},
        {"factory": "benchmarks.trained:own", "params": {"file": str(file)}, "static": True},
    ]


EXPLAINERS = [{"kind": "ipfi", "n_samples": 1}, {"kind": "isage", "n_samples": 1}]


def settings(**model: Any) -> Settings:
    return Settings.model_validate(
        {"model": model, "explainers": EXPLAINERS, "record": {"features": NAMES, "label": "label"}}
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


def fold(files: Sequence[tuple[str, Path]], x: Any, records: list[dict[str, Any]], size: int) -> None:
    """Print the table of the fold."""
    values = [json.dumps(record).encode() for record in records]
    print(
        "| model | records/s from its file | records/s by its library's predict | ratio | largest relative difference |"
    )
    print("| --- | --- | --- | --- | --- |")
    for name, path in files:
        ours, theirs = (PartitionState(settings(**model), 0) for model in ways(path))
        fast, slow = measured([ours, theirs], values, [size, max(size // 20, 20)])
        expected = np.asarray(library(path)(x[:2_000].astype(np.float32)), float)
        found = np.array([p[1] for p in ours.explained.model.predict_many(records[:2_000])])
        difference = np.abs(found - expected)
        assert difference.max() < 1e-5
        relative = (difference / np.where(expected > 0, expected, 1.0)).max()
        print(f"| {name} | {fast:,.0f} | {slow:,.0f} | {fast / slow:.1f} | {relative:.1e} |", flush=True)


def service(
    files: Sequence[tuple[str, Path]], records: list[dict[str, Any]], folder: Path, blocks: int
) -> None:
    """Print the table of the service."""
    print(
        "| model | records/s from its file | by its library's predict | ratio | records/s of the worker's CPU time | ratio |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    with Broker() as broker:
        bench = Bench(broker, records, folder)
        for name, path in files:
            pairs = []
            for _ in range(blocks):
                pair = [
                    _of_the_service(bench, model, n)
                    for model, n in zip(ways(path), SERVICE_RECORDS, strict=True)
                ]
                pairs.append(pair)
            (fast, fast_cpu), (slow, slow_cpu) = np.median(np.array(pairs), axis=0).tolist()
            print(
                f"| {name} | {fast:,.0f} | {slow:,.0f} | {fast / slow:.1f} | {fast_cpu:,.0f} | {fast_cpu / slow_cpu:.1f} |",
                flush=True,
            )


def _of_the_service(bench: Bench, model: dict[str, Any], records: int) -> tuple[float, float]:
    """Records per second, and per second of the worker's CPU time."""
    given = {
        **{
            f"EXPLAIN_MODEL__{name.upper()}": value if isinstance(value, str) else json.dumps(value)
            for name, value in model.items()
        },
        "EXPLAIN_EXPLAINERS": json.dumps(EXPLAINERS),
        "EXPLAIN_RECORD__FEATURES": json.dumps(NAMES),
    }
    case = Case("", given, 0, records, records, records, 0, held=1)
    run = bench.service(bench.environment(case, 1, records), 1, records)
    return records / run.seconds, records / run.cpu_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000, help="of a block, by compiled code")
    parser.add_argument("--service", action="store_true", help="measure the whole service too")
    parser.add_argument("--blocks", type=int, default=3, help="of the service")
    arguments = parser.parse_args()
    x, y = data(10_000)
    records = [
        {**dict(zip(NAMES, row, strict=True)), "label": label}
        for row, label in zip(x.tolist(), y.tolist(), strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        files = list(models(x, y, Path(folder)))
        print("The fold, without Kafka:\n")
        fold(files, x, records, arguments.records)
        if arguments.service:
            print("\nThe whole service, a worker with one partition:\n")
            service(files, records, Path(folder), arguments.blocks)


if __name__ == "__main__":
    main()
