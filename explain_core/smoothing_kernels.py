"""Compiled arithmetic of ``explain_core.smoothing``, whose docstring says what is computed; itself without numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.compiling import compiled, inlined

BLOCK = 100
"""Observations of a block."""

FAR = 3
"""Blocks of a batch; third differences of four batches tell of dependence, as a parabola cancels in them."""

BEYOND = 1.86
"""How far the growth of the ratio from blocks to batches is taken to go on beyond them, as that of a covariance does which falls off like 0.99ᵏ."""

GROW_NEAR, GROW_FAR = 2.0, 1.6
"""By how much the ratio of blocks is expected to exceed 1 for each 1 that the ratio of their quarters does, and that of batches for each 1 of
blocks: where records come in clusters."""

WEIGHT = 4.0
"""How many batches that expectation counts as, and F = 1 at first; half as many differences of blocks, and of quarters."""

JUMP = 9.0
"""One ratio counts for at most so many times their mean: a jump of the mean is no dependence."""

REMEMBERED, SELDOM = 200.0, 1_000.0
"""Blocks over which dependence and skewness are remembered."""

SCALES, CAUTION, LEFT = (4, 12), 4.0, 0.1
"""A mean is steady unless that of its newest 4 or 12 blocks is off by 4 standard errors, until 90 % of its weight is newer than that."""

RING = 4 * FAR
VALUE, MEAN, SQUARES, CUBES, QUARTER = range(5)
Q2, Q3, Q4, FINE, FINES, NEAR, NEARS, FARS, BATCHES = range(7, 16)
ALL_SQUARES, ALL_CUBES, OLD, NEWEST = range(16, 20)
ROWS = NEWEST + 2 * RING
"""Rows of ``Smoother.cells``: φ; mean and central sums of the open block; its mean after 25, 50 and 75 observations; Σ w² v, Σ w³ c, Σ (w² v)² of the closed ones, decayed as
φ's weights are; sums and counts of the ratios for F of quarters of blocks, blocks, and batches; pooled central sums; the share of the weight from before the last change; then the means and the v/b of the newest blocks, the newest first."""

N, W, SIZE, OPEN, OPEN_2, OPEN_3, KEPT, T, R2, R3, R4, BLOCKS, POOLED = range(13)
COLUMN_ROWS = POOLED + 1
"""Rows of ``Smoother.sums``: of each column the observations and their weight; those of the open block, their weights, squared weights and
cubed ones, and what it leaves of the weight before; at the end of the last block the weight, the squared and cubed weights, the blocks' squares of
squared ones, the number of blocks, and the observations that the pooled sums are of."""

VARIANCE, THIRD, FOURTH, EFFECTIVE, FACTOR, KNOWN, GAMMA, COUNT = range(8)
INPUTS = COUNT + 1
"""Rows that ``explain_core.bands.spread_of`` takes."""


@inlined
def ratios(cells: Any, i: int, j: int) -> Any:
    """(Differences)² over what independent records give, of blocks and of batches, each weighed against what the scale before leads to expect."""
    half = 0.5 * WEIGHT
    fine = (cells[FINE, i, j] + half) / (cells[FINES, i, j] + half)
    expected = 1.0 + GROW_NEAR * (fine - 1.0 if fine > 1.0 else 0.0)
    near = (cells[NEAR, i, j] + half * expected) / (cells[NEARS, i, j] + half)
    expected = 1.0 + GROW_FAR * (near - 1.0 if near > 1.0 else 0.0)
    return fine, near, (cells[FARS, i, j] + WEIGHT * expected) / (cells[BATCHES, i, j] + WEIGHT)


@inlined
def factor_of(near: float, far: float) -> float:
    """F: where the ratio grows with the scale it is taken to go on growing."""
    found = far + BEYOND * (far - near) if far > near else near
    return found if found > 1.0 else 1.0


@inlined
def skewness(cells: Any, pooled: float, i: int, j: int) -> float:
    """γ of one observation, over the last 100,000."""
    variance = cells[ALL_SQUARES, i, j] / pooled if pooled > 0.0 else 0.0
    if not variance > 0.0:
        return 0.0
    return float(cells[ALL_CUBES, i, j] / pooled / (variance * np.sqrt(variance)))


