"""Arithmetic of ``explain_core.smoothing``, whose docstring says what is computed, and of ``explain_core.models.empty.Performance``."""

from libc.math cimport INFINITY, NAN, copysign, fabs, fmax, fmin, isfinite, pow, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from explain_core.engine.arithmetic cimport ABSOLUTE, BRIER, CROSS_ENTROPY, HINGE, HUBER, MOVED, MOVED_NUMBER, SQUARED, ZERO_ONE, loss
from explain_core.engine.explaining cimport empty_losses

LOSSES = {
    "cross_entropy": CROSS_ENTROPY,
    "zero_one": ZERO_ONE,
    "brier": BRIER,
    "hinge": HINGE,
    "prediction": MOVED,
    "squared": SQUARED,
    "absolute": ABSOLUTE,
    "huber": HUBER,
    "prediction of a number": MOVED_NUMBER,
}
"""The losses that compiled code computes, with their codes."""

cpdef enum:
    BLOCK = 100  # observations
    FAR = 3  # blocks of a batch; third differences of four batches tell of dependence, as a parabola cancels in them
    RING = 12  # blocks whose means are kept

cpdef enum:  # rows of Smoother.cells
    VALUE  # φ
    MEAN  # of the open block
    SQUARES  # its central sums
    CUBES
    QUARTER  # its mean after 25, 50 and 75 observations
    Q2 = 7  # Σ w² v, Σ w³ c, Σ (w² v)² of the closed blocks, decayed as φ's weights are
    Q3
    Q4
    FINE  # sums and counts of the ratios for F: of quarters of blocks,
    FINES
    NEAR  # of blocks,
    NEARS
    FARS  # and of batches
    BATCHES
    ALL_SQUARES  # pooled central sums
    ALL_CUBES
    OLD  # share of the weight from before the last change
    NEWEST  # means, then v/b, of the newest blocks, the newest first
    ROWS = 43

cpdef enum:  # rows of Smoother.sums, of each column
    N  # observations, and their weight
    W
    SIZE  # those of the open block, their weights, squared and cubed weights, and what it leaves of the weight before
    OPEN
    OPEN_2
    OPEN_3
    KEPT
    T  # at the end of the last block: the weight, the squared and cubed weights, the blocks' squares of squared ones
    R2
    R3
    R4
    BLOCKS  # their number
    POOLED  # observations that the pooled sums are of
    COLUMN_ROWS

cpdef enum:  # rows that explain_core.bands.spread_of takes
    VARIANCE
    THIRD
    FOURTH
    EFFECTIVE
    FACTOR
    KNOWN
    GAMMA
    COUNT
    INPUTS

cdef extern from *:
    """
    /* How far the growth of the ratio from blocks to batches is taken to go on beyond them, as that of a covariance does which falls off like 0.99^k. */
    #define BEYOND 1.86
    /* By how much the ratio of blocks is expected to exceed 1 for each 1 that the ratio of their quarters does, and that of batches for each 1
       of blocks: where records come in clusters. */
    #define GROW_NEAR 2.0
    #define GROW_FAR 1.6
    /* How many batches that expectation counts as, and F = 1 at first; half as many differences of blocks, and of quarters. */
    #define WEIGHT 4.0
    /* One ratio counts for at most so many times their mean: a jump of the mean is no dependence. */
    #define JUMP 9.0
    /* And for no more than this, so that sums of any number of them stay within what a state may hold. */
    #define MOST_RATIO 1e80
    /* Blocks over which dependence and skewness are remembered. */
    #define REMEMBERED 200.0
    #define SELDOM 1000.0
    /* A mean is steady unless that of its newest 4 or 12 blocks is off by 4 standard errors, until 90 % of its weight is newer. */
    #define CAUTION 4.0
    #define LEFT 0.1
    /* The band is wider, on the side of the skew, by the share (γ²/5 + 4)/n, at most 1.5: extremes that come seldom may not have come. */
    #define SKEW 0.2
    #define FEW 4.0
    #define MOST_WIDER 1.5
    /* A skewness counts for no more: one that is larger is that of few extremes, and would lead the end on the other side too near to the value. */
    #define MOST_SKEWED 1.0
    static const double DIFFERENCES[4] = {1.0, -3.0, 3.0, -1.0};
    static const int SCALES[2] = {4, 12};
    """
    const double BEYOND, GROW_NEAR, GROW_FAR, WEIGHT, JUMP, MOST_RATIO, REMEMBERED, SELDOM, CAUTION, SKEW, FEW, MOST_WIDER, MOST_SKEWED
    const double LEFT_ "LEFT"
    const double* DIFFERENCES
    const int* SCALES_ "SCALES"

