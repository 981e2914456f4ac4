"""Whether a drift is a shift of the labels: their shares moved, and the inputs of each label did not.

P(y|x) and P(x) then both change, by Bayes' rule, so the games may name both as causes. Three tests of the rows recognise it:

- P(y) moved, by χ² of the labels' counts; in a regression, of the counts of the truth's bins;
- P(x) moved: trees that learn on one half of the rows which window a row is from predict it on the other half;
- P(x|y) did not: among rows with the same label such trees predict nothing.

The last is a test that does not reject. So a change in the inputs of a label that is too small for this number of rows counts as none. So does a
change of shares that follows the model's prediction, where that is as good as the label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import chdtrc

from explain_core.drift.arrays import Codes, Values
from explain_core.drift.boosting import TrainingSet, boosted

LEVEL = 0.01
"""The level of the first two tests."""
LIMIT = 2.3263478740408408
"""Standard errors that this is, on one side: of the second test, and of the third."""
LEAST = 5
"""Least number of rows of a label in either window's half for the label to count."""


def shifted(
    codes: tuple[Codes, Codes],
    sizes: Sequence[int],
    unordered: Sequence[int],
    labels: tuple[Codes, Codes],
    rng: np.random.Generator,
) -> bool:
    """Whether the labels shifted. ``codes`` are rows × features of each window, ``labels`` the codes of its labels."""
    classes = 1 + max(int(window.max(initial=0)) for window in labels)
    counts = np.array([np.bincount(window, minlength=classes) for window in labels], dtype=float)
    counts = counts[:, counts.sum(axis=0) > 0.0]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    if counts.shape[1] < 2 or chdtrc(counts.shape[1] - 1, statistic) > LEVEL:
        return False
    halves = [rng.permutation(len(window)) % 2 == 0 for window in labels]
    same = (np.zeros_like(labels[0]), np.zeros_like(labels[1]))
    return (
        _apart(codes, sizes, unordered, same, halves) > LIMIT
        and _apart(codes, sizes, unordered, labels, halves) <= LIMIT
    )


def _apart(
    codes: tuple[Codes, Codes],
    sizes: Sequence[int],
    unordered: Sequence[int],
    labels: tuple[Codes, Codes],
    halves: Sequence[Codes],
) -> float:
    """How well trees learnt on the other half tell the windows apart among rows with the same label, in standard errors.

    It is the mean log-odds of the target window for rows of the target, minus that for rows of the baseline.
    """
    classes = 1 + max(int(window.max(initial=0)) for window in labels)
    counts = np.array([np.bincount(window, minlength=classes) for window in labels], dtype=float)
    # A label weighs the same in both windows: nothing is learnt from its shares.
    weights = [counts.min(axis=0)[own] / counts[w][own] for w, own in enumerate(labels)]
    difference = variance = 0.0

    def both(rows: tuple[Codes, Codes]) -> TrainingSet:
        return TrainingSet(
            np.concatenate([of[chosen] for of, chosen in zip(codes, rows, strict=True)]),
            np.repeat([0.0, 1.0], [len(chosen) for chosen in rows]),
            np.concatenate([of[chosen] for of, chosen in zip(weights, rows, strict=True)]),
        )

    for half in (False, True):
        learnt, served = (
            (np.flatnonzero(halves[0] == which), np.flatnonzero(halves[1] == which))
            for which in (not half, half)
        )
        odds, _ = boosted(both(learnt), both(served), codes[0][:0], sizes, unordered, True)
        scores = odds[: len(served[0])], odds[len(served[0]) :]
        for label in range(classes):
            found: list[Values] = [scores[w][labels[w][served[w]] == label] for w in (0, 1)]
            first, second = map(len, found)
            if min(first, second) >= LEAST:
                size = first * second / (first + second)
                difference += size * float(found[1].mean() - found[0].mean())
                variance += size * size * sum(float(sample.var(ddof=1)) / len(sample) for sample in found)
    return difference / math.sqrt(variance) if variance > 0.0 else 0.0
