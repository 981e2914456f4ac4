"""Arithmetic of ``explain_core.alarms.detector``, whose docstring says what is computed."""

import numpy as np

from libc.math cimport copysign, fabs, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memset

from explain_core.engine.seasons cimport HOUR, Seasons, adopt, begin_anew, hours_of, remove_season, waits

cdef enum:
    BLOCK = 50  # explain_core.alarms.BLOCK

cpdef enum:
    PER_LEVEL = 5  # buckets of each size

cpdef enum:  # what a bucket holds of a subject
    BLOCKS
    SUM  # of the clipped values
    SQUARE  # of their squares
    CUBE  # of their absolute cubes
    MEANS  # of the squared means of blocks
    PRODUCTS  # of their products with the one before
    OWN  # of the values as they came
    OWN_SQUARE
    IN_SEASON  # of the variances in their hours, where there is a season; all values are without what their season adds
    FIELDS

cpdef enum:  # rows of cells
    AGE  # complete blocks since the restart
    CENTRE  # values are clipped to centre ± reach, 0 for not at all
    REACH
    FIRST  # sum and squares of the warm-up
    SECOND
    CLIPPED  # records
    LAST  # mean of the last block
    MIN_CHANGE  # what the mean may move by
    N_CELL

cpdef enum:  # columns of found
    ONSET  # numbers of the buckets that begin with the onset, the number of buckets for "now"
    EARLIEST
    LATEST
    EVIDENCE  # the difference over what it had to exceed
    TIMES  # the long-run variance over the plain one
    CUT  # share of the records that were clipped
    N_0  # both sides
    MEAN_0
    VARIANCE_0
    N_1
    MEAN_1
    VARIANCE_1
    LEAST  # what the mean changed by at least
    N_FOUND

cpdef enum:  # of constants
    WARM  # blocks of the warm-up, and of the baseline
    FIRST_ONSET
    H  # the logarithm h
    BY_0  # what D is made of
    BY_1
    TOTAL
    NOISE
    DRAWS  # rows drawn for a value

cdef extern from *:
    """
    /* Clipping at this many standard deviations moves a mean by at most 1/(4 · CLIP) = 5 % of one, whatever the distribution. */
    #define CLIP 5.0
    /* Onsets whose log likelihood is at most this much below the best one's are plausible. */
    #define PLAUSIBLE 3.0
    /* W counts from this many pairs of buckets on. */
    #define PAIRS 8.0
    /* Standard errors by which D is taken for more than it was found to be. */
    #define SAFETY 0.5
    #define TINY 1e-300
    /* The log likelihood of an onset between two constant sides. */
    #define CERTAIN 1e300
    #define ROUNDING (1.0 - 1e-9)
    """
    const double CLIP_ "CLIP", PLAUSIBLE, PAIRS_ "PAIRS", SAFETY_ "SAFETY", TINY, CERTAIN, ROUNDING

CLIP, PAIRS, SAFETY = CLIP_, PAIRS_, SAFETY_

cdef enum:  # of a boundary: evidence, log likelihood (−1 where it is not tried), v/σ², n0 and n1, and the least difference
    S_EVIDENCE
    S_LIKELIHOOD
    S_TIMES
    S_N_0
    S_N_1
    S_LEAST
    N_STATISTIC


