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


cdef class Reader:
    """Reads plain records: JSON objects of the label, and of features that the encoder knows.

    Parameters
    ----------
    loads
        Reads JSON; raises ``ValueError``.
    label
        The name of the label's field.
    labels
        What stands for each label that is known; None where labels are numbers.
    encoder
        Of the features.
    most
        What numbers are at most, with either sign; JSON's whole numbers have at most 64 bits.
    longest
        Characters that a string has at most.
    """

    cdef object loads
    cdef str label
    cdef dict labels
    cdef Encoder encoder
    cdef double most
    cdef Py_ssize_t longest

    def __init__(self, loads, str label, dict labels, Encoder encoder, double most, Py_ssize_t longest):
        self.loads, self.label, self.labels, self.encoder = loads, label, labels, encoder
        self.most, self.longest = most, longest

    def read(self, list values, double[:, ::1] rows, double[::1] ys):
        """Fill ``rows`` and ``ys``; returns the features of each record, up to one that is not plain."""
        cdef list found = []
        cdef Py_ssize_t i
        cdef dict data
        for i in range(len(values)):
            try:
                data = self.loads(values[i])
                label = data.pop(self.label)
            except (ValueError, TypeError, KeyError):
                break
            if not self.truth(label, &ys[i]) or not self.plain(data):
                break
            if None in data.values():
                data = {name: value for name, value in data.items() if value is not None}
            if not data or not self.encoder.encode(data, &rows[i, 0]):
                break
            found.append(data)
        return found

    cdef bint truth(self, label, double* y) except -1:
        cdef object found
        if self.labels is None:
            if type(label) is not float and type(label) is not int:
                return False
            y[0] = label
            return -self.most <= y[0] <= self.most
        if type(label) is not str and type(label) is not int and type(label) is not bool and type(label) is not float:
            return False
        found = self.labels.get(label)
        if found is None:
            return False
        y[0] = found
        return True

    cdef bint plain(self, dict data) except -1:
        """Whether values are what features may be."""
        cdef Py_ssize_t place = 0
        cdef PyObject* key
        cdef PyObject* item
        cdef object value
        while PyDict_Next(data, &place, &key, &item):
            value = <object> item
            if type(value) is float:
                if not -self.most <= <double> value <= self.most:
                    return False
            elif type(value) is str:
                if len(<str> value) > self.longest:
                    return False
            elif value is not None and type(value) is not int and type(value) is not bool:
                return False
        return True
