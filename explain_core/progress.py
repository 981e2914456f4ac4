"""A progress bar for long runs, on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], description: str, total: int | None, show: bool) -> Iterator[T]:
    """The items, with a bar of ``total`` steps (None: not known) where it is to show."""
    if not show:
        yield from items
        return
    from rich.console import Console
    from rich.progress import track as rich_track

    yield from rich_track(items, description, total=total, console=Console(stderr=True))
