"""Smoothed means, how they err, and whether they also describe the moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explain_core import bands
from explain_core.bands import Band, Spread
from explain_core.engine import smoothing as engine
from explain_core.engine.smoothing import BLOCK
from explain_core.state import Block, State, array, block, check, within

Array = NDArray[np.float64]


def _reach() -> tuple[Array, Array, Array]:
    """The smallest and the largest number that each row of ``cells`` can have, and the largest of ``sums``: from such, no later one overflows."""
    means = [
        engine.VALUE,
        engine.MEAN,
        *range(engine.QUARTER, engine.QUARTER + 3),
        *range(engine.NEWEST, engine.NEWEST + engine.RING),
    ]
    most = np.full(engine.ROWS, 1e100)  # sums of ratios
    most[means] = 2.0 * engine.LIMIT
    most[[engine.SQUARES, *range(engine.NEWEST + engine.RING, engine.ROWS)]] = 4.0 * BLOCK * engine.LIMIT**2
    most[engine.CUBES] = 8.0 * BLOCK * engine.LIMIT**3
    most[[engine.Q2, engine.ALL_SQUARES]], most[[engine.Q3, engine.ALL_CUBES]] = (
        1e25 * engine.LIMIT**2,
        1e25 * engine.LIMIT**3,
    )
    most[engine.Q4], most[engine.OLD] = 1e304, 1.0
    least = np.zeros(engine.ROWS)
    signed = [*means, engine.CUBES, engine.Q3, engine.ALL_CUBES]
    least[signed] = -most[signed]
    sums = np.full((engine.COLUMN_ROWS, 1), 2.0**53)  # records, each with a weight of at most 1
    sums[engine.SIZE : engine.KEPT], sums[engine.KEPT] = BLOCK, 1.0
    sums[engine.R4] *= BLOCK
    return least, most, sums


_LEAST, _MOST, _MOST_SUMS = _reach()


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

    def __init__(self, shape: tuple[int, ...], alpha: float | None = None) -> None:
        if alpha is not None and not 0.0 < alpha <= 1.0:
            raise ValueError(f"alpha: {alpha} is outside (0, 1]; 0.001 follows about the last 2,000 records")
        self.alpha = alpha
        self.cells: Array = np.zeros((engine.ROWS, *shape))
        self.sums: Array = _fresh(shape[-1:])
        self.decay = decay(alpha)
        """The share of W that each observation keeps."""

    def update(self, delta: Array) -> None:
        """Add one observation per cell, between ±``LIMIT``."""
        engine.update(*self._flat, self.decay, np.ascontiguousarray(self._in_two(delta[None])[0]))

    def end_block(self) -> Array:
        """Close the open block of every column.

        Returns of the closed block n, Σ Δ, the variance and the third moment of that sum, and the square of the variance: 5 × the
        shape, to be added up over blocks, periods, partitions.
        """
        closed = np.zeros((5, *self.cells.shape[1:]))
        engine.close_block(*self._flat, self.decay, self._in_two(closed))
        return closed

    @property
    def _flat(self) -> tuple[Array, Array]:
        """``cells`` and ``sums`` with one axis of losses and one of columns, however many there are: views."""
        return self._in_two(self.cells), self.sums.reshape(engine.COLUMN_ROWS, -1)

    def _in_two(self, of: Array) -> Array:
        shape = self.cells.shape[1:]
        return of.reshape(len(of), math.prod(shape[:-1]), shape[-1] if shape else 1)

    @property
    def _inputs(self) -> Array:
        """What ``bands.spread_of`` takes."""
        inputs = np.empty((engine.INPUTS, *self.cells.shape[1:]))
        engine.inputs_of(*self._flat, self._in_two(inputs))
        return inputs

    @property
    def dependence(self) -> Array:
        """F."""
        inputs = self._inputs
        result: Array = inputs[engine.FACTOR]
        return result

    @property
    def variance(self) -> Array:
        """What ``std`` squared would be if records were independent: Σ w² v."""
        result: Array = self._inputs[engine.VARIANCE]
        return result

    @property
    def shares(self) -> Array:
        """Σ w² of each cell; NaN until there are two observations."""
        inputs = self._inputs
        result: Array = 1.0 / (inputs[engine.COUNT] * inputs[engine.FACTOR])
        return result

    @property
    def spread(self) -> Spread:
        """How ``value`` errs; NaN until there are two observations."""
        return bands.spread_of(self._inputs)

    @property
    def std(self) -> Array:
        """Standard error of ``value``; NaN until there are two observations."""
        return self.spread.std

    def band(self, confidence: float, band: Band = "normal") -> tuple[Array, Array]:
        """Low and high end of the two-sided band; NaN below ``bands.LEAST`` observations."""
        spread = self.spread
        spread = spread.with_std(np.where(self.old_enough, spread.std, np.nan))
        return bands.ends(self.value, spread, confidence, band)

    @property
    def old_enough(self) -> NDArray[np.bool_]:
        """The columns that have a band."""
        result: NDArray[np.bool_] = self.sums[engine.N] >= bands.LEAST
        return result

    @property
    def steady(self) -> Array:
        """1 where the mean describes the moment too, 0 where it has changed of late, NaN where too little is known.

        An indication: a change that is far slower than the mean forgets is not seen.
        """
        known = self.sums[engine.BLOCKS] >= engine.SCALES[0] + 5
        result: Array = np.where(known, self.cells[engine.OLD] < engine.LEFT, np.nan)
        return result

    def grow(self, columns: int) -> None:
        """Append columns that have seen nothing, up to ``columns`` of them."""
        missing = columns - self.cells.shape[-1]
        if missing > 0:
            self.cells = np.concatenate([self.cells, np.zeros((*self.cells.shape[:-1], missing))], axis=-1)
            self.sums = np.concatenate([self.sums, _fresh((missing,))], axis=-1)

    def state(self) -> SmootherState:
        return SmootherState(block(self.cells), block(self.sums))

    def restore(self, state: SmootherState, columns: int, records: int | None = None) -> None:
        """Restore a stored state of so many columns. Raises ``StateError`` where it is not of this shape, or has numbers that no records lead to.

        ``records`` are the observations of the owner, who closes a block with each ``BLOCK``-th of them; by default ``n``.
        """
        cells = array("smoother", state.cells, "<f8", (engine.ROWS, *self.cells.shape[1:-1], columns))
        sums = array("smoother", state.sums, "<f8", (engine.COLUMN_ROWS, columns))
        least, most = (bound.reshape(-1, *[1] * (cells.ndim - 1)) for bound in (_LEAST, _MOST))
        check(bool(((cells >= least) & (cells <= most)).all()), "smoother: numbers that no records lead to")
        check(
            bool(((sums >= 0.0) & (sums <= _MOST_SUMS)).all()), "smoother: numbers of records that are none"
        )
        check(bool((sums[[engine.N, engine.SIZE]] % 1.0 == 0.0).all()), "smoother: a part of a record")
        n = sums[engine.N].max(initial=0.0) if records is None else records
        # A block of one record stays open: a column that came up with the last of a block has one more.
        first = sums[engine.SIZE] == sums[engine.N]
        check(bool((sums[engine.SIZE] <= n % BLOCK + first).all()), "smoother: a block of too many records")
        check(
            bool((sums[engine.SIZE : engine.KEPT] <= sums[engine.SIZE]).all()),
            "smoother: a block of too much weight",
        )
        self.cells, self.sums = cells, sums

    @property
    def n(self) -> int:
        """The number of observations, of the column that has most."""
        return int(self.sums[engine.N].max(initial=0.0))

    @property
    def value(self) -> Array:
        """The bias-corrected mean, 0 for columns without one: a view that changes with the next observation."""
        result: Array = self.cells[engine.VALUE, ...]
        return result

    @property
    def raw(self) -> Array:
        """The value that started from zero, without the correction (the one that the theorems speak of)."""
        return self.value.copy() if self.alpha is None else self.value * (self.alpha * self.sums[engine.W])


def taken(state: SmootherState, rows: Sequence[int], columns: Sequence[int | None]) -> SmootherState:
    """A stored smoother of losses × columns with only these losses and columns; None stands for a column that has seen nothing.

    >>> smoother = Smoother((1, 2), alpha=0.5)
    >>> smoother.update(np.array([[1.0, 3.0]]))
    >>> other = Smoother((1, 2), alpha=0.5)
    >>> other.restore(taken(smoother.state(), [0], [1, None]), 2)
    >>> other.value.tolist(), other.n
    ([[3.0, 0.0]], 1)
    """
    cells = array("smoother", state.cells, "<f8", (None, None, None))
    sums = array("smoother", state.sums, "<f8", (None, None))
    within("smoother", np.array(rows), 0, cells.shape[1])
    cells = np.concatenate([cells[:, list(rows)], np.zeros((len(cells), len(rows), 1))], axis=-1)
    sums = np.concatenate([sums, np.resize(_fresh((1,)), (len(sums), 1))], axis=-1)
    places = [-1 if column is None else column for column in columns]
    return SmootherState(block(cells[..., places]), block(sums[..., places]))


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
        return 1.0 + rho, spread.with_std(np.where(raised >= 0.0, spread.std * raised, np.nan))


def _fresh(columns: tuple[int, ...]) -> Array:
    """The sums of columns that have seen nothing."""
    sums = np.zeros((engine.COLUMN_ROWS, *columns))
    sums[engine.KEPT] = 1.0
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
