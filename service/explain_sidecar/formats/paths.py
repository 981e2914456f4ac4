"""Field paths such as customer.age."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ABSENT: Any = object()
"""Returned by ``find`` where there is nothing."""


def path_of(name: str | None) -> Any:
    return None if name is None else tuple(name.split("."))


def roots(path: Sequence[str]) -> tuple[str, str]:
    """The names of the fields in which ``find`` may find a path: its first part, and all of it, dots included."""
    return path[0], ".".join(path)


def find(data: dict[str, Any], path: Sequence[str]) -> Any:
    """The value at a field path; a field whose own name has the dots in it is found first."""
    if len(path) == 1:
        return data.get(path[0], ABSENT)
    whole = data.get(".".join(path), ABSENT)
    if whole is not ABSENT:
        return whole
    value: Any = data
    for part in path:
        if type(value) is not dict:
            return ABSENT
        value = value.get(part, ABSENT)
    return value
