"""``python -m benchmarks.learners --data DIR``: predict + learn of river's models, and of the learners that repeat them in arrays.

Both follow the same stream in one process, block by block, by turns. A ratio is the median over blocks of river's time to the
learner's in the same round. Time is that of the thread, which others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from explain_core.learners.choice import learner_of
from explain_core.losses import Task
from explain_core.models import Model, wrap

Records = list[tuple[dict[str, Any], Any]]


def families(task: Task) -> dict[str, tuple[Callable[[], Any], str]]:
    """River's models, and the goals: how many times faster."""
    from river import forest, tree

    if task == "regression":
        return {
            "Hoeffding tree": (tree.HoeffdingTreeRegressor, "–"),
            "adaptive tree": (lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=1), "–"),
            "adaptive random forest, 10 trees": (lambda: forest.ARFRegressor(seed=1), "–"),
        }
    return {
        "Hoeffding tree": (tree.HoeffdingTreeClassifier, "≥ 9×"),
        "adaptive tree": (lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1), "≥ 15×"),
        "adaptive random forest, 10 trees": (lambda: forest.ARFClassifier(seed=1), "≥ 35×"),
    }


def streams(n: int, data: Path | None) -> dict[str, tuple[Task, Records]]:
    from river.datasets import synth

    agrawal = synth.Agrawal(classification_function=0, seed=42, perturbation=0.1)
    numbers = [({f"x{i}": v for i, v in x.items()}, y) for x, y in synth.Friedman(seed=42).take(n)]
    found: dict[str, tuple[Task, Records]] = {
        "agrawal, d = 9": ("classification", list(agrawal.take(n))),
        "friedman, d = 10": ("regression", numbers),
    }
    if data is not None:
        from experiments.data import load

        kinds: dict[str, Task] = {"elec2": "classification", "bike": "regression"}
        for name, task in kinds.items():
            table = load(name, data)
            rows = zip(table.rows(), table.y.tolist(), strict=True)
            labelled = [(x, int(y)) for (x, y), _ in zip(rows, range(n), strict=False)]
            found[f"{name}, d = {len(table.features)}"] = (task, labelled)
    return found


def seconds(model: Model, block: Records) -> float:
    gc.collect()
    start = time.thread_time()
    for x, y in block:
        model.predict(x)
        model.learn(x, y)
    return time.thread_time() - start


def measure(make: Callable[[], Any], task: Task, records: Records, block: int) -> tuple[float, float, float]:
    """Microseconds per record of river and of the learner, and the median ratio; the first block warms up."""
    learner = learner_of(make(), task)
    assert learner is not None
    models: list[Model] = [wrap(make(), task), learner]
    rounds = []
    for at in range(0, len(records) - block + 1, block):
        part = records[at : at + block]
        turn = (at // block) % 2
        taken = [0.0, 0.0]
        for i in (turn, 1 - turn):
            taken[i] = seconds(models[i], part)
        rounds.append(taken)
    rounds = rounds[1:]
    ours = [statistics.median(times[i] for times in rounds) / block * 1e6 for i in (0, 1)]
    return ours[0], ours[1], statistics.median(times[0] / times[1] for times in rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learners", description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="directory with elec2 and bike; without it synthetic streams alone"
    )
    parser.add_argument("--block", type=int, default=2000, help="records of a block (default 2000)")
    parser.add_argument(
        "--blocks", type=int, default=6, help="blocks, the first of which is not counted (default 6)"
    )
    arguments = parser.parse_args()
    print("| predict + learn, µs a record | stream | river | arrays | ratio | goal |")
    print("| --- | --- | --- | --- | --- | --- |")
    for stream, (task, records) in streams(arguments.block * arguments.blocks, arguments.data).items():
        for name, (make, goal) in families(task).items():
            river, arrays, ratio = measure(make, task, records, arguments.block)
            print(f"| {name} | {stream} | {river:,.0f} | {arrays:,.1f} | {ratio:.1f}× | {goal} |", flush=True)


if __name__ == "__main__":
    main()
