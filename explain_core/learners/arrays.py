"""State as named arrays that compiled code reaches through one table of addresses.

A function of the engine that took fifteen arrays would cost several times one that takes a single table. The table has an entry
(address, rows, columns) for each array.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import addressof, c_char
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def items(self) -> Mapping[str, Array]:
        """The arrays by name, not copied."""
        return dict(self._arrays)

    def __getstate__(self) -> dict[str, Array]:
        return self._arrays

    def __setstate__(self, arrays: dict[str, Array]) -> None:
        self.__init__(**arrays)  # type: ignore[misc]


def grown(array: Array, rows: int) -> Array:
    """A copy with so many rows, the further ones zero."""
    return enlarged(array, (rows, *array.shape[1:]))


def enlarged(array: Array, shape: tuple[int, ...], value: float = 0) -> Array:
    """A copy of that shape, the new cells with the value."""
    out = np.full(shape, value, array.dtype) if value else np.zeros(shape, array.dtype)
    out[tuple(map(slice, array.shape))] = array
    return out
