# What explain_core.smoothing.Smoother.update does: a mean, and what its band is made from.

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #define LIMIT 1e70
    """
    const double LIMIT_ "LIMIT"  # an increment counts for at most so much: the squares of a block's variance are still numbers


cdef struct Measured:  # a model's performance: the arrays of explain_core.models.empty.Performance
    double* numbers
    const int64_t* sizes
    double* cells
    double* sums
    double smoothing


cdef void measure(Measured* of, double y, Py_ssize_t seen) noexcept nogil


cdef inline void smooth(
    double* cells, double* sums, double decay, const double* delta, Py_ssize_t losses, Py_ssize_t columns, Py_ssize_t stride
) noexcept nogil:
    """``Smoother.update``; ``cells`` is rows × losses × columns, ``sums`` rows × columns, ``delta`` losses × stride."""
    cdef Py_ssize_t layer = losses * columns, i, j, quarter
    cdef double share, size, value, off, squares, step, grown
    cdef double* cell
    for j in range(columns):
        sums[j] += 1.0
        sums[columns + j] = 1.0 + decay * sums[columns + j]
        sums[2 * columns + j] += 1.0
        sums[3 * columns + j] = 1.0 + decay * sums[3 * columns + j]
        sums[4 * columns + j] = 1.0 + decay * decay * sums[4 * columns + j]
        sums[5 * columns + j] = 1.0 + decay * decay * decay * sums[5 * columns + j]
        sums[6 * columns + j] *= decay
        share, size = 1.0 / sums[columns + j], sums[2 * columns + j]
        quarter = <Py_ssize_t> size // 25 if <Py_ssize_t> size % 25 == 0 and size < 100.0 else 0
        for i in range(losses):
            value = min(max(delta[i * stride + j], -LIMIT_), LIMIT_)
            cell = cells + i * columns + j
            cell[0] += share * (value - cell[0])
            off, squares = value - cell[layer], cell[2 * layer]
            step = off / size
            grown = off * step * (size - 1.0)
            cell[3 * layer] += grown * step * (size - 2.0) - 3.0 * step * squares
            cell[2 * layer] = squares + grown
            cell[layer] += step
            if quarter > 0:
                cell[(3 + quarter) * layer] = cell[layer]
