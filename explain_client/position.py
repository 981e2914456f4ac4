"""Where a reader is: what to give as ``start`` to go on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from explain_client.chain import Link
from explain_client.errors import ClientError


@dataclass(frozen=True, slots=True)
class Place:
    """The next offset of a partition of the explanations topic, and the chains seen up to it, by what they belong to."""

    offset: int
    chains: Mapping[str, Link] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"offset": self.offset, "chains": {name: list(link) for name, link in self.chains.items()}}

    @classmethod
    def from_dict(cls, data: Any) -> Place:
        return cls(int(data["offset"]), {name: Link(*link) for name, link in data["chains"].items()})


@dataclass(frozen=True, slots=True)
class Position:
    """The place of each partition; a partition without one is read from its beginning."""

    places: Mapping[int, Place]

    def to_json(self) -> str:
        """For a file or a database: ``Position.from_json`` reads it."""
        return orjson.dumps({str(number): place.to_dict() for number, place in self.places.items()}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Position:
        """Raises ``ClientError`` for what is no position."""
        try:
            return cls({int(number): Place.from_dict(place) for number, place in orjson.loads(text).items()})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ClientError(
                f"not a position: {text[:60]!r}; give what Position.to_json() returned"
            ) from None
