"""Compiled arithmetic of ``explain_core.steadiness``, whose docstring says what is computed; itself without numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import compiled, inlined
from explain_core.smoothing import standard_error

SCALES = (1.0, 4.0, 16.0)
"""Blocks over which the newest mean is taken to be compared with the past."""

CAUTION = 4.0
"""Standard errors by which the newest mean may be off before that counts as a change."""

WRONG = 0.01
"""Share of the streams in which a plain mean may be taken for changed by chance; times π²/3, by Chernoff's bound for normal means."""

TOLERANCE = 0.1
"""Standard errors of what is left of an earlier mean, up to which the increments tell of variance and dependence again."""

LARGEST = 1e150
"""Third moments count for no more: the square of more is no number."""

LEFT = 0.5
"""Standard errors that what is left of an earlier mean may amount to where a band is shown, which is wider by as much."""

YOUNG = 1_500.0
"""Observations of a column that say too little of how rare the informative ones are."""

LEAST, INFORMATIVE = 12.0, 0.5
"""Independent observations that a band needs, of the last ones that the mean remembers, and informative ones: n/γ²."""

SKEW, FEW = 1.5, 4.0
"""A band is wider by the share (1.5 γ² + 4)/n. First order for Student's interval (Hall 1992) is (1.1 γ² + 1.7)/n, with the true γ."""

UNSURE, MOST = 2.0, 1.5
"""γ counts for 1 + 2/√B times as much where B blocks contribute to it; and the share is this at the most, beyond what first order is for."""

LAST, SPREAD, LAG, SHARE, VARIANCE, THIRD, SKEWNESS, BEFORE, CUBES, SQUARES = range(10)
NEWEST = 10
W, SHORTEST, AGE, LATE = range(4)
"""Rows of ``cells`` and ``sums`` of a ``Steadiness``."""

KEPT, EFFECTIVE, SLOW, DECAY = range(4)
"""Of ``constants``, followed by ``Smoother.error_constants``."""


@inlined
def larger(a: float, b: float) -> float:
    """``np.maximum``."""
    return a if a > b or a != a else b


@inlined
def smaller(a: float, b: float) -> float:
    """``np.minimum``."""
    return a if a < b or a != a else b


@inlined
def skewness(variance: float, third: float) -> float:
    """γ², 0 where there is no variance."""
    cubed = variance * np.sqrt(variance)
    gamma = third / cubed if cubed > 0.0 else 0.0
    return gamma * gamma


@inlined
def owing(lag: float, variance: float, squares: float) -> bool:
    """Whether φ owes too much to the past."""
    return lag > TOLERANCE * float(np.sqrt(variance * squares))


error_of = inlined(standard_error)


@inlined
def error(smoothed: Any, weighed: Any, constants: Any, row: int, column: int) -> float:
    """``Smoother.std`` of a cell."""
    squares = weighed[2, column]
    if weighed[0, column] < 2.0 or squares >= 1.0:
        return np.nan
    variance, covariance = smoothed[1, row, column] / (1.0 - squares), smoothed[2, row, column]
    return float(error_of(variance, covariance, squares, weighed[4, column], constants[DECAY + 1 :]))


@inlined
def compare(
    cells: Any, sums: Any, values: Any, means: Any, squares: Any, row: int, caution: float, effective: float
) -> None:
    """Compare the newest means of a loss with the means before, and note what it owes to the past where they are off."""
    for k in range(len(SCALES)):
        scale = SCALES[k]
        size, changed = effective * (2.0 * scale - 1.0), False
        for turn in range(2):
            for j in range(len(values)):
                age, last = sums[AGE, j], cells[LAST, row, j]
                if turn == 0:
                    cells[NEWEST + k, row, j] += (means[j] - cells[NEWEST + k, row, j]) / larger(
                        smaller(age, scale), 1.0
                    )
                newest = cells[NEWEST + k, row, j]
                if not (age >= 3.0 * scale and (size * squares[j] < 0.5 or scale == 1.0)):
                    continue
                share = larger(1.0 / size - squares[j], 0.25 / size)
                if k == 0:
                    share = 1.0 / size + sums[SHORTEST, j]
                wide = np.sqrt(cells[SPREAD, row, j] * share)
                if turn == 1:
                    cells[LAG, row, j] = larger(cells[LAG, row, j], abs(newest - values[j]) + wide)
                    continue
                off = abs(newest - (last if k == 0 else values[j]))
                skew = smaller(np.sqrt(cells[SKEWNESS, row, j] / size), 1.0)
                beyond = off > (caution + caution * caution / 6.0 * skew) * wide
                changed = changed or (beyond and off > 1e-12 * abs(last))
            if not changed:
                break


