"""What explaining costs, relative to the model's own predict and learn.

For each model and number of features d one stream is followed in one process. Blocks of records are taken by turns: the
model alone, the model explained by iPFI and iSAGE by the evaluator that is chosen for it, one prediction at a time
(generic), with the service's own number of draws, and by ixai's iPFI and iSAGE. Else all with m = 1, a reservoir of 100,
cross-entropy, every record explained. A figure is the median over blocks of the ratio to the model alone in the same
round. Time is that of the processor, which others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explain_core import losses
from explain_core.evaluation.choice import choose
from explain_core.importance.base import Together
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.models import Model, wrap
from explain_core.random import Generator
from explain_core.reservoirs import make_reservoir

Record = tuple[dict[str, float], int]


@dataclass(frozen=True)
class Case:
    """A model, a number of features, and the goals: share of predict + learn, and how many times less than ixai."""

    name: str
    d: int
    make: Callable[[], Any]
    goal: float
    against_ixai: float


def _logistic() -> Any:
    from river import linear_model, preprocessing

    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def _bayes() -> Any:
    """A model that no evaluator knows."""
    from river import naive_bayes

    return naive_bayes.GaussianNB()


def _hoeffding() -> Any:
    from river import tree

    return tree.HoeffdingTreeClassifier()


def _adaptive() -> Any:
    from river import tree

    return tree.HoeffdingAdaptiveTreeClassifier(seed=1)


def _forest(n: int, leaf: str) -> Callable[[], Any]:
    from river import forest

    return lambda: forest.ARFClassifier(n_models=n, leaf_prediction=leaf, seed=1)


def cases() -> list[Case]:
    return [
        Case("naive Bayes", 9, _bayes, math.inf, 1),
        Case("logistic", 9, _logistic, 0.35, 50),
        Case("logistic", 50, _logistic, 0.35, 50),
        Case("Hoeffding tree", 9, _hoeffding, 0.50, 20),
        Case("Hoeffding tree", 20, _hoeffding, 0.50, 20),
        Case("adaptive tree", 9, _adaptive, 0.30, 20),
        Case("adaptive tree", 50, _adaptive, 0.30, 20),
        Case("forest of 10, mc", 9, _forest(10, "mc"), 0.15, 25),
        Case("forest of 10, nba", 20, _forest(10, "nba"), 0.15, 25),
        Case("forest of 10, nba", 50, _forest(10, "nba"), 0.25, 25),
        Case("forest of 50, mc", 9, _forest(50, "mc"), 0.10, 25),
    ]


def records(d: int, n: int) -> Iterator[Record]:
    """Uniform features; the label is the sign of a sum of three of them, with noise."""
    rng = Generator(d)
    for _ in range(n):
        x = {f"x{j}": rng.uniform() for j in range(d)}
        yield x, int(x["x0"] + x["x1"] - x["x2"] + 0.2 * (rng.uniform() - 0.5) > 0.5)


Step = Callable[[dict[str, float], int], None]


def alone(model: Model) -> Step:
    def step(x: dict[str, float], y: int) -> None:
        model.predict(x)
        model.learn(x, y)

    return step


def copies(model: Model, d: int) -> Step:
    """As many predictions as explaining takes at the least, 2d − 1 with the model's own."""

    def step(x: dict[str, float], y: int) -> None:
        for _ in range(2 * d - 1):
            model.predict(x)
        model.learn(x, y)

    return step


def ours(model: Model, evaluator: Any, n_samples: int | None = 1) -> Step:
    shared = choose(model, evaluator)
    reservoir = make_reservoir("geometric", 100, 1)
    pfi, sage = (
        one(model, n_samples=n_samples, reservoir=reservoir, seed=1, evaluator=shared)
        for one in (IncrementalPFI, IncrementalSAGE)
    )

    together = Together([pfi, sage])

    def step(x: dict[str, float], y: int) -> None:
        together.explain_one(x, y, model.predict(x))
        model.learn(x, y)
        reservoir.add(x)

    return step


def ixai(model: Model, d: int) -> Step:
    from ixai.explainer import IncrementalPFI as TheirPFI
    from ixai.explainer.sage import IncrementalSage as TheirSAGE
    from ixai.storage import GeometricReservoirStorage

    pfi, sage = (
        one(
            # Its wrapper for river does not know the labels: a function of our own.
            model_function=lambda x: model.predict(x),
            loss_function=losses.get("cross_entropy"),
            feature_names=[f"x{j}" for j in range(d)],
            storage=GeometricReservoirStorage(size=100, constant_probability=1.0, store_targets=False),
            n_inner_samples=1,
            smoothing_alpha=0.001,
            dynamic_setting=True,
        )
        for one in (TheirPFI, TheirSAGE)
    )

    def step(x: dict[str, float], y: int) -> None:
        model.predict(x)
        pfi.explain_one(x, y)
        sage.explain_one(x, y)
        model.learn(x, y)

    return step


