"""``python -m benchmarks.foreign --before FOLDER``: a record of models that no learner repeats, and of some that one does, in two versions.

FOLDER is a checkout of another version of this project, such as ``git worktree add FOLDER 34be754``, the last with evaluators that read
river's own objects in compiled code: since then such models are asked copy by copy. Processes of both take the same stream by turns:
predict, explain by iPFI and iSAGE (m = 1, reservoir of 100, cross-entropy or squared loss, every record), learn. Time is that of the
thread, the median over processes of the median over blocks; the ratio is the median over pairs of processes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from explain_core.evaluation.choice import choose
from explain_core.importance.group import EstimatorGroup
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners.choice import learner_of
from explain_core.losses import Task
from explain_core.models import wrap
from explain_core.random import Generator
from explain_core.reservoirs import make_reservoir

ROOT = Path(__file__).parents[1]
FEATURES = 9


def families() -> dict[str, tuple[Task, Callable[[], Any]]]:
    from river import ensemble, forest, linear_model, naive_bayes, optim, preprocessing, tree

    def scaled(model: Any) -> Any:
        return preprocessing.StandardScaler() | model

    return {
        "bagging of 10 Hoeffding trees": (
            "classification",
            lambda: ensemble.BaggingClassifier(tree.HoeffdingTreeClassifier(), n_models=10, seed=1),
        ),
        "random patches of 10 Hoeffding trees": (
            "classification",
            lambda: ensemble.SRPClassifier(tree.HoeffdingTreeClassifier(), n_models=10, seed=1),
        ),
        "extremely fast decision tree": ("classification", tree.ExtremelyFastDecisionTreeClassifier),
        "Hoeffding regression tree": ("regression", tree.HoeffdingTreeRegressor),
        "adaptive regression tree": ("regression", lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=1)),
        "regression forest of 10": ("regression", lambda: forest.ARFRegressor(n_models=10, seed=1)),
        "logistic regression with Adam": (
            "classification",
            lambda: scaled(linear_model.LogisticRegression(optim.Adam(0.01))),
        ),
        "logistic regression with L1": (
            "classification",
            lambda: scaled(linear_model.LogisticRegression(l1=0.01)),
        ),
        "naive Bayes": ("classification", naive_bayes.GaussianNB),
        "logistic regression": ("classification", lambda: scaled(linear_model.LogisticRegression())),
        "random forest of 10": ("classification", lambda: forest.ARFClassifier(n_models=10, seed=1)),
    }


def measured(name: str, block: int, blocks: int, warm_up: int) -> dict[str, Any]:
    """Seconds per record and the evaluator, in this process."""
    task, make = families()[name]
    model = learner_of(make(), task) or wrap(make(), task)
    evaluator, reservoir = choose(model), make_reservoir("geometric", 100, 1)
    both = EstimatorGroup([
        estimator(model, task=task, n_samples=1, reservoir=reservoir, seed=1, evaluator=evaluator)
        for estimator in (IncrementalPFI, IncrementalSAGE)
    ])  # fmt: skip
    rng, seconds = Generator(FEATURES), []
    for at in range(-1, blocks):
        records = []
        for _ in range(warm_up if at < 0 else block):
            x = {f"x{j}": rng.uniform() for j in range(FEATURES)}
            score = x["x0"] + x["x1"] - x["x2"] + 0.2 * (rng.uniform() - 0.5)
            records.append((x, score if task == "regression" else int(score > 0.5)))
        gc.collect()
        start = time.thread_time()
        for i, (x, y) in enumerate(records):
            prediction = model.predict(x)
            if at >= 0 or i >= warm_up - 150:  # the last ones fill the reservoir
                both.explain_one(x, y, prediction)
                reservoir.add(x)
            model.learn(x, y)
        if at >= 0:
            seconds.append((time.thread_time() - start) / block)
    return {"seconds": statistics.median(seconds), "evaluator": evaluator.name}


def in_version(folder: Path, name: str, sizes: list[int]) -> dict[str, Any]:
    """``measured`` in a process that imports the package from the folder."""
    program = Path(__file__).resolve()
    done = subprocess.run(
        [sys.executable, "-P", str(program), "--one", name, *map(str, sizes)],
        env={**os.environ, "PYTHONPATH": str(folder.resolve())},
        stdout=subprocess.PIPE,
        check=True,
        cwd=folder,
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.foreign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--before", type=Path, help="checkout of the other version")
    parser.add_argument("--pairs", type=int, default=2, help="processes of each version (default 2)")
    parser.add_argument("--only", action="append", help="models whose name contains this; may be repeated")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)  # what a process of a version is asked for
    arguments = parser.parse_args()
    if arguments.one:
        name, *numbers = arguments.one
        print(json.dumps(measured(name, *map(int, numbers))))
        return
    if arguments.before is None:
        parser.error("--before: name the checkout of the other version")
    sizes = [40, 5, 1_000]
    print("| µs per record, d = 9 | before | | now | | now / before |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in families():
        if arguments.only and not any(word in name for word in arguments.only):
            continue
        folders = [arguments.before, ROOT]
        pairs = []
        for turn in range(arguments.pairs):
            found = {folder: in_version(folder, name, sizes) for folder in folders[:: 1 - 2 * (turn % 2)]}
            pairs.append([found[folder] for folder in folders])
        before, now = (1e6 * statistics.median(pair[k]["seconds"] for pair in pairs) for k in (0, 1))
        ratio = statistics.median(pair[1]["seconds"] / pair[0]["seconds"] for pair in pairs)
        kinds = [pair["evaluator"] for pair in pairs[0]]
        print(f"| {name} | {before:,.0f} | {kinds[0]} | {now:,.0f} | {kinds[1]} | {ratio:.2g}× |", flush=True)


if __name__ == "__main__":
    main()
