from libc.stdint cimport int64_t

from explain_core.engine.explaining cimport Plan


cdef void predict_ensemble(
    const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out, bint shallow
) noexcept nogil
cdef double* predict_ensemble_copies(const int64_t* table, Plan* p, const double* x, bint shallow, Py_ssize_t* width) noexcept nogil
