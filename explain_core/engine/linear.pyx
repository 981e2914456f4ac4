"""River's linear models behind scalers and one-hot encoders: what they learn and predict, and how their predictions are explained.

All functions take a learner's table of arrays (``explain_core.learners.linear``).
"""

from libc.math cimport isnan
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from explain_core.engine.explaining cimport Plan, draw, draw_copies, mixed
from explain_core.engine.slopes cimport slope

cdef extern from *:
    """
    #define FIRST 1e-12
    """
    const double FIRST  # explain_core.learners.implicit.FIRST


cdef void learn_linear(const int64_t* table, const double* x, double y, double weight) noexcept nogil:
    """Transformers first, then the model; ``y`` is the code of a class, or a number."""
    cdef Linear m
    cdef Py_ssize_t n, i
    cdef double before, spread, raw, gradient, step, shrink = 1.0, rate, length = 0.0
    open_linear(table, &m)
    scale_columns(&m, x)
    n = terms(&m, x)
    if m.head.link == SOFTMAX:
        learn_softmax(&m, <int64_t> y, n)
        return
    if m.head.link == SIGMOID and y == 0.0:
        y = -1.0
    if m.head.has_target != 0:
        m.target.n += 1.0
        before = m.target.mean
        m.target.mean += (1.0 / m.target.n) * (y - before)
        m.target.variance += (y - before) * (y - m.target.mean)
        spread = deviation(m.target)
        y = (y - m.target.mean) / spread if spread != 0.0 else 0.0
    sums(&m, n, &raw)
    gradient = slope(m.head.loss, y, raw, m.of.positive, m.of.negative) * weight
    gradient = max(min(gradient, m.of.clip), -m.of.clip)
    rate = m.of.intercept_rate
    if m.head.implicit != 0:
        # Steps are counted with the targets, where those are scaled.
        m.target.n += 0.0 if m.head.has_target != 0 else 1.0
        rate = max(rate, 0.5 / max(m.target.n - 1.0, FIRST))
        for i in range(n):
            length += m.values[i] * m.values[i]
        shrink = 1.0 / (1.0 + 2.0 * weight * (m.of.rate * length + rate))
    m.intercept[0] -= rate * (gradient * shrink)
    for i in range(n):
        step = m.values[i] * gradient
        if m.of.l2 != 0.0:
            step += m.of.l2 * m.weights[m.keys[i]]
        step *= shrink
        m.weights[m.keys[i]] -= m.of.rate * step


cdef void predict_linear(const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out) noexcept nogil:
    """Predictions of n rows, rows × outputs."""
    cdef Linear m
    cdef Py_ssize_t i
    open_linear(table, &m)
    for i in range(n):
        predict(&m, rows + i * width, out + i * outputs(&m))


cdef double* draw_products(Linear* m, Plan* p, const double* x) noexcept nogil:
    """``draw_copies`` where a term depends on its column alone: each value is multiplied by its weight once, before it gets into copies.

    What is missing adds 0.0, which leaves a sum as it is: that is never −0.
    """
    cdef int64_t* drawn = draw(p)
    cdef Py_ssize_t n = p.m + (p.sage_m if p.steps > 0 else 0), k
    cdef double* own = <double*> malloc((1 + n) * p.width * sizeof(double) + 8)
    cdef double* copies
    products(m, x, own)
    for k in range(n):
        products(m, p.rows + drawn[k] * p.width, own + (1 + k) * p.width)
    copies = mixed(p, own, own + p.width)
    free(own)
    free(drawn)
    return copies


cdef void products(Linear* m, const double* x, double* out) noexcept nogil:
    """Each column's value as the model takes it, times its weight."""
    cdef Py_ssize_t j
    for j in range(m.head.columns):
        if m.columns[j].kind == IGNORED or isnan(x[j]):
            out[j] = 0.0
        elif m.columns[j].kind == CATEGORY:
            out[j] = 1.0 * m.weights[m.places[m.columns[j].place + <int64_t> x[j]]]
        else:
            out[j] = number_term(m, j, x[j]) * m.weights[m.places[m.columns[j].place]]


cdef inline void predict_products(Linear* m, const double* products, double* out) noexcept nogil:
    """The prediction from the products of all columns."""
    cdef Py_ssize_t i
    cdef double value = 0.0
    for i in range(m.head.columns):
        value += products[m.sequence[i]]
    out[0] = value + m.intercept[0]
    link(m, out)


cdef double* predict_linear_copies(const int64_t* table, Plan* p, const double* x, Py_ssize_t* width) noexcept nogil:
    """Draw, and predict the record and its copies, rows × ``width``, for the caller to free."""
    cdef Linear m
    cdef Py_ssize_t i
    cdef bint by_products
    cdef double* copies
    cdef double* out
    open_linear(table, &m)
    width[0], by_products = outputs(&m), m.head.link != SOFTMAX and m.head.ranked == 0
    copies = draw_products(&m, p, x) if by_products else draw_copies(p, x)
    out = <double*> malloc(p.n_predicted * width[0] * sizeof(double))
    for i in range(p.n_predicted):
        if by_products:
            predict_products(&m, copies + i * p.width, out + i * width[0])
        else:
            predict(&m, copies + i * p.width, out + i * width[0])
    free(copies)
    return out


def contributions(const int64_t[::1] table, const double[:, ::1] rows, double[:, ::1] out):
    """What each column adds to the margin of logistic regression, or to the prediction of linear regression, and then the constant: rows × (columns + 1)."""
    cdef Linear m
    cdef Py_ssize_t i, j, width = rows.shape[1]
    cdef double scale = 1.0, constant
    open_linear(&table[0], &m)
    constant = m.intercept[0]
    if m.head.has_target != 0:
        scale = deviation(m.target)
        constant = constant * scale + m.target.mean
    for i in range(rows.shape[0]):
        for j in range(width):
            out[i, j] = 0.0
        products(&m, &rows[i, 0] if width else NULL, &out[i, 0])
        for j in range(width):
            out[i, j] *= scale
        out[i, width] = constant
