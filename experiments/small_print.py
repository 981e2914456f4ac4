"""What a band or a figure is worth where the usual argument does not hold, in games with a known answer.

- ``uniform reservoir``: its 100 rows stay, so that their own sampling error never averages out. Coverage of the 95 % band with
  that error, as ``explain_core.importance`` shows it, and without.
- ``late feature``: its value so many records after it came; the truth is 8.
- ``interval PFI``: the standard error it gives, over the standard deviation of its values; and as it would be without what a record
  gives to the others.
- ``empty model``: the loss of what knows no feature: the entropy of the labels, what the labels' frequencies lose, and what the
  model's mean prediction loses where the model is biased.
- ``DBShap``: pairs of windows of 2,000 rows, judged by a model that never learns. Without drift, the share of changes of the risk that lie
  within the sentence's ±, and the largest part given to learning; with every truth 1 higher, the concept's share of the change under
  three losses, and what independence and bins take off the risk, as a share of the change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from explain_core import losses
from explain_core.bands import half_width
from explain_core.drift import dbshap
from explain_core.figures import Z
from explain_core.importance.batch.intervals import IntervalPFI
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.models.empty import Performance
from explain_core.progress import track

Row = Mapping[str, Any]
WIDTH = half_width("normal", 0.95)
NAMES = "abc"
WEIGHTS = (2.0, 1.0, 0.5)


def predict(x: Row) -> float:
    return sum(weight * float(x.get(name, 0.0)) for name, weight in zip(NAMES, WEIGHTS, strict=True))


def stream(n: int, seed: int) -> list[tuple[Row, float]]:
    """y = 2a + b + c/2 and noise, normal features: the truth is 2 β²."""
    rows = np.random.Generator(np.random.PCG64(seed)).normal(size=(n, 4)).tolist()
    made: list[tuple[Row, float]] = [(dict(zip(NAMES, row, strict=False)), row[3]) for row in rows]
    return [(x, predict(x) + 0.5 * noise) for x, noise in made]


def uniform(streams: int, n: int) -> list[tuple[str, float, float]]:
    """Of each feature the share of bands that hold the truth, with the rows' error and without."""
    inside: np.ndarray[Any, Any] = np.zeros((2, 3))
    for seed in track(range(streams), "uniform reservoir", streams, True):
        pfi = IncrementalPFI(predict, task="regression", alpha=None, reservoir="uniform", size=100, seed=seed)
        for x, y in stream(n, seed):
            pfi.explain_one(x, y)
        found = pfi.explanation
        off = np.abs(found.values[0] - 2.0 * np.square(WEIGHTS))
        inside += off <= WIDTH * np.array([found.std[0], pfi._smoother.std[0]])
    with_rows, alone = (inside / streams).tolist()
    return list(zip(NAMES, with_rows, alone, strict=True))


def late(streams: int, after: int) -> np.ndarray[Any, Any]:
    """Values of the feature that matters most, as many records after its first one."""
    found = []
    for seed in track(range(streams), f"late feature, {after}", streams, True):
        pfi = IncrementalPFI(predict, task="regression", seed=seed)
        for t, (x, y) in enumerate(stream(1_000 + after, seed)):
            given = {name: x[name] for name in ("b", "c")} if t < 1_000 else x
            pfi.explain_one(given, y - (0.0 if t >= 1_000 else WEIGHTS[0] * x["a"]))
        found.append(pfi.explanation.importance()["a"].value)
    return np.array(found)


def intervals(streams: int, n: int) -> list[tuple[str, float, float]]:
    """Of each feature the mean standard error over the standard deviation of the values, with both of a record's parts and with one."""
    values, errors, alone = [], [], []
    for seed in track(range(streams), "interval PFI", streams, True):
        pfi = IntervalPFI(predict, task="regression", window=n, seed=seed)
        records = stream(n, seed)
        for x, y in records:
            pfi.explain_one(x, y)
        values.append(pfi.explanation.values[0])
        errors.append(pfi.explanation.std[0])
        rows, ys = [x for x, _ in records], [y for _, y in records]
        delta, _ = pfi._contributions(pfi.players, rows, ys)
        alone.append(delta[:, 0].std(axis=0, ddof=1) / math.sqrt(n))
    spread = np.std(values, axis=0, ddof=1)
    both, alone_ratio = np.mean(errors, axis=0) / spread, np.mean(alone, axis=0) / spread
    return list(zip(NAMES, both.tolist(), alone_ratio.tolist(), strict=True))


