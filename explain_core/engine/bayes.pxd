# What river's naive Bayes of a leaf adds up: priors, and a factor for each feature; as logarithms.

from libc.math cimport INFINITY, exp, isnan, log
from libc.stdint cimport int64_t

from explain_core.engine.arithmetic cimport square, total
from explain_core.engine.layout cimport *

cdef extern from *:
    """
    #define HALF_LOG_TAU 0.9189385332046727
    """
    const double HALF_LOG_TAU  # log(2π) / 2


cdef inline double weight_of(Trees* t, int64_t leaf) noexcept nogil:
    """``sum(stats.values())``."""
    return total(stats_at(t, leaf), leaf_at(t, leaf).count, 1)


cdef inline void majority(Trees* t, int64_t leaf, double* votes) noexcept nogil:
    """``normalize_values_in_dict(stats)``, in the leaf's order of classes."""
    cdef const double* stats = stats_at(t, leaf)
    cdef double weight = weight_of(t, leaf)
    cdef double scale = 1.0 / weight if weight != 0.0 and not isnan(weight) else 1.0
    cdef int64_t i
    for i in range(leaf_at(t, leaf).count):
        votes[i] = stats[i] * scale


cdef inline void priors(Trees* t, int64_t leaf, double whole, double* out) noexcept nogil:
    """The logarithms of the classes' shares of a leaf; ``t.places`` by class the place of its vote, −1 for a class without weight."""
    cdef const double* stats = stats_at(t, leaf)
    cdef const int64_t* classes = classes_at(t, leaf)
    cdef int64_t i
    for i in range(leaf_at(t, leaf).count):
        t.places[classes[i]] = i if stats[i] > 0.0 else -1
        out[i] = log(stats[i] / whole) if stats[i] > 0.0 else 0.0


cdef inline double share_of(Trees* t, int64_t cell, double category) noexcept nogil:
    """``NominalSplitterClassif.cond_proba`` in a chain of categories."""
    cdef double found = -1.0, whole = 0.0
    cdef Category* of
    while cell >= 0:
        of = category_at(t, cell)
        if of.value == category:
            found = of.weight
        whole += of.weight
        cell = link_at(t, cell).next
    return found / whole if found >= 0.0 and whole != 0.0 else 0.0


cdef inline void factors(Trees* t, int64_t observer, double value, double* terms, int64_t n) noexcept nogil:
    """What an observer adds to each of n votes for that value of its feature, −∞ for nothing."""
    cdef int64_t i, cell, place
    cdef double freedom, variance, share
    cdef Cell* of
    for i in range(n):
        terms[i] = -INFINITY
    cell = -1 if isnan(value) else t.observers[observer].cells
    if t.observers[observer].categorical == 0:
        while cell >= 0:
            of = cell_at(t, cell)
            place = t.places[link_at(t, cell).of]
            freedom = of.weight - 1.0
            if place >= 0 and freedom > 0.0:
                variance = of.squares / freedom
                if variance > 0.0:
                    terms[place] = square(value - of.mean) / (-2.0 * variance) - HALF_LOG_TAU - of.half_log
            cell = link_at(t, cell).next
        return
    while cell >= 0:
        place = t.places[link_at(t, cell).of]
        if place >= 0:
            share = share_of(t, link_at(t, cell).values, value)
            if share > 0.0:
                terms[place] = log(share)
        cell = link_at(t, cell).next


cdef inline void normalise(Trees* t, double* votes, int64_t n) noexcept nogil:
    """Logarithms of votes to probabilities, as river does."""
    cdef double highest = votes[0], under, whole
    cdef int64_t i
    for i in range(1, n):
        highest = max(votes[i], highest)
    for i in range(n):
        under = votes[i] - highest
        t.parts[i] = exp(under) if under != 0.0 else 1.0
    whole = highest + log(total(t.parts, n, 1))
    for i in range(n):
        votes[i] = exp(votes[i] - whole)


cdef inline int64_t bayes(Trees* t, int64_t leaf, const double* x, double* votes) noexcept nogil:
    """``do_naive_bayes_prediction`` in the leaf's order of classes; how many there are."""
    cdef int64_t n = leaf_at(t, leaf).count, observer, i
    cdef double whole = weight_of(t, leaf)
    if n == 0 or whole == 0.0:
        return 0
    priors(t, leaf, whole, votes)
    observer = leaf_at(t, leaf).first
    while observer >= 0:
        factors(t, observer, x[t.observers[observer].feature], t.parts, n)
        for i in range(n):
            if t.parts[i] > -INFINITY:
                votes[i] += t.parts[i]
        observer = t.observers[observer].next
    normalise(t, votes, n)
    return n
