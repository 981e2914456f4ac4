"""The headers of a dead letter."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from explain_client.fields import DIGEST, described


@dataclass(frozen=True, slots=True)
class DeadLetterHeaders:
    """Headers added to a record that could not be folded, in UTF-8; its key and own headers are unchanged, and its value but for masked fields.

    Class bad_header: headers whose names are not UTF-8 are left out. Class not_kept: key, value and own headers are.
    """

    schema: Literal["dead-letter/1"] = described(
        "Name and version of this schema.", "dead-letter/1", alias="__explain.schema"
    )
    app_id: str = described("The sidecar's app_id.", "explanation-sidecar", alias="__explain.app_id")
    error_class: str = described(
        "Kind of error, from a fixed set.", "not_json", alias="__explain.errors.class", pattern="^[a-z_]+$"
    )
    error_message: str = described(
        "What is wrong, for people.",
        "the value is not JSON: unexpected end of data",
        alias="__explain.errors.message",
    )
    topic: str = described("Records topic.", "records", alias="__explain.errors.topic")
    partition: str = described(
        "Its partition, decimal.", "0", alias="__explain.errors.partition", pattern="^[0-9]+$"
    )
    offset: str = described(
        "The record's offset, decimal.", "17", alias="__explain.errors.offset", pattern="^[0-9]+$"
    )
    timestamp: str = described(
        "The record's Kafka timestamp, decimal.",
        "1387576800000",
        alias="__explain.errors.timestamp",
        unit="milliseconds",
    )
    epoch: str = described(
        "Epoch of the partition, decimal.", "0", alias="__explain.epoch", pattern="^[0-9]+$"
    )
    seq: str = described(
        "Number of this dead letter in its partition and epoch, decimal.",
        "3",
        alias="__explain.seq",
        pattern="^[0-9]+$",
    )
    masked: Literal["fields", "value"] | None = described(
        "What the value lacks where `record.masked` is set: `fields`, which are `***`, or all of the `value`, which is no JSON object. Absent where it lacks nothing.",
        "fields",
        alias="__explain.masked",
        absent=None,
    )
    digest: str = described(
        "Rolling hash over the partition's dead letters.",
        "353e5fe3e0f90657de874ddbf2d630b3",
        alias="__explain.digest",
        pattern=DIGEST,
    )

    def to_dict(self) -> dict[str, str]:
        """Header names and values, in the order of the headers."""
        found = {entry.metadata["alias"]: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in found.items() if value is not None}