LIMIT, LEFT, SCALES = LIMIT_, LEFT_, (SCALES_[0], SCALES_[1])


cdef struct Cells:  # of one cell: the rows are ``layer`` apart
    double* at
    Py_ssize_t layer


cdef struct Ratios:  # (differences)² over what independent records give
    double fine, near, far


cdef inline double of(Cells* c, Py_ssize_t row) noexcept nogil:
    return c.at[row * c.layer]


cdef inline void put(Cells* c, Py_ssize_t row, double value) noexcept nogil:
    c.at[row * c.layer] = value


cdef double power(double base, int n) noexcept nogil:
    """By squaring."""
    cdef double result = 1.0
    while n > 0:
        if n & 1:
            result *= base
        n >>= 1
        base *= base
    return result


cdef Ratios ratios(Cells* c) noexcept nogil:
    """The ratios of quarters of blocks, of blocks and of batches, each weighed against what the scale before leads to expect."""
    cdef double half = 0.5 * WEIGHT, expected
    cdef Ratios found
    found.fine = (of(c, FINE) + half) / (of(c, FINES) + half)
    expected = 1.0 + GROW_NEAR * (found.fine - 1.0 if found.fine > 1.0 else 0.0)
    found.near = (of(c, NEAR) + half * expected) / (of(c, NEARS) + half)
    expected = 1.0 + GROW_FAR * (found.near - 1.0 if found.near > 1.0 else 0.0)
    found.far = (of(c, FARS) + WEIGHT * expected) / (of(c, BATCHES) + WEIGHT)
    return found


cdef double factor_of(Ratios r) noexcept nogil:
    """F: where the ratio grows with the scale it is taken to go on growing."""
    cdef double found = r.far + BEYOND * (r.far - r.near) if r.far > r.near else r.near
    return found if found > 1.0 else 1.0


cdef double skewness(Cells* c, double pooled) noexcept nogil:
    """γ of one observation, over the last 100,000."""
    cdef double variance = of(c, ALL_SQUARES) / pooled if pooled > 0.0 else 0.0
    cdef double cube = variance * sqrt(variance)
    if not cube > 0.0:  # also of a variance so small that this is no number
        return 0.0
    return of(c, ALL_CUBES) / pooled / cube


cdef void take_in(Cells* c, Py_ssize_t row, double ratio, double most, double counts) noexcept nogil:
    """Add a ratio to those remembered."""
    most = JUMP * most if JUMP * most < MOST_RATIO else MOST_RATIO
    put(c, row, of(c, row) + counts * (ratio if ratio < most else most))
    put(c, row + 1, of(c, row + 1) + counts)