def end_block(
    double[:, ::1] pending, const double[::1] min_change, const double[::1] constants, double[:, ::1] cells, double[:, :, ::1] buckets,
    int64_t[::1] sizes, int64_t[:, ::1] starts, double[:, ::1] found, const int64_t[::1] hours, const int64_t[::1] lengths,
    double[:, :, ::1] profile, int64_t[::1] visits, double[:, ::1] seasons,
):
    """Take in a block, whose first record ``starts`` tells already; returns the number of buckets.

    The rows of ``found`` of subjects whose mean changed are filled, their evidence above 1, and the subjects begin anew. The
    first of ``sizes`` that is 0 stands for the block. ``hours`` and what follows are those of ``explain_core.alarms.seasons``.
    """
    cdef Py_ssize_t n = 0, subjects = cells.shape[1], j, f
    cdef double[:, ::1] statistic, after
    cdef double[::1] part, there, in_season = np.zeros(subjects)
    cdef Seasons s
    cdef double steps
    cdef bint seasonal = lengths.shape[0] > 0 and subjects > 0
    while sizes[n] > 0:
        n += 1
    if seasonal:
        s.hours, s.lengths, s.profile, s.visits, s.rows = &hours[0], &lengths[0], &profile[0, 0, 0], &visits[0], &seasons[0, 0]
        s.age, s.centre, s.reach = &cells[AGE, 0], &cells[CENTRE, 0], &cells[REACH, 0]
        s.n, s.subjects, s.records = lengths.shape[0], subjects, pending.shape[0]
        steps = hours_of(&s)
        for j in range(subjects):
            if adopt(&s, j, steps, constants[WARM]):
                cells[CLIPPED, j], cells[LAST, j] = 0.0, 0.0
                empty(buckets[j], n)
        remove_season(&s, &pending[0, 0], &in_season[0])
        for j in range(subjects):
            if waits(&s, j):
                cells[AGE, j] = -1.0  # its first block is still to come
    absorb(pending, min_change, constants, cells, buckets, n, in_season)
    sizes[n] = 1
    n = compress(buckets, sizes, starts, n + 1)
    statistic, after = np.empty((N_STATISTIC, n)), np.empty((FIELDS, n + 1))
    part, there = np.empty(n), np.empty(n)
    for j in range(subjects):
        found[j, EVIDENCE] = 0.0
        if cells[AGE, j] > constants[WARM] + constants[FIRST_ONSET] and suspect(buckets[j], n, cells[MIN_CHANGE, j], constants):
            compute(buckets[j], n, cells[MIN_CHANGE, j], constants, statistic, after, part, there)
            if tell(buckets[j], n, statistic, cells[CENTRE, j], cells[CLIPPED, j], &found[j, 0]):
                for f in range(N_CELL):
                    if f != CENTRE:
                        cells[f, j] = 0.0
                empty(buckets[j], n)
                if seasonal:
                    begin_anew(&s, j, floor_hour(starts[min(<Py_ssize_t> found[j, ONSET], n - 1), 1]))
    return n


cdef int64_t floor_hour(int64_t timestamp) noexcept:
    cdef int64_t hour = timestamp // HOUR
    return hour - 1 if timestamp < hour * HOUR else hour


cdef void empty(double[:, ::1] bucket, Py_ssize_t n) noexcept:
    cdef Py_ssize_t f, i
    for f in range(FIELDS):
        for i in range(n):
            bucket[f, i] = 0.0


cdef void absorb(
    const double[:, ::1] pending, const double[::1] min_change, const double[::1] constants, double[:, ::1] cells, double[:, :, ::1] buckets, Py_ssize_t n,
    const double[::1] in_season,
):
    """The sums of a block as bucket n; of subjects that warm up their centre and reach."""
    cdef Py_ssize_t records = pending.shape[0], subjects = pending.shape[1], i, j, f
    cdef double[:, ::1] sums = np.zeros((6, subjects))
    cdef double x, y, reach, square, size, first, second, mean
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
            sums[2, j] += square * fabs(y)
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
                cells[REACH, j] = CLIP_ * sqrt(max(second - first * first, 0.0))
                cells[MIN_CHANGE, j] = min_change[j]
            for f in range(FIELDS):
                buckets[j, f, n] = 0.0
            continue
        mean = sums[0, j] / records
        buckets[j, BLOCKS, n] = 1.0
        buckets[j, SUM, n], buckets[j, SQUARE, n], buckets[j, CUBE, n] = sums[0, j], sums[1, j], sums[2, j]
        buckets[j, MEANS, n], buckets[j, PRODUCTS, n] = mean * mean, mean * cells[LAST, j]
        buckets[j, OWN, n], buckets[j, OWN_SQUARE, n], buckets[j, IN_SEASON, n] = sums[3, j], sums[4, j], in_season[j]
        cells[LAST, j] = mean
        cells[CLIPPED, j] += sums[5, j]


