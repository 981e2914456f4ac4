"""Records as rows of doubles, in the columns that are known; whatever is new, or not as it should be, is left to Python."""

from cpython.dict cimport PyDict_Next
from cpython.float cimport PyFloat_Check
from cpython.long cimport PyLong_Check
from cpython.ref cimport PyObject
from libc.math cimport NAN


cdef class Encoder:
    """What ``explain_core.learners.columns.Columns`` knows: its names, their index, and the codes of categories by name."""

    def __init__(self, names, dict index, dict codes):
        self.names, self.index = list(names), index
        self.codes = [codes.get(name) for name in self.names]
        self.width = len(self.names)

    cdef int encode(self, dict record, double* row) except -1:
        """Fill ``row``, NaN where there is no value; 0 where something is new, or is neither a number nor a known category."""
        cdef Py_ssize_t place = 0, column, expected = 0
        cdef PyObject* key
        cdef PyObject* item
        cdef object codes, found, value
        for column in range(self.width):
            row[column] = NAN
        while PyDict_Next(record, &place, &key, &item):
            column, value = expected, <object> item
            if column >= self.width or <PyObject*> self.names[column] != key:
                found = self.index.get(<object> key)
                if found is None:
                    return 0
                column = found
            expected = column + 1
            if value is None:
                continue
            codes = self.codes[column]
            if codes is not None:
                found = (<dict> codes).get(value)
                if found is None:
                    return 0
                row[column] = <double> found
            elif PyFloat_Check(value) or (PyLong_Check(value) and -(2**62) < value < 2**62):
                row[column] = value
            else:
                return 0
        return 1

    def row(self, dict record, double[::1] row):
        """``encode``, for Python."""
        return self.encode(record, &row[0] if self.width else NULL) != 0
