from libc.stdint cimport int64_t

from explain_core.engine.explaining cimport Plan


cdef void predict_mixture(const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out) noexcept nogil
cdef int learn_mixture(
    const int64_t* table, const double* x, double y, double weight, bint known, bint explained, object room
) except -1
cdef double* predict_mixture_copies(const int64_t* table, Plan* p, const double* x, Py_ssize_t* width) noexcept nogil
