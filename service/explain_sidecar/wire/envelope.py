"""What a message gets on its way out beside what the fold says: headers of CloudEvents, the framing of a schema registry.

All of it is a function of the message, the settings and the records topic, so that a message that is made again has the same
bytes. Dead letters are records as they came: they get none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from explain_sidecar.fold.messages import Identity, Output
from explain_sidecar.formats.errors import Headers
from explain_sidecar.settings import Settings
from explain_sidecar.wire.registry import json_reader, registry_of

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_CONTENT_TYPES = {"json": "application/json", "avro": "application/avro"}


def schema_id(schema: str) -> str:
    """The absolute name of a schema, from the ``schema`` that its messages carry, such as ``alarm/1``."""
    return f"urn:explanation-sidecar:schema:{schema.replace('/', ':')}"


class Envelope:
    """Makes the messages of a records topic, by its id, ready to send.

    Asks the schema registry, where one is set, for the ids of the schemas, once. Raises ``UserError`` where that fails.
    ``read`` gives the JSON of what was wrapped.
    """

    def __init__(self, settings: Settings, topic_id: str) -> None:
        self._app_id = settings.app_id
        # The client's Base64 has slashes; Kafka's own tools print the URL-safe alphabet.
        self._topic_id = topic_id.replace("+", "-").replace("/", "_")
        self._cloudevents = settings.cloudevents
        self._registry = registry_of(settings)
        self.read: Callable[[bytes], bytes] = json_reader(self._registry)
        self._content_type = _CONTENT_TYPES[settings.registry.format if self._registry else "json"]
        if self._registry is not None:
            self._registry.resolve()

    def wrap(self, partition: int, output: Output) -> Output:
        """The message as it goes to Kafka."""
        event = output.event
        if event is None or output.value is None:
            return output
        if self._registry is not None:
            output = output._replace(value=self._registry.encode(output.destination, output.value))
        if self._cloudevents.enabled:
            output = output._replace(headers=(*output.headers, *self._attributes(partition, output, event)))
        return output

    def _attributes(self, partition: int, output: Output, event: Identity) -> Headers:
        """CloudEvents 1.0, Kafka protocol binding 1.0.2, binary content mode."""
        identity = (self._app_id, self._topic_id, partition, output.destination, event.epoch, event.seq)
        time = _rfc_3339(event.timestamp)
        attributes = {
            "ce_specversion": "1.0",
            "ce_id": "/".join(map(str, identity)),
            "ce_source": f"urn:explanation-sidecar:{self._app_id}",
            "ce_type": f"{self._cloudevents.type_prefix}.{event.schema.replace('/', '.v')}",
            "ce_dataschema": schema_id(event.schema),
            # Optional, and the one attribute that an input may have no value for.
            **({} if time is None else {"ce_time": time}),
            "ce_subject": (output.key or b"").decode(),
            "content-type": self._content_type,
        }
        return tuple((name, value.encode()) for name, value in attributes.items())


def _rfc_3339(milliseconds: int) -> str | None:
    """UTC, to the millisecond; None for times outside the years 1 to 9999."""
    try:
        moment = _1970 + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
