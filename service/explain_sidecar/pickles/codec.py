"""Objects as slim pickles, and back by an unpickler that runs nothing but what this module names.

A pickle is a program. The allow-list says which names it may mention. A class that may be mentioned is not one whose constructor may run, so this
module also says which names it may call and with what, whose state it may set and what it may hash. Loading has no effect but the objects, takes memory and time in proportion to its bytes, and ends in a state or in ``SnapshotError``.
"""

from __future__ import annotations

import collections
import functools
import gc
import importlib
import io
import pickle
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from statistics import NormalDist
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType
from typing import Any

import numpy as np
from river._river_rust.vectordict import VectorDict

from explain_sidecar.errors import SnapshotError
from explain_sidecar.pickles import slim
from explain_sidecar.pickles.allowed import (
    CALLS,
    EXCLUDED,
    FROM_PARTS,
    NAMES,
    PACKAGES,
    STATES,
    WITH_CALLABLES,
)
from explain_sidecar.pickles.attributes import (
    FACTORIES,
    FUNCTION_NAMES,
    Named,
    bare,
    is_plain,
    name_of,
    set_attributes,
)

MAX_DEPTH = 20_000
"""Recursion limit while pickling: linked nodes of deep trees take some five levels each."""

MAX_KEY = 1_000
"""Parts of a tuple that is a key. Hashing visits shared parts anew each time, so that few bytes could take for ever."""

MAX_SIZE = 10_000_000
"""Largest whole number that a compiled object is made with: it may be a size, and memory that is not there ends the process."""


def dumps(state: Any) -> bytes:
    """A slim pickle. Raises ``SnapshotError`` for what cannot be pickled."""
    buffer = io.BytesIO()
    try:
        with _deep(), _uncollected():
            pickler = pickle.Pickler(buffer, 5)
            pickler.dispatch_table = slim.REDUCERS
            pickler.dump(state)
    except Exception as error:
        raise SnapshotError(
            f"snapshot: the state cannot be stored: {type(error).__name__}: {error}; a model that is kept must be picklable"
        ) from error
    return buffer.getvalue()


