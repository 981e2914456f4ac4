"""Apache Flink in one process, from Maven packages: statements in SQL, by the REST API of its SQL gateway."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from explain_sidecar.broker.embedded import free_port
from explain_sidecar.broker.jars import download, verified
from explain_sidecar.caches import cache_folder, filled
from tests.broker.java import START_SECONDS, JavaServer

VERSION = "2.3.0"
PINNED = Path(__file__).with_name(f"flink-{VERSION}.sha256")
GATEWAY = "org.apache.flink.table.gateway.SqlGateway"


def jars() -> list[Path]:
    """Flink, its planner and its connector for Kafka, downloaded once per user."""
    coordinates = [line.split()[1] for line in PINNED.read_text().splitlines()]
    what = f"Apache Flink {VERSION}"
    folder = filled(cache_folder() / f"flink-{VERSION}", lambda to: download(coordinates, to, what))
    return verified(folder, PINNED, what)


class Flink(JavaServer):
    """A SQL gateway with a cluster of its own in the same process."""

    name = "Flink"
    heap = "768m"

    def __init__(self) -> None:
        super().__init__()
        self._url = f"http://127.0.0.1:{free_port()}/v1"

    def command(self) -> tuple[list[str], dict[str, str]]:
        (self.data / "config.yaml").write_text(
            "execution: {target: local}\njobmanager: {bind-host: 127.0.0.1}\n"
        )
        options = {"address": "127.0.0.1", "port": self._url.split(":")[2].removesuffix("/v1")}
        arguments = ["-cp", os.pathsep.join(map(str, jars())), GATEWAY]
        arguments += (f"-Dsql-gateway.endpoint.rest.{name}={value}" for name, value in options.items())
        return arguments, {"FLINK_CONF_DIR": str(self.data)}

    def answers(self) -> bool:
        try:
            return bool(self._ask("/info"))
        except OSError:
            return False

    def __enter__(self) -> Self:
        super().__enter__()
        self._session = self._ask("/sessions", {})["sessionHandle"]
        return self

    def run(self, statements: str) -> list[list[Any]]:
        """The rows that the last of some statements gives, which semicolons separate."""
        found: list[list[Any]] = []
        for statement in statements.split(";"):
            if statement.strip():
                found = [row["fields"] for row in self._run(statement.strip())]
        return found

    def _run(self, statement: str) -> Iterator[dict[str, Any]]:
        session = f"/sessions/{self._session}"
        operation = self._ask(f"{session}/statements", {"statement": statement})["operationHandle"]
        path = f"{session}/operations/{operation}/result/0?rowFormat=JSON"
        while path:
            page = self._ask(path)
            if page["resultType"] == "NOT_READY":
                time.sleep(0.2)
            yield from page.get("results", {}).get("data", [])
            path = page.get("nextResultUri", "").removeprefix("/v1")

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data=data, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()[-4_000:]}") from None
