"""The schemas that the records of a partition were written with, by the id in their framing; a part of its state.

Recovery and replay need no registry: a schema is stored by the transaction that first commits a record that uses it. So a record
whose schema is not in a restored state was refused the first time too, and is again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

import msgspec

from explain_core.state import State, check

MAX_SCHEMAS = 1_000
"""Most schemas of a partition; bounds the state where records name ever new ones."""

MAX_SOURCE_BYTES = 16 * 2**20
"""Largest schema, with all that it refers to."""

FULL_BYTES = 64 * 2**20
"""A partition whose schemas have so many bytes takes in no further one: they are a quarter of what its state may have."""

Kind = Literal["AVRO", "JSON", "PROTOBUF"]
"""What registries call the types of schemas; a registry may have others."""


class StoredSchema(State, frozen=True):
    """A schema as the registry has it, together with all that it refers to.

    ``source`` depends on the kind. Avro: a JSON array of schemas, that of the records last. JSON: an object of JSON Schemas by name, that of the
    records under the empty name. Protobuf: a serialised FileDescriptorSet, dependencies first, whose last file has the messages. It is
    empty if there is a ``problem``, which says why the schema cannot be used.
    """

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=36)]
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    source: bytes
    problem: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


Fetch = Callable[[str], StoredSchema | None]
"""Asks for the schema under an id, outside the fold."""

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class UnknownSchema(Exception):
    """A record was written with a schema that is not here; ``key`` is its id, a number or a GUID."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Schemas:
    """Schemas by key, in the order in which records have first used them.

    ``find`` raises ``UnknownSchema`` once for each record that needs one which is not here: ``learn`` it, or None where the registry has
    no such schema, and read the record again.
    """

    def __init__(self) -> None:
        self._known: dict[str, StoredSchema] = {}
        self._bytes = 0
        self._absent: str | None = None

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, key: str, schema: StoredSchema | None) -> None:
        """Add the registry's schema of a key. None is not remembered beyond the next ``find``."""
        if schema is None:
            self._absent = key
        else:
            self._known[key] = schema
            self._bytes += len(schema.source)

    def supply(self, read: Callable[[Argument], Result], argument: Argument, fetch: Fetch) -> Result:
        """``read(argument)``, with the schema that it needs learnt from ``fetch`` where it is not here."""
        try:
            return read(argument)
        except UnknownSchema as unknown:
            self.learn(unknown.key, fetch(unknown.key))
            return read(argument)

    def find(self, key: str) -> StoredSchema | None:
        """The schema; None where the registry has none, or where the partition has as many as it may."""
        found = self._known.get(key)
        if found is not None:
            return found
        if key == self._absent or len(self._known) >= MAX_SCHEMAS or self._bytes >= FULL_BYTES:
            self._absent = None
            return None
        raise UnknownSchema(key)

    def state(self) -> list[StoredSchema]:
        return list(self._known.values())

    def restore(self, stored: Sequence[StoredSchema]) -> None:
        """Raises ``StateError`` where they are not such as ``state`` returns."""
        self._known = {schema.key: schema for schema in stored}
        self._bytes = sum(len(schema.source) for schema in stored)
        check(len(self._known) == len(stored) <= MAX_SCHEMAS, "schemas: one twice, or too many")
        check(self._bytes < FULL_BYTES + MAX_SOURCE_BYTES, "schemas: too many bytes")
