cdef class Encoder:
    cdef list names, codes
    cdef dict index
    cdef readonly Py_ssize_t width
    cdef int encode(self, dict record, double* row, bint ordinary) except -1
