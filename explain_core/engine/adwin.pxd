# ADWIN, as river's: Bifet and Gavaldà (2007), "Learning from time-changing data with adaptive windowing".
#
# A detector's window is a chain of rows of buckets, from the newest to the oldest. Each bucket of a row holds twice the records of one
# in the row before, as their sum and their variance times their number.

from libc.math cimport fabs, log, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memset

from explain_core.engine.layout cimport *


cdef inline double* buckets_at(Trees* t, int64_t row) noexcept nogil:
    """The sums of a row's buckets; their variances come ``t.half`` behind them."""
    return t.buckets + row * 2 * t.half


cdef inline void reset(Trees* t, int64_t window) noexcept nogil:
    """Empty a detector's window; that of a row that is zero but for its pool is empty."""
    cdef int64_t row = t.ends[window].newest if t.windows[window].width > 0.0 else -1, after
    while row >= 0:
        after = t.chains[row].older
        memset(buckets_at(t, row), 0, 2 * t.half * sizeof(double))
        give(t, BUCKET_POOL, row)
        row = after
    memset(&t.windows[window], 0, sizeof(Window))
    memset(&t.ends[window], 0, sizeof(Ends))
    t.ends[window].newest = -1
    t.ends[window].oldest = -1


cdef inline int64_t append_row(Trees* t, int64_t window) noexcept nogil:
    """A row without buckets at the old end."""
    cdef int64_t row = take(t, BUCKET_POOL), last = t.ends[window].oldest
    t.chains[row].count = 0
    t.chains[row].newer = last
    t.chains[row].older = -1
    if last < 0:
        t.ends[window].newest = row
    else:
        t.chains[last].older = row
    t.ends[window].oldest = row
    return row


cdef inline void shift(Trees* t, int64_t row, int64_t n) noexcept nogil:
    """Take the first n buckets off a row."""
    cdef double* of = buckets_at(t, row)
    cdef int64_t count = t.chains[row].count, i
    for i in range(count):
        of[i] = of[i + n] if i + n < count else 0.0
        of[t.half + i] = of[t.half + i + n] if i + n < count else 0.0
    t.chains[row].count = count - n


cdef inline void compress(Trees* t, int64_t window, int64_t most) noexcept nogil:
    """Merge the two oldest buckets of each row that has too many."""
    cdef int64_t row = t.ends[window].newest, following, i
    cdef double n = 1.0, apart, variance, first, second
    cdef double* of
    while t.chains[row].count == most + 1:
        of = buckets_at(t, row)
        first, second = of[0], of[1]
        apart = first / n - second / n
        variance = of[t.half] + of[t.half + 1] + n * 0.5 * apart * apart
        following = t.chains[row].older
        if following < 0:
            following = append_row(t, window)
        i = t.chains[following].count
        buckets_at(t, following)[i] = first + second
        buckets_at(t, following)[t.half + i] = variance
        t.chains[following].count = i + 1
        shift(t, row, 2)
        if i + 1 <= most:
            break
        row = following
        n *= 2.0


cdef inline bint cut(
    double strictness, double shortest, double variance, double u0, double n0, double u1, double n1
) noexcept nogil:
    """Whether the means of the two parts of the window differ too much."""
    cdef double recip, bound
    if n1 < shortest or n0 < shortest:
        return False
    recip = 1.0 / (n0 - shortest + 1.0) + 1.0 / (n1 - shortest + 1.0)
    bound = sqrt(2.0 * recip * variance * strictness)
    bound += 2.0 / 3.0 * strictness * recip
    return fabs(u0 / n0 - u1 / n1) > bound


cdef inline bint differs(Trees* t, int64_t window, const Detector* detector) noexcept nogil:
    """Whether the window can be cut in two whose means differ too much."""
    cdef double n0 = 0.0, n1 = t.windows[window].width, u0 = 0.0, u1 = t.windows[window].total
    cdef double variance = t.windows[window].variance / n1, size = 1.0
    cdef double strictness = log(2.0 * log(n1) / detector.significance)
    cdef int64_t row = t.ends[window].newest, i
    while t.chains[row].older >= 0:
        row = t.chains[row].older
        size *= 2.0
    while row >= 0:
        for i in range(t.chains[row].count):
            n0 += size
            n1 -= size
            u0 += buckets_at(t, row)[i]
            u1 -= buckets_at(t, row)[i]
            if t.chains[row].newer < 0 and i == t.chains[row].count - 1:
                return False
            if cut(strictness, detector.shortest, variance, u0, n0, u1, n1):
                return True
        row = t.chains[row].newer
        size *= 0.5
    return False


cdef inline void drop_oldest(Trees* t, int64_t window) noexcept nogil:
    """Take the oldest bucket off the window."""
    cdef int64_t row = t.ends[window].oldest, of = t.ends[window].newest, newer
    cdef Window* own = &t.windows[window]
    cdef double n = 1.0, u, variance, apart
    while of != row:
        of = t.chains[of].older
        n *= 2.0
    u, variance = buckets_at(t, row)[0], buckets_at(t, row)[t.half]
    own.width -= n
    own.total -= u
    apart = u / n - own.total / own.width
    own.variance -= variance + n * own.width * apart * apart / (n + own.width)
    shift(t, row, 1)
    if t.chains[row].count == 0:
        newer = t.chains[row].newer
        memset(buckets_at(t, row), 0, 2 * t.half * sizeof(double))
        give(t, BUCKET_POOL, row)
        t.ends[window].oldest = newer
        if newer >= 0:
            t.chains[newer].older = -1
        else:
            t.ends[window].newest = -1


cdef inline bint detect(Trees* t, int64_t window, const Detector* detector, double value) noexcept nogil:
    """``ADWIN.update``: whether a drift is detected."""
    cdef Window* own = &t.windows[window]
    cdef int64_t row
    cdef double apart
    if t.ends[window].drifted == 1:
        reset(t, window)
    row = t.ends[window].newest
    if row < 0:
        row = append_row(t, window)
    buckets_at(t, row)[t.chains[row].count] = value
    t.chains[row].count += 1
    own.width += 1.0
    if own.width > 1.0:
        apart = value - own.total / (own.width - 1.0)
        own.variance += (own.width - 1.0) * apart * apart / own.width
    own.total += value
    compress(t, window, <int64_t> detector.most_buckets)
    t.ends[window].tick += 1
    if t.ends[window].tick % <int64_t> detector.clock != 0 or own.width <= detector.patience:
        return False
    while differs(t, window, detector):
        t.ends[window].drifted = 1
        drop_oldest(t, window)
    return t.ends[window].drifted == 1
