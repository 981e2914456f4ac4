"""The sections on what surrounds a message: CloudEvents and a Schema Registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from explain_sidecar.settings.base import Address, Section
from explain_sidecar.settings.sources import Problem


class CloudEventsSettings(Section):
    """Explanations and drift messages as CloudEvents 1.0: headers of the Kafka binding's binary mode."""

    enabled: bool = False
    """Add the headers ce_id, ce_source, ce_type, ce_time, …."""
    type_prefix: str = Field("org.explanation-sidecar", pattern=r"^[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+$")
    """What ce_type begins with: your organisation's domain backwards, such as com.example.ml."""


class RegistrySettings(Section):
    """A Schema Registry for explanations and drift messages: their values are framed for it."""

    url: Address | None = None
    """Address of the registry, http://host:8081 (Confluent) or http://host:8080/apis/ccompat/v7 (Apicurio); by default messages are plain JSON."""
    format: Literal["json", "avro", "none"] = "json"
    """JSON by a JSON Schema, or Avro; none: the messages are plain JSON, and the registry serves to read records alone."""
    auto_register: bool = False
    """Register the schemas at the start; by default use `explain-sidecar schemas register`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Any other property of confluent-kafka's SchemaRegistryClient: basic.auth.user.info, ssl.ca.location, …."""

    def problems(self) -> Iterator[Problem]:
        if "url" in self.config:
            yield ("config", "url"), "belongs to the sidecar: set registry.url; take it out"
