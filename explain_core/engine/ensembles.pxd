from libc.stdint cimport int64_t

from explain_core.engine.explaining cimport Plan


cdef bint explain_ensemble(Plan* p, const int64_t* table, const double* x, double y, bint shallow) noexcept nogil
