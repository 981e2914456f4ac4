"""Field paths such as customer.age, and the levels of what is nested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def levels(value: Any) -> Iterator[list[Any]]:
    """The values of JSON on each level of it, the outermost first."""
    level = [value]
    while level:
        yield level
        parts = (
            part.values() if isinstance(part, dict) else part
            for part in level
            if isinstance(part, dict | list)
        )
        level = [inner for part in parts for inner in part]
