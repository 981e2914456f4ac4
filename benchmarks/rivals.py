"""What a user would put together from packages: river and ixai, in a plain loop or under Quix Streams, exactly-once.

A process that ``benchmarks.service`` starts; one JSON object on stdout says how long it took. It explains with the same
two estimators, one draw each and a reservoir of 100 rows, and gives out every 100th result. It does less than the
sidecar: no bands, no digests, and a model that is in memory alone, so that a restart loses it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from explain_core import losses
from explain_core.learners.named import linear_model_of

RESERVOIR = 100
EMIT_EVERY = 100
COMMIT_SECONDS = 0.1
"""As the sidecar has them by default."""


class Fold:
    """Predict, explain, learn, with ixai's estimators."""

    def __init__(self, features: list[str]) -> None:
        from ixai.explainer import IncrementalPFI
        from ixai.explainer.sage import IncrementalSage
        from ixai.storage import GeometricReservoirStorage

        self.model = model = _model()
        settings = {
            # A function of our own in place of model.predict_proba_one: ixai's wrapper for river does not know its labels.
            "model_function": lambda x: model.predict_proba_one(x),
            "loss_function": losses.get("cross_entropy"),
            "feature_names": features,
            "n_inner_samples": 1,
            "smoothing_alpha": 0.001,
            "dynamic_setting": True,
        }

        def storage() -> Any:
            return GeometricReservoirStorage(size=RESERVOIR, constant_probability=1.0, store_targets=False)

        self.ipfi = IncrementalPFI(storage=storage(), **settings)
        self.isage = IncrementalSage(storage=storage(), **settings)
        self.records = 0

    def step(self, record: dict[str, Any]) -> dict[str, Any] | None:
        y = record.pop("label")
        self.ipfi.explain_one(record, y)
        self.isage.explain_one(record, y)
        self.model.learn_one(record, y)
        self.records += 1
        if self.records % EMIT_EVERY:
            return None
        return {
            "records": self.records,
            "ipfi": {str(name): float(value) for name, value in self.ipfi.importance_values.items()},
            "isage": {str(name): float(value) for name, value in self.isage.importance_values.items()},
        }


def _model() -> Any:
    factory = os.environ.get("EXPLAIN_MODEL__FACTORY")
    if factory is None:
        return linear_model_of("binary")
    module, _, name = factory.partition(":")
    return getattr(importlib.import_module(module), name)(
        seed=0, **json.loads(os.environ.get("EXPLAIN_MODEL__PARAMS", "{}"))
    )


def loop(values: list[bytes]) -> float:
    """Seconds from the first record to the last."""
    fold = Fold([name for name in json.loads(values[0]) if name != "label"])
    started = time.perf_counter()
    for value in values:
        fold.step(json.loads(value))
    return time.perf_counter() - started


def quix(values: list[bytes]) -> float:
    """Seconds from the first record to the last, of those that the records topic holds."""
    from quixstreams import Application, message_context

    features = [name for name in json.loads(values[0]) if name != "label"]
    folds: dict[int, Fold] = defaultdict(lambda: Fold(features))
    times: list[float] = []

    def step(record: dict[str, Any]) -> dict[str, Any] | None:
        fold = folds[message_context().partition]
        if not times:
            times.append(time.perf_counter())
        result = fold.step(record)
        if sum(each.records for each in folds.values()) == len(values):
            times.append(time.perf_counter())
            application.stop()
        return result

    with tempfile.TemporaryDirectory() as folder:
        application = Application(
            broker_address=os.environ["EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"],
            consumer_group=os.environ["EXPLAIN_APP_ID"],
            auto_offset_reset="earliest",
            processing_guarantee="exactly-once",
            commit_interval=COMMIT_SECONDS,
            state_dir=folder,
            loglevel="WARNING",
        )
        records = application.topic(os.environ["EXPLAIN_TOPICS__RECORDS"], value_deserializer="json")
        results = application.topic(os.environ["EXPLAIN_TOPICS__EXPLANATIONS"], value_serializer="json")
        frame = application.dataframe(records).apply(step)
        frame.filter(lambda result: result is not None).to_topic(results)
        application.run()
    return times[1] - times[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["loop", "quix"])
    parser.add_argument("--records", type=Path, required=True, help="file of one JSON record a line")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)  # ixai comments on every model function
    values = arguments.records.read_bytes().splitlines()
    measure = {"loop": loop, "quix": quix}[arguments.what]
    print(json.dumps({"seconds": measure(values)}))


if __name__ == "__main__":
    main()
