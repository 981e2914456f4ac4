"""Smoothed means, how they err, and whether they also describe the moment."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from explain_core import bands, kernels
from explain_core.bands import Band, Spread
from explain_core.compiling import AVAILABLE
from explain_core.kernels import LIMIT
from explain_core.state import Block, State, array, block, check, finite

Array = NDArray[np.float64]

BLOCK = 100
"""Observations of a block."""

FAR = 3
"""Blocks of a batch; third differences of four batches tell of dependence, as a parabola cancels in them."""

SEEN, SEEN_NEAR = 0.46, 0.17
"""The shares of the covariance of a geometric reservoir's rows that the two scales show, for L = 100."""

GROWS = 2.0, 1.6
"""By how much the ratio of blocks is expected to exceed what the rows add for each 1 that the ratio of their quarters does, and that of batches
for each 1 of blocks: where records come in clusters."""

PRIOR, WEIGHT = 1.5, 4.0
"""F before anything is known, where records share the rows of a reservoir, and how many batches that counts as."""

JUMP = 9.0
"""One ratio counts for at most so many times their mean: a jump of the mean is no dependence."""

REMEMBERED, SELDOM = 200, 1_000
"""Blocks over which dependence and skewness are remembered."""

SCALES, CAUTION, LEFT = (4, 12), 4.0, 0.1
"""A mean is steady unless that of its newest 4 or 12 blocks is off by 4 standard errors, until 90 % of its weight is newer than that."""

RING = 4 * FAR
VALUE, MEAN, SQUARES, CUBES, QUARTER, _, _, Q2, Q3, Q4, FINE, FINES, NEAR, NEARS, FARS, BATCHES = range(16)
ALL_SQUARES, ALL_CUBES, SIZES, SIZES_2, OLD, NEWEST = range(16, 22)
ROWS = NEWEST + 2 * RING
"""Rows of ``Smoother.cells``: φ; mean and central sums of the open block; its mean after 25, 50 and 75 observations; Σ w² v, Σ w³ c, Σ (w² v)² of the closed ones, decayed as
φ's weights are; sums and counts of the ratios for F of quarters of blocks, blocks, and batches; pooled central sums, and of the sizes and squared sizes of the
cubes; the share of the weight from before the last change; then the means and the v/b of the newest blocks, the newest first."""

N, W, SIZE, OPEN, OPEN_2, OPEN_3, KEPT, T, R2, R3, R4, BLOCKS, POOLED = range(13)
COLUMN_ROWS = POOLED + 1
"""Rows of ``Smoother.sums``: of each column the observations and their weight; those of the open block, their weights, squared weights and
cubed ones, and what it leaves of the weight before; at the end of the last block the weight, the squared and cubed weights, the blocks' squares of
squared ones, the number of blocks, and the observations that the pooled sums are of."""


class SmootherState(State, frozen=True):
    """``cells`` (``ROWS`` × losses × columns) and ``sums`` (``COLUMN_ROWS`` × columns)."""

    cells: Block
    sums: Block