cdef Py_ssize_t compress(double[:, :, ::1] buckets, int64_t[::1] sizes, int64_t[:, ::1] starts, Py_ssize_t n) noexcept:
    """Merge the two oldest buckets of each size of which there are too many; returns how many are left."""
    cdef int64_t size = 1
    cdef Py_ssize_t count, i, k, j, f
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
            for f in range(starts.shape[1]):
                starts[k, f] = starts[k + 1, f]
        sizes[n] = 0
        for j in range(buckets.shape[0]):
            for f in range(FIELDS):
                buckets[j, f, i] += buckets[j, f, i + 1]
                for k in range(i + 1, n):
                    buckets[j, f, k] = buckets[j, f, k + 1]
                buckets[j, f, n] = 0.0


cdef bint suspect(double[:, ::1] bucket, Py_ssize_t n, double min_change, const double[::1] constants) noexcept:
    """Whether at some boundary the difference exceeds what the variance of independent records alone asks for."""
    cdef double blocks = 0.0, total = 0.0, square = 0.0, m0 = 0.0, before = 0.0, n0, n1, mean0, mean1, beyond, within
    cdef Py_ssize_t i
    for i in range(n):
        blocks += bucket[BLOCKS, i]
        total += bucket[SUM, i]
        square += bucket[SQUARE, i]
    for i in range(n - 1):
        m0 += bucket[BLOCKS, i]
        before += bucket[SUM, i]
        if m0 < constants[FIRST_ONSET]:
            continue
        n0, n1 = m0 * BLOCK, (blocks - m0) * BLOCK
        mean0, mean1 = before / n0, (total - before) / n1
        beyond = fabs(mean1 - mean0) - min_change
        if beyond > 0.0:
            within = square - before * mean0 - (total - before) * mean1
            # r = (n0 + n1)/(n0 n1), and the variance is ``within`` over n0 + n1 − 2
            if beyond * beyond * n0 * n1 > 2.0 * constants[H] * within * ROUNDING:
                return True
    return False


cdef void compute(
    double[:, ::1] bucket, Py_ssize_t n, double min_change, const double[::1] constants, double[:, ::1] statistic, double[:, ::1] after,
    double[::1] part, double[::1] there,
) noexcept:
    """What is asked of each boundary, the i-th after bucket i."""
    cdef double before[9]
    cdef double parts = 0.0, pairs = 0.0, h = constants[H], most = 2.0 * constants[DRAWS]
    cdef double n0, n1, apart, m0, m1, m, mean0, mean1, gone, square, variance, unit, share, turned, v, near, close, more, c, r, bound, difference
    cdef Py_ssize_t i, f
    for f in range(FIELDS):
        after[f, n] = 0.0
        for i in range(n - 1, -1, -1):
            after[f, i] = after[f, i + 1] + bucket[f, i]
    memset(before, 0, sizeof(before))
    for i in range(n):
        part[i], there[i] = 0.0, 0.0
    for i in range(n - 1):
        n0, n1 = bucket[BLOCKS, i] * BLOCK, bucket[BLOCKS, i + 1] * BLOCK
        if n0 > 0.0 and n1 > 0.0:
            apart = bucket[SUM, i + 1] / n1 - bucket[SUM, i] / n0
            part[i], there[i] = apart * apart * n0 * n1 / (n0 + n1), 1.0
            parts += part[i]
            pairs += 1.0
    for i in range(n - 1):
        for f in range(FIELDS):
            before[f] += bucket[f, i]
        m0, m1 = before[BLOCKS], after[BLOCKS, i + 1]
        n0, n1 = m0 * BLOCK, m1 * BLOCK
        statistic[S_EVIDENCE, i], statistic[S_LIKELIHOOD, i], statistic[S_TIMES, i] = 0.0, -1.0, 0.0
        statistic[S_N_0, i], statistic[S_N_1, i] = n0, n1
        if m0 < constants[FIRST_ONSET]:
            continue
        mean0, mean1, m = before[SUM] / n0, after[SUM, i + 1] / n1, m0 + m1
        gone = m0 * mean0 * mean0 + m1 * mean1 * mean1
        square = before[SQUARE] + after[SQUARE, i + 1]
        variance = max(square - BLOCK * gone, 0.0) / (n0 + n1 - 2.0)
        if variance < TINY:
            if fabs(mean1 - mean0) > min_change:  # both sides are constant: nothing is more likely
                statistic[S_LIKELIHOOD, i], statistic[S_TIMES, i] = CERTAIN, 1.0
            continue
        unit = max(m - 2.0, 1.0) * variance / BLOCK
        share = constants[BY_0] * ((before[MEANS] + after[MEANS, i + 1] - gone) / unit - 1.0)
        share += constants[BY_1] * (before[PRODUCTS] + after[PRODUCTS, i + 1] - gone) / unit
        turned = min(max(constants[TOTAL] * share, 0.0), most)
        turned = min(turned + SAFETY_ * constants[NOISE] * (1.0 + turned) / sqrt(m), most)
        v = variance * (1.0 + turned)
        near, close = part[i], there[i]
        if i > 0:
            near += part[i - 1]
            close += there[i - 1]
        if i + 1 < n - 1:
            near += part[i + 1]
            close += there[i + 1]
        if pairs - close >= PAIRS_:
            v = max(v, (parts - near) / (pairs - close))
        more = v / variance - 1.0
        c = (before[CUBE] + after[CUBE, i + 1]) / (n0 + n1) / variance
        c *= (1.0 + 3.0 * (constants[DRAWS] + 1.0) * more) / (1.0 + more)
        r = 1.0 / n0 + 1.0 / n1
        # The hours on a side may vary more than those of all records.
        v = max(v, (1.0 + turned) * (before[IN_SEASON] / (n0 * n0) + after[IN_SEASON, i + 1] / (n1 * n1)) / r)
        bound = sqrt(2.0 * h * v * r) + h / 3.0 * c * (1.0 / (n0 * n0) + 1.0 / (n1 * n1)) / r
        difference = mean1 - mean0
        statistic[S_EVIDENCE, i] = fabs(difference) / (min_change + bound)
        statistic[S_LEAST, i] = copysign(fabs(difference) - bound, difference)
        statistic[S_LIKELIHOOD, i] = difference * difference / (2.0 * v * r)
        statistic[S_TIMES, i] = 1.0 + more


