"""What a record costs, predicted, explained by iPFI and iSAGE and learnt, against river and ixai.

For each model and number of features d one stream is followed in a process of its own. Blocks of records are taken by turns: river alone;
the learner that repeats it alone; the learner explained by compiled code, with m = 1 and with the service's own number of draws, record
by record and by ``StreamExplainer.update_many``, which keeps losses, periods and a digest besides; river asked for as many predictions as explaining takes at the least; river explained one prediction at a time (generic); river
explained by ixai. Else all with m = 1, a reservoir of 100, cross-entropy, every record explained. Ratios are medians over rounds. The first two of seven parts of
a block are not timed: a stream's code and state are in the processor's caches, and here the way before has emptied them.
Time is that of the thread, which others on the machine disturb less. A model that no learner repeats is river's in every way.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explain_core import Explainer, Options, StreamExplainer, losses
from explain_core.evaluation.choice import choose
from explain_core.importance.group import EstimatorGroup
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners.choice import learner_of
from explain_core.models import Model, wrap
from explain_core.random import Generator
from explain_core.reservoirs import make_reservoir

Record = tuple[dict[str, float], int]


@dataclass(frozen=True)
class Case:
    """A model, a number of features, and perhaps a goal: how many times as fast as river and ixai."""

    name: str
    d: int
    make: Callable[[], Any]
    goal: float | None = None


def _logistic() -> Any:
    from river import linear_model, preprocessing

    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def _bayes() -> Any:
    """A model that no learner repeats."""
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
        Case("naive Bayes", 9, _bayes),
        Case("logistic", 9, _logistic, 80),
        Case("logistic", 50, _logistic, 50),
        Case("Hoeffding tree", 9, _hoeffding),
        Case("Hoeffding tree", 20, _hoeffding),
        Case("adaptive tree", 9, _adaptive, 60),
        Case("adaptive tree", 50, _adaptive, 60),
        Case("forest of 10, mc", 9, _forest(10, "mc")),
        Case("forest of 10, nba", 9, _forest(10, "nba"), 60),
        Case("forest of 10, nba", 50, _forest(10, "nba"), 80),
    ]


def records(d: int, n: int) -> Iterator[Record]:
    """Uniform features; the label is the sign of a sum of three of them, with noise."""
    rng = Generator(d)
    for _ in range(n):
        x = {f"x{j}": rng.uniform() for j in range(d)}
        yield x, int(x["x0"] + x["x1"] - x["x2"] + 0.2 * (rng.uniform() - 0.5) > 0.5)


Step = Callable[[dict[str, float], int], None]
Way = Callable[[list[Record]], object]

WAYS = (
    "river alone", "learner alone", "ours, by block", "ours", "ours, default m, by block", "ours, default m", "river, copies alone", "river, generic", "river, ixai",
)  # fmt: skip


def each(step: Step) -> Way:
    def way(records: list[Record]) -> None:
        for x, y in records:
            step(x, y)

    return way


def alone(model: Model) -> Way:
    def step(x: dict[str, float], y: int) -> None:
        model.predict(x)
        model.learn(x, y)

    return each(step)


def by_block(model: Model, n_samples: int | None = 1) -> Way:
    explainers = [Explainer(kind=kind, n_samples=n_samples) for kind in ("ipfi", "isage")]
    return StreamExplainer(model, Options(explainers=explainers), seed=1).update_many


def copies(model: Model, d: int) -> Way:
    """As many predictions as explaining takes at the least, 2d − 1 with the model's own."""

    def step(x: dict[str, float], y: int) -> None:
        for _ in range(2 * d - 1):
            model.predict(x)
        model.learn(x, y)

    return each(step)


def ours(model: Model, n_samples: int | None = 1) -> Way:
    shared = choose(model)
    reservoir = make_reservoir("geometric", 100, 1)
    pfi, sage = (
        estimator(model, n_samples=n_samples, reservoir=reservoir, seed=1, evaluator=shared)
        for estimator in (IncrementalPFI, IncrementalSAGE)
    )

    together = EstimatorGroup([pfi, sage])

    def step(x: dict[str, float], y: int) -> None:
        together.explain_one(x, y, model.predict(x))
        model.learn(x, y)
        reservoir.add(x)

    return each(step)


