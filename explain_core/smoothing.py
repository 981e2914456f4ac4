"""Smoothed means with the uncertainty of their estimate."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explain_core import kernels
from explain_core.compiling import AVAILABLE
from explain_core.losses import HUGE
from explain_core.state import Block, State, array, block, check, finite

Array = NDArray[np.float64]
Band = Literal["normal", "chebyshev"]

SLOWER, RARER, FEW = 0.1, 3.0, 2.42
"""See ``Smoother``."""


class SmootherState(State, frozen=True):
    """``cells`` (5 × losses × columns) and ``sums`` (5 × columns)."""

    cells: Block
    sums: Block


class Smoother:
    """Exponentially weighted mean of each cell of an array, its variance, and the variance of the mean.

    The raw value is φ_t = (1−α) φ_{t−1} + α Δ_t from zero (iPFI journal Def. 4, iSAGE Alg. 1). The reported value
    is bias-corrected, φ_t / (1 − (1−α)ⁿ): the mean with weights that sum to W_t = 1 + (1−α) W_{t−1}, by Welford's
    recursion with step 1/W_t. ``alpha=None`` (static setting) forgets nothing: W_t = t, the plain mean.

    For independent Δ the variance of the mean is σ² · Σ w², where Σ w² = α/(2−α) · (1+q)/(1−q), q = (1−α)ⁿ (iPFI Thm 3).
    Draws from a shared geometric reservoir of L rows correlate the Δ: a row stays L steps on average. With ``memory`` = L:

    - Δ counts as the sum of white noise and of a slow part of variance V, whose autocovariance is V (1 − 1/L)^k. The variance
      of the mean is then Σ w² · (σ² − V + κ V).
    - V follows from G, the mean of r · S_prev, where S ← (1 − 1/L) S + r and r = Δ − φ_prev. φ follows the slow part too and
      hides some of it: see ``_mixing``. G forgets ten times more slowly than φ and the reservoir.
    - V is s σ²/L, s being the share of the increments' variance that is due to the row drawn. G's estimate s̃ has the standard
      error e, which is known where there is no slow part. It is weighed against the prior density exp(−s/p)/p on s ≥ 0. With
      u = s̃ − e²/p, s is taken as (u + √(u² + 4e²))/2. That is above the mean of what is left, a normal distribution cut off
      at 0, by at most 0.4 e.
    - One draw for each increment has p = ¼. In the mean of ``draws`` = m of them, what is not due to the row drawn or to the
      record alone is m times smaller. Where these two make the same share, as in a loss that is symmetric in both,
      p = m/(m + 3).
    - Where there is a slow part, V is known from few independent rows: some f = (1 − r²)/(1 + r²) for each record in G's
      memory, r = 1 − 1/L. So κ V is raised by the factor 1 + 2.42/f, the square of the 97.5 % quantile of Student's
      distribution over that of the normal one, to first order.

    ``python -m experiments.coverage`` shows what comes of it.

    Shapes: every array has the ``shape`` given; ``grow`` adds columns for features met later, whose mean begins with
    the next observation: each column has n and weights of its own.

    >>> smoother = Smoother((1,), alpha=0.5)
    >>> for delta in (1.0, 3.0):
    ...     smoother.update(np.array([delta]))
    >>> round(float(smoother.value[0]), 4), round(float(smoother.raw[0]), 4)
    (2.3333, 1.75)
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        alpha: float | None = None,
        memory: int | None = None,
        draws: int = 1,
    ) -> None:
        if alpha is not None and not 0.0 < alpha <= 1.0:
            raise ValueError(f"alpha: {alpha} is outside (0, 1]; 0.001 follows about the last 2,000 records")
        self.alpha = alpha
        self.cells: Array = np.zeros((5, *shape))
        """The mean, its variance, G, S, and the third central moment, each of the shape given."""
        self.sums: Array = _fresh(shape[-1:])
        """Of each column: n; W, in units of the newest observation's weight, and Σ w²; the same two for G."""
        keep = -1.0 if memory is None or memory < 2 else 1.0 - 1.0 / memory
        mixing = (0.0, 0.0, 0.0, 0.0) if keep < 0.0 else _mixing(alpha or 0.0, keep)
        self.error_constants = (keep, *mixing, draws / (draws + RARER))
        """What ``std`` is made from besides the state: the share of S that a step keeps, −1 for no memory; ``_mixing``; the prior."""
        slower = None if alpha is None or memory is None else SLOWER * min(alpha, 1.0 / memory)
        self.rates: Array = np.array([decay(alpha), decay(slower), keep])
        """The shares of W, of G's W, and of S that each step keeps; −1 for no memory."""

    def update(self, delta: Array) -> None:
        """Add one observation per cell, between ±``losses.HUGE``."""
        if AVAILABLE and delta.ndim == 2:
            kernels.smoothed(self.cells, self.sums, self.rates, delta)
            return
        delta = np.clip(delta, -HUGE, HUGE)
        n, weights, squares, slow_weights, slow_squares = (self.sums[k, ...] for k in range(5))
        decay, slow_decay, keep = self.rates.tolist()
        value, variance, covariance, recent, third = (self.cells[k, ...] for k in range(5))
        first = n == 0.0
        n += 1.0
        weights *= decay
        weights += 1.0
        step = 1.0 / weights
        rest = 1.0 - step
        squares *= rest * rest
        squares += step * step
        r = np.where(first, 0.0, delta - value)
        value[...] = np.where(first, delta, value + step * r)
        third[...] = (third - 3.0 * step * r * variance + step * (1.0 - 2.0 * step) * r * r * r) * rest
        variance += step * r * r
        variance *= rest
        if keep >= 0.0:
            slow_weights[...] = np.where(first, 0.0, 1.0 + slow_decay * slow_weights)
            slow = np.where(first, 0.0, 1.0 / np.where(first, 1.0, slow_weights))
            slow_squares[...] = np.where(
                first, slow_squares, (1.0 - slow) * (1.0 - slow) * slow_squares + slow * slow
            )
            covariance *= 1.0 - slow
            covariance += slow * r * recent
            recent *= keep
            recent += r

    def grow(self, columns: int) -> None:
        """Append columns that have seen nothing, up to ``columns`` of them."""
        missing = columns - self.cells.shape[-1]
        if missing > 0:
            self.cells = np.concatenate([self.cells, np.zeros((*self.cells.shape[:-1], missing))], axis=-1)
            self.sums = np.concatenate([self.sums, _fresh((missing,))], axis=-1)

    def begin(self, columns: Array) -> None:
        """Let the mean of the chosen columns begin anew with the next observation."""
        self.cells[..., columns] = 0.0
        self.sums[:, columns] = _fresh((1,))

    def state(self) -> SmootherState:
        return SmootherState(block(self.cells), block(self.sums))

    def restore(self, state: SmootherState, columns: int) -> None:
        """Restore a stored state of so many columns. Raises ``StateError`` where it is not of this shape."""
        cells = array("smoother", state.cells, "<f8", (5, *self.cells.shape[1:-1], columns))
        sums = array("smoother", state.sums, "<f8", (5, columns))
        finite("smoother", cells)
        finite("smoother", sums)
        check(
            bool(((sums[0] >= 0.0) & (sums[0] < 2.0**63)).all()), "smoother: a number of records that is none"
        )
        self.cells, self.sums = cells, sums

    @property
    def n(self) -> int:
        """The number of observations, of the column that has most."""
        return int(self.sums[0].max(initial=0.0))

    @property
    def value(self) -> Array:
        """The bias-corrected mean, 0 for columns without one: a view that changes with the next observation."""
        result: Array = self.cells[0, ...]
        return result

    @property
    def raw(self) -> Array:
        """The value that started from zero, without the correction (the one that the theorems speak of)."""
        return self.value.copy() if self.alpha is None else self.value * (self.alpha * self.sums[1])

    @property
    def variance(self) -> Array:
        """σ² of a single observation, unbiased for the weights; NaN until there are two."""
        squares = self.sums[2]
        known = (self.sums[0] >= 2.0) & (squares < 1.0)
        result: Array = np.where(known, self.cells[1, ...] / np.where(known, 1.0 - squares, 1.0), np.nan)
        return result

    @property
    def covariance(self) -> Array:
        """G."""
        result: Array = self.cells[2, ...]
        return result

    @property
    def std(self) -> Array:
        """Standard error of ``value``; NaN until there are two observations."""
        return self.error(self.variance, self.covariance)

    def error(self, variance: Array, covariance: Array) -> Array:
        """``std`` of a mean whose increments have this variance and this G, with this smoother's weights."""
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Array = standard_error(
                variance, covariance, self.sums[2], self.sums[4], self.error_constants
            )
        return result