class Smoother:
    """Exponentially weighted mean of each cell of an array, with a band for the mean of what was to be expected of the records.

    The raw value is φ_t = (1−α) φ_{t−1} + α Δ_t from zero (iPFI journal Def. 4, iSAGE Alg. 1). The reported value
    is bias-corrected, φ_t / (1 − (1−α)ⁿ): the mean with weights that sum to W_t = 1 + (1−α) W_{t−1}. ``alpha=None``
    (static setting) forgets nothing: W_t = t, the plain mean.

    **The band** is for Σ w_t μ_t, μ_t being the expectation of Δ_t given model and concept at t: how much a feature mattered, on average
    over the records remembered. It is owed at all times, also while things change. From blocks of 100 observations: of block k its
    variance v about its own mean, in which nothing of a slower trend is, and its share W of the weight::

        std² = F · Σ W² v/b

    F ≥ 1 is what dependence of neighbouring records adds, through the rows of a reservoir that they share or because records come in
    clusters: (differences of block means)² over what independent records would give, for first differences of blocks, and for third ones of
    batches of three, in which a trend that a parabola follows cancels. Where the ratio grows with the scale it is taken to go on growing
    as that of a geometric reservoir does. Degrees of freedom and skewness: see ``explain_core.bands``.

    ``steady`` is the other question: whether the mean also describes the moment.

    ``python -m experiments.bands`` shows what comes of it in games whose truth is known at every record.

    Shapes: every array has the ``shape`` given; ``grow`` adds columns for features met later, whose mean begins with
    the next observation: each column has n and weights of its own.

    >>> smoother = Smoother((1,), alpha=0.5)
    >>> for delta in (1.0, 3.0):
    ...     smoother.update(np.array([delta]))
    >>> round(float(smoother.value[0]), 4), round(float(smoother.raw[0]), 4)
    (2.3333, 1.75)
    >>> smoother = Smoother((1, 1), alpha=0.001)
    >>> for i in range(1_000):
    ...     smoother.update(np.array([[float(i % 7)]]))
    ...     if smoother.n % BLOCK == 0:
    ...         _ = smoother.end_block()
    >>> low, high = smoother.band(0.95)
    >>> bool(2.7 < low[0, 0] < 3.0 < high[0, 0] < 3.3)
    True
    """

    def __init__(self, shape: tuple[int, ...], alpha: float | None = None, prior: float = PRIOR) -> None:
        if alpha is not None and not 0.0 < alpha <= 1.0:
            raise ValueError(f"alpha: {alpha} is outside (0, 1]; 0.001 follows about the last 2,000 records")
        self.alpha = alpha
        self._prior = prior
        self.cells: Array = np.zeros((ROWS, *shape))
        self.sums: Array = _fresh(shape[-1:])
        self.rates: Array = np.array([decay(alpha)])
        """The share of W that each observation keeps."""

    def update(self, delta: Array) -> None:
        """Add one observation per cell, between ±``LIMIT``."""
        if AVAILABLE and delta.ndim == 2:
            kernels.smoothed(self.cells, self.sums, self.rates, delta)
            return
        cells, sums, decay = self.cells, self.sums, float(self.rates[0])
        delta = np.clip(delta, -LIMIT, LIMIT)
        sums[N] += 1.0
        sums[W] = 1.0 + decay * sums[W]
        sums[SIZE] += 1.0
        for row, kept in ((OPEN, decay), (OPEN_2, decay * decay), (OPEN_3, decay * decay * decay)):
            sums[row] = 1.0 + kept * sums[row]
        sums[KEPT] *= decay
        size = sums[SIZE]
        cells[VALUE] += (1.0 / sums[W]) * (delta - cells[VALUE])
        off = delta - cells[MEAN]
        step = off / size
        grown = off * step * (size - 1.0)
        quarter = size * (4.0 / BLOCK)
        for row in range(3):
            cells[QUARTER + row] = np.where(quarter == row + 1.0, cells[MEAN] + step, cells[QUARTER + row])
        cells[CUBES] += grown * step * (size - 2.0) - 3.0 * step * cells[SQUARES]
        cells[SQUARES] += grown
        cells[MEAN] += step

    def end_block(self) -> Array:
        """Close the open block of every column.

        Returns of the closed block n, Σ Δ, the variance and the third moment of that sum, and the square of the variance: 5 × the
        shape, to be added up over blocks, periods, partitions.
        """
        cells, sums = self.cells, self.sums
        size = sums[SIZE]
        there = size >= 2.0
        b = np.where(there, size, 2.0)
        before = np.where(there, sums[KEPT], 1.0) * sums[T]
        own, cubes = self._open
        sums[T : R4 + 1], cells[Q2 : Q4 + 1] = self._with_open(own, cubes)
        sums[BLOCKS] += there
        seldom = 1.0 - 1.0 / SELDOM
        sums[POOLED] = seldom * sums[POOLED] + np.where(there, size, 0.0)
        tail = np.minimum(np.abs(np.where(there, cells[CUBES], 0.0)), 1e150)
        for row, value in (
            (ALL_SQUARES, np.where(there, cells[SQUARES], 0.0)),
            (ALL_CUBES, np.where(there, cells[CUBES], 0.0)),
            (SIZES, tail),
            (SIZES_2, tail * tail),
        ):
            cells[row] = seldom * cells[row] + value
        means, owns = cells[NEWEST : NEWEST + RING], cells[NEWEST + RING :]
        for ring, newest in ((means, cells[MEAN]), (owns, own)):
            ring[1:] = np.where(there, ring[:-1], ring[1:])
            ring[0] = np.where(there, newest, ring[0])
        self._depend(means, owns, size == BLOCK)
        factor, _ = self.dependence
        self._compare(means, owns, factor, before)
        n = np.where(there, size, 0.0) + np.zeros_like(own)
        variance = np.where(there, factor * own * b * b, 0.0)
        late = self._skewness * (own * b) ** 1.5  # of one record, as ``cubes``
        third = np.where(np.abs(late) > np.abs(cubes), late, cubes) * b * factor**1.5
        closed: Array = np.stack(
            [n, n * cells[MEAN], variance, np.where(there, third, 0.0), variance * variance]
        )
        cells[MEAN : CUBES + 1] = np.where(there, 0.0, cells[MEAN : CUBES + 1])
        sums[SIZE : KEPT + 1] = np.where(there, [[0.0]] * 4 + [[1.0]], sums[SIZE : KEPT + 1])
        return closed

    @property
    def _open(self) -> tuple[Array, Array]:
        """Of the open block the variance of its mean, and the third central moment of a record; 0 where it has none."""
        size, cells = self.sums[SIZE], self.cells
        b = np.maximum(size, 2.0)
        there = size >= 2.0
        return np.where(there, cells[SQUARES] / (b - 1.0) / b, 0.0), np.where(there, cells[CUBES] / b, 0.0)

    def _with_open(self, own: Array, cubes: Array) -> tuple[Array, Array]:
        """The weight and the sums of its powers (T to R4), and those of the cells (Q2 to Q4), with the open block."""
        cells, sums = self.cells, self.sums
        there = sums[SIZE] >= 2.0
        kept = np.where(there, sums[KEPT], 1.0)
        weight, squares, third = np.where(there, sums[OPEN : OPEN_3 + 1], 0.0)
        k2, part = kept * kept, squares * own * sums[SIZE]
        columns = [
            kept * sums[T] + weight,
            k2 * sums[R2] + squares,
            k2 * kept * sums[R3] + third,
            k2 * k2 * sums[R4] + squares * squares,
        ]
        of_cells = [
            k2 * cells[Q2] + part,
            k2 * kept * cells[Q3] + third * cubes,
            k2 * k2 * cells[Q4] + part * part,
        ]
        return np.stack(columns), np.stack(of_cells)

    def _depend(self, means: Array, owns: Array, whole: NDArray[np.bool_]) -> None:
        """Take the newest ratios in, for F."""
        cells, known = self.cells, self.sums[BLOCKS]
        after = [1.0 * cells[QUARTER], 2.0 * cells[QUARTER + 1], 3.0 * cells[QUARTER + 2], 4.0 * means[0]]
        quarters = [after[0], *(late - early for early, late in pairwise(after))]
        batches, own = (ring.reshape(4, FAR, *ring.shape[1:]).sum(1) for ring in (means, owns))
        third = (batches[0] - 3.0 * batches[1] + 3.0 * batches[2] - batches[3]) / FAR
        noise = (own[0] + 9.0 * own[1] + 9.0 * own[2] + own[3]) / (FAR * FAR)
        fine, near, far = self._ratios
        for row, squares, variance, usable, counts, most in (
            (FINE, sum((b - a) ** 2 for a, b in pairwise(quarters)), 24.0 * owns[0], whole, 3.0, fine),
            (NEAR, (means[0] - means[1]) ** 2, owns[0] + owns[1], whole & (known >= 2.0), 1.0, near),
            (FARS, third * third, noise, whole & (known >= RING), 1.0 / FAR, far),
        ):
            usable = usable & (variance > 0.0)
            ratio = np.minimum(squares / np.where(usable, variance, 1.0), JUMP * most)
            keep = np.where(whole, 1.0 - 1.0 / REMEMBERED, 1.0)
            cells[row] = keep * cells[row] + np.where(usable, counts * ratio, 0.0)
            cells[row + 1] = keep * cells[row + 1] + np.where(usable, counts, 0.0)

    @property
    def _ratios(self) -> list[Array]:
        """(Differences)² over what independent records give, of quarters of blocks, blocks, and batches."""
        cells, found = self.cells, []
        expected: Array = np.ones_like(cells[FINE])
        for row, weight, grows, seen in (
            (FINE, 0.5 * WEIGHT, GROWS[0], SEEN_NEAR),
            (NEAR, 0.5 * WEIGHT, GROWS[1], SEEN),
            (FARS, WEIGHT, 0.0, 0.0),
        ):
            ratio = (cells[row] + weight * expected) / (cells[row + 1] + weight)
            found.append(ratio)
            base = 1.0 if row == FINE else self._expected(SEEN_NEAR)
            expected = self._expected(seen) + grows * np.maximum(ratio - base, 0.0)
        return found

    def _expected(self, seen: float) -> float:
        """The ratio that is expected at a scale that shows this share of the covariance."""
        return 1.0 + (self._prior - 1.0) * seen

    @property
    def dependence(self) -> tuple[Array, Array]:
        """F, and the batches that it is known from."""
        _, near, far = self._ratios
        beyond = (1.0 - SEEN) / (SEEN - SEEN_NEAR)
        factor = np.maximum(far, near) + beyond * np.maximum(far - near, 0.0)
        return np.maximum(factor, 1.0), self.cells[BATCHES, ...]

    def _compare(self, means: Array, owns: Array, factor: Array, before: Array) -> None:
        """Note where the newest blocks are off from what the mean was before them."""
        cells, sums = self.cells, self.sums
        kept = float(self.rates[0]) ** BLOCK
        weight = float(BLOCK) if kept == 1.0 else (1.0 - kept) / (1.0 - float(self.rates[0]))
        cells[OLD] *= before / np.maximum(sums[T], 1.0)
        for scale in SCALES:
            powers = weight * kept ** np.arange(scale).reshape(-1, *([1] * (means.ndim - 1)))
            rest = sums[T] - powers.sum()
            with np.errstate(divide="ignore", invalid="ignore"):
                past = (cells[VALUE] * sums[T] - (powers * means[:scale]).sum(0)) / rest
                noise = (cells[Q2] - (powers * powers * owns[:scale]).sum(0)) / (rest * rest)
            noise = np.maximum(noise, 0.0) + owns[:scale].sum(0) / (scale * scale)
            off = means[:scale].mean(0) - past
            known = sums[BLOCKS] >= scale + 5
            changed = (
                known
                & (off * off > CAUTION * CAUTION * factor * noise)
                & (np.abs(off) > 1e-12 * np.abs(past))
            )
            cells[OLD] = np.where(changed & (cells[OLD] < LEFT), 1.0, cells[OLD])

    @property
    def _skewness(self) -> Array:
        """γ of one observation, over the last 100,000."""
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = self.cells[ALL_SQUARES] / self.sums[POOLED]
            gamma = self.cells[ALL_CUBES] / self.sums[POOLED] / (variance * np.sqrt(variance))
        result: Array = np.where(variance > 0.0, gamma, 0.0)
        return result

    @property
    def spread(self) -> Spread:
        """How ``value`` errs; NaN until there are two observations."""
        cells = self.cells
        (weight, r2, r3, r4), (q2, q3, q4) = self._with_open(*self._open)
        factor, batches = self.dependence
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(weight > 0.0, weight, np.nan)
            squares = weight * weight
            third = q3 / (squares * weight)
            late = self._skewness * r3 / (squares * weight) * (q2 / r2) ** 1.5
            unsure = np.sqrt(cells[SIZES_2]) / np.where(cells[SIZES] > 0.0, cells[SIZES], 1.0)
            return bands.spread_of(
                q2 / squares,
                np.where(np.abs(late) > np.abs(third), late, third),
                q4 / (squares * squares),
                r2 * r2 / r4,
                factor,
                batches,
                bands.widening(self._skewness, unsure, squares / r2 / factor),
                2.0 / (BLOCK - 1.0),
            )

    @property
    def std(self) -> Array:
        """Standard error of ``value``; NaN until there are two observations."""
        return self.spread.std

    def band(self, confidence: float, band: Band = "normal") -> tuple[Array, Array]:
        """Low and high end of the two-sided band; NaN below ``bands.LEAST`` observations."""
        spread = self.spread
        spread = spread._replace(std=np.where(self.old_enough, spread.std, np.nan))
        return bands.ends(self.value, spread, confidence, band)

    @property
    def old_enough(self) -> NDArray[np.bool_]:
        """The columns that have a band."""
        result: NDArray[np.bool_] = self.sums[N] >= bands.LEAST
        return result

    @property
    def variance(self) -> Array:
        """What ``std`` squared would be if records were independent: Σ w² v."""
        (weight, *_), (q2, _, _) = self._with_open(*self._open)
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Array = q2 / (weight * weight)
        return result

    @property
    def shares(self) -> Array:
        """Σ w² of each column, blocks by blocks, with the weights of the mean; NaN until there are two observations."""
        (weight, r2, _, _), _ = self._with_open(*self._open)
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Array = r2 / (weight * weight)
        return result

    @property
    def steady(self) -> Array:
        """1 where the mean describes the moment too, 0 where it has changed of late, NaN where too little is known.

        An indication: a change that is far slower than the mean forgets is not seen.
        """
        known = self.sums[BLOCKS] >= SCALES[0] + 5
        result: Array = np.where(known, (self.cells[OLD] < LEFT) * 1.0, np.nan)
        return result

    def grow(self, columns: int) -> None:
        """Append columns that have seen nothing, up to ``columns`` of them."""
        missing = columns - self.cells.shape[-1]
        if missing > 0:
            self.cells = np.concatenate([self.cells, np.zeros((*self.cells.shape[:-1], missing))], axis=-1)
            self.sums = np.concatenate([self.sums, _fresh((missing,))], axis=-1)

    def state(self) -> SmootherState:
        return SmootherState(block(self.cells), block(self.sums))

    def restore(self, state: SmootherState, columns: int) -> None:
        """Restore a stored state of so many columns. Raises ``StateError`` where it is not of this shape."""
        cells = array("smoother", state.cells, "<f8", (ROWS, *self.cells.shape[1:-1], columns))
        sums = array("smoother", state.sums, "<f8", (COLUMN_ROWS, columns))
        finite("smoother", cells)
        finite("smoother", sums)
        check(bool(((sums >= 0.0) & (sums < 2.0**53)).all()), "smoother: numbers of records that are none")
        check(bool((sums[SIZE] <= BLOCK).all()), "smoother: a block of too many records")
        self.cells, self.sums = cells, sums

    @property
    def n(self) -> int:
        """The number of observations, of the column that has most."""
        return int(self.sums[N].max(initial=0.0))

    @property
    def value(self) -> Array:
        """The bias-corrected mean, 0 for columns without one: a view that changes with the next observation."""
        result: Array = self.cells[VALUE, ...]
        return result

    @property
    def raw(self) -> Array:
        """The value that started from zero, without the correction (the one that the theorems speak of)."""
        return self.value.copy() if self.alpha is None else self.value * (self.alpha * self.sums[W])


