"""Estimators of feature importance."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explain_core.importance.base import IncrementalEstimator

ESTIMATORS = {
    "ipfi": "explain_core.importance.ipfi:IncrementalPFI",
    "isage": "explain_core.importance.isage:IncrementalSAGE",
}
"""The incremental estimators by name: module and class."""


def estimator(kind: str) -> type[IncrementalEstimator]:
    """The incremental estimator of that name, or the class that ``module:Class`` names.

    Raises ``ValueError`` where there is none, and where it is no ``IncrementalEstimator``. What its module raises goes through.

    >>> estimator("ipfi").__name__
    'IncrementalPFI'
    """
    from explain_core.importance.base import IncrementalEstimator

    path = ESTIMATORS.get(kind, kind)
    if ":" not in path:
        raise ValueError(f"{kind!r} is not one of {', '.join(ESTIMATORS)}, nor a class as module:Class")
    try:
        found = resolve_name(path)
    except AttributeError:
        found = None
    if not (isinstance(found, type) and issubclass(found, IncrementalEstimator)):
        raise ValueError(f"{kind!r} names no class that extends explain_core's IncrementalEstimator")
    return found
