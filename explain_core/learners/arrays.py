"""State as named arrays that compiled code reaches through one table of addresses.

A kernel that took fifteen arrays would cost three to five times one that takes a single table. The table has an entry
(address, rows, columns) for each array; in a kernel ``f8(table, SLOT)`` is the array as a matrix.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from ctypes import addressof, c_char
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.compiling import AVAILABLE, allocating

Array = NDArray[Any]

WIDTH = 3
"""Numbers of an entry of the table."""


class Arrays:
    """Named arrays of one or two dimensions; an array's slot is its place in the order of the names.

    >>> arrays = Arrays(weights=np.zeros((2, 3)), counts=np.zeros(4, np.int64))
    >>> arrays["counts"] = np.ones(8, np.int64)
    >>> arrays.table.reshape(-1, 3)[:, 1:].tolist()
    [[2, 3], [1, 8]]
    """

    def __init__(self, **arrays: Array) -> None:
        self._arrays: dict[str, Array] = {}
        self._slots = {name: slot for slot, name in enumerate(arrays)}
        self.table: NDArray[np.int64] = np.zeros(WIDTH * len(arrays), np.int64)
        for name, array in arrays.items():
            self[name] = array

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __setitem__(self, name: str, array: Array) -> None:
        """Put an array, of any size, in the place of one; the table says where it is from now on."""
        array = np.ascontiguousarray(array)
        self._arrays[name] = array
        rows, columns = (1, len(array)) if array.ndim == 1 else array.shape
        slot, table = WIDTH * self._slots[name], self.table
        # A third of the time that ``array.ctypes.data`` takes.
        table[slot] = addressof(c_char.from_buffer(array.data)) if array.size else 0
        table[slot + 1], table[slot + 2] = rows, columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def items(self) -> Mapping[str, Array]:
        """The arrays by name, not copied."""
        return dict(self._arrays)

    def __getstate__(self) -> dict[str, Array]:
        return self._arrays

    def __setstate__(self, arrays: dict[str, Array]) -> None:
        self.__init__(**arrays)  # type: ignore[misc]


def grown(array: Array, rows: int) -> Array:
    """A copy with so many rows, the further ones zero."""
    out = np.zeros((rows, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


if AVAILABLE:
    from numba import carray  # type: ignore[import-untyped, attr-defined, unused-ignore]
    from numba.core import types  # type: ignore[import-untyped, unused-ignore]
    from numba.extending import intrinsic  # type: ignore[import-untyped, unused-ignore]

    def _pointer(to: Any) -> Any:
        @intrinsic
        def cast(typing: Any, address: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

            return types.CPointer(to)(types.int64), generate  # type: ignore[no-untyped-call, unused-ignore]

        return cast

    _f8, _i8, _i4 = _pointer(types.float64), _pointer(types.int64), _pointer(types.int32)
    _u8, _u4, _i1 = _pointer(types.uint64), _pointer(types.uint32), _pointer(types.int8)
    _f4 = _pointer(types.float32)

    @allocating
    def f8(table: Any, slot: int) -> Any:
        """The array of doubles in a slot, rows × columns."""
        return carray(_f8(table[3 * slot]), (table[3 * slot + 1], table[3 * slot + 2]))

    @allocating
    def f4(table: Any, slot: int) -> Any:
        """The array of 32-bit floats in a slot, rows × columns."""
        return carray(_f4(table[3 * slot]), (table[3 * slot + 1], table[3 * slot + 2]))

    @allocating
    def i8(table: Any, slot: int) -> Any:
        """The array of int64 in a slot, rows × columns."""
        return carray(_i8(table[3 * slot]), (table[3 * slot + 1], table[3 * slot + 2]))

    @allocating
    def i4(table: Any, slot: int) -> Any:
        """The array of int32 in a slot, rows × columns."""
        return carray(_i4(table[3 * slot]), (table[3 * slot + 1], table[3 * slot + 2]))

    @allocating
    def u8(table: Any, slot: int) -> Any:
        """The array of uint64 in a slot, rows × columns."""
        return carray(_u8(table[3 * slot]), (table[3 * slot + 1], table[3 * slot + 2]))

    @allocating
    def u4(table: Any, slot: int) -> Any:
        """The array of uint32 in a slot, rows × columns."""
        return carray(_u4(table[3 * slot]), (table[3 * slot + 1], table[3 * slot + 2]))

    @allocating
    def i1(table: Any, slot: int) -> Any:
        """The array of int8 in a slot, rows × columns."""
        return carray(_i1(table[3 * slot]), (table[3 * slot + 1], table[3 * slot + 2]))

    @allocating
    def held(array: Any) -> Any:
        """The same array of doubles, rows × columns, without counting references: good while the caller holds it.

        Counting is atomic, and slow for the rows of a matrix. What the caller holds is its own argument, or used after the call.
        """
        return carray(_f8(array.ctypes.data), (array.shape[0], array.shape[1]))

    @allocating
    def held_integers(array: Any) -> Any:
        """``held``, of int64."""
        return carray(_i8(array.ctypes.data), (array.shape[0], array.shape[1]))

else:

    def _viewed(kind: str) -> Any:
        def view(table: Any, slot: int) -> Any:
            address, rows, columns = table[3 * slot : 3 * slot + 3].tolist()
            size = rows * columns * np.dtype(kind).itemsize
            held = (ctypes.c_char * size).from_address(address) if size else b""
            return np.frombuffer(held, kind).reshape(rows, columns)

        return view

    f8, f4, i8, i4, u8, u4, i1 = map(_viewed, ("f8", "f4", "i8", "i4", "u8", "u4", "i1"))

    def held(array: Any) -> Any:
        return array

    held_integers = held
