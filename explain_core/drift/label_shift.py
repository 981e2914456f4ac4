"""Whether a drift is a shift of the labels: their shares moved, and the inputs of each label did not.

P(y|x) and P(x) then both change, by Bayes' rule, so the games may name both as causes. Three tests of the rows recognise it:

- P(y) moved, by χ² of the labels' counts; in a regression, of the counts of the truth's bins;
- P(x) moved: trees that learn on one half of the rows which window a row is from predict it on the other half;
- P(x|y) did not: among rows with the same label such trees predict nothing, and no feature has other values, by χ² and by the mean of its ranks (van Elteren 1960).

The last are tests that do not reject. So a change in the inputs of a label that is too small for this number of rows counts as none. So does a
change of shares that follows the model's prediction, where that is as good as the label.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtrc, ndtr

from explain_core.bands import holm
from explain_core.drift.arrays import Codes, Values
from explain_core.drift.differences import chi_squared
from explain_core.drift.joint import CodedColumns, Halves, halves_of, log_odds

LEVEL = 0.01
"""The level of the first two tests, and of those of all features together."""
LIMIT = 2.3263478740408408
"""Standard errors that this is, on one side: of the second test, and of the third."""
LEAST = 5
"""Least number of rows of a label in either window's half for the label to count."""


def shifted(columns: CodedColumns, labels: tuple[Codes, Codes], rng: np.random.Generator) -> bool:
    """Whether the labels shifted; ``labels`` are the codes of the labels of each window."""
    counts = _counts(labels)
    counts = counts[:, counts.sum(axis=0) > 0.0]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    if counts.shape[1] < 2 or chdtrc(counts.shape[1] - 1, statistic) > LEVEL:
        return False
    halves = halves_of(columns, rng)
    same = (np.zeros_like(labels[0]), np.zeros_like(labels[1]))
    if _apart(columns, same, halves) <= LIMIT or _apart(columns, labels, halves) > LIMIT:
        return False
    return not any(holm(_chances(columns, labels), LEVEL))


def _chances(columns: CodedColumns, labels: tuple[Codes, Codes]) -> list[float]:
    """Of so different values of each column among rows with the same label, where there is no difference."""
    found, classes = [], _counts(labels).shape[1]
    for j, size in enumerate(columns.sizes):
        cells = [own * size + codes[:, j] for own, codes in zip(labels, columns.codes, strict=True)]
        table = np.array([np.bincount(of, minlength=classes * size) for of in cells], dtype=float)
        table = table.reshape(2, classes, size)
        statistic, freedom = chi_squared(table)
        if freedom.sum() > 0.0:
            found.append(float(chdtrc(freedom.sum(), statistic.sum())))
        if j not in columns.unordered:
            found.append(_rank_chance(table, table.sum(axis=2)))
    return found


def _rank_chance(table: Values, n: Values) -> float:
    """By the mean ranks within each label, of windows × labels × codes."""
    both = n.min(axis=0) > 0.0
    table, n = table[:, both], n[:, both]
    pooled = table.sum(axis=0)
    rank = (np.cumsum(pooled, axis=1) - 0.5 * pooled) / n.sum(axis=0)[:, None] - 0.5
    means = (table * rank).sum(axis=2) / n
    variance = (pooled * rank**2).sum(axis=1) / n.sum(axis=0)
    size = n.prod(axis=0) / n.sum(axis=0)
    error = math.sqrt(float(np.sum(size * variance)))
    return float(2.0 * ndtr(-abs(float(np.sum(size * (means[1] - means[0])))) / error)) if error else 1.0


def _counts(labels: tuple[Codes, Codes]) -> Values:
    """Rows of each label, windows × labels."""
    classes = 1 + max(int(window.max(initial=0)) for window in labels)
    return np.array([np.bincount(window, minlength=classes) for window in labels], dtype=float)


def _apart(columns: CodedColumns, labels: tuple[Codes, Codes], halves: Halves) -> float:
    """How well trees learnt on the other half tell the windows apart among rows with the same label, in standard errors.

    It is the mean log-odds of the target window for rows of the target, minus that for rows of the baseline.
    """
    counts = _counts(labels)
    # A label weighs the same in both windows: nothing is learnt from its shares.
    first, second = (counts.min(axis=0)[own] / counts[w][own] for w, own in enumerate(labels))
    odds = log_odds(columns, halves, (first, second))
    difference = variance = 0.0
    for _, served in halves:
        for label in range(counts.shape[1]):
            found = [odds[w][rows][labels[w][rows] == label] for w, rows in enumerate(served)]
            n, m = map(len, found)
            if min(n, m) >= LEAST:
                size = n * m / (n + m)
                difference += size * float(found[1].mean() - found[0].mean())
                variance += size * size * sum(float(sample.var(ddof=1)) / len(sample) for sample in found)
    return difference / math.sqrt(variance) if variance > 0.0 else 0.0
