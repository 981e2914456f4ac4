"""Compiled arithmetic of ``explain_core.alarms.detector``, whose docstring says what is computed; itself without numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.alarms import BLOCK
from explain_core.alarms.seasons import HOUR, adopt, begin_anew, remove, waits
from explain_core.compiling import allocating, compiled, inner
from explain_core.kernels import put

PER_LEVEL = 5
"""Buckets of each size."""
CLIP = 5.0
"""Clipping at this many standard deviations moves a mean by at most 1/(4 · CLIP) = 5 % of one, whatever the distribution."""
PLAUSIBLE = 3.0
"""Onsets whose log likelihood is at most this much below the best one's are plausible."""
PAIRS = 8
"""W counts from this many pairs of buckets on."""
SAFETY = 0.5
"""Standard errors by which D is taken for more than it was found to be."""
TINY = 1e-300
CERTAIN = 1e300
"""The log likelihood of an onset between two constant sides."""
ROUNDING = 1.0 - 1e-9

BLOCKS, SUM, SQUARE, CUBE, MEANS, PRODUCTS, OWN, OWN_SQUARE, IN_SEASON = range(9)
"""What a bucket holds of a subject: blocks; sums of the clipped values, their squares and absolute cubes; of the squared
means of blocks and of their products with the one before; of the values as they came and of their squares; of the variances in their
hours, where there is a season. All values are without what their season adds."""
FIELDS = 9
AGE, CENTRE, REACH, FIRST, SECOND, CLIPPED, LAST, MIN_CHANGE = range(8)
"""Rows of ``cells``: complete blocks since the restart; values are clipped to centre ± reach, 0 for not at all; sum and squares of
the warm-up; records clipped; mean of the last block; what the mean may move by."""
ONSET, EARLIEST, LATEST, EVIDENCE, TIMES, CUT, N_0, MEAN_0, VARIANCE_0, N_1, MEAN_1, VARIANCE_1, LEAST = (
    range(13)
)
"""Columns of ``found``: numbers of the buckets that begin with the onset, the number of buckets for "now"; the difference over what
it had to exceed; the long-run variance over the plain one; share of the records that were clipped; both sides; what the mean changed by at least."""
WARM, FIRST_ONSET, H, BY_0, BY_1, TOTAL, NOISE, DRAWS = range(8)
"""Of ``constants``: blocks of the warm-up, and of the baseline; h; what D is made of, see ``constants_of``; rows drawn for a value."""


def h_of(subjects: int, one_in: float) -> float:
    """The logarithm h for so many subjects in all."""
    return math.log(max(subjects * one_in / BLOCK, 1.0))


