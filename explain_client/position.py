"""Where a reader is: what to give as ``start`` to go on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from explain_client.chain import Link
from explain_client.errors import ClientError


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The next offset of a partition of the explanations topic, and the chains seen up to it, by what they belong to."""

    offset: int
    chains: Mapping[str, Link] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"offset": self.offset, "chains": {name: list(link) for name, link in self.chains.items()}}

    @classmethod
    def from_dict(cls, data: Any) -> PartitionPosition:
        return cls(int(data["offset"]), {name: Link(*link) for name, link in data["chains"].items()})


@dataclass(frozen=True, slots=True)
class Position:
    """The position in each partition; a partition without one is read from its beginning."""

    partitions: Mapping[int, PartitionPosition]

    def to_json(self) -> str:
        """For a file or a database: ``Position.from_json`` reads it."""
        return orjson.dumps(
            {str(number): partition.to_dict() for number, partition in self.partitions.items()}
        ).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Position:
        """Raises ``ClientError`` for what is no position."""
        try:
            partitions = orjson.loads(text).items()
            return cls({int(number): PartitionPosition.from_dict(data) for number, data in partitions})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ClientError(
                f"not a position: {text!r:.60}; give what Position.to_json() returned"
            ) from None