cdef bint tell(double[:, ::1] bucket, Py_ssize_t n, double[:, ::1] statistic, double centre, double clipped, double* found) noexcept:
    """Whether there is a change; fills ``found``."""
    cdef double evidence = 0.0, n0, n1, total = 0.0, square = 0.0, total1 = 0.0, square1 = 0.0, mean, mean1
    cdef Py_ssize_t best = 0, i, low = 0, first, last
    for i in range(n - 1):
        if statistic[S_EVIDENCE, i] > evidence:
            evidence, found[LEAST] = statistic[S_EVIDENCE, i], statistic[S_LEAST, i]
        if statistic[S_LIKELIHOOD, i] > statistic[S_LIKELIHOOD, best]:
            best = i
    if evidence <= 1.0:
        return False
    first = last = best
    while bucket[BLOCKS, low] == 0.0:
        low += 1
    for i in range(n - 2, -1, -1):
        if statistic[S_LIKELIHOOD, i] >= max(statistic[S_LIKELIHOOD, best] - PLAUSIBLE, 0.0):
            first = i
            last = max(last, i)
    found[ONSET] = best + 1
    found[EARLIEST] = first if first > 0 and statistic[S_LIKELIHOOD, first - 1] >= 0.0 else low
    found[LATEST] = last + 2
    found[EVIDENCE], found[TIMES] = evidence, statistic[S_TIMES, best]
    n0, n1 = statistic[S_N_0, best], statistic[S_N_1, best]
    found[CUT], found[N_0], found[N_1] = clipped / (n0 + n1), n0, n1
    for i in range(n):
        if i <= best:
            total += bucket[OWN, i]
            square += bucket[OWN_SQUARE, i]
        else:
            total1 += bucket[OWN, i]
            square1 += bucket[OWN_SQUARE, i]
    mean, mean1 = total / n0, total1 / n1
    found[MEAN_0], found[MEAN_1] = centre + mean, centre + mean1
    found[VARIANCE_0] = max(square / n0 - mean * mean, 0.0)
    found[VARIANCE_1] = max(square1 / n1 - mean1 * mean1, 0.0)
    return True
