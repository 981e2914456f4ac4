"""Arrays of learners and trained models between pages that nobody may touch: an access beyond one ends the process, and faulthandler says where."""

import ctypes
import mmap
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explain_core.learners.arrays import Arrays

Side = Literal["after", "before"]
PAGE = mmap.PAGESIZE
_FORBIDDEN = 0
_protect = ctypes.CDLL(None, use_errno=True).mprotect


def fence(side: Side) -> None:
    """Let the arrays that are made from now on end where such a page begins, or begin where one ends."""
    put = Arrays.__setitem__

    def put_fenced(arrays: Arrays, name: str, array: NDArray[Any]) -> None:
        # The state of estimators is theirs, and the table of a member of a mixture is the member's.
        own = name.isdigit() or "state" in arrays._slots
        put(arrays, name, array if own or not array.size else fenced(np.ascontiguousarray(array), side))

    Arrays.__setitem__ = put_fenced  # type: ignore[method-assign]


def fenced(array: NDArray[Any], side: Side) -> NDArray[Any]:
    """A copy of the array between two such pages."""
    pages = -(-array.nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (start, start + (pages + 1) * PAGE):
        if _protect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), _FORBIDDEN):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = PAGE if side == "before" else (pages + 1) * PAGE - array.nbytes
    found = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    found[:] = array
    return found