def ratio(difference: Smoother, total: Smoother, base: Smoother) -> tuple[Array, Spread]:
    """Mean of ``total`` = ``base`` + ``difference`` over the mean of ``base``, and how it errs.

    With ρ = mean difference / mean base the ratio is 1 + ρ, and to first order (delta method) it errs as the mean of
    (difference − ρ · base) / mean base does; the variance of that follows from those of the three, which were smoothed
    alike. NaN where the mean of ``base`` is 0. Source: ratio form of permutation importance as alibi has it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = np.where(base.value == 0.0, np.nan, difference.value / base.value)
        parts = (1.0 + rho, -rho, rho * (1.0 + rho))
        three = zip(parts, (difference, total, base), strict=True)
        variance = sum(part * smoother.variance for part, smoother in three)
        spread = difference.spread
        raised = np.sqrt(np.maximum(variance, 0.0) / difference.variance) / np.abs(base.value)
        return 1.0 + rho, spread._replace(std=np.where(raised >= 0.0, spread.std * raised, np.nan))


def _fresh(columns: tuple[int, ...]) -> Array:
    """The sums of columns that have seen nothing."""
    sums = np.zeros((COLUMN_ROWS, *columns))
    sums[KEPT] = 1.0
    return sums


def decay(alpha: float | None) -> float:
    """The weight that a step takes from what came before it, relative to its own: 1 − α, in the static setting 1.

    >>> decay(0.25), decay(None)
    (0.75, 1.0)
    """
    return 1.0 if alpha is None else 1.0 - alpha


def alpha_of(window: float) -> float:
    """The smoothing parameter whose mean age is that of a window of that many records, α = 2/(window + 1).

    Raises ``ValueError`` for a window below 1.

    >>> alpha_of(1999)
    0.001
    """
    if window < 1:
        raise ValueError(f"window: {window} is not a number of records; it needs at least 1")
    return 2.0 / (window + 1.0)