@compiled
def end_block(cells: Any, sums: Any, smoothed: Any, weighed: Any, constants: Any) -> None:
    """``Steadiness.end_block`` but for columns that begin anew; ``smoothed`` and ``weighed`` are the smoother's cells and sums."""
    n_losses, columns = smoothed.shape[1], smoothed.shape[2]
    kept, slow, caution = constants[KEPT], constants[SLOW], CAUTION
    means, oldest = np.empty(columns), 1.0
    for j in range(columns):
        sums[AGE, j] += 1.0 if weighed[0, j] > 0.0 else 0.0
        oldest = larger(oldest, sums[AGE, j])
    if (
        constants[DECAY] == 1.0
    ):  # a plain mean never forgets: of all comparisons so far hardly one may be wrong
        comparisons = float(len(SCALES) * n_losses * columns) * (oldest * oldest)
        caution = larger(CAUTION, math.sqrt(2.0 * math.log(larger(comparisons, 1.0) / WRONG)))
    for i in range(n_losses):
        for j in range(columns):
            weights, old = weighed[1, j], kept * sums[W, j]
            fresh = larger(weights - old, 1e-300)  # weight of the block's observations
            cells[LAG, i, j] *= old / larger(weights, 1.0)
            means[j] = (smoothed[0, i, j] * weights - old * cells[LAST, i, j]) / fresh
        compare(cells, sums, smoothed[0, i], means, weighed[2], i, caution, constants[EFFECTIVE])
        for j in range(columns):
            count, weights, squares, old = weighed[0, j], weighed[1, j], weighed[2, j], kept * sums[W, j]
            fresh = larger(weights - old, 1e-300)
            value, variance, third = smoothed[0, i, j], smoothed[1, i, j], smoothed[4, i, j]
            held = owing(cells[LAG, i, j], variance, squares)
            steady = not held and count >= 2.0
            if steady:
                cells[SHARE, i, j] = smoothed[2, i, j] / (variance if variance > 0.0 else 1.0)
            if held:
                smoothed[2, i, j] = cells[SHARE, i, j] * variance
                smoothed[3, i, j] = 0.0
            scale = 1.0
            if held and variance > 0.0 and cells[VARIANCE, i, j] > 0.0:
                scale = variance / cells[VARIANCE, i, j]
            cells[VARIANCE, i, j] *= scale
            scale = smaller(
                scale * np.sqrt(scale), LARGEST / larger(abs(cells[THIRD, i, j]) + cells[CUBES, i, j], 1.0)
            )
            cells[THIRD, i, j] *= scale
            cells[CUBES, i, j] *= scale
            cells[SQUARES, i, j] *= scale * scale
            if steady:
                step = 1.0 / larger(smaller(sums[AGE, j], slow), 1.0)
                cells[VARIANCE, i, j] += step * (variance - cells[VARIANCE, i, j])
                cells[THIRD, i, j] += step * (third - cells[THIRD, i, j])
                late = larger(cells[SKEWNESS, i, j] * (1.0 - 1.0 / slow), skewness(variance, third))
                cells[SKEWNESS, i, j] = larger(late, skewness(cells[VARIANCE, i, j], cells[THIRD, i, j]))
                own = smaller(abs((third * weights - old * cells[BEFORE, i, j]) / fresh), LARGEST)
                cells[CUBES, i, j] = 0.99 * cells[CUBES, i, j] + own
                cells[SQUARES, i, j] = 0.99 * cells[SQUARES, i, j] + own * own
            std = error(smoothed, weighed, constants, i, j)
            std = std if std > 0.0 else 0.0
            cells[LAST, i, j], cells[BEFORE, i, j], cells[SPREAD, i, j] = value, third, std * std / squares
    for j in range(columns):
        sums[W, j], sums[SHORTEST, j] = weighed[1, j], weighed[2, j]


@compiled
def bands(
    cells: Any, sums: Any, smoothed: Any, weighed: Any, constants: Any, width: float, found: Any
) -> None:
    """``Steadiness.bands``, into ``found``."""
    for i in range(smoothed.shape[1]):
        for j in range(smoothed.shape[2]):
            variance, squares, lag = smoothed[1, i, j], weighed[2, j], cells[LAG, i, j]
            std = error(smoothed, weighed, constants, i, j)
            found[0, i, j] = std
            found[1, i, j] = np.nan
            std = std if std > 0.0 else 0.0
            if weighed[0, j] < YOUNG or sums[LATE, j] != 0.0 or lag > LEFT * std:
                continue
            plain = variance / (1.0 - squares)
            times = std * std / (plain * squares) if plain > 0.0 else 1.0
            size = 1.0 / (squares * times)
            now = skewness(variance, smoothed[4, i, j]) if owing(lag, variance, squares) else 0.0
            skew = larger(cells[SKEWNESS, i, j], now)
            if not size >= larger(LEAST, INFORMATIVE * skew):
                continue
            cubes, unsure = cells[CUBES, i, j], 1.0
            if cubes > 0.0:
                unsure += UNSURE * (np.sqrt(cells[SQUARES, i, j]) / cubes)
            share = smaller((SKEW * skew * unsure * unsure + FEW) / size, MOST)
            found[1, i, j] = width * (1.0 + share) + (lag / std if std > 0.0 else 0.0)
