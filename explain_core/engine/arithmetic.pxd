# Sums, squares, losses and random numbers with the bits of Python's own.

from libc.math cimport NAN, fabs, log, pow
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #define LARGEST 1e72
    #define EPSILON 1e-7
    """
    const double LARGEST  # explain_core.losses.LARGEST
    const double EPSILON  # explain_core.losses.EPSILON

# SplitMix64, see explain_core.random.
cdef enum:
    SHIFT_1 = 30
    SHIFT_2 = 27
    SHIFT_3 = 31

# LOSSES in smoothing.pyx has the names. Those of probabilities come first, before MOVED; those of a number from SQUARED on.
cdef enum:  # Loss
    CROSS_ENTROPY
    ZERO_ONE
    BRIER
    HINGE
    MOVED  # of probabilities
    SQUARED
    ABSOLUTE
    HUBER
    MOVED_NUMBER


cdef inline double total(const double* values, Py_ssize_t n, Py_ssize_t stride) noexcept nogil:
    """``explain_core.sums.total`` of n values."""
    cdef double result = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        result += values[i * stride]
    return result


cdef inline double square(double value) noexcept nogil:
    """``value ** 2`` in CPython, whose ** is the C library's pow: its square differs from v · v in the last bit now and then.

    Not where v · v errs by less than 0.5/1.25 of a unit in the last place, and pow by less than 0.6 of one (glibc: 0.54). The error of
    v · v is Dekker's, exact in this range, since not every processor has a fused multiply-add.
    """
    cdef double found = value * value
    cdef double large = 134217729.0 * value
    cdef double high = large - (large - value)
    cdef double low = value - high
    cdef double rest = ((high * high - found) + 2.0 * high * low) + low * low
    if 1e-280 < found < 1e300 and found + 1.25 * rest == found:
        return found
    return pow(value, 2.0)


cdef inline bint finite(const double* prediction, Py_ssize_t n) noexcept nogil:
    """``models.base.check_prediction``, for a sum that stands for all."""
    cdef double value = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        value += prediction[i]
    return fabs(value) <= LARGEST


cdef inline int64_t below(uint64_t* state, int64_t n) noexcept nogil:
    """``Generator.below`` for n < 2³²."""
    cdef uint64_t z, size = <uint64_t> n
    state[0] += <uint64_t> 0x9E3779B97F4A7C15
    z = state[0]
    z = (z ^ (z >> SHIFT_1)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> SHIFT_2)) * <uint64_t> 0x94D049BB133111EB
    z = z ^ (z >> SHIFT_3)
    return <int64_t> (((z >> 32) * size + (((z & <uint64_t> 0xFFFFFFFF) * size) >> 32)) >> 32)


cdef inline double loss(int64_t code, double y, const double* p, Py_ssize_t n) noexcept nogil:
    """``explain_core.losses`` on the probabilities p of all n classes, y the index of the true one or −1; or on a number."""
    cdef double r, mass, value, mine, result, rival
    cdef Py_ssize_t i, best, own
    if code == SQUARED:
        return (y - p[0]) * (y - p[0])
    if code == ABSOLUTE:
        return fabs(y - p[0])
    if code == HUBER:
        r = fabs(y - p[0])
        return 0.5 * r * r if r <= 1.0 else r - 0.5
    own = <Py_ssize_t> y
    if code == CROSS_ENTROPY:
        mass = 0.0
        for i in range(n):
            value = p[i]
            mass += 0.0 if value < 0.0 else (1.0 if value > 1.0 else value)
        mine = p[own] if own >= 0 else 0.0
        mine = 1.0 if mine > 1.0 else mine
        if mine <= EPSILON * mass:
            return -log(EPSILON)
        return (log(mass) if mass != 1.0 else 0.0) - log(mine)
    if code == ZERO_ONE:
        best = 0
        for i in range(1, n):
            if p[i] > p[best]:
                best = i
        return 0.0 if best == own else 1.0
    if code == BRIER:
        result = 0.0 if own >= 0 else 1.0
        for i in range(n):
            value = p[i] - (1.0 if i == own else 0.0)
            result += value * value
        return result
    if code == HINGE:
        rival = 0.0
        for i in range(n):
            if p[i] > rival and i != own:
                rival = p[i]
        value = 1.0 - ((p[own] if own >= 0 else 0.0) - rival)
        return 0.0 if 0.0 > value else value
    return NAN  # a code without a branch here


cdef inline double loss_from(int64_t code, double y, const double* own, const double* p, Py_ssize_t n) noexcept nogil:
    """``loss``, or how far p is from the model's ``own`` prediction, see ``explain_core.losses.moved``."""
    cdef double result = 0.0, off
    cdef Py_ssize_t i
    if code != MOVED and code != MOVED_NUMBER:
        return loss(code, y, p, n)
    for i in range(n):
        off = p[i] - own[i]
        result += off * off
    return result if code == MOVED_NUMBER else 0.5 * result
