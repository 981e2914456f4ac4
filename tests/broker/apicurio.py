"""Apicurio Registry, a Schema Registry with Confluent's API, from Maven packages."""

import hashlib
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from explain_sidecar.broker.embedded import free_port
from explain_sidecar.broker.jars import resolver
from explain_sidecar.caches import cache_folder, filled
from tests.broker.java import JavaServer

VERSION = "3.3.3"
SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"


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


class Apicurio(JavaServer):
    """A registry in memory. ``url`` is that of Confluent's API, version 7."""

    name = "Apicurio"
    heap = "384m"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def command(self) -> tuple[list[str], dict[str, str]]:
        return ["-jar", str(folder() / "quarkus-run.jar")], {
            "QUARKUS_HTTP_PORT": str(self.port),
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_MANAGEMENT_PORT": str(free_port()),
            "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
        }

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
