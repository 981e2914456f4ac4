"""A Schema Registry for one format of ``tests.evolving``, that can be taken away and brought back."""

import base64
import json
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from google.protobuf import descriptor_pb2

from explain_sidecar.broker.embedded import free_port
from explain_sidecar.formats.schemas import StoredSchema
from explain_sidecar.settings.records import Format
from tests.evolving import KNOWN
from tests.loopback import serving


class SchemaServer:
    """Answers at ``url`` while it is started, as Confluent's registry does for an id."""

    def __init__(self) -> None:
        self.format: Format = "json"
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._server: ExitStack | None = None

    def start(self) -> None:
        if self._server is None:
            self._server = ExitStack()
            self._server.enter_context(serving(self._answer, self._port))

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        schema = KNOWN.get(self.format, {}).get(urlsplit(path).path.removeprefix("/schemas/ids/"))
        if schema is None:
            return 404, b'{"error_code": 40403, "message": "Schema not found"}'
        found: dict[str, Any] = {"schema": _text(schema), "schemaType": schema.kind}
        return 200, json.dumps(found).encode()


def _text(schema: StoredSchema) -> str:
    if schema.kind == "PROTOBUF":
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(schema.source).file
        return base64.b64encode(file.SerializeToString()).decode()
    source = json.loads(schema.source)
    return json.dumps(source[-1] if schema.kind == "AVRO" else source[""])
