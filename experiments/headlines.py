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

from experiments.bands import ALPHA, follow
from experiments.games import BETA, GAMES, Array, Game, run
from explain_client import Explanation, Importance
from explain_client.examples.alert_on_change import leader
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.learners.choice import learner_of
from explain_core.losses import get
from explain_core.models import wrap
from explain_core.models.empty import Performance
from explain_core.periods import Periods
from explain_core.progress import track
from explain_sidecar.headline import detectable, moved

EMIT = 500
"""Records between explanations: every fifth block."""
FEATURES = "abcde"


class Equal(Game):
    """y = a + b + c and noise."""

    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        same = np.ones((1, 1, 3))
        return same, same


class Growing(Game):
    """The importance of b grows by a share of it after half of the records: 1 to 1.21 in units of the first."""

    growth = 0.0

    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        grown = BETA * np.sqrt([1.0, 1.0 + self.growth, 1.0])
        w = np.where((self.t >= self.n // 2)[:, None], grown, BETA)[None]
        return w, w


def labels_at_random(streams: int, n: int) -> tuple[int, int, int]:
    """Streams whose headline names a driver at the end, those in which one ever did, and those that ever showed a band."""
    from river import linear_model

    last = ever = shown = 0
    for seed in track(range(streams), "labels at random", streams, True):
        rng = np.random.Generator(np.random.PCG64(seed))
        made = linear_model.LogisticRegression()
        model = learner_of(made, "classification") or wrap(made, "classification")
        pfi = IncrementalPFI(model, alpha=ALPHA, features=list(FEATURES), seed=seed)
        performance, periods, named = Performance([get("cross_entropy")], ALPHA), Periods(["1000"]), []
        for t, row in enumerate(rng.normal(size=(n, len(FEATURES) + 1)).tolist(), start=1):
            x, y = dict(zip(FEATURES, row, strict=False)), row[-1] > 0.0
            prediction = model.predict(x)
            pfi.explain_one(x, y, prediction)
            performance.update(y, prediction)
            model.learn(x, y)
            for name, of in (("ipfi", pfi), ("", performance)):
                if of.closed is not None:
                    periods.add(name, of.closed)
                    of.closed = None
            if t % EMIT == 0:
                driven = periods.driven("ipfi", FEATURES, 0, "", 0)
                named.append(bool(driven and driven.drivers))
                periods.close(t, t, 0)
        shown += int(np.isfinite(pfi.explanation.low).all())
        last, ever = last + named[-1], ever + any(named)
    return last, ever, shown


def play(game: type[Game], streams: int, n: int, title: str) -> list[tuple[int, Array, Array, Array, Array]]:
    """Records, values, standard errors, lows and highs at the end of each block."""
    GAMES[title] = game
    return [
        (t, smoother.value.copy(), smoother.std, *smoother.band(0.95))
        for t, smoother, _, _ in follow(run(title, streams, n), ALPHA, title)
    ]


def equal_features(streams: int, n: int) -> tuple[int, int]:
    """Streams in which a leader was named at any look, and how often one looked."""
    named: np.ndarray[Any, Any] = np.zeros(streams, dtype=bool)
    look = 0
    for t, value, std, low, high in play(Equal, streams, n, "equal features"):
        if t % round(2 / ALPHA):
            continue
        look += 1
        for stream in range(streams):
            cells = {
                name: Importance(*(float(of[stream, j]) for of in (value, std, low, high)), steady=None)
                for j, name in enumerate("abc")
            }
            leading = leader(cast(Explanation, SimpleNamespace(importance=lambda cells=cells: cells)), look)
            named[stream] |= leading is not None
    return int(named.sum()), look


def growing(growth: float, streams: int, n: int) -> tuple[int, int, float]:
    """Streams in which a headline ever said that b moved, those in which one said it of another feature, and the change of b
    that would have been said at the end, relative to its importance: the median.
    """
    game = type("Growing", (Growing,), {"growth": growth})
    found = [look for look in play(game, streams, n, f"+{growth:.0%}") if look[0] % EMIT == 0]
    V = np.array([value for _, value, _, _, _ in found])  # looks × streams × features
    halves = np.array([(high - low) / 2.0 for _, _, _, low, high in found])
    H = halves.astype(object)
    H[np.isnan(halves)] = None
    right = wrong = 0
    for stream in range(streams):
        courses = [(V[:, stream, j].tolist(), H[:, stream, j].tolist()) for j in range(V.shape[2])]
        said = {
            change.feature
            for last in range(2, len(V) + 1)
            if (change := moved([(points[:last], bands[:last]) for points, bands in courses])) is not None
        }
        right, wrong = right + (1 in said), wrong + bool(said - {1})
    least = [detectable(H[:, stream, 1].tolist()) for stream in range(streams)]
    return right, wrong, float(np.nanmedian(least)) / 2.0


@click.command(help=__doc__)
@click.option("--streams", default=200, show_default=True, help="Of each kind.")
@click.option("--records", default=20_000, show_default=True, help="Of each stream.")
@click.option("--quick", is_flag=True, help="3 streams of 2,000 records.")
def main(streams: int, records: int, quick: bool) -> None:
    if quick:
        streams, records = 3, 2_000
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
