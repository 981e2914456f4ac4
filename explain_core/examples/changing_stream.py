"""What drives a model that learns from a stream, what changed, and why its risk went up: the length of a notebook.

    python explain_core/examples/changing_stream.py [--plot FOLDER]

The stream is river's Agrawal generator: loan applications that are granted by salary and age. After 20,000 of them the
bank changes its rule, and from then on salary and the sum of the loan decide.
"""

import argparse
import copy
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from river import tree
from river.datasets.synth import Agrawal

import explain_core as ec

RECORDS = 20_000


def stream() -> Iterator[tuple[dict[str, Any], Any]]:
    for rule in (1, 6):
        yield from islice(Agrawal(classification_function=rule, seed=42), RECORDS)


def main(plots: Path | None = None) -> None:
    # A river model as it is, or the learner that does the same in compiled code.
    from_river = tree.HoeffdingAdaptiveTreeClassifier(seed=1)
    model = ec.learner_of(from_river, "classification") or ec.wrap(from_river, "classification")

    # Both read the rows of one reservoir, which is ours to fill.
    rows, alpha = ec.GeometricReservoir(100, seed=1), ec.alpha_of(2_000)
    pfi = ec.IncrementalPFI(model, losses="brier", alpha=alpha, reservoir=rows)
    sage = ec.IncrementalSAGE(model, losses="brier", alpha=alpha, reservoir=rows)
    performance = ec.Performance([ec.losses.get("brier")], alpha)

    course: list[ec.Explanation] = []
    before: list[tuple[dict[str, Any], Any]] = []
    after: list[tuple[dict[str, Any], Any]] = []
    for n, (x, y) in enumerate(stream(), start=1):
        prediction = model.predict(x)
        performance.update(y, prediction)
        pfi.explain_one(x, y, prediction)
        sage.explain_one(x, y, prediction)
        rows.add(x)
        if RECORDS - 5_000 < n <= RECORDS:
            before.append((x, y))
        elif RECORDS < n <= RECORDS + 5_000:
            after.append((x, y))
        if n == RECORDS - 5_000:
            frozen = copy.deepcopy(model)
        model.learn(x, y)
        if n % 5_000 == 0:
            course.append(pfi.explanation)
            leading = ", ".join(
                f"{name} {importance.value:.3f} ({importance.low:.3f} to {importance.high:.3f})"
                for name, importance in pfi.explanation.top(3)
            )
            own, without, _ = performance.of("brier")
            print(f"{n:6,} records  loss {own:.3f}, without any feature {without:.3f}; {leading}")

    print(
        "iSAGE now:",
        ", ".join(f"{name} {importance.value:.3f}" for name, importance in sage.explanation.top(3)),
    )
    change = ec.dbshap(before, after, hypothesis=frozen, loss="brier", factorisation="joint")
    print(change.sentence("before the new rule", "after it"))

    if plots:
        import matplotlib.pyplot as plt

        plots.mkdir(parents=True, exist_ok=True)
        ec.plots.over_time(course)
        plt.savefig(plots / "importance.png")
        plt.figure()
        ec.plots.waterfall(change)
        plt.savefig(plots / "change.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="write the plots there")
    main(parser.parse_args().plot)