cdef void depend(Cells* c, double blocks, double keep) noexcept nogil:
    """Take the newest ratios in, for F."""
    cdef Ratios r = ratios(c)
    cdef double own = of(c, NEWEST + RING), mean = of(c, NEWEST), last = 0.0, so_far = 0.0, squares = 0.0
    cdef double until, quarter, noise, difference, times
    cdef int k
    for k in range(FINE, BATCHES + 1):
        put(c, k, of(c, k) * keep)
    if own > 0.0:
        for k in range(4):
            until = (k + 1.0) * (of(c, QUARTER + k) if k < 3 else mean)
            quarter = until - so_far
            if k > 0:
                squares += (quarter - last) * (quarter - last)
            last, so_far = quarter, until
        take_in(c, FINE, squares / (24.0 * own), r.fine, 3.0)
    noise = own + of(c, NEWEST + RING + 1)
    if blocks >= 2.0 and noise > 0.0:
        difference = mean - of(c, NEWEST + 1)
        take_in(c, NEAR, difference * difference / noise, r.near, 1.0)
    if blocks < RING:
        return
    difference = noise = 0.0
    for k in range(RING):
        times = DIFFERENCES[k // FAR] / FAR
        difference += times * of(c, NEWEST + k)
        noise += times * times * of(c, NEWEST + RING + k)
    if noise > 0.0:
        take_in(c, FARS, difference * difference / noise, r.far, 1.0 / FAR)


cdef void compare(Cells* c, double blocks, double weights, double factor, double kept, double weight) noexcept nogil:
    """Note where the newest blocks are off from what the mean was before them; ``weights`` is the weight of all."""
    cdef double share, newest, of_newest, rest, past, noise, mean, own, off
    cdef int scale, k, i
    for i in range(2):
        scale = SCALES_[i]
        if blocks < scale + 5.0:
            continue
        share, newest, of_newest, rest, noise = weight, 0.0, 0.0, weights, of(c, Q2)
        past = of(c, VALUE) * rest
        for k in range(scale):
            mean, own = of(c, NEWEST + k), of(c, NEWEST + RING + k)
            newest += mean / scale
            of_newest += own / (scale * scale)
            past -= share * mean
            noise -= share * share * own
            rest -= share
            share *= kept
        past /= rest
        noise = max(noise, 0.0) / (rest * rest) + of_newest
        off = newest - past
        if off * off > CAUTION * CAUTION * factor * noise and fabs(off) > 1e-12 * fabs(past) and of(c, OLD) < LEFT_:
            put(c, OLD, 1.0)


def close_block(double[:, :, ::1] cells, double[:, ::1] sums, double decay, double[:, :, ::1] closed):
    """``Smoother.end_block``; ``cells`` is rows × losses × columns, ``closed`` 5 × losses × columns of zeros."""
    cdef Py_ssize_t losses = cells.shape[1], columns = cells.shape[2], i, j, row
    cdef double kept_block = power(decay, BLOCK), weight_block = BLOCK
    cdef double seldom = 1.0 - 1.0 / SELDOM, keep = 1.0 - 1.0 / REMEMBERED
    cdef double b, kept, weight, squares, cubed, before, k2, v, m3, own, part, factor, gamma, third
    cdef Cells c
    c.layer = losses * columns
    if kept_block < 1.0:
        weight_block = (1.0 - kept_block) / (1.0 - decay)
    for j in range(columns):
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
        for i in range(losses):
            c.at = &cells[0, i, j]
            v, m3 = of(&c, SQUARES) / (b - 1.0), of(&c, CUBES) / b
            own, part = v / b, squares * v
            put(&c, Q2, k2 * of(&c, Q2) + part)
            put(&c, Q3, k2 * kept * of(&c, Q3) + cubed * m3)
            put(&c, Q4, k2 * k2 * of(&c, Q4) + part * part)
            put(&c, ALL_SQUARES, seldom * of(&c, ALL_SQUARES) + of(&c, SQUARES))
            put(&c, ALL_CUBES, seldom * of(&c, ALL_CUBES) + of(&c, CUBES))
            for row in range(RING - 1, 0, -1):
                put(&c, NEWEST + row, of(&c, NEWEST + row - 1))
                put(&c, NEWEST + RING + row, of(&c, NEWEST + RING + row - 1))
            put(&c, NEWEST, of(&c, MEAN))
            put(&c, NEWEST + RING, own)
            if b == BLOCK:
                depend(&c, sums[BLOCKS, j], keep)
            factor = factor_of(ratios(&c))
            put(&c, OLD, of(&c, OLD) * (before / max(sums[T, j], 1.0)))
            compare(&c, sums[BLOCKS, j], sums[T, j], factor, kept_block, weight_block)
            gamma = skewness(&c, sums[POOLED, j]) * v * sqrt(v)
            third = gamma if fabs(gamma) > fabs(m3) else m3
            closed[0, i, j], closed[1, i, j] = b, b * of(&c, MEAN)
            closed[2, i, j] = factor * v * b
            closed[3, i, j] = third * b * factor * sqrt(factor)
            closed[4, i, j] = closed[2, i, j] * closed[2, i, j]
            put(&c, MEAN, 0.0)
            put(&c, SQUARES, 0.0)
            put(&c, CUBES, 0.0)
        for row in range(SIZE, KEPT):
            sums[row, j] = 0.0
        sums[KEPT, j] = 1.0


def inputs_of(double[:, :, ::1] cells, double[:, ::1] sums, double[:, :, ::1] inputs):
    """Of each cell what its ``Spread`` is made from, with the open block; NaN until there are two observations. ``INPUTS`` × losses × columns."""
    cdef Py_ssize_t losses = cells.shape[1], columns = cells.shape[2], i, j, row
    cdef double b, kept, weight, squares, cubed, k2, total, r2, r3, r4, v, part, q2, third, gamma, average, late, factor, t2
    cdef bint there
    cdef Cells c
    c.layer = losses * columns
    for j in range(columns):
        b = sums[SIZE, j]
        there = b >= 2.0
        kept = sums[KEPT, j] if there else 1.0
        weight, squares, cubed = 0.0, 0.0, 0.0
        if there:
            weight, squares, cubed = sums[OPEN, j], sums[OPEN_2, j], sums[OPEN_3, j]
        k2, total = kept * kept, kept * sums[T, j] + weight
        r2, r3 = k2 * sums[R2, j] + squares, k2 * kept * sums[R3, j] + cubed
        r4 = k2 * k2 * sums[R4, j] + squares * squares
        for i in range(losses):
            if not total > 0.0:
                for row in range(INPUTS):
                    inputs[row, i, j] = NAN
                continue
            c.at = &cells[0, i, j]
            v = of(&c, SQUARES) / (b - 1.0) if there else 0.0
            part = squares * v
            q2 = k2 * of(&c, Q2) + part
            third = k2 * kept * of(&c, Q3) + (cubed * of(&c, CUBES) / b if there else 0.0)
            gamma = skewness(&c, sums[POOLED, j])
            average = q2 / r2
            late = gamma * r3 * average * sqrt(average)
            factor, t2 = factor_of(ratios(&c)), total * total
            inputs[VARIANCE, i, j] = q2 / t2
            inputs[THIRD, i, j] = (late if fabs(late) > fabs(third) else third) / (t2 * total)
            inputs[FOURTH, i, j] = (k2 * k2 * of(&c, Q4) + part * part) / (t2 * t2)
            inputs[EFFECTIVE, i, j] = r2 * r2 / r4
            inputs[FACTOR, i, j], inputs[KNOWN, i, j] = factor, of(&c, BATCHES)
            inputs[GAMMA, i, j] = gamma
            inputs[COUNT, i, j] = t2 / r2 / factor


def update(double[:, :, ::1] cells, double[:, ::1] sums, double decay, const double[:, ::1] delta):
    """``Smoother.update``; ``cells`` is rows × losses × columns, ``sums`` rows × columns, ``delta`` losses × columns."""
    smooth(
        &cells[0, 0, 0] if cells.shape[1] and cells.shape[2] else NULL, &sums[0, 0] if sums.shape[1] else NULL, decay,
        &delta[0, 0] if delta.shape[0] and delta.shape[1] else NULL, cells.shape[1], cells.shape[2], cells.shape[2],
    )


def update_apart(
    double[:, :, :, ::1] cells, double[:, :, ::1] sums, double decay, int64_t[::1] counts, const double[:, :, ::1] losses,
    const int64_t[::1] rows, const double[:, :, ::1] increments, const int64_t[::1] places, Py_ssize_t begin, Py_ssize_t end,
    int64_t block,
):
    """``update`` of several smoothers: each of ``losses`` (their ``rows``) and ``increments`` together, for that at its place; returns where to go on.

    That is behind ``end``, or behind the first with which the count of a smoother is a multiple of ``block``.
    """
    cdef Py_ssize_t own = losses.shape[1], width = own + increments.shape[2], n = rows.shape[0], t, i, j, at
    cdef double* delta = <double*> malloc(n * width * sizeof(double) + 8)
    for t in range(begin, end):
        at = places[t]
        for i in range(n):
            for j in range(own):
                delta[i * width + j] = losses[t, j, rows[i]]
            for j in range(own, width):
                delta[i * width + j] = increments[t, i, j - own]
        smooth(&cells[at, 0, 0, 0], &sums[at, 0, 0], decay, delta, n, width, width)
        counts[at] += 1
        if counts[at] % block == 0:
            free(delta)
            return t + 1
    free(delta)
    return end


cdef void measure(Measured* of, double y, Py_ssize_t seen) noexcept nogil:
    """``Performance.update`` in place.

    ``sizes`` are the numbers of classes of a prediction, of the labels before, and of the losses, then the losses' codes.
    ``numbers`` are the smoothing's decay, the prediction, room for its losses and those of the labels' frequencies, weight and mean of the predictions, the same of
    the labels, and three means for each loss; then what smooths losses and gains. ``y`` is the index of the label in the prediction or −1, ``seen`` that among the
    labels before; or y is a number.
    """
    cdef Py_ssize_t n = of.sizes[0], known = of.sizes[1], losses = of.sizes[2], row, i, column
    cdef const int64_t* codes = of.sizes + 3
    cdef double decay = of.numbers[0], step, before, p, other
    cdef double* base = of.numbers + 1
    cdef double* own = base + n
    cdef double* mean = own + 2 * losses
    cdef double* labels = mean + 1 + n
    cdef double* means = labels + 1 + known
    cdef bint number = codes[0] >= SQUARED
    cdef double* after = <double*> malloc((1 + n + n + losses + known + 2 * losses) * sizeof(double))
    cdef double* expected = after + 1 + 2 * n
    cdef double* frequencies = expected + losses
    cdef double* delta = frequencies + known
    empty_losses(mean, decay, base, n, y, codes, losses, after, expected, after + 1 + n)
    step, before = 1.0 / after[0], labels[0]
    for i in range(known):
        p = labels[1 + i]
        frequencies[i] = p if number else (before * p + 0.5) / (before + 0.5 * known)
    for row in range(losses):
        own[row] = loss(codes[row], y, base, n)
        other = loss(codes[row], y if number else <double> seen, frequencies, known)
        own[losses + row] = other
        delta[2 * row], delta[2 * row + 1] = own[row], other - own[row]
        for column in range(3):
            p = own[row] if column == 0 else other if column == 1 else expected[row]
            means[3 * row + column] += step * (p - means[3 * row + column])
    smooth(of.cells, of.sums, of.smoothing, delta, losses, 2, 2)
    memcpy(mean, after, (1 + n) * sizeof(double))
    labels[0] = 1.0 + decay * before
    step = 1.0 / labels[0]
    for i in range(known):
        p = labels[1 + i]
        labels[1 + i] = p + step * (y - p) if number else (1.0 - step) * p + step * (1.0 if i == seen else 0.0)
    free(after)


def perform(
    double[::1] numbers, const int64_t[::1] sizes, double y, Py_ssize_t seen, double[:, :, ::1] cells, double[:, ::1] sums, double smoothing
):
    """``measure``."""
    cdef Measured of = Measured(&numbers[0], &sizes[0], &cells[0, 0, 0], &sums[0, 0], smoothing)
    measure(&of, y, seen)


cdef void spread_cell(const double* inputs, double* out, Py_ssize_t layer) noexcept nogil:
    """``explain_core.bands.spread_of`` of one cell; what is found of several cells is ``layer`` apart."""
    cdef double variance = inputs[VARIANCE], effective = inputs[EFFECTIVE], gamma = inputs[GAMMA], freedom, skewness = 0.0
    cdef double std = sqrt(inputs[FACTOR] * variance)
    # The least squared coefficient of variation of a block's variance is that of normal records.
    freedom = 2.0 * effective / fmax(effective * inputs[FOURTH] / (variance * variance) - 1.0, 2.0 / (BLOCK - 1.0))
    if variance > 0.0:
        skewness = inputs[THIRD] / (variance * sqrt(variance))
        skewness = -MOST_SKEWED if skewness < -MOST_SKEWED else MOST_SKEWED if skewness > MOST_SKEWED else skewness
    out[0] = std if std >= 0.0 else NAN
    out[layer] = skewness
    out[2 * layer] = fmax(1.0 / (1.0 / freedom + 0.5 / (inputs[KNOWN] + 4.0)), 1.0)
    out[3 * layer] = fmin((SKEW * gamma * gamma + FEW) / inputs[COUNT], MOST_WIDER)


def spread_of(const double[:, ::1] inputs, double[:, ::1] out):
    """``explain_core.bands.spread_of`` of inputs, ``INPUTS`` × cells: standard error, skewness, degrees of freedom and widening, 4 × cells."""
    cdef Py_ssize_t i, row
    cdef double own[INPUTS]
    for i in range(inputs.shape[1]):
        for row in range(INPUTS):
            own[row] = inputs[row, i]
        spread_cell(own, &out[0, i], out.shape[1])


def means_of_sums(const double[:, :] sums, double least, double[:, ::1] out):
    """Means over a period, from its sums as ``close_block`` has them, 5 × cells, and their ``spread_of``: 5 × cells. NaN without a record, and below the ``least``."""
    cdef Py_ssize_t i
    cdef double own[INPUTS]
    cdef double n, one
    for i in range(sums.shape[1]):
        out[0, i] = sums[1, i] / sums[0, i] if sums[0, i] > 0.0 else NAN
        n = sums[0, i] if sums[0, i] >= least else NAN
        one = sums[2, i] / n
        own[VARIANCE], own[THIRD], own[FOURTH] = sums[2, i] / power(n, 2), sums[3, i] / power(n, 3), sums[4, i] / power(n, 4)
        own[EFFECTIVE], own[FACTOR], own[KNOWN], own[COUNT] = n / BLOCK, 1.0, fmax(n / (3.0 * BLOCK), 16.0), n
        own[GAMMA] = sums[3, i] / n / (one * sqrt(one)) if one > 0.0 else 0.0
        spread_cell(own, &out[1, i], out.shape[1])


cdef double hall(double t, double skewness) noexcept nogil:
    """The distance, in standard errors, at which a mean of this skewness has the studentised quantile t."""
    cdef double g = 1e-9 if fabs(skewness) < 1e-9 else skewness
    cdef double inside = 1.0 + g * (t - g / 6.0)
    # The last bit of a library's cube root depends on its kind, that of its power does not.
    return 3.0 / g * (copysign(pow(fabs(inside), 1.0 / 3.0), inside) - 1.0)


def ends(const double[::1] value, const double[:, ::1] spread, const double[::1] t, double[:, ::1] out):
    """``explain_core.bands.ends`` of cells by their spreads, 4 × cells as ``spread_of`` has them, and quantiles: low and high, 2 × cells."""
    cdef Py_ssize_t i
    cdef double std, skewness, wider
    for i in range(value.shape[0]):
        std, skewness, wider = spread[0, i], spread[1, i], 1.0 + spread[3, i]
        out[0, i] = value[i] - std * hall(t[i], skewness) * (wider if skewness < 0.0 else 1.0)
        out[1, i] = value[i] + -std * hall(-t[i], skewness) * (wider if skewness > 0.0 else 1.0)


def studentised(const double[::1] value, const double[:, ::1] spread, double[::1] out):
    """The quantile of Student's distribution at which the band of each cell begins at 0, see ``hall``; infinite where nothing varies, or nothing is known."""
    cdef Py_ssize_t i
    cdef double t, g
    for i in range(value.shape[0]):
        if not (isfinite(spread[0, i]) and spread[0, i] > 0.0):
            out[i] = INFINITY if spread[0, i] == 0.0 and value[i] > 0.0 else -INFINITY
            continue
        t, g = value[i] / spread[0, i], spread[1, i]
        # A mean below 0 by more than the widening is none the less above 0 if the side of the skew is the lower one.
        if g < 0.0 and t > 0.0:
            t /= 1.0 + spread[3, i]
        out[i] = t + g * t * t / 3.0 + g * g * t * t * t / 27.0 + g / 6.0
