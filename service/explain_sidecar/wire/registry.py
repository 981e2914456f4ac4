"""A Schema Registry: the framing of messages by confluent-kafka's own serialisers, and ``explain-sidecar schemas register``.

The framing is put around a message that is complete: its digest covers the JSON. Avro holds the same JSON, to the byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from explain_client.fields import schema_of, unframed
from explain_client.messages import OUTPUTS
from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.settings import Settings
from explain_sidecar.wire.avro import teach_fastavro

SCHEMAS = {output: schema_of(kind).partition("/")[0] for output, kind in OUTPUTS.items()}
"""Which schema the messages of a topic have, by the topic's setting."""


class Registry:
    """The registry at ``registry.url``. Nothing is sent to it before ``resolve``, ``register`` or ``decode``.

    Raises ``UserError`` where its extra is not installed or ``registry.config`` is wrong.
    """

    def __init__(self, settings: Settings) -> None:
        config = settings.registry
        if config.format == "none":
            raise SettingsError(
                "registry.format is none: the sidecar's messages have no schemas there; set json or avro"
            )
        self._registry = RegistryClient(config)
        self._client, self._ask = self._registry.client, self._registry.ask
        from confluent_kafka import schema_registry
        from confluent_kafka.schema_registry.avro import AvroDeserializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        from explain_sidecar.wire.schemas import avro_schemas, schemas

        teach_fastavro()
        self._settings = config
        self._conf = {"subject.name.strategy": schema_registry.topic_subject_name_strategy}
        texts = avro_schemas() if config.format == "avro" else schemas()
        suffix = "avsc" if config.format == "avro" else "schema.json"
        topics = {name: getattr(settings.topics, name) for name in SCHEMAS if name in settings.outputs}
        self._contexts = {
            name: SerializationContext(topic, MessageField.VALUE) for name, topic in topics.items()
        }
        self._schemas = {
            name: schema_registry.Schema(
                texts[f"{SCHEMAS[name]}.{suffix}"], schema_type=config.format.upper()
            )
            for name in topics
        }
        self._subjects = {f"{topics[name]}-value": schema for name, schema in self._schemas.items()}
        self._deserializer = AvroDeserializer(self._client, conf=self._conf)
        self._serializers: dict[str, Any] = {}

    def resolve(self) -> None:
        """Ask for the ids of the schemas, and register them where ``registry.auto_register`` is set; makes ``encode`` ready.

        The client keeps them: ``encode`` asks nothing. Raises ``UserError`` where there is no answer or no such schema.
        """
        self._find(self._settings.auto_register)
        self._serializers = {name: self._serializer(schema) for name, schema in self._schemas.items()}

    def _serializer(self, schema: Any) -> Any:
        conf: dict[str, Any] = {"auto.register.schemas": False, **self._conf}
        if self._settings.format == "avro":
            from confluent_kafka.schema_registry.avro import AvroSerializer

            return AvroSerializer(self._client, schema, to_dict=_to_dict, conf=conf)
        from confluent_kafka.schema_registry.json_schema import JSONSerializer

        # Our own messages by our own schema: the tests compare them, and not each message anew.
        conf["validate"] = False
        return JSONSerializer(schema, self._client, to_dict=_to_dict, conf=conf, json_encode=_json)

    def register(self) -> list[dict[str, Any]]:
        """Register the schemas; those that are there already stay as they are. Returns subject, id and version of each."""
        return [
            {
                "subject": subject,
                "format": self._settings.format,
                "schema_id": found.schema_id,
                "version": found.version,
            }
            for subject, found in self._find(register=True).items()
        ]

    def _find(self, register: bool) -> dict[str, Any]:
        """What the registry has of each subject's schema, after registering it where that is wished."""
        found = {}
        for subject, schema in self._subjects.items():
            if register:
                self._ask(subject, self._client.register_schema, subject, schema)
            found[subject] = self._ask(subject, self._client.lookup_schema, subject, schema)
        return found

    def encode(self, destination: str, message: bytes) -> bytes:
        """A message's JSON in the format of the registry: a zero, four bytes with the schema's id, JSON or Avro."""
        framed: bytes = self._serializers[destination](message, self._contexts[destination])
        return framed

    def decode(self, framed: bytes) -> bytes:
        """The JSON of a message in Avro, by the schema that it was written with."""
        context = self._contexts["explanations"]
        return _json(self._ask("", self._deserializer, framed, context))


def registry_of(settings: Settings) -> Registry | None:
    """The registry, where ``registry.url`` is set and the messages are to be framed."""
    return Registry(settings) if settings.registry.url and settings.registry.format != "none" else None


def json_reader(registry: Registry | None) -> Callable[[bytes], bytes]:
    """What gives the JSON of any message of ours, framed or not. It raises ``UserError`` for Avro without a registry."""

    def read(value: bytes) -> bytes:
        payload = unframed(value)
        if payload is value or payload[:1] == b"{":
            return payload
        if registry is None:
            raise UserError(
                "a message is in Avro, and registry.url is not set; name the Schema Registry that it was written with"
            )
        return registry.decode(value)

    return read


def _to_dict(message: bytes, context: Any) -> dict[str, Any]:
    data: dict[str, Any] = orjson.loads(message)
    return data


def _json(data: Any) -> bytes:
    return orjson.dumps(data, option=orjson.OPT_UTC_Z)
