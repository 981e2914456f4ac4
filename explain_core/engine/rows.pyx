"""Records as rows of doubles, in the columns that are known; whatever is new, or not as it should be, is left to Python."""

from cpython.bool cimport PyBool_Check
from cpython.dict cimport PyDict_Next
from cpython.float cimport PyFloat_Check, PyFloat_CheckExact
from cpython.long cimport PyLong_Check, PyLong_CheckExact
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport NAN

cdef double MAX_NUMBER = 1e30  # explain_core.stream.given.MAX_NUMBER


cpdef enum:  # places in the index of features that the rows leave out
    A_NUMBER = -1
    A_STRING = -2


cdef class Encoder:
    """The columns' names, None for one that has no value yet, their index, and the codes of categories by name.

    A feature whose place in the index is ``A_NUMBER`` or ``A_STRING`` is left out, if it is one.
    """

    def __init__(self, names, dict index, dict codes):
        self.names, self.index = list(names), index
        self.codes = [codes.get(name) for name in self.names]
        self.width = len(self.names)

    cdef int encode(self, dict record, double* row, bint ordinary) except -1:
        """Fill ``row``, NaN where there is no value; 0 where something is new, is neither a number nor a known category, or for an ``ordinary`` record not as ``explain_core.stream.given.features`` leaves it."""
        cdef Py_ssize_t place = 0, column, expected = 0
        cdef PyObject* key
        cdef PyObject* item
        cdef object codes, found, value
        cdef double number = 0.0
        cdef bint real
        for column in range(self.width):
            row[column] = NAN
        while PyDict_Next(record, &place, &key, &item):
            column, value = expected, <object> item
            real = PyFloat_Check(value)
            if real:
                number = value
            if ordinary and not (
                PyFloat_CheckExact(value) and -MAX_NUMBER <= number <= MAX_NUMBER
                if real
                else PyUnicode_CheckExact(value) or PyBool_Check(value) or (PyLong_CheckExact(value) and -(2**62) < value < 2**62)
            ):
                return 0
            if column >= self.width or <PyObject*> self.names[column] != key:
                found = self.index.get(<object> key)
                if found is None or (ordinary and not PyUnicode_CheckExact(<object> key)):
                    return 0
                column = found
            if column < 0:
                if (type(value) is str) != (column == A_STRING):
                    return 0
                continue
            expected = column + 1
            if value is None:
                continue
            codes = self.codes[column]
            if codes is not None:
                found = (<dict> codes).get(value)
                if found is None:
                    return 0
                row[column] = <double> found
            elif real:
                row[column] = number
            elif PyLong_Check(value) and -(2**62) < value < 2**62:
                row[column] = value
            else:
                return 0
        return 1

    def row(self, dict record, double[::1] row):
        """``encode``, for Python."""
        return self.encode(record, &row[0] if self.width else NULL, False) != 0

    def fill(self, records, double[:, ::1] rows):
        """``encode`` as many ordinary records as there are rows, up to one that is left to Python, or is no dictionary; returns how many."""
        cdef Py_ssize_t i
        for i in range(rows.shape[0]):
            record = records[i]
            if type(record) is not dict or not self.encode(record, &rows[i, 0] if self.width else NULL, True):
                return i
        return rows.shape[0]


cdef class Reader:
    """Reads plain records: JSON objects of the label, further fields, and features that the encoder knows.

    Parameters
    ----------
    loads
        Reads JSON; raises ``ValueError``.
    label, further
        The names of the fields that are no features.
    version
        The name of a further field, and the text that it has to be; None where there is none.
    features
        The names of the features, in their order; None for all other fields.
    labels
        What stands for each label that is known; None where labels are numbers.
    encoder
        Of the features.
    limits
        What numbers are at most, with either sign (JSON's whole numbers have at most 64 bits), and characters that a string has at most.
    """

    cdef object loads
    cdef str label
    cdef tuple further, version, features
    cdef dict labels
    cdef Encoder encoder
    cdef double most
    cdef Py_ssize_t longest

    def __init__(
        self, loads, str label, tuple further, tuple version, tuple features, dict labels, Encoder encoder, tuple limits
    ):
        self.loads, self.label, self.further, self.version, self.features = loads, label, further, version, features
        self.labels, self.encoder, (self.most, self.longest) = labels, encoder, limits

    def read(self, list values, double[:, ::1] rows, double[::1] ys, list others):
        """Fill ``rows``, ``ys``, and ``others`` with the further fields that there are; returns the features of each record, up to one that is not plain."""
        cdef list found = []
        cdef Py_ssize_t i
        cdef int plain
        cdef dict data
        for i in range(len(values)):
            try:
                data = self.loads(values[i])
            except (ValueError, TypeError):
                break
            if data is None:  # JSON's null
                break
            if self.version is not None and not self.served(data.pop(self.version[0], None)):
                break
            if not self.truth(data.pop(self.label, None), &ys[i]):
                break
            if self.further:
                others.append({name: data.pop(name) for name in self.further if name in data})
            if self.features is not None:
                data = {name: data[name] for name in self.features if name in data}
            plain = self.plain(data)
            if plain == 0:
                break
            if plain == 2:
                data = {name: value for name, value in data.items() if value is not None}
            if not data or not self.encoder.encode(data, &rows[i, 0], False):
                break
            found.append(data)
        return found

    cdef bint served(self, version) except -1:
        return (version if type(version) is str else str(version) if type(version) is int else None) == self.version[1]

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

    cdef int plain(self, dict data) except -1:
        """0 where a value is none that a feature may be, 2 where one is null, else 1."""
        cdef Py_ssize_t place = 0
        cdef PyObject* key
        cdef PyObject* item
        cdef object value
        cdef int found = 1
        while PyDict_Next(data, &place, &key, &item):
            value = <object> item
            if type(value) is float:
                if not -self.most <= <double> value <= self.most:
                    return 0
            elif type(value) is str:
                if len(<str> value) > self.longest:
                    return 0
            elif value is None:
                found = 2
            elif type(value) is not int and type(value) is not bool:
                return 0
        return found
