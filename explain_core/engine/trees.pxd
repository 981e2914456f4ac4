from libc.stdint cimport int64_t

from explain_core.engine.explaining cimport Plan


cdef int learn_trees(
    const int64_t* table, const double* x, double y, double weight, bint explained, object room, Py_ssize_t member
) except -1
cdef bint explain_trees(Plan* p, const int64_t* table, const double* x, double y) noexcept nogil
