from libc.stdint cimport int64_t

from explain_core.engine.explaining cimport Plan


cdef void predict_ensemble(
    const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out, bint shallow
) noexcept nogil
cdef bint explain_ensemble(Plan* p, const int64_t* table, const double* x, double y, bint shallow) noexcept nogil
