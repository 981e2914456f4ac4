"""Bands of means from sums over blocks of records: standard error, skewness, degrees of freedom, and what follows.

What a mean estimates is Σ w_t μ_t: the mean, over the records of a period or with the weights of a smoother, of what was to be expected at
each of them. That is defined while things change, so that every mean has a band. Whether it also describes the moment is another question,
see ``Smoother.steady``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from explain_core.engine import smoothing as engine

Array = NDArray[np.float64]
Band = Literal["normal", "chebyshev"]

LEAST = 500
"""Records that a mean needs before it has a band."""


class Spread:
    """How a mean errs: rows of its shape, which are its standard error and skewness, the degrees of freedom of the former, and the share by which the band
    is wider on the side of the skew.
    """

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.std: Array = rows[0]
        self.freedom: Array = rows[2]

    def with_std(self, std: Array) -> Spread:
        """With another standard error."""
        rows = self.rows.copy()
        rows[0] = std
        return Spread(rows)


def ends(value: Array, spread: Spread, confidence: float, band: Band = "normal") -> tuple[Array, Array]:
    """Low and high end of a two-sided band; NaN where the standard error is.

    Student's quantile, or that of Chebyshev's inequality if it is larger, transformed for skewness by the inverse of Hall's cubic
    (P. Hall, J. R. Statist. Soc. B 54, 1992).

    >>> low, high = ends(np.ones(1), Spread(np.array([[1.0], [0.0], [1e6], [0.0]])), 0.95)
    >>> round(float(low[0]), 2), round(float(high[0]), 2)
    (-0.96, 2.96)
    """
    t = stdtrit(spread.freedom, 0.5 + 0.5 * confidence)
    if band == "chebyshev":
        t = np.maximum(t, half_width(band, confidence))
    out = np.empty((2, *t.shape))
    engine.ends(*_flat(value, spread), t.reshape(-1), out.reshape(2, -1))
    return out[0], out[1]


def _flat(value: Array, spread: Spread) -> tuple[Array, Array]:
    return value.ravel(), spread.rows.reshape(4, -1)


def p_value(value: Array, spread: Spread) -> Array:
    """Of the hypothesis that the mean is at most 0: by the band's own transformation. 1 where nothing is known, 0 where nothing varies.

    >>> p = p_value(np.array([1.96, -1.0]), Spread(np.array([[1.0, 1.0], [0.0, 0.0], [1e6, 1e6], [0.0, 0.0]])))
    >>> np.round(p, 3).tolist()
    [0.025, 0.841]
    """
    out = np.empty(value.shape)
    engine.studentised(*_flat(value, spread), out.reshape(-1))
    result: Array = stdtr(spread.freedom, -out)
    return result


def holm(p: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses are rejected, so that a true one is among them with at most the probability ``level`` (Holm, Scand. J. Statist. 6, 1979).

    >>> holm([0.001, 0.02, 0.04], 0.05)
    [True, True, True]
    >>> holm([0.03, 0.02, 0.04], 0.05)
    [False, False, False]
    """
    rejected = [False] * len(p)
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if not p[place] <= level / (len(p) - rank):
            break
        rejected[place] = True
    return rejected


def spread_of(inputs: Array) -> Spread:
    """A mean's ``Spread`` from sums over blocks: w are the shares of the weight, v and c variance and third moment of a record of the block.

    Parameters
    ----------
    inputs
        Rows of ``explain_core.engine.smoothing``: Σ w² v, Σ w³ c, Σ (w² v)², the sums over w in the first place those within a block;
        (Σ w²)²/Σ (Σ w²)², how many blocks of equal weight there are; F ≥ 1, by what dependence raises the variance, and from how many
        batches that is known; the skewness γ of one record, and the number of independent records.

    Few blocks that hold most of the variance say little of it: the degrees of freedom are Satterthwaite's.
    """
    out = np.empty((4, *inputs.shape[1:]))
    engine.spread_of(inputs.reshape(len(inputs), -1), out.reshape(4, -1))
    return Spread(out)


def half_width(band: Band, confidence: float) -> float:
    """Half the width of a two-sided band in standard errors.

    ``normal``: the quantile of the normal distribution. ``chebyshev``: 1/√(1 − confidence), which holds for every
    distribution (iPFI Thm 3, iSAGE Thm 3.3) whose standard error is known. Raises ``ValueError`` for another band or a confidence outside (0, 1).

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


def anytime(n: float, level: float, tuned: float = 5_000.0) -> float:
    """Half the width, in standard errors, of a confidence sequence for a mean of n records since a fixed start; it is narrowest at ``tuned``.

    Asymptotic: the probability that it ever fails to hold its mean is ``level`` (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, Ann. Statist. 2024).

    >>> [round(anytime(n, 0.05), 2) for n in (1_000.0, 5_000.0, 20_000.0)]
    [3.36, 3.04, 3.13]
    """
    if n == 0.0:
        return math.inf
    surprise = -2.0 * math.log(level)
    time = n * ((surprise + math.log(surprise + 1.0)) / tuned)
    return math.sqrt(2.0 * (time + 1.0) / time * math.log(math.sqrt(time + 1.0) / level))