def standard_error(variance: Any, covariance: Any, squares: Any, slow_squares: Any, constants: Any) -> Any:
    """``Smoother.std`` from σ², G, Σ w², that of G's weights, and ``error_constants``; for arrays, or for numbers in compiled code."""
    variance = np.maximum(variance, 0.0)
    keep, noise, slow, kappa, seen, prior = constants
    if keep >= 0.0:
        per_part, fresh = slow - noise * seen, 1.0 - keep * keep
        share = (1.0 - keep) * variance
        error = np.sqrt(slow_squares / fresh) / per_part / (1.0 - keep)
        found = (variance > 0.0) * (covariance - noise * variance) / per_part / (share + (variance <= 0.0))
        found = found - error * error / prior
        part = np.minimum(
            0.5 * (found + np.sqrt(found * found + 4.0 * error * error)) * share, variance / seen
        )
        few = 1.0 + FEW * slow_squares * (2.0 - fresh) / fresh
        variance = variance - seen * part + few * kappa * part
    return np.sqrt(variance * squares)


def _mixing(alpha: float, keep: float) -> tuple[float, float, float, float]:
    """What a sum of white noise (variance E) and a part of variance V, autocovariance V r^k with r = ``keep``, becomes.

    With q = 1 − α the residual is r_t = (1 − B)/(1 − qB) Δ_t, B being the step back, and S_prev = B/(1 − rB) r_t. Hence
    by residues: G = ``noise`` · E + ``slow`` · V; the variance of φ is Σ w² (E + ``kappa`` V); and σ² = E + ``seen`` V.

    >>> [round(x, 2) for x in _mixing(0.01, 0.99)], [round(x, 2) for x in _mixing(0.0, 0.99)]
    ([-0.25, 12.42, 99.45, 0.5], [0.0, 49.75, 199.0, 1.0])
    """
    q, r = 1.0 - alpha, keep
    if alpha == 0.0:
        return 0.0, r / (1.0 - r * r), (1.0 + r) / (1.0 - r), 1.0
    if abs(q - r) < 1e-6 * r:  # the two poles are one
        q = r * (1.0 - 1e-5)
        alpha = 1.0 - q
    both = 1.0 - q * r
    noise = -alpha / (both * (1.0 + q))
    at_q = alpha * q / ((q - r) * both * both * (1.0 + q))
    at_r = r / ((r - q) * both * (1.0 + r) ** 2)
    kappa = (1.0 + q * r) / both
    squares = alpha / (2.0 - alpha)
    seen = (1.0 - squares * kappa) / (1.0 - squares) if alpha < 1.0 else 1.0
    return noise, -(1.0 - r * r) * (at_q + at_r), kappa, seen


