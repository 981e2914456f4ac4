"""The section of the records: what their values are written in, and which of their fields mean what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from explain_sidecar.settings.base import MESSAGES, Part, Section, twice
from explain_sidecar.settings.sources import Problem

Format = Literal["json", "avro", "protobuf", "json_schema"]
PLAIN: tuple[Format, ...] = ("json",)
"""The formats that need no schema."""

Framing = Literal["registry", "none"]


HEADER, SCHEMA = "header:", "schema:"
"""What begins a name that is no field path, in `record.where` and `record.model_version`."""


class FormatSettings(Section):
    """What the values of a topic are written in."""

    format: Format = "json"
    """What values are written in; json_schema is JSON that is validated by a schema, and avro and protobuf need one."""
    framing: Framing | None = None
    """registry: a schema's id comes with each value, in the header __value_schema_id or before the value; none: the bare value. By default none for json, and registry for the others."""
    schema_file: Path | None = None
    """Schema of bare values: .avsc, .proto, a FileDescriptorSet or a JSON Schema. Where ids come with the values: the schema that they are read as, whatever they were written with."""
    message: str | None = Field(None, min_length=1)
    """protobuf without framing: full name of the message; by default the only one at the top of the file."""

    @property
    def framed(self) -> bool:
        """Whether the id of a schema comes with each value."""
        return (self.framing or ("none" if self.format in PLAIN else "registry")) == "registry"

    @property
    def needs_registry(self) -> bool:
        """Whether the schemas of the values are a registry's."""
        by_file = self.format == "json_schema" and self.schema_file is not None
        return self.framed and self.format not in PLAIN and not by_file

    def problems(self) -> Iterator[Problem]:
        if self.schema_file is not None and self.format in PLAIN:
            yield "schema_file", "has no meaning where format is json; take it out, or set json_schema"
        if self.schema_file is None and self.format not in PLAIN and not self.framed:
            yield "schema_file", f"is missing: bare values in {self.format} are read by a schema of yours"
        if self.message is not None and (self.format != "protobuf" or self.framed):
            yield "message", "is for protobuf without framing: a frame names the message; take it out"


Where = Mapping[str, Sequence[str | bool | int | float]]


def where_problems(where: Where) -> Iterator[Problem]:
    """What is wrong with conditions on records."""
    for name, values in where.items():
        if not values:
            yield ("where", name), "has no values; name at least one, or take it out"
        if name in ("", HEADER) or (name.startswith(SCHEMA) and name != f"{SCHEMA}name"):
            yield (
                ("where", name),
                "names nothing; it is a field path, header: and a name, or schema:name",
            )


class RecordSettings(FormatSettings):
    """What a record looks like: an object; fields are named by paths such as `customer.age`."""

    part = MESSAGES

    features: Annotated[list[str] | None, Part("features")] = Field(None, min_length=1)
    """Field paths of the features; by default every top-level field that has no other role."""
    where: Annotated[dict[str, list[str | bool | int | float]], Part("records")] = Field(default_factory=dict)
    """Only records with one of these values, by field path; by header as `header:NAME`, and by the type's full name in its schema as `schema:name`. All others are skipped and counted. Paths begin at the value, outside of `record.root`."""
    root: str | None = Field(None, min_length=1)
    """Path to the object that has the fields: payload.after of Debezium, data of CloudEvents."""
    deletes: Literal["skip", "dead_letter"] = "skip"
    """What to do with a record without a value (a tombstone), or with null at `record.root` (a delete of Debezium)."""
    label: Annotated[str, Part("labels")] = Field("label", min_length=1)
    """Field path of the label."""
    timestamp: Annotated[str | None, Part("time")] = None
    """Field path of the event time (ms since 1970 or ISO 8601); by default Kafka's timestamp."""
    weight: str | None = None
    """Field path of the sample weight for learning, a number above 0."""
    id: str | None = None
    """Field path of the record's id, repeated in the messages."""
    model_version: Annotated[str | None, Part("versions")] = Field(None, min_length=1)
    """Field path of the version of the model that served the event, or `header:NAME`; models says where the versions are."""
    prediction: Annotated[str | None, Part("served")] = Field(None, min_length=1)
    """Field path of the prediction that was served: a mapping from class to probability, with two classes also the probability of the second one of the model's (of 1, or true), in a regression a number."""
    prediction_tolerance: Annotated[float, Part("served")] = Field(0.001, ge=0)
    """A served prediction that differs by more from that of a model that does not learn counts as skewed: of probabilities as it is, of numbers relative to the larger."""
    max_bytes: int = Field(1_000_000, ge=1)
    """Largest value, bytes."""
    max_features: int = Field(1_000, ge=1)
    """Most features, in a record and in all."""
    max_string: int = Field(1_000, ge=1)
    """Longest string, feature name or label, characters."""
    renamed: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict
    )
    """Fields that have another name at their source now: by the name before, as the model, the other settings and the messages go on to have it, the field path of now. Records that still have the name before are read too."""
    missing: tuple[str, ...] = ()
    """Texts that stand for a missing value of a feature, such as ? and NA: it is left out, as null is."""
    unlabelled: Literal["reject", "predict"] = "reject"
    """What to do with a record whose label is null or absent: reject it as one that cannot be used, or predict it. The model does not learn from it; the reservoirs may keep its features."""
    masked: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Field paths whose values dead letters have as ***, also within lists. Paths begin at the value, outside of `record.root`. A value that is no JSON object or list is left out. Key and headers stay."""
    on_bad: Literal["dead_letter", "skip", "fail"] = "dead_letter"
    """What to do with a record that cannot be used."""

    def problems(self) -> Iterator[Problem]:
        features, moved = self.features or [], list(self.renamed.values())
        yield from super().problems()
        yield from twice("features", features)
        yield from where_problems(self.where)
        for old, new in self.renamed.items():
            if moved.count(new) > 1 or old == new:
                yield ("renamed", old), f"{new!r} is also the new name of another field; name it once"
            if new in features:
                yield (
                    ("renamed", old),
                    f"{new!r} is among record.features; take it out there, the feature goes on as {old!r}",
                )
        for role, field in (("label", self.label), ("prediction", self.prediction)):
            if field in features:
                yield role, f"{field!r} is also among record.features; take it out there"
        if self.model_version == HEADER:
            yield "model_version", "names nothing; it is a field path, or header: and a name"
