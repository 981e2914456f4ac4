"""River's linear models behind scalers and one-hot encoders: what they learn and predict, and how their predictions are explained.

All functions take a learner's table of arrays (``explain_core.learners.linear``).
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from explain_core.engine.explaining cimport Plan, draw_joining, draw_replaced, settle_codes
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
        close_linear(&m)
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
    close_linear(&m)


def predict_rows(const int64_t[::1] table, const double[:, ::1] rows, double[:, ::1] out):
    """Predictions of encoded rows, rows × outputs."""
    cdef Linear m
    cdef Py_ssize_t i
    open_linear(&table[0], &m)
    for i in range(rows.shape[0] if out.shape[1] else 0):
        predict(&m, &rows[i, 0], &out[i, 0])
    close_linear(&m)


cdef bint explain_linear(Plan* p, const int64_t* table, const double* x, double y) noexcept nogil:
    """iPFI and iSAGE of a record; see ``settle``."""
    cdef Linear m
    cdef Py_ssize_t n, rows, i
    cdef double* copies
    cdef double* out
    cdef bint good
    open_linear(table, &m)
    n, rows = outputs(&m), p.copies + p.steps * p.sage_m
    copies = <double*> malloc(rows * (p.width + n) * sizeof(double))
    out = copies + rows * p.width
    draw_replaced(p, x, copies)
    draw_joining(p, x, copies + p.copies * p.width)
    for i in range(rows):
        predict(&m, copies + i * p.width, out + i * n)
    good = settle_codes(p, out, out + p.copies * n, n, y)
    free(copies)
    close_linear(&m)
    return good
