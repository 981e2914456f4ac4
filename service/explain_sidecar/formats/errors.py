"""What is common to all formats: how a value is read, and why it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]

Read = Callable[[bytes], dict[str, Any]]
"""Makes a dictionary of JSON types of a bare value. Raises ``BadRecord``."""

MAX_MESSAGE = 1_000
"""Longest error message of a bad record, in characters: its dead letter must fit into the topic."""


class BadRecord(Exception):
    """A record that cannot be folded. ``error_class`` is one of a fixed set of names, for counting."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…")
        self.error_class = error_class


class SchemaProblem(ValueError):
    """A schema that cannot be used; the text says why."""
