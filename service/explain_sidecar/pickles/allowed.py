"""What a pickle out of a snapshot may name, what of that it may call and with what, and whose state it may set.

A class that may be named is not one whose constructor may run.
"""

from __future__ import annotations

import collections
import datetime
import math
import random
import re
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np
from numpy._core.multiarray import _reconstruct, scalar
from numpy._core.numeric import _frombuffer  # type: ignore[attr-defined]
from numpy.random import MT19937, BitGenerator, _pickle
from river._river_rust.vectordict import VectorDict

from explain_sidecar.errors import SnapshotError
from explain_sidecar.pickles import slim
from explain_sidecar.pickles.attributes import bare, is_factory, method_of, partial_of

PACKAGES = frozenset({"river", "explain_core"})
EXCLUDED = frozenset({"api", "checks", "datasets", "envs", "evaluate", "param_grid", "stream"})
"""Parts of river that read files, download, or run what they are given."""

NAMES = frozenset(
    {
        ("builtins", "bool"),
        ("builtins", "complex"),
        ("builtins", "dict"),
        ("builtins", "float"),
        ("builtins", "frozenset"),
        ("builtins", "int"),
        ("builtins", "list"),
        ("builtins", "object"),
        ("builtins", "set"),
        ("builtins", "slice"),
        ("builtins", "str"),
        ("builtins", "tuple"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("numbers", "Number"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.random._mt19937", "MT19937"),
        ("numpy.random._pickle", "__bit_generator_ctor"),
        ("numpy.random._pickle", "__randomstate_ctor"),
        ("random", "Random"),
        ("explain_sidecar.pickles.attributes", "method_of"),
        ("explain_sidecar.pickles.attributes", "partial_of"),
        ("explain_sidecar.pickles.slim", "gaussian_of"),
        ("explain_sidecar.pickles.slim", "search_tree_of"),
        ("statistics", "NormalDist"),
    }
)


_DTYPE = re.compile(r"[<>|=]?(\?|[biufcMmO]\d{1,2}|[SUV][1-9]\d{0,3})(\[\w+\])?")


def _fits(*kinds: Any) -> Callable[..., bool]:
    """Whether the arguments are of these types; none may be missing."""
    return lambda *arguments: len(arguments) == len(kinds) and all(map(isinstance, arguments, kinds))


CALLS: dict[Any, Callable[..., bool]] = {
    slim.search_tree_of: _fits(list, list, list, list, bool),
    slim.gaussian_of: _fits(*[int | float] * 3),
    method_of: _fits(object, str),
    partial_of: _fits(object, tuple, dict),
    VectorDict: lambda data, default, mask, copy: (
        type(data) is dict and default is None and mask is None and type(copy) is bool
    ),
    collections.Counter: lambda counts: type(counts) is dict,
    collections.OrderedDict: _fits(),
    collections.defaultdict: lambda *factory: len(factory) < 2 and all(map(is_factory, factory)),
    collections.deque: lambda values=(), length=None: (
        type(values) is tuple and not values and (length is None or type(length) is int)
    ),
    complex: _fits(float, float),
    datetime.date: _fits(bytes),
    datetime.datetime: _fits(bytes),
    datetime.timedelta: _fits(int, int, int),
    random.Random: _fits(),
    slice: _fits(object, object, object),
    np.dtype: lambda name, align, copy: type(name) is str and _DTYPE.fullmatch(name) is not None,
    scalar: lambda dtype, value: isinstance(dtype, np.dtype) and type(value) is bytes and not dtype.hasobject,
    _frombuffer: _fits(bytes | bytearray, np.dtype, tuple, str),
    _reconstruct: lambda kind, shape, code: bare(kind) is np.ndarray and shape == (0,) and code == b"b",
    _pickle.__bit_generator_ctor: lambda kind: bare(kind) in ("MT19937", MT19937),
    _pickle.__randomstate_ctor: _fits(BitGenerator),
}
"""What a snapshot calls, and whether it does so with these arguments: a constructor elsewhere could take any memory or time."""

FROM_PARTS = (method_of, partial_of)
WITH_CALLABLES = (
    *FROM_PARTS,
    collections.defaultdict,
    _reconstruct,
    _pickle.__bit_generator_ctor,
)
"""Functions that may be given a class or function: they, or the check of their arguments, look at it."""


def _check_random(state: Any) -> None:
    version, numbers, gauss = state
    if not (
        version == 3
        and type(numbers) is tuple
        and len(numbers) == 625
        and all(type(number) is int and 0 <= number < 2**32 for number in numbers)
        and numbers[-1] <= 624
        and type(gauss) in (float, NoneType)
    ):
        raise SnapshotError("snapshot: the state of a random generator that Python does not have")


def _check_twister(state: Any) -> None:
    found = (state[0] if type(state) is tuple else state)["state"]
    words, position = found["key"], found["pos"]
    fits = type(words) is np.ndarray and words.dtype == np.uint32 and words.shape == (624,)
    if not (fits and type(position) is int and 0 <= position <= 624):
        raise SnapshotError("snapshot: the state of a random generator that numpy does not have")


def _check_array(state: Any) -> None:
    """numpy takes the memory for a shape before it looks at what is there."""
    _, shape, dtype, _, values = state
    size = math.prod(shape) * (1 if type(values) is list else dtype.itemsize)
    if not all(type(length) is int and length >= 0 for length in shape) or size != len(values):
        raise SnapshotError("snapshot: an array whose shape is not that of its values")


STATES: dict[type, Callable[[Any], None]] = {
    random.Random: _check_random,
    MT19937: _check_twister,
    np.random.RandomState: _check_twister,
    np.ndarray: _check_array,
}
"""Compiled code that takes a state on trust, and the check before it."""
