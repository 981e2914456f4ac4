"""The name under which a field is known, so that a feature survives a renaming."""

from __future__ import annotations

from collections.abc import Sequence


class Names:
    """A field keeps the name under which a stream has had it first.

    Each field comes with what it can be recognised by: its Avro name and aliases, or its Protobuf number.

    >>> names = Names()
    >>> names.of(["Flight"], [("delay", ["delay"]), ("distance", ["distance"])])
    ['delay', 'distance']
    >>> names.of(["Flight"], [("departure_delay", ["departure_delay", "delay"]), ("carrier", ["carrier"])])
    ['delay', 'carrier']
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}

    def of(self, record: Sequence[str], fields: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """The names to use for the fields of a record type, given its own name and aliases; each field is (name, marks)."""
        known = next((self._known[name] for name in record if name in self._known), {})
        for name in record:
            self._known.setdefault(name, known)
        own = {name for name, _ in fields}
        used: list[str] = []
        for name, marks in fields:
            before = next((known[mark] for mark in marks if mark in known), name)
            # A name that was given to another field now means that field.
            chosen = name if before != name and (before in own or before in used) else before
            used.append(chosen)
            for mark in marks:
                known.setdefault(mark, chosen)
        return used
