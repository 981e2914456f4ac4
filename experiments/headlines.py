"""Do headlines say more than the data bear out?

- ``labels at random``: a logistic regression learns from labels that have nothing to do with its five features. Every headline
  that says what drives the model is wrong.
- ``equal features``: three features of the same importance. ``leader`` of ``explain_client/examples/alert_on_change.py``
  looks once in 2/α records; whatever it names is wrong.
- ``no change`` and ``1 to 1.21``: an importance that stays as it is, and one that grows by 21 % after half of the records. The
  headline says what moved, or that nothing was detected and what would have been.

A headline looks at the newest explanation and those before it, one in 500 records. The features are independent, m = 1,
α = .001, a geometric reservoir of 100 rows.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.settled import WIDTH, follow
from experiments.settled_games import Game
from explain_client import Explanation
from explain_client.examples.alert_on_change import leader
from explain_client.messages import Importance
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.learners.choice import learner_of
from explain_core.models import wrap
from explain_core.progress import track
from explain_sidecar.headline import detectable, drivers, moved

ALPHA = 0.001
EMIT = 500
"""Records between explanations: every fifth block."""
FEATURES = "abcde"


class Equal(Game):
    """y = a + b + c and noise."""

    def __init__(self, streams: int, n: int, seed: int) -> None:
        super().__init__(streams, n, seed)
        self.weights = np.ones(self.features)


class Growing(Game):
    """The importance of b grows by a share of it after half of the records: 1 to 1.21 in units of the first."""

    def __init__(self, streams: int, n: int, seed: int, growth: float) -> None:
        super().__init__(streams, n, seed)
        self._growth = growth

    def begin(self, t: int) -> None:
        if t == self.n // 2:
            self.weights = self.weights * np.sqrt([1.0, 1.0 + self._growth, 1.0])


def labels_at_random(streams: int, n: int) -> tuple[int, int, int]:
    """Streams whose headline names a driver at the end, those in which one ever did, and those that ever showed a band."""
    from river import linear_model

    last = ever = shown = 0
    for seed in track(range(streams), "labels at random", streams, True):
        rng = np.random.Generator(np.random.PCG64(seed))
        made = linear_model.LogisticRegression()
        model = learner_of(made, "classification") or wrap(made, "classification")
        pfi = IncrementalPFI(model, alpha=ALPHA, features=list(FEATURES), seed=seed)
        named, settled = [], False
        for t, row in enumerate(rng.normal(size=(n, len(FEATURES) + 1)).tolist(), start=1):
            x, y = dict(zip(FEATURES, row, strict=False)), row[-1] > 0.0
            pfi.explain_one(x, y)
            model.learn(x, y)
            if t % EMIT == 0:
                cells = pfi.explanation.importance()
                named.append(bool(drivers(cells)))
                settled = settled or any(cell.settled for cell in cells.values())
        last, ever, shown = last + named[-1], ever + any(named), shown + settled
    return last, ever, shown


def equal_features(streams: int, n: int) -> tuple[int, int]:
    """Streams in which a leader was named at any look, and how often one looked."""
    named: np.ndarray[Any, Any] = np.zeros(streams, dtype=bool)
    look = 0
    for t, smoother, steadiness in follow(Equal(streams, n, 0), ALPHA, "equal features", True):
        if t % round(2 / ALPHA):
            continue
        look += 1
        value, std = smoother.value, smoother.std
        half = std * steadiness.widths(smoother, WIDTH)
        for stream in range(streams):
            cells = {
                name: Importance(
                    float(value[stream, j]),
                    float(std[stream, j]),
                    *(
                        (float(value[stream, j] - width), float(value[stream, j] + width))
                        if np.isfinite(width := half[stream, j])
                        else (None, None)
                    ),
                    bool(np.isfinite(half[stream, j])),
                )
                for j, name in enumerate("abc")
            }
            leading = leader(cast(Explanation, SimpleNamespace(importance=lambda cells=cells: cells)), look)
            named[stream] |= leading is not None
    return int(named.sum()), look


def growing(growth: float, streams: int, n: int) -> tuple[int, int, float]:
    """Streams in which a headline ever said that b moved, those in which one said it of another feature, and the change of b
    that would have been said at the end, relative to its importance: the median.
    """
    game = Growing(streams, n, 0, growth)
    values, halves = [], []
    for t, smoother, steadiness in follow(game, ALPHA, f"+{growth:.0%}", True):
        if t % EMIT == 0:
            values.append(smoother.value.copy())
            halves.append(smoother.std * steadiness.widths(smoother, WIDTH))
    V, H = np.array(values), np.array(halves, dtype=object)  # looks × streams × features
    H[np.isnan(halves)] = None
    right = wrong = 0
    for stream in range(streams):
        courses = [(V[:, stream, j].tolist(), H[:, stream, j].tolist()) for j in range(V.shape[2])]
        found = {
            change.feature
            for last in range(2, len(V) + 1)
            if (change := moved([(points[:last], bands[:last]) for points, bands in courses])) is not None
        }
        right, wrong = right + (1 in found), wrong + bool(found - {1})
    least = [detectable(H[:, stream, 1].tolist()) for stream in range(streams)]
    return right, wrong, float(np.nanmedian(least)) / 2.0


@click.command(help=__doc__)
@click.option("--streams", default=200, show_default=True, help="Of each kind.")
@click.option("--records", default=20_000, show_default=True, help="Of each stream.")
@click.option("--quick", is_flag=True, help="5 streams of 4,000 records.")
def main(streams: int, records: int, quick: bool) -> None:
    if quick:
        streams, records = 5, 4_000
    report = Report("streams", "what was said", "in")
    last, ever, shown = labels_at_random(streams, records)
    report.add_row("labels at random", "a driver, at the end", f"{last} of {streams}")
    report.add_row("", f"a driver, at any of {records // EMIT} headlines", f"{ever} of {streams}")
    report.add_row("", "a band was shown", f"{shown} of {streams}")
    named, count = equal_features(streams, records)
    report.add_row("equal features", f"a leader, at any of {count} looks", f"{named} of {streams}")
    for name, growth in (("no change", 0.0), ("1 to 1.21", 0.21), ("1 to 2", 1.0)):
        right, wrong, least = growing(growth, streams, records)
        report.add_row(name, f"it moved, at any of {records // EMIT} headlines", f"{right} of {streams}")
        report.add_row("", "another one moved", f"{wrong} of {streams}")
        report.add_row("", f"a change of {least:.0%} would have been said (median)", "")
    Console(width=110).print(report)


if __name__ == "__main__":
    main()
