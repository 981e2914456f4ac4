# River's linear models behind scalers and one-hot encoders, operation by operation.
#
# A record becomes *terms*: pairs of a weight's place (its key) and a value, in the order in which river's pipeline hands them to the
# model. Sums run over the terms in that order.

from libc.math cimport exp, isnan, pow
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from explain_core.engine.arithmetic cimport total
from explain_core.engine.explaining cimport Plan
from explain_core.engine.layout cimport point_to_arrays, width_of

cdef enum:  # what becomes of a column
    IGNORED
    NUMBER
    SCALED
    CATEGORY

cdef enum:  # links
    SIGMOID
    IDENTITY
    SOFTMAX


cdef struct LinearHead:
    int64_t columns
    int64_t labels
    int64_t link
    int64_t loss
    int64_t ranked  # the order in which categories were learnt counts
    int64_t zeros  # so do those that a record has not
    int64_t with_std
    int64_t has_target
    int64_t n_ranked
    int64_t implicit  # steps that never overshoot: see explain_core.learners.implicit


cdef struct LinearParameters:
    double rate, intercept_rate, l2, clip, positive, negative, intercept, half


cdef struct LinearColumn:
    int64_t kind
    int64_t place  # where its keys begin among the places
    int64_t room  # for so many categories


cdef struct Moments:
    double n
    double mean
    double variance


cdef struct Linear:
    # The arrays of ``explain_core.learners.linear`` in their order.
    LinearHead* head
    LinearParameters* of
    LinearColumn* columns
    Moments* moments
    int64_t* places
    int64_t* ranks  # by key, and keys by rank
    double* weights
    double* intercept
    Moments* target  # its variance is the sum of squares
    int64_t* present  # of each label, how many keys it has met, and these
    int64_t* sequence  # of the columns
    int64_t* keys  # of terms
    double* values
    double* steps
    double* scale  # the standard deviation of each scaled column, 0 where it is not known
    Py_ssize_t n_ranks, n_weights, n_present


cdef void predict_linear(const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out) noexcept nogil
cdef void learn_linear(const int64_t* table, const double* x, double y, double weight) noexcept nogil
cdef double* predict_linear_copies(const int64_t* table, Plan* p, const double* x, Py_ssize_t* width) noexcept nogil


cdef inline void open_linear(const int64_t* table, Linear* m) noexcept nogil:
    """The arrays behind a table."""
    point_to_arrays(m, table, 15)
    m.n_ranks, m.n_weights, m.n_present = width_of(table, 5), width_of(table, 6), width_of(table, 9)


cdef inline double number_term(Linear* m, Py_ssize_t j, double value) noexcept nogil:
    """A number as the model takes it."""
    if m.columns[j].kind == NUMBER:
        return value
    if m.head.with_std == 0:
        return value - m.moments[j].mean
    return (value - m.moments[j].mean) / m.scale[j] if m.scale[j] != 0.0 else 0.0


cdef inline Py_ssize_t terms(Linear* m, const double* x) noexcept nogil:
    """The terms of a row, and their number.

    An encoder that keeps zeros hands categories on in the order in which it learnt them, new ones last; the zeros are terms
    only where they matter.
    """
    cdef int64_t* keys = m.keys
    cdef double* values = m.values
    cdef int64_t* by_rank = m.ranks + m.n_ranks
    cdef Py_ssize_t n = 0, start = -1, i, j, rank, at
    cdef int64_t kind, key, own
    cdef double value
    for i in range(m.head.columns):
        j = m.sequence[i]
        kind, value = m.columns[j].kind, x[j]
        if kind == CATEGORY and start < 0:
            start = n
            if m.head.zeros != 0:
                for rank in range(m.head.n_ranked):
                    keys[n], values[n] = by_rank[rank], 0.0
                    n += 1
        if kind == IGNORED or isnan(value):
            continue
        if kind == CATEGORY:
            key = m.places[m.columns[j].place + <int64_t> value]
            own = m.ranks[key] if m.head.ranked != 0 else -1
            if own >= 0 and m.head.zeros != 0:
                values[start + own] = 1.0
                continue
            at = n
            while at > start and own >= 0 and (m.ranks[keys[at - 1]] < 0 or m.ranks[keys[at - 1]] > own):
                keys[at], values[at] = keys[at - 1], values[at - 1]
                at -= 1
            keys[at], values[at] = key, 1.0
        else:
            keys[n], values[n] = m.places[m.columns[j].place], number_term(m, j, value)
        n += 1
    return n