def ixai(model: Model, d: int) -> Way:
    from ixai.explainer import IncrementalPFI as TheirPFI
    from ixai.explainer.sage import IncrementalSage as TheirSAGE
    from ixai.storage import GeometricReservoirStorage

    pfi, sage = (
        estimator(
            # Its wrapper for river does not know the labels: a function of our own.
            model_function=lambda x: model.predict(x),
            loss_function=losses.get("cross_entropy"),
            feature_names=[f"x{j}" for j in range(d)],
            storage=GeometricReservoirStorage(size=100, constant_probability=1.0, store_targets=False),
            n_inner_samples=1,
            smoothing_alpha=0.001,
            dynamic_setting=True,
        )
        for estimator in (TheirPFI, TheirSAGE)
    )

    def step(x: dict[str, float], y: int) -> None:
        model.predict(x)
        pfi.explain_one(x, y)
        sage.explain_one(x, y)
        model.learn(x, y)

    return each(step)


def measured(case: Case, block: int, rounds: int, warm_up: int) -> dict[str, list[float]]:
    """Seconds per record of each way, block by block."""
    cold = 2 * block // 5
    stream = list(records(case.d, warm_up + (cold + block) * rounds))

    def river() -> Model:
        return wrap(case.make(), "classification")

    def learner() -> Model:
        return learner_of(case.make(), "classification") or river()

    makers: dict[str, tuple[Callable[[], Model], Callable[[Model], Way]]] = {
        "river alone": (river, alone),
        "learner alone": (learner, alone),
        "ours, by block": (learner, by_block),
        "ours": (learner, ours),
        "ours, default m, by block": (learner, lambda model: by_block(model, None)),
        "ours, default m": (learner, lambda model: ours(model, None)),
        "river, copies alone": (river, lambda model: copies(model, case.d)),
        "river, generic": (river, ours),
        "river, ixai": (river, lambda model: ixai(model, case.d)),
    }
    ways: dict[str, Way] = {}
    for name, (make, way) in makers.items():
        model = make()
        ways[name] = way(model)
        for x, y in stream[: warm_up - 110]:
            model.learn(x, y)
        ways[name](stream[warm_up - 110 : warm_up])  # fills the reservoirs
    # Six models are in this process, one in a worker's: a pass of the garbage collector is not to visit those of the others.
    gc.collect()
    gc.freeze()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    for r in range(rounds):
        begin = warm_up + r * (cold + block)
        for name in order[r % len(order) :] + order[: r % len(order)]:
            way = ways[name]
            way(stream[begin : begin + cold])
            part = stream[begin + cold : begin + cold + block]
            started = time.thread_time()
            way(part)
            seconds[name].append((time.thread_time() - started) / block)
    gc.unfreeze()
    return seconds


def measured_of(place: int, block: int, rounds: int, warm_up: int) -> dict[str, list[float]]:
    warnings.filterwarnings("ignore", category=UserWarning)  # ixai comments on every model function
    return measured(cases()[place], block, rounds, warm_up)


def plot(found: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Time per record by case on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.55 * len(found) + 1.2), layout="constrained")
    ways = {"ours, by block": "tab:blue", "river, generic": "tab:gray", "river, ixai": "tab:orange"}
    for k, (way, colour) in enumerate(ways.items()):
        places = [row + 0.27 * (k - 1) for row in range(len(found))]
        times = [1e6 * statistics.median(seconds[way]) for seconds in found.values()]
        axes.barh(places, times, 0.25, color=colour, label=way)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("a record: predicted, explained and learnt, µs")
    axes.legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few records, for a check that it runs")
    parser.add_argument("--only", action="append", help="cases whose name contains this; may be repeated")
    parser.add_argument("--plot", type=Path, help="draw the overheads into this file")
    arguments = parser.parse_args()
    block, rounds, warm_up = (20, 4, 200) if arguments.quick else (500, 8, 2_000)
    head = ["µs per record: model, d", *WAYS, "ixai / ours by block", "goal"]
    print(f"| {' | '.join(head)} |")
    print("| --- " * len(head) + "|")
    all_found = {}
    apart = multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1)
    for place, case in enumerate(cases()):
        if arguments.only and not any(name in case.name for name in arguments.only):
            continue
        found = all_found[f"{case.name}, {case.d}"] = apart.apply(
            measured_of, (place, block, rounds, warm_up)
        )
        times = [f"{1e6 * statistics.median(found[way]):,.1f}" for way in WAYS]
        ratio = statistics.median(
            theirs / own for theirs, own in zip(found["river, ixai"], found["ours, by block"], strict=True)
        )
        goal = f"≥ {case.goal:.0f}×" if case.goal else "–"
        print(f"| {case.name}, {case.d} | {' | '.join(times)} | {ratio:.3g}× | {goal} |", flush=True)
    if arguments.plot:
        plot(all_found, arguments.plot)


if __name__ == "__main__":
    main()