def constants_of(memory: int, draws: int, warm_up: int, baseline: int) -> Any:
    """``constants`` for rows that stay ``memory`` records on average; h is still to be set.

    Of values with variance σ² and autocovariance s σ² r^k, r = 1 − 1/memory: b · Var(mean of a block of b) = σ² (1 + s lag0),
    b · Cov(it, the next one's) = σ² s lag1, and the long-run variance is σ² (1 + s total).
    """
    b, r = float(BLOCK), 1.0 - 1.0 / max(memory, 2)
    full = (1.0 - r**b) / (1.0 - r)
    lag0 = 2.0 * r * (b - full) / (1.0 - r) / b
    lag1 = r * full * full / b
    total = 2.0 * r / (1.0 - r)
    p0, p1 = lag0 * lag0 / 2.0, lag1 * lag1  # precision of s by either, in blocks of white noise
    noise = total / math.sqrt(p0 + p1)
    blocks = (float(-(-records // BLOCK)) for records in (warm_up, baseline))
    parts = p0 / (p0 + p1) / lag0, p1 / (p0 + p1) / lag1
    return np.array([*blocks, 0.0, *parts, total, noise, float(draws)])


@compiled
def end_block(
    pending: Any, min_change: Any, constants: Any, cells: Any, buckets: Any, sizes: Any, starts: Any, found: Any,
    hours: Any, lengths: Any, profile: Any, visits: Any, seasons: Any,
) -> Any:  # fmt: skip
    """Take in a block, whose first record ``starts`` tells already; returns the number of buckets.

    The rows of ``found`` of subjects whose mean changed are filled, their evidence above 1, and the subjects begin anew. The
    first of ``sizes`` that is 0 stands for the block. ``hours`` and what follows are those of ``alarms.seasons``.
    """
    n = 0
    while sizes[n] > 0:
        n += 1
    subjects = cells.shape[1]
    in_season = np.zeros(subjects)
    if len(lengths) > 0:
        begun = np.zeros(subjects, np.bool_)
        adopt(hours, lengths, constants[WARM], cells, AGE, profile, seasons, begun)
        for j in range(subjects):
            if begun[j]:
                cells[CLIPPED, j] = cells[LAST, j] = 0.0
                empty(buckets[j], n)
        remove(pending, hours, lengths, cells, (AGE, CENTRE, REACH), profile, visits, seasons, in_season)
        for j in range(subjects):
            if waits(lengths, seasons, j):
                cells[AGE, j] = -1.0  # its first block is still to come
    absorb(pending, min_change, constants, cells, buckets, n, in_season)
    sizes[n] = 1
    n = compress(buckets, sizes, starts, n + 1)
    statistic = np.empty((6, n))
    for j in range(subjects):
        found[j, EVIDENCE] = 0.0
        if cells[AGE, j] > constants[WARM] + constants[FIRST_ONSET] and suspect(
            buckets[j], n, cells[MIN_CHANGE, j], constants
        ):
            compute(buckets[j], n, cells[MIN_CHANGE, j], constants, statistic)
            if tell(buckets[j], n, statistic, cells[CENTRE, j], cells[CLIPPED, j], found[j]):
                for f in range(8):
                    if f != CENTRE:
                        cells[f, j] = 0.0
                empty(buckets[j], n)
                if len(lengths) > 0:
                    hour = starts[min(int(found[j, ONSET]), n - 1), 1] // HOUR
                    begin_anew(lengths, profile, visits, seasons, j, hour)
    return n


@inner
def empty(bucket: Any, n: int) -> None:
    for f in range(FIELDS):
        for i in range(n):
            bucket[f, i] = 0.0


@allocating
def absorb(
    pending: Any, min_change: Any, constants: Any, cells: Any, buckets: Any, n: int, in_season: Any
) -> None:
    """The sums of a block as bucket n; of subjects that warm up their centre and reach."""
    records, subjects = pending.shape
    sums = np.zeros((6, subjects))
    for i in range(records):
        for j in range(subjects):
            x = pending[i, j] - cells[CENTRE, j]
            reach = cells[REACH, j]
            y = x
            if reach > 0.0:
                y = min(max(x, -reach), reach)
            square = y * y
            sums[0, j] += y
            sums[1, j] += square
            sums[2, j] += square * abs(y)
            sums[3, j] += x
            sums[4, j] += x * x
            sums[5, j] += 1.0 if y != x else 0.0
    for j in range(subjects):
        cells[AGE, j] += 1.0
        if cells[AGE, j] <= constants[WARM]:
            if cells[AGE, j] >= 1.0:
                cells[FIRST, j] += sums[0, j]
                cells[SECOND, j] += sums[1, j]
            if cells[AGE, j] == constants[WARM]:
                size = constants[WARM] * records
                first, second = cells[FIRST, j] / size, cells[SECOND, j] / size
                cells[CENTRE, j] += first
                cells[REACH, j] = CLIP * math.sqrt(max(second - first * first, 0.0))
                cells[MIN_CHANGE, j] = min_change[j]
            for f in range(FIELDS):
                buckets[j, f, n] = 0.0
            continue
        mean = sums[0, j] / records
        bucket = buckets[j, :, n]
        bucket[BLOCKS] = 1.0
        bucket[SUM], bucket[SQUARE], bucket[CUBE] = sums[0, j], sums[1, j], sums[2, j]
        bucket[MEANS], bucket[PRODUCTS] = mean * mean, mean * cells[LAST, j]
        bucket[OWN], bucket[OWN_SQUARE], bucket[IN_SEASON] = sums[3, j], sums[4, j], in_season[j]
        cells[LAST, j] = mean
        cells[CLIPPED, j] += sums[5, j]


@allocating
def compress(buckets: Any, sizes: Any, starts: Any, n: int) -> Any:
    """Merge the two oldest buckets of each size of which there are too many; returns how many are left."""
    size = 1
    while True:
        count, i = 0, -1
        for k in range(n):
            if sizes[k] == size:
                if count == 0:
                    i = k
                count += 1
        if count <= PER_LEVEL:
            return n
        size *= 2
        n -= 1
        sizes[i] = size
        for k in range(i + 1, n):
            sizes[k] = sizes[k + 1]
            put(starts[k + 1], starts[k])
        sizes[n] = 0
        for j in range(buckets.shape[0]):
            for f in range(FIELDS):
                row = buckets[j, f]
                row[i] += row[i + 1]
                for k in range(i + 1, n):
                    row[k] = row[k + 1]
                row[n] = 0.0


@inner
def suspect(bucket: Any, n: int, min_change: float, constants: Any) -> bool:
    """Whether at some boundary the difference exceeds what the variance of independent records alone asks for."""
    blocks, total, square = 0.0, 0.0, 0.0
    for i in range(n):
        blocks += bucket[BLOCKS, i]
        total += bucket[SUM, i]
        square += bucket[SQUARE, i]
    m0, before, first, h = 0.0, 0.0, constants[FIRST_ONSET], constants[H]
    for i in range(n - 1):
        m0 += bucket[BLOCKS, i]
        before += bucket[SUM, i]
        if m0 < first:
            continue
        n0, n1 = m0 * BLOCK, (blocks - m0) * BLOCK
        mean0, mean1 = before / n0, (total - before) / n1
        beyond = abs(mean1 - mean0) - min_change
        if beyond > 0.0:
            within = square - before * mean0 - (total - before) * mean1
            # r = (n0 + n1)/(n0 n1), and the variance is ``within`` over n0 + n1 − 2
            if beyond * beyond * n0 * n1 > 2.0 * h * within * ROUNDING:
                return True
    return False


@allocating
def compute(bucket: Any, n: int, min_change: float, constants: Any, statistic: Any) -> None:
    """Of each boundary, the i-th after bucket i: evidence, log likelihood (−1 where it is not tried), v/σ², n0 and n1, and the least difference."""
    after = np.zeros((FIELDS, n + 1))
    for f in range(FIELDS):
        for i in range(n - 1, -1, -1):
            after[f, i] = after[f, i + 1] + bucket[f, i]
    before, part, there = np.zeros(FIELDS), np.zeros(n), np.zeros(n)
    parts, pairs, h = 0.0, 0.0, constants[H]
    for i in range(n - 1):
        n0, n1 = bucket[BLOCKS, i] * BLOCK, bucket[BLOCKS, i + 1] * BLOCK
        if n0 > 0.0 and n1 > 0.0:
            apart = bucket[SUM, i + 1] / n1 - bucket[SUM, i] / n0
            part[i], there[i] = apart * apart * n0 * n1 / (n0 + n1), 1.0
            parts += part[i]
            pairs += 1.0
    most = 2.0 * constants[DRAWS]
    for i in range(n - 1):
        for f in range(FIELDS):
            before[f] += bucket[f, i]
        m0, m1 = before[BLOCKS], after[BLOCKS, i + 1]
        n0, n1 = m0 * BLOCK, m1 * BLOCK
        statistic[0, i], statistic[1, i], statistic[2, i] = 0.0, -1.0, 0.0
        statistic[3, i], statistic[4, i] = n0, n1
        if m0 < constants[FIRST_ONSET]:
            continue
        mean0, mean1, m = before[SUM] / n0, after[SUM, i + 1] / n1, m0 + m1
        gone = m0 * mean0 * mean0 + m1 * mean1 * mean1
        square = before[SQUARE] + after[SQUARE, i + 1]
        variance = max(square - BLOCK * gone, 0.0) / (n0 + n1 - 2.0)
        if variance < TINY:
            if abs(mean1 - mean0) > min_change:  # both sides are constant: nothing is more likely
                statistic[1, i], statistic[2, i] = CERTAIN, 1.0
            continue
        unit = max(m - 2.0, 1.0) * variance / BLOCK
        share = constants[BY_0] * ((before[MEANS] + after[MEANS, i + 1] - gone) / unit - 1.0)
        share += constants[BY_1] * (before[PRODUCTS] + after[PRODUCTS, i + 1] - gone) / unit
        turned = min(max(constants[TOTAL] * share, 0.0), most)
        turned = min(turned + SAFETY * constants[NOISE] * (1.0 + turned) / math.sqrt(m), most)
        v = variance * (1.0 + turned)
        near, close = part[i], there[i]
        if i > 0:
            near += part[i - 1]
            close += there[i - 1]
        if i + 1 < n - 1:
            near += part[i + 1]
            close += there[i + 1]
        if pairs - close >= PAIRS:
            v = max(v, (parts - near) / (pairs - close))
        more = v / variance - 1.0
        c = (before[CUBE] + after[CUBE, i + 1]) / (n0 + n1) / variance
        c *= (1.0 + 3.0 * (constants[DRAWS] + 1.0) * more) / (1.0 + more)
        r = 1.0 / n0 + 1.0 / n1
        # The hours on a side may vary more than those of all records.
        v = max(v, (1.0 + turned) * (before[IN_SEASON] / (n0 * n0) + after[IN_SEASON, i + 1] / (n1 * n1)) / r)
        bound = math.sqrt(2.0 * h * v * r) + h / 3.0 * c * (1.0 / (n0 * n0) + 1.0 / (n1 * n1)) / r
        difference = mean1 - mean0
        statistic[0, i] = abs(difference) / (min_change + bound)
        statistic[5, i] = math.copysign(abs(difference) - bound, difference)
        statistic[1, i] = difference * difference / (2.0 * v * r)
        statistic[2, i] = 1.0 + more


@inner
def tell(bucket: Any, n: int, statistic: Any, centre: float, clipped: float, found: Any) -> bool:
    """Whether there is a change; fills ``found``."""
    evidence, best = 0.0, 0
    for i in range(n - 1):
        if statistic[0, i] > evidence:
            evidence, found[LEAST] = statistic[0, i], statistic[5, i]
        if statistic[1, i] > statistic[1, best]:
            best = i
    if evidence <= 1.0:
        return False
    low, first, last = 0, best, best
    while bucket[BLOCKS, low] == 0.0:
        low += 1
    for i in range(n - 2, -1, -1):
        if statistic[1, i] >= max(statistic[1, best] - PLAUSIBLE, 0.0):
            first = i
            last = max(last, i)
    found[ONSET] = best + 1
    found[EARLIEST] = first if first > 0 and statistic[1, first - 1] >= 0.0 else low
    found[LATEST] = last + 2
    found[EVIDENCE], found[TIMES] = evidence, statistic[2, best]
    n0, n1 = statistic[3, best], statistic[4, best]
    found[CUT], found[N_0], found[N_1] = clipped / (n0 + n1), n0, n1
    total, square, total1, square1 = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        if i <= best:
            total += bucket[OWN, i]
            square += bucket[OWN_SQUARE, i]
        else:
            total1 += bucket[OWN, i]
            square1 += bucket[OWN_SQUARE, i]
    mean, mean1 = total / n0, total1 / n1
    found[MEAN_0], found[MEAN_1] = centre + mean, centre + mean1
    found[VARIANCE_0], found[VARIANCE_1] = (
        max(square / n0 - mean * mean, 0.0),
        max(square1 / n1 - mean1 * mean1, 0.0),
    )
    return True