cdef inline void sums(Linear* m, Py_ssize_t n, double* out) noexcept nogil:
    """The sum of each output before the link, over n terms."""
    cdef Py_ssize_t i, k, c, count
    cdef const double* weights
    cdef const int64_t* present
    cdef double value
    if m.head.link != SOFTMAX:
        value = 0.0
        for i in range(n):
            value += m.values[i] * m.weights[m.keys[i]]
        out[0] = value + m.intercept[0]
        return
    for c in range(m.head.labels):
        # ``river.utils.math.dot`` goes through the shorter of the two; a label's keys are in the order in which it met them.
        weights, present, count = m.weights + c * m.n_weights, m.present + c * m.n_present, 0
        if present[0] < n:
            for i in range(present[0]):
                for k in range(n):
                    if m.keys[k] == present[1 + i]:
                        m.steps[count] = m.values[k] * weights[m.keys[k]]
                        count += 1
        else:
            for k in range(n):
                if not isnan(weights[m.keys[k]]):
                    m.steps[count] = m.values[k] * weights[m.keys[k]]
                    count += 1
        out[c] = total(m.steps, count, 1)


cdef inline double deviation(Moments* target) noexcept nogil:
    """Standard deviation of the target."""
    return pow(target.variance / (target.n - 1.0) if target.n > 1.0 else 0.0, 0.5)


cdef inline void link(Linear* m, double* out) noexcept nogil:
    """The prediction from the sums, in place."""
    cdef Py_ssize_t c, n = m.head.labels
    cdef double r, p, highest, whole
    if m.head.link == SIGMOID:
        r = out[0]
        p = 0.0 if r < -30.0 else 1.0 if r > 30.0 else 1.0 / (1.0 + exp(-r))
        out[0], out[1] = 1.0 - p, p
    elif m.head.link == SOFTMAX:
        if n == 0:
            return
        highest = out[0]
        for c in range(1, n):
            highest = max(highest, out[c])
        whole = 0.0
        for c in range(n):
            out[c] = exp(out[c] - highest)
            whole += out[c]
        for c in range(n):
            out[c] /= whole
    elif m.head.has_target != 0:
        out[0] = out[0] * deviation(m.target) + m.target.mean


cdef inline Py_ssize_t outputs(Linear* m) noexcept nogil:
    """Numbers of a prediction."""
    return 2 if m.head.link == SIGMOID else m.head.labels if m.head.link == SOFTMAX else 1


cdef inline void predict(Linear* m, const double* x, double* out) noexcept nogil:
    sums(m, terms(m, x), out)
    link(m, out)


cdef inline void scale_columns(Linear* m, const double* x) noexcept nogil:
    """What the transformers learn of a record."""
    cdef Py_ssize_t i, j
    cdef int64_t key
    cdef double before
    cdef Moments* of
    for j in range(m.head.columns):
        if isnan(x[j]) or m.columns[j].kind != SCALED:
            continue
        of = &m.moments[j]
        of.n += 1.0
        before = of.mean
        of.mean += (x[j] - before) / of.n
        if m.head.with_std != 0:
            of.variance += ((x[j] - before) * (x[j] - of.mean) - of.variance) / of.n
            m.scale[j] = pow(of.variance, 0.5)
    for i in range(m.head.columns if m.head.ranked != 0 else 0):
        j = m.sequence[i]
        if m.columns[j].kind == CATEGORY and not isnan(x[j]):
            key = m.places[m.columns[j].place + <int64_t> x[j]]
            if m.ranks[key] < 0:
                m.ranks[key] = m.head.n_ranked
                m.ranks[m.n_ranks + m.head.n_ranked] = key
                m.head.n_ranked += 1


cdef inline void learn_softmax(Linear* m, int64_t y, Py_ssize_t n) noexcept nogil:
    """A step of each label that is known, and of the true one."""
    cdef int64_t known = m.head.labels, labels = max(known, y + 1)
    cdef double* out = <double*> malloc(labels * sizeof(double))
    cdef double* weights
    cdef int64_t* present
    cdef Py_ssize_t c, i
    cdef double p, gradient, weight, step
    memset(out, 0, labels * sizeof(double))
    sums(m, n, out)
    link(m, out)
    m.head.labels = labels
    for c in range(labels):
        weights, present = m.weights + c * m.n_weights, m.present + c * m.n_present
        p = max(min(out[c], 1.0 - 1e-15), 1e-15)
        gradient = 1.0 * (p - (1.0 if c == y else 0.0))
        for i in range(n):
            weight = weights[m.keys[i]]
            if isnan(weight) and present[0] + 1 < m.n_present:
                weight = 0.0
                present[1 + present[0]] = m.keys[i]
                present[0] += 1
            step = m.values[i] * gradient + m.of.l2 * weight
            weights[m.keys[i]] = weight - m.of.rate * step
    free(out)
