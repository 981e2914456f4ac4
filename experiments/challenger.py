"""How often an interval that is looked at after every record names a wrong winner, and how soon the right sequence.

Two models give the true probability of a label with noise on its logit. *Null* streams have the same noise for both, so that the expected difference of
their losses is 0; a wrong winner is an interval at 95 % that excludes 0 after any record. Where the challenger has less noise, the median over streams of the
records until it is named, beside those that a test of a single look after a number of records fixed before needs for a power of 80 %. One kind is made to
mislead: a model that is mostly a little better and one time in 500 much worse, by as much as it gains; see ``ConfidenceSequence`` on limits.
"""

from __future__ import annotations

from collections.abc import Callable

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Report

from experiments.options import quick_option
from explain_core.confidence import ConfidenceSequence
from explain_core.losses import EPSILON, get

Array = NDArray[np.float64]
Rng = np.random.Generator

NOISE = 0.6
CONFIDENCE = 0.95


def losses(probability: Array, label: NDArray[np.bool_]) -> dict[str, Array]:
    own = np.where(label, probability, 1.0 - probability)
    return {
        "cross_entropy": -np.log(np.maximum(own, EPSILON)),
        "brier": 2.0 * np.square(1.0 - own),
        "zero_one": (own < 0.5).astype(float),
    }


def two_models(loss: str, other: float = NOISE) -> Callable[[Rng, int], Array]:
    """Differences of a loss, challenger minus model; ``other`` is the challenger's noise."""

    def drawn(rng: Rng, n: int) -> Array:
        logit = rng.normal(0.0, 2.0, n)
        label = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-logit))
        noisy = [logit + rng.normal(0.0, noise, n) for noise in (NOISE, other)]
        own, challenger = (losses(1.0 / (1.0 + np.exp(-each)), label)[loss] for each in noisy)
        return np.asarray(challenger - own)

    return drawn


def volatile(rng: Rng, n: int) -> Array:
    """Student's t with 4 degrees of freedom, whose spread changes a hundredfold from record 1,000 to 1,000."""
    return np.asarray(rng.standard_t(4, n) * np.where(np.arange(n) // 1_000 % 2, 1.0, 0.01))


def disasters(rng: Rng, n: int) -> Array:
    """−0.02 and, one time in 500, 9.98."""
    return np.asarray(np.where(rng.uniform(size=n) < 1.0 / 500.0, 9.98, -0.02))


def named(values: Array, limit: float | None) -> tuple[int | None, int]:
    """The first record after which the interval excludes 0, and the sign of the mean then."""
    sequence = ConfidenceSequence(CONFIDENCE, limit)
    for n, value in enumerate(values.tolist(), start=1):
        sequence.add(value)
        if sequence.excludes_zero:
            return n, 1 if (sequence.interval.value or 0.0) > 0.0 else -1
    return None, 0


@click.command(help=__doc__)
@quick_option
def main(quick: bool) -> None:
    streams, length = (5, 500) if quick else (1_000, 10_000)
    null = Report("null streams", "limit", "wrong winner", "of", "looks each", "half the interval at the end")
    worst = 0.0
    kinds: list[tuple[str, Callable[[Rng, int], Array], float | None]] = [
        ("cross_entropy of equal models", two_models("cross_entropy"), None),
        ("brier of equal models", two_models("brier"), get("brier").most),
        ("the same", two_models("brier"), None),
        ("zero_one of equal models", two_models("zero_one"), get("zero_one").most),
        ("heavy tails, changing spread", volatile, None),
        ("made to mislead", disasters, None),
        ("the same", disasters, 10.0),
    ]
    for name, drawn, limit in kinds:
        wrong = 0
        for seed in range(streams):
            wrong += named(drawn(np.random.default_rng([seed, 1]), length), limit)[0] is not None
        sequence = ConfidenceSequence(CONFIDENCE, limit)
        for value in drawn(np.random.default_rng([0, 1]), length).tolist():
            sequence.add(value)
        low, high = sequence.interval.low or 0.0, sequence.interval.high or 0.0
        stated = "the past's" if limit is None else f"{limit:g}"
        null.add_row(name, stated, str(wrong), f"{streams:,}", f"{length:,}", f"{(high - low) / 2.0:.4f}")
        if drawn is not disasters:
            worst = max(worst, wrong / streams)
    Console(width=110).print(null)

    streams, length = (2, 1_000) if quick else (100, 60_000)
    true = Report(
        "challenger's noise", "loss", "difference", "in SD", "found", "median records", "a single look"
    )
    for loss in ("cross_entropy", "brier"):
        for other in (0.0, 0.3, 0.5):
            drawn = two_models(loss, other)
            many = drawn(np.random.default_rng([0, 2]), 1_000_000 if not quick else 10_000)
            mean, sd = float(many.mean()), float(many.std())
            found = [
                named(drawn(np.random.default_rng([seed, 3]), length), get(loss).most)
                for seed in range(streams)
            ]
            right = sorted(at if at is not None and sign < 0 else length + 1 for at, sign in found)
            middle = right[len(right) // 2]
            fixed = (2.802 * sd / mean) ** 2
            true.add_row(
                f"{other:g} (model's {NOISE:g})",
                loss,
                f"{mean:+.4f}",
                f"{abs(mean) / sd:.3f}",
                f"{sum(at <= length for at in right)} of {streams}",
                f"{middle:,}" if middle <= length else f"above {length:,}",
                f"{fixed:,.0f}",
            )
    Console(width=110).print(true)
    raise SystemExit(1 if worst > 1.0 - CONFIDENCE and not quick else 0)


if __name__ == "__main__":
    main()
