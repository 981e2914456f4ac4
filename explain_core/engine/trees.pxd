from libc.stdint cimport int64_t

from explain_core.engine.explaining cimport Plan


cdef void predict_trees(
    const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out, Py_ssize_t size
) noexcept nogil
cdef int learn_trees(
    const int64_t* table, const double* x, double y, double weight, bint explained, object room, Py_ssize_t member
) except -1
cdef double* predict_tree_copies(const int64_t* table, Plan* p, const double* x, Py_ssize_t* width, bint* as_known) noexcept nogil
