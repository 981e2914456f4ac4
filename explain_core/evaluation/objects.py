"""Python's objects, read by compiled code through CPython's own C functions (numba).

Compiled code gets an object as its address, ``id``; whoever passes one keeps the object alive while it is used.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.evaluation.kernels import AVAILABLE, compiled

if AVAILABLE:
    from numba.core import types as _types

    types: Any = _types

    _object, _place = types.intp, types.CPointer(types.intp)
    _get_attribute = types.ExternalFunction("PyObject_GetAttr", _object(_object, _object))
    _drop = types.ExternalFunction("Py_DecRef", types.void(_object))
    _as_double = types.ExternalFunction("PyFloat_AsDouble", types.float64(_object))
    _as_int = types.ExternalFunction("PyLong_AsSsize_t", _object(_object))
    _size = types.ExternalFunction("PyObject_Size", types.intp(_object))
    _item = types.ExternalFunction("PyDict_GetItem", _object(_object, _object))
    _next = types.ExternalFunction("PyDict_Next", types.intc(_object, _place, _place, _place))
    _error = types.ExternalFunction("PyErr_Occurred", _object())
    _clear = types.ExternalFunction("PyErr_Clear", types.void())

NOWHERE = 0
"""The address of no object."""


def addresses(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Names of attributes, to be kept, and their addresses."""
    kept = [sys.intern(name) for name in names]
    return kept, np.array([id(name) for name in kept], np.int64)


@compiled
def attribute(owner: int, name: int) -> Any:
    """The address of an attribute's value, which its owner holds; ``NOWHERE`` where there is none."""
    if owner == NOWHERE:
        return owner
    value = _get_attribute(owner, name)
    if value == NOWHERE:
        _clear()
    else:
        _drop(value)
    return value


@compiled
def number(owner: int, name: int) -> Any:
    """An attribute's value as a float, NaN for what is no number."""
    if owner == NOWHERE:
        return math.nan
    value = _get_attribute(owner, name)
    if value == NOWHERE:
        _clear()
        return math.nan
    result = as_float(value)
    _drop(value)
    return result


@compiled
def as_float(value: int) -> Any:
    """A number, NaN for what is none."""
    if value == NOWHERE:
        return math.nan
    result = _as_double(value)
    if result == -1.0 and _error() != NOWHERE:
        _clear()
        return math.nan
    return result


@compiled
def whole(value: int) -> Any:
    """A whole number, −1 for what is none."""
    if value == NOWHERE:
        return -1
    result = _as_int(value)
    if result == -1:
        _clear()
    return result


@compiled
def size(value: int) -> Any:
    """How many a container holds, −1 for what is none."""
    if value == NOWHERE:
        return -1
    n = _size(value)
    if n < 0:
        _clear()
    return n


@compiled
def item(dictionary: int, key: int) -> Any:
    """The address of the value of a key; ``NOWHERE`` where there is none."""
    return NOWHERE if dictionary == NOWHERE else _item(dictionary, key)


@compiled
def following(dictionary: int, place: Any) -> Any:
    """Addresses of the next key and its value; ``place`` is three whole numbers, the first 0 at the start."""
    if _next(dictionary, place.ctypes, place[1:].ctypes, place[2:].ctypes) == 0:
        return NOWHERE, NOWHERE
    return place[1], place[2]
