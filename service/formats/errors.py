"""Why a record cannot be read."""

from __future__ import annotations

Headers = tuple[tuple[str, bytes | None], ...]

MAX_MESSAGE = 1_000
"""Characters of what is said of a bad record: its dead letter must not become too large for the topic."""


class BadRecord(Exception):
    """A record that cannot be folded. ``error_class`` is one of a fixed set of names, for counting."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…")
        self.error_class = error_class


class SchemaProblem(ValueError):
    """A schema that cannot be used; the text says why."""