def empty(n: int) -> tuple[float, float, float]:
    """Cross-entropy of 30 % positives: the entropy, the frequencies', and the mean prediction's of a model that says 50 % on average."""
    rng = np.random.Generator(np.random.PCG64(0))
    performance = Performance([losses.get("cross_entropy")], None)
    for u, y in zip(rng.random(n).tolist(), (rng.random(n) < 0.3).tolist(), strict=True):
        performance.update(int(y), {0: u, 1: 1.0 - u})
    _, frequencies, mean = performance.of("cross_entropy")
    assert frequencies is not None and mean is not None
    return -0.3 * math.log(0.3) - 0.7 * math.log(0.7), frequencies, mean


def attributed(pairs: int, records: int, loss: str, shift: float) -> np.ndarray[Any, Any]:
    """Of each pair: change ÷ its ±, learning, concept ÷ change, and what independence and bins take off ÷ change."""
    found = []
    score = losses.get(loss)
    for seed in track(range(pairs), f"DBShap, {loss}", pairs, True):
        before, after = stream(records, 2 * seed), stream(records, 2 * seed + 1)
        after = [(x, y + shift) for x, y in after]
        served = tuple([score(y, predict(x)) for x, y in rows] for rows in (before, after))
        change = dbshap(
            before, after, hypothesis=predict, loss=loss, prequential=served, bootstrap=20, seed=seed
        )
        assert change.learning is not None and change.target.independence is not None
        assert change.baseline.independence is not None
        bins = change.target.independence - change.baseline.independence
        found.append(
            (
                change.change / (Z * change.std),
                change.learning.value,
                change.joint.concept.value / change.change,
                bins / change.change,
            )
        )
    return np.array(found)


@click.command(help=__doc__)
@click.option("--streams", default=200, show_default=True)
@click.option("--records", default=8_000, show_default=True, help="Of a stream with a uniform reservoir.")
@click.option("--quick", is_flag=True, help="2 streams of 500 records, and 2 pairs of windows of 300.")
def main(streams: int, records: int, quick: bool) -> None:
    pairs, rows = (2, 300) if quick else (10 * streams, 2_000)
    if quick:
        streams, records = 2, 500
    report = Report("what", "of", "with", "without", "should be")
    for name, with_rows, alone in uniform(streams, records):
        report.add_row("coverage, uniform reservoir of 100", name, f"{with_rows:.3f}", f"{alone:.3f}", "0.95 or more")  # fmt: skip
    for after in (100, 200 if quick else 1_000):
        values = late(streams, after)
        report.add_row("late feature", f"{after} records on", f"{values.mean():.2f} (SD {values.std():.2f})", "", "8")  # fmt: skip
    for name, both, alone_ratio in intervals(streams, 200):
        report.add_row("interval PFI, std / SD", name, f"{both:.2f}", f"{alone_ratio:.2f}", "1")
    entropy, frequencies, mean = empty(20_000)
    report.add_row("empty model", "frequencies", f"{frequencies:.3f}", "", f"{entropy:.3f}")
    report.add_row("", "mean prediction", f"{mean:.3f}", "", f"{math.log(2.0):.3f}")
    still = attributed(pairs, rows, "squared", 0.0)
    report.add_row(
        "DBShap, no drift", "changes within ±", f"{np.mean(np.abs(still[:, 0]) <= 1.0):.3f}", "", "0.95"
    )
    report.add_row("", "learning, largest", f"{np.abs(still[:, 1]).max():.1g}", "", "0")
    for loss in ("squared", "absolute", "huber"):
        moved = attributed(max(streams // 4, 1), rows, loss, 1.0)
        report.add_row("DBShap, truths + 1", f"{loss}: concept", f"{moved[:, 2].mean():.3f}", "", "1")
        report.add_row("", f"{loss}: independence and bins", f"{moved[:, 3].mean():+.3f}", "", "0")
    Console(width=120).print(report)


if __name__ == "__main__":
    main()
