"""Two draws in product form against one draw: iSAGE under a quadratic loss (``brier``, ``squared``).

The loss of a mean over m draws exceeds that over all, so that at m = 1 a feature that the model ignores gets a
negative value. The product form (f₁ − y)(f₂ − y) is unbiased for m → ∞. 2,000 streams of 800 records at α = 0.01, on the
games of ``experiments.coverage``: the mean over the ignored features, how often their 95 % band holds 0, and the
standard deviation over the streams, two draws over one, of each feature.
"""

from __future__ import annotations

from dataclasses import replace

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.coverage import Array, Game, agrawal_game, linear_game, simulate

ALPHA = 0.01


def brier(y: Array, p: Array) -> Array:
    return 2.0 * np.square(y - p)


def games(pool: int) -> list[tuple[Game, Array]]:
    """The games, and which of their features the model ignores."""
    boolean, linear = agrawal_game(pool), linear_game(pool, last=0.0)
    used = [name in ("salary", "commission", "age") for name in boolean.features]
    return [
        (replace(boolean, name="agrawal, tree, brier", loss=brier), ~np.array(used)),
        (replace(linear, name="linear, squared"), np.array([False, False, True])),
    ]


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="5 streams.")
def main(quick: bool) -> None:
    seeds, worse = range(5 if quick else 2_000), False
    report = Report("game", "draws", "mean of ignored", "0 in band", "SD, two over one")
    for game, ignored in games(2_000 if quick else 100_000):
        spread = {}
        for m, pairs in ((1, False), (2, True)):
            form = replace(game, m=m, pairs=pairs)
            smoother = simulate(form, "isage", ALPHA, round((5.5 if quick else 8) / ALPHA), seeds, True)
            spread[m] = smoother.value.std(axis=0)
            low, high = smoother.band(0.95)
            inside = (low <= 0.0) & (high >= 0.0)
            ratio = spread[2] / spread[1] if pairs else np.ones(1)
            worse = worse or (pairs and bool((ratio >= 1.0).any()))
            report.add_row(
                game.name,
                "two, product form" if pairs else "one",
                f"{smoother.value[:, ignored].mean():+.5f}",
                f"{inside[:, ignored].mean():.3f}",
                f"{ratio.min():.2f} to {ratio.max():.2f}" if pairs else "",
            )
    Console(width=110).print(report)
    raise SystemExit(1 if worse and not quick else 0)


if __name__ == "__main__":
    main()