@inlined
def take_in(cells: Any, row: int, i: int, j: int, ratio: float, most: float, counts: float) -> None:
    """Add a ratio to those remembered."""
    cells[row, i, j] += counts * (ratio if ratio < JUMP * most else JUMP * most)
    cells[row + 1, i, j] += counts


@inlined
def depend(cells: Any, blocks: float, keep: float, i: int, j: int) -> None:
    """Take the newest ratios in, for F."""
    fine, near, far = ratios(cells, i, j)
    for row in (FINE, FINES, NEAR, NEARS, FARS, BATCHES):
        cells[row, i, j] *= keep
    own, mean = cells[NEWEST + RING, i, j], cells[NEWEST, i, j]
    if own > 0.0:
        last, so_far, squares = 0.0, 0.0, 0.0
        for k in range(4):
            until = (k + 1.0) * (cells[QUARTER + k, i, j] if k < 3 else mean)
            quarter = until - so_far
            if k > 0:
                squares += (quarter - last) * (quarter - last)
            last, so_far = quarter, until
        take_in(cells, FINE, i, j, squares / (24.0 * own), fine, 3.0)
    noise = own + cells[NEWEST + RING + 1, i, j]
    if blocks >= 2.0 and noise > 0.0:
        difference = mean - cells[NEWEST + 1, i, j]
        take_in(cells, NEAR, i, j, difference * difference / noise, near, 1.0)
    if blocks < RING:
        return
    difference = noise = 0.0
    for k in range(RING):
        times = (1.0, -3.0, 3.0, -1.0)[k // FAR] / FAR
        difference += times * cells[NEWEST + k, i, j]
        noise += times * times * cells[NEWEST + RING + k, i, j]
    if noise > 0.0:
        take_in(cells, FARS, i, j, difference * difference / noise, far, 1.0 / FAR)


@inlined
def compare(cells: Any, sums: Any, factor: float, kept: float, weight: float, i: int, j: int) -> None:
    """Note where the newest blocks are off from what the mean was before them."""
    for scale in SCALES:
        if sums[BLOCKS, j] < scale + 5.0:
            continue
        share, newest, of_newest, rest, past, noise = weight, 0.0, 0.0, sums[T, j], 0.0, cells[Q2, i, j]
        past = cells[VALUE, i, j] * rest
        for k in range(scale):
            mean, own = cells[NEWEST + k, i, j], cells[NEWEST + RING + k, i, j]
            newest += mean / scale
            of_newest += own / (scale * scale)
            past -= share * mean
            noise -= share * share * own
            rest -= share
            share *= kept
        past /= rest
        noise = max(noise, 0.0) / (rest * rest) + of_newest
        off = newest - past
        beyond = off * off > CAUTION * CAUTION * factor * noise and abs(off) > 1e-12 * abs(past)
        if beyond and cells[OLD, i, j] < LEFT:
            cells[OLD, i, j] = 1.0


@compiled
def close_block(cells: Any, sums: Any, decay: float, closed: Any) -> None:
    """``Smoother.end_block``; ``cells`` is rows × losses × columns, ``closed`` 5 × losses × columns of zeros."""
    kept_block, weight_block = decay**BLOCK, float(BLOCK)
    if kept_block < 1.0:
        weight_block = (1.0 - kept_block) / (1.0 - decay)
    seldom, keep = 1.0 - 1.0 / SELDOM, 1.0 - 1.0 / REMEMBERED
    for j in range(cells.shape[2]):
        b = sums[SIZE, j]
        if b < 2.0:
            continue
        kept, weight, squares, cubed = sums[KEPT, j], sums[OPEN, j], sums[OPEN_2, j], sums[OPEN_3, j]
        before, k2 = kept * sums[T, j], kept * kept
        sums[T, j] = before + weight
        sums[R2, j] = k2 * sums[R2, j] + squares
        sums[R3, j] = k2 * kept * sums[R3, j] + cubed
        sums[R4, j] = k2 * k2 * sums[R4, j] + squares * squares
        sums[BLOCKS, j] += 1.0
        sums[POOLED, j] = seldom * sums[POOLED, j] + b
        blocks, whole = sums[BLOCKS, j], b == BLOCK
        for i in range(cells.shape[1]):
            v, c = cells[SQUARES, i, j] / (b - 1.0), cells[CUBES, i, j] / b
            own, part = v / b, squares * v
            cells[Q2, i, j] = k2 * cells[Q2, i, j] + part
            cells[Q3, i, j] = k2 * kept * cells[Q3, i, j] + cubed * c
            cells[Q4, i, j] = k2 * k2 * cells[Q4, i, j] + part * part
            cells[ALL_SQUARES, i, j] = seldom * cells[ALL_SQUARES, i, j] + cells[SQUARES, i, j]
            cells[ALL_CUBES, i, j] = seldom * cells[ALL_CUBES, i, j] + cells[CUBES, i, j]
            for k in range(RING - 1, 0, -1):
                cells[NEWEST + k, i, j] = cells[NEWEST + k - 1, i, j]
                cells[NEWEST + RING + k, i, j] = cells[NEWEST + RING + k - 1, i, j]
            cells[NEWEST, i, j], cells[NEWEST + RING, i, j] = cells[MEAN, i, j], own
            if whole:
                depend(cells, blocks, keep, i, j)
            _, near, far = ratios(cells, i, j)
            factor = factor_of(near, far)
            cells[OLD, i, j] *= before / max(sums[T, j], 1.0)
            compare(cells, sums, factor, kept_block, weight_block, i, j)
            gamma = skewness(cells, sums[POOLED, j], i, j) * v * np.sqrt(v)
            third = gamma if abs(gamma) > abs(c) else c
            closed[0, i, j], closed[1, i, j] = b, b * cells[MEAN, i, j]
            closed[2, i, j] = factor * v * b
            closed[3, i, j] = third * b * factor * np.sqrt(factor)
            closed[4, i, j] = closed[2, i, j] * closed[2, i, j]
            cells[MEAN, i, j] = cells[SQUARES, i, j] = cells[CUBES, i, j] = 0.0
        for row in range(SIZE, KEPT):
            sums[row, j] = 0.0
        sums[KEPT, j] = 1.0


@compiled
def inputs_of(cells: Any, sums: Any, inputs: Any) -> None:
    """Of each cell what its ``Spread`` is made from, with the open block; NaN until there are two observations. ``INPUTS`` × losses × columns."""
    for j in range(cells.shape[2]):
        b = sums[SIZE, j]
        there = b >= 2.0
        kept = sums[KEPT, j] if there else 1.0
        weight, squares, cubed = (
            (sums[OPEN, j], sums[OPEN_2, j], sums[OPEN_3, j]) if there else (0.0, 0.0, 0.0)
        )
        k2, total = kept * kept, kept * sums[T, j] + weight
        r2, r3 = k2 * sums[R2, j] + squares, k2 * kept * sums[R3, j] + cubed
        r4 = k2 * k2 * sums[R4, j] + squares * squares
        for i in range(cells.shape[1]):
            if not total > 0.0:
                for row in range(INPUTS):
                    inputs[row, i, j] = np.nan
                continue
            v = cells[SQUARES, i, j] / (b - 1.0) if there else 0.0
            part = squares * v
            q2 = k2 * cells[Q2, i, j] + part
            third = k2 * kept * cells[Q3, i, j] + (cubed * cells[CUBES, i, j] / b if there else 0.0)
            gamma = skewness(cells, sums[POOLED, j], i, j)
            average = q2 / r2
            late = gamma * r3 * average * np.sqrt(average)
            _, near, far = ratios(cells, i, j)
            factor, t2 = factor_of(near, far), total * total
            inputs[VARIANCE, i, j] = q2 / t2
            inputs[THIRD, i, j] = (late if abs(late) > abs(third) else third) / (t2 * total)
            inputs[FOURTH, i, j] = (k2 * k2 * cells[Q4, i, j] + part * part) / (t2 * t2)
            inputs[EFFECTIVE, i, j] = r2 * r2 / r4
            inputs[FACTOR, i, j], inputs[KNOWN, i, j] = factor, cells[BATCHES, i, j]
            inputs[GAMMA, i, j] = gamma
            inputs[COUNT, i, j] = t2 / r2 / factor