def _fresh(columns: tuple[int, ...]) -> Array:
    """The sums of columns that have seen nothing: no weight, and all of it on one observation."""
    return np.array([0.0, 0.0, 1.0, 0.0, 1.0]).reshape(5, *(1 for _ in columns)) * np.ones(columns)


def ratio(difference: Smoother, total: Smoother, base: Smoother) -> tuple[Array, Array]:
    """Mean of ``total`` = ``base`` + ``difference`` over the mean of ``base``, and its standard error.

    With ρ = mean difference / mean base the ratio is 1 + ρ, and to first order (delta method) it errs as the mean of
    (difference − ρ · base) / mean base does; the variance of that follows from those of the three, which were smoothed
    alike. NaN where the mean of ``base`` is 0. Source: ratio form of permutation importance as alibi has it.

    >>> difference, total, base = (Smoother((1, 1)) for _ in range(3))
    >>> for delta in (1.0, 3.0):
    ...     for smoother, value in ((difference, delta), (total, delta + 2.0), (base, 2.0)):
    ...         smoother.update(np.array([[value]]))
    >>> value, std = ratio(difference, total, base)
    >>> value.tolist(), std.tolist()
    ([[2.0]], [[0.5]])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = np.where(base.value == 0.0, np.nan, difference.value / base.value)
        parts = (1.0 + rho, -rho, rho * (1.0 + rho))
        variance, covariance = (
            sum(
                part * getattr(smoother, name)
                for part, smoother in zip(parts, (difference, total, base), strict=True)
            )
            for name in ("variance", "covariance")
        )
        return 1.0 + rho, difference.error(variance, covariance) / np.abs(base.value)


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


def half_width(band: Band, confidence: float) -> float:
    """Half the width of a two-sided band in standard errors.

    ``normal``: the quantile of the normal distribution. ``chebyshev``: 1/√(1 − confidence), which holds for every
    distribution (iPFI Thm 3, iSAGE Thm 3.3) whose standard error is known; where that is estimated from a few informative
    observations neither holds, see ``explain_core.steadiness``. Raises ``ValueError`` for another band or a confidence outside (0, 1).

    >>> half_width("normal", 0.95), half_width("chebyshev", 0.95)
    (1.96, 4.47)
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: {confidence} is outside (0, 1); 0.95 is usual")
    if band == "normal":
        return NormalDist().inv_cdf(0.5 + confidence / 2.0)
    if band == "chebyshev":
        return float((1.0 - confidence) ** -0.5)
    raise ValueError(f"band: {band!r} is not one of normal, chebyshev")