def loads(raw: bytes, modules: Collection[str] = ()) -> Any:
    """Unpickle. Raises ``SnapshotError`` for what is not allowed, and for bytes that are no pickle of ours."""
    try:
        with _uncollected():
            return _Unpickler(io.BytesIO(raw), frozenset(modules)).load()
    except (SnapshotError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of river's compiled parts is no Exception
        # Its text may hold what was read, and take for ever to write.
        raise SnapshotError(f"snapshot: it cannot be read: {type(error).__name__}") from None


_InPython: Any = pickle._Unpickler


class _Unpickler(_InPython):  # type: ignore[misc]
    """Python's own, in Python: the compiled one calls whatever it finds. It takes about 0.15 s per MB."""

    dispatch = {  # noqa: RUF012  the base class has one as well
        code[0]: _InPython.dispatch[code[0]]
        for code in (
            pickle.PROTO, pickle.STOP, pickle.MARK, pickle.POP, pickle.POP_MARK,
            pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET, pickle.STACK_GLOBAL,
            pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BINFLOAT,
            pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.LONG4,
            pickle.SHORT_BINUNICODE, pickle.BINUNICODE, pickle.BINUNICODE8,
            pickle.SHORT_BINBYTES, pickle.BINBYTES, pickle.BINBYTES8,
            pickle.EMPTY_TUPLE,
            pickle.EMPTY_LIST, pickle.EMPTY_DICT, pickle.EMPTY_SET,
        )
    }  # fmt: skip

    def __init__(self, file: io.BytesIO, modules: frozenset[str]) -> None:
        super().__init__(file)
        self._modules = modules
        self._carriers: dict[int, Any] = {}

    def load(self) -> Any:
        """As the base class does, from one buffer: frames, of which it keeps account with every byte read, divide nothing."""
        self.metastack: list[list[Any]] = []
        self.stack: list[Any] = []
        self.append = self.stack.append
        self.read = read = self._file_read
        dispatch = self.dispatch
        try:
            while True:
                dispatch[read(1)[0]](self)
        except pickle._Stop as stop:  # type: ignore[attr-defined]
            if self._carriers or isinstance(stop.value, Named):
                raise SnapshotError("snapshot: it holds a class, function or method as data") from None
            return stop.value

    def find_class(self, module: str, name: str) -> Any:
        package = module.partition(".")[0]
        trusted = package in PACKAGES and EXCLUDED.isdisjoint(module.split("."))
        if (module, name) in NAMES or f"{module}.{name}" in FUNCTION_NAMES:
            found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
            factory = package in ("builtins", "collections") or name_of(found) in FACTORIES
            return found if is_plain(found) else Named(found, factory)
        if trusted or module in self._modules:
            found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
            if isinstance(found, type) and found.__module__ == module:
                return Named(found, package != "explain_core")
        raise SnapshotError(
            f"snapshot: {module}.{name} is not on the allow-list; if it is a class of your model, "
            "name its module in model.modules"
        )

    def _trusts(self, kind: type) -> bool:
        """Whether its objects may be made without their constructor."""
        package = kind.__module__.partition(".")[0]
        return package in PACKAGES or kind.__module__ in self._modules or kind in (NormalDist, object)

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        self._carriers.pop(id(arguments), None)
        called = self.stack[-1]
        if not (isinstance(called, Named) or called is complex):
            raise SnapshotError(f"snapshot: it calls a {type(called).__name__}")
        called = bare(called)
        if not isinstance(called, type | FunctionType | BuiltinFunctionType):
            raise SnapshotError(f"snapshot: it calls a {type(called).__name__}")
        fits = CALLS.get(called)
        trusted = isinstance(called, type) and called.__module__ in self._modules
        carries = type(arguments) is tuple and any(isinstance(argument, Named) for argument in arguments)
        if (
            type(arguments) is not tuple
            or not (trusted or (fits is not None and fits(*arguments)))
            or (carries and not (trusted or called in WITH_CALLABLES))
        ):
            raise SnapshotError(
                f"snapshot: {called.__module__}.{called.__qualname__} is not called with this in any snapshot of ours"
            )
        for argument in arguments:
            self._carriers.pop(id(argument), None)
        self.stack[-1] = called(*(arguments if called in FROM_PARTS else map(bare, arguments)))

    def _new(self) -> None:
        arguments = self.stack.pop()
        kind = bare(self.stack[-1])
        if not (isinstance(kind, type) and type(arguments) is tuple and self._trusts(kind)):
            raise SnapshotError(f"snapshot: it makes a new {getattr(kind, '__qualname__', type(kind))}")
        if any(isinstance(argument, Named) for argument in arguments):
            raise SnapshotError(f"snapshot: it makes a {kind.__qualname__} of what can be called")
        if any(type(argument) is int and abs(argument) > MAX_SIZE for argument in arguments):
            raise SnapshotError(f"snapshot: it makes a {kind.__qualname__} of a size above {MAX_SIZE}")
        if kind.__module__.startswith("river._river_rust."):
            # Its state says how large it is, and has that much in it.
            arguments = tuple(1 if type(argument) is int else argument for argument in arguments)
        self.stack[-1] = kind.__new__(kind, *arguments)

    def _build(self) -> None:
        state = self.stack.pop()
        made = self.stack[-1]
        kind = type(made)
        self._carriers.pop(id(state), None)
        if isinstance(made, Named | _NOT_OURS):
            raise SnapshotError(f"snapshot: it sets the state of a {name_of(bare(made))}")
        if isinstance(made, np.dtype):
            _build_dtype(made, state)
            return
        trusted = kind.__module__ in self._modules
        # That of the class, never one that an earlier state has put into the object.
        restore = getattr(kind, "__setstate__", None)
        if restore is not None:
            STATES.get(kind, lambda _: None)(state)
            if isinstance(restore, FunctionType) and type(state) is dict:
                state = set_attributes(made, state, trusted)
            restore(made, state)
            return
        attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
        if not isinstance(attributes, dict | None) or not isinstance(slots, dict | None):
            raise SnapshotError(f"snapshot: the state of a {kind.__qualname__} has no names")
        if attributes:
            self._carriers.pop(id(attributes), None)
            made.__dict__.update(set_attributes(made, attributes, trusted))
        if slots:
            self._carriers.pop(id(slots), None)
            for name, value in set_attributes(made, slots, trusted).items():
                if not isinstance(getattr(kind, name, None), MemberDescriptorType):
                    raise SnapshotError(f"snapshot: {name!r} is no slot of a {kind.__qualname__}")
                setattr(made, name, value)

    def _carry(self) -> None:
        """Remember a tuple or mapping with something callable in it until it is the arguments of a call, or a state."""
        made = self.stack[-1]
        if any(isinstance(value, Named) or id(value) in self._carriers for value in made):
            self._carriers[id(made)] = made

    def _bytearray(self) -> None:
        size = int.from_bytes(self.read(8), "little")
        # Read first: as much memory as there are bytes, whatever the size says.
        self.append(bytearray(self.read(size)))

    def _append(self, values: Iterable[Any]) -> None:
        grown = self.stack[-1]
        if not isinstance(grown, list | collections.deque):
            raise SnapshotError(f"snapshot: it appends to a {type(grown).__name__}")
        values = list(values)
        self._check_data(values)
        grown.extend(values)

    def _set(self, values: list[Any]) -> None:
        mapping = self.stack[-1]
        if not isinstance(mapping, dict | VectorDict):
            raise SnapshotError(f"snapshot: it sets an item of a {type(mapping).__name__}")
        keys = values[::2]
        _check_keys(keys)
        self._check_data(keys)
        if type(mapping) is not dict:
            self._check_data(values)
        elif any(isinstance(value, Named) for value in values[1::2]):
            self._carriers[id(mapping)] = mapping
        for key, value in zip(keys, values[1::2], strict=True):
            mapping[key] = value

    def _add(self) -> None:
        values = self.pop_mark()
        grown = self.stack[-1]
        if not isinstance(grown, set):
            raise SnapshotError(f"snapshot: it adds to a {type(grown).__name__}")
        _check_keys(values)
        self._check_data(values)
        grown.update(values)

    def _freeze(self) -> None:
        values = self.pop_mark()
        _check_keys(values)
        self._check_data(values)
        self.append(frozenset(values))

    def _check_data(self, values: list[Any]) -> None:
        for value in values:
            if isinstance(value, Named):
                raise SnapshotError(f"snapshot: it holds {value!r} as data")

    def _tuple(self, size: int | None) -> None:
        _TUPLES[size](self)
        self._carry()

    dispatch |= {
        pickle.FRAME[0]: lambda self: self.read(8),
        pickle.REDUCE[0]: _reduce,
        pickle.NEWOBJ[0]: _new,
        pickle.BUILD[0]: _build,
        pickle.BYTEARRAY8[0]: _bytearray,
        pickle.APPEND[0]: lambda self: self._append([self.stack.pop()]),
        pickle.APPENDS[0]: lambda self: self._append(self.pop_mark()),
        pickle.SETITEM[0]: lambda self: self._set([self.stack.pop(-2), self.stack.pop()]),
        pickle.SETITEMS[0]: lambda self: self._set(self.pop_mark()),
        pickle.ADDITEMS[0]: _add,
        pickle.FROZENSET[0]: _freeze,
        pickle.TUPLE[0]: lambda self: self._tuple(None),
        pickle.TUPLE1[0]: lambda self: self._tuple(1),
        pickle.TUPLE2[0]: lambda self: self._tuple(2),
        pickle.TUPLE3[0]: lambda self: self._tuple(3),
    }


_TUPLES: dict[int | None, Any] = {
    None: _InPython.dispatch[pickle.TUPLE[0]],
    1: _InPython.dispatch[pickle.TUPLE1[0]],
    2: _InPython.dispatch[pickle.TUPLE2[0]],
    3: _InPython.dispatch[pickle.TUPLE3[0]],
}
_NOT_OURS = type | FunctionType | BuiltinFunctionType | MethodType | functools.partial | np.ufunc  # type: ignore[type-arg]
"""What has no state of a partition: to set one would change the program."""


def _check_keys(keys: Iterable[Any]) -> None:
    """Keys must be hashed in proportion to their size."""
    for key in keys:
        if type(key) is tuple:
            parts = [key]
            for part in parts:
                if type(part) is tuple:
                    parts.extend(part)
                if len(parts) > MAX_KEY:
                    raise SnapshotError(f"snapshot: a key has more than {MAX_KEY} parts")


_ALIGNED = 0x80
"""numpy's flag of a structure that is laid out as C would."""


def _build_dtype(made: np.dtype[Any], state: Any) -> None:
    """numpy takes every word of a dtype's state on trust, pointers among them: only what numpy says of itself is taken."""
    order, subdtype, names, fields, size = state[1:6]
    if names is None and subdtype is None and fields is None:
        known = made.newbyteorder(order).__reduce__()[2]
    elif subdtype is None:
        formats, offsets = zip(*(fields[name][:2] for name in names), strict=True)
        description: Any = {
            "names": list(names),
            "formats": list(formats),
            "offsets": list(offsets),
            "itemsize": size,
        }
        known = np.dtype(description, align=bool(state[7] & _ALIGNED)).__reduce__()[2]
    else:
        raise SnapshotError("snapshot: a dtype of arrays")
    if any(dtype.hasobject for dtype, *_ in (fields or {}).values()) or tuple(state) != known:
        raise SnapshotError("snapshot: the state of a dtype that numpy does not know")
    made.__setstate__(state)  # type: ignore[attr-defined]


@contextmanager
def _deep() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection: thousands of objects come into being, of which none is garbage, and each pass visits the whole heap."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