def measured(case: Case, block: int, rounds: int, warm_up: int) -> dict[str, float]:
    """Seconds per record of the model alone, and the median share that each other way adds."""
    stream = list(records(case.d, warm_up + block * rounds))
    makers: dict[str, Callable[[Model], Step]] = {
        "alone": alone,
        "auto": lambda model: ours(model, "auto"),
        "default m": lambda model: ours(model, "auto", None),
        "generic": lambda model: ours(model, "generic"),
        "copies": lambda model: copies(model, case.d),
        "ixai": lambda model: ixai(model, case.d),
    }
    ways: dict[str, Step] = {}
    for name, maker in makers.items():
        model = wrap(case.make(), "classification")
        ways[name] = maker(model)
        for x, y in stream[: warm_up - 110]:
            model.learn(x, y)
        for x, y in stream[warm_up - 110 : warm_up]:  # fills the reservoirs
            ways[name](x, y)
    # Six models are in this process, one in a worker's: a pass of the garbage collector is not to visit those of the others.
    gc.collect()
    gc.freeze()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    for r in range(rounds):
        part = stream[warm_up + r * block : warm_up + (r + 1) * block]
        for name in order[r % len(order) :] + order[: r % len(order)]:
            step = ways[name]
            started = time.process_time()
            for x, y in part:
                step(x, y)
            seconds[name].append((time.process_time() - started) / block)
    gc.unfreeze()
    result = {"alone": statistics.median(seconds["alone"])}
    for name in order[1:]:
        pairs = zip(seconds[name], seconds["alone"], strict=True)
        result[name] = statistics.median((explained - model) / model for explained, model in pairs)
    return result


def plot(found: dict[str, dict[str, float]], path: Path) -> None:
    """Overheads by case on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.55 * len(found) + 1.2), layout="constrained")
    ways = {"auto": "tab:blue", "generic": "tab:gray", "ixai": "tab:orange"}
    for k, (way, colour) in enumerate(ways.items()):
        places = [row + 0.27 * (k - 1) for row in range(len(found))]
        axes.barh(places, [100 * one[way] for one in found.values()], 0.25, color=colour, label=way)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("explaining, % of predict + learn")
    axes.legend(frameon=False)
    figure.savefig(path)


def _share(goal: float) -> str:
    return f"{goal:.0%}" if goal < math.inf else "none"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few records, for a check that it runs")
    parser.add_argument("--only", action="append", help="cases whose name contains this; may be repeated")
    parser.add_argument("--without-numba", action="store_true", help="as if numba were not installed")
    parser.add_argument("--plot", type=Path, help="draw the overheads into this file")
    arguments = parser.parse_args()
    if arguments.without_numba:
        program = "import runpy, sys; sys.modules['numba'] = None; runpy.run_module('benchmarks.explain', run_name='__main__')"
        rest = [one for one in sys.argv[1:] if one != "--without-numba"]
        sys.exit(subprocess.run([sys.executable, "-c", program, *rest]).returncode)
    warnings.filterwarnings("ignore", category=UserWarning)  # ixai comments on every model function
    block, rounds, warm_up = (20, 4, 200) if arguments.quick else (100, 20, 2_000)
    print(
        "| model, d | model µs/record | goal | ours | default m | generic | ixai | ixai / ours | goal "
        "| generic / (1.15 (2d−1) predictions + 2 µs each) |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    all_found = {}
    for case in cases():
        if arguments.only and not any(name in case.name for name in arguments.only):
            continue
        found = all_found[f"{case.name}, {case.d}"] = measured(case, block, rounds, warm_up)
        evaluations = 2 * case.d - 1
        predictions = found["copies"] / (evaluations - 1) * evaluations
        bound = 1.15 * predictions + 2e-6 * evaluations / found["alone"]
        print(
            f"| {case.name}, {case.d} | {1e6 * found['alone']:.0f} | {_share(case.goal)} | {found['auto']:.0%} "
            f"| {found['default m']:.0%} | {found['generic']:.0%} | {found['ixai']:.0%} "
            f"| {found['ixai'] / found['auto']:.3g}× | {case.against_ixai:.0f}× | {found['generic'] / bound:.2f} |",
            flush=True,
        )
    if arguments.plot:
        plot(all_found, arguments.plot)


if __name__ == "__main__":
    main()
