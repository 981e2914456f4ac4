"""Machine code by numba, where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import numba  # type: ignore[import-untyped, unused-ignore]
except ImportError:  # the extra is not installed
    numba = None  # type: ignore[assignment, unused-ignore]

AVAILABLE = numba is not None


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function as machine code, kept in a cache beside the file; itself without numba."""
    if not AVAILABLE:
        return function
    found: Any
    try:
        found = numba.njit(cache=True, error_model="numpy", **options)(function)
    except RuntimeError:  # there is no directory that numba may write to
        found = numba.njit(error_model="numpy", **options)(function)
    unliteral: Any = numba.types.unliteral
    template = found.get_call_template

    def without_literals(arguments: Any, keywords: Any) -> Any:
        return template([unliteral(kind) for kind in arguments], keywords)

    # Else numba compiles the function anew for each constant that it is called with.
    found.get_call_template = without_literals  # type: ignore[attr-defined, unused-ignore]
    return found  # type: ignore[no-any-return]


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """As ``compiled``, for what only compiled functions call: it compiles in half the time."""
    return compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)
