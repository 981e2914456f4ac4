"""A Schema Registry for one format of ``tests.evolving``, that can be taken away and brought back."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from google.protobuf import descriptor_pb2

from service.broker.embedded import free_port
from service.formats.schemas import StoredSchema
from service.settings import Format
from tests.evolving import KNOWN


class SchemaServer:
    """Answers at ``url`` while it is started, as Confluent's registry does for an id."""

    def __init__(self) -> None:
        self.format: Format = "json"
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        if self._server is None:
            self._server = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler())
            threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        known = KNOWN.get(self.format, {})

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                schema = known.get(urlsplit(self.path).path.removeprefix("/schemas/ids/"))
                found: dict[str, Any] = (
                    {"error_code": 40403, "message": "Schema not found"}
                    if schema is None
                    else {"schema": _text(schema), "schemaType": schema.kind}
                )
                body = json.dumps(found).encode()
                self.send_response(404 if schema is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def _text(schema: StoredSchema) -> str:
    if schema.kind == "PROTOBUF":
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(schema.source).file
        return base64.b64encode(file.SerializeToString()).decode()
    source = json.loads(schema.source)
    return json.dumps(source[-1] if schema.kind == "AVRO" else source[""])
