"""Cells of records, and the least squares of losses on them, see ``explain_core.estimated``.

Cell 0 is that of all records. A column with n edges has n + 2 cells after those of the columns before it, the last one for a missing value.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t


def locate(
    const double[:, ::1] rows, const int64_t[::1] firsts, const double[::1] edges, const int64_t[::1] nominal, int64_t[:, ::1] cells
):
    """Fill ``cells``, rows × (1 + columns). The edges of column j, in order, are those from ``firsts[j]`` to ``firsts[j + 1]``.

    A number is in the cell of the last edge that is not above it, a category in that of the edge that it is; the others of a nominal column share one.
    """
    cdef Py_ssize_t i, j, low, high, middle, first, n
    cdef double value
    for i in range(rows.shape[0]):
        cells[i, 0] = 0
        for j in range(rows.shape[1]):
            value, first, n = rows[i, j], firsts[j], firsts[j + 1] - firsts[j]
            low, high = 0, n  # how many edges are not above the value
            while low < high:
                middle = (low + high) // 2
                if edges[first + middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            if value != value:
                low = n + 1
            elif nominal[j]:
                low = low - 1 if low and edges[first + low - 1] == value else n
            cells[i, 1 + j] = 1 + first + 2 * j + low


def count(const int64_t[:, ::1] cells, int64_t[:, ::1] pairs):
    """Add one to each pair of cells of each record, the later cell first: a lower triangle."""
    cdef Py_ssize_t i, a, b
    for i in range(cells.shape[0]):
        for a in range(cells.shape[1]):
            for b in range(a + 1):
                pairs[cells[i, a], cells[i, b]] += 1


def add(const int64_t[:, ::1] cells, const double[:, ::1] values, double[:, ::1] sums):
    """Add to ``sums``, values × cells, the values of each record."""
    cdef Py_ssize_t i, a, k
    for i in range(cells.shape[0]):
        for k in range(values.shape[1]):
            for a in range(cells.shape[1]):
                sums[k, cells[i, a]] += values[i, k]


def look_up(const int64_t[:, ::1] cells, const double[:, ::1] weights, double[:, ::1] out):
    """Fill ``out``, records × values, with the sums of the weights, values × cells, of each record's cells."""
    cdef Py_ssize_t i, a, k
    cdef double total
    for i in range(cells.shape[0]):
        for k in range(weights.shape[0]):
            total = 0.0
            for a in range(cells.shape[1]):
                total += weights[k, cells[i, a]]
            out[i, k] = total


def factorise(const int64_t[:, ::1] pairs, double ridge, double[:, ::1] root):
    """Fill the lower triangle of ``root`` with the Cholesky factor of the pairs and the ridge, which all cells but the first have."""
    cdef Py_ssize_t i, j, k
    cdef double total
    for i in range(pairs.shape[0]):
        for j in range(i + 1):
            total = <double> pairs[i, j]
            if i == j and i:
                total += ridge
            for k in range(j):
                total -= root[i, k] * root[j, k]
            root[i, j] = sqrt(total) if i == j else total / root[j, j]


def solve(const double[:, ::1] root, double[:, ::1] right):
    """Replace each row of ``right``, values × cells, by what the factorised matrix takes to it."""
    cdef Py_ssize_t i, j, k, n = root.shape[0]
    cdef double total
    for k in range(right.shape[0]):
        for i in range(n):
            total = right[k, i]
            for j in range(i):
                total -= root[i, j] * right[k, j]
            right[k, i] = total / root[i, i]
        for i in range(n - 1, -1, -1):
            total = right[k, i]
            for j in range(i + 1, n):
                total -= root[j, i] * right[k, j]
            right[k, i] = total / root[i, i]
