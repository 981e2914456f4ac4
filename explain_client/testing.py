"""A sidecar for tests: of what reads its explanations, in containers or installed beside; and of a model, without a broker.

Needs the extra ``testing``. ``FoldDriver``, which needs the sidecar, is also in ``explain_client.fold``, and there needs no pytest.

With ``pytest_plugins = ["explain_client.testing"]`` in conftest.py:

    def test_my_consumer(explain_sidecar):
        explain_sidecar.send({"age": i % 50, "label": i % 50 > 30} for i in range(500))
        explanations = explain_sidecar.expect(5)
        assert my_consumer(explain_sidecar.bootstrap_servers, "explanations") == ...
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

try:
    import pytest
except ImportError:
    raise ImportError(
        "explain_client.testing needs pytest: pip install 'explain-client[testing]'; FoldDriver is in explain_client.fold too, and needs none"
    ) from None
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from explain_client.errors import ClientError
from explain_client.fold import DeadLetter as DeadLetter
from explain_client.fold import FoldDriver as FoldDriver
from explain_client.fold import encoded, environment_of
from explain_client.messages import Explanation
from explain_client.stream import Explanations

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

IMAGE = os.environ.get("SIDECAR_IMAGE", "explanation-sidecar")
KAFKA_IMAGE = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.3.0")
START_SECONDS = 120.0
"""A broker or sidecar that has not started after this long has failed."""

CONTAINER_KEYS = Path("/etc/explain-sidecar/snapshot.keys")

NAMES = ("records", "explanations", "drift", "alarms", "rows", "predictions", "checkpoints", "dead_letters")


class Sidecar(ABC):
    """A sidecar that runs, as a context manager. ``settings`` are the sidecar's, such as ``{"emit.every": 10}``.

    ``bootstrap_servers`` is the broker's address for the test, and ``topics`` has the name of each topic by its setting.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, partitions: int = 1) -> None:
        self.settings = dict(settings or {})
        self.partitions = partitions
        self.topics = {
            name: str(self.settings.get(f"topics.{name}", name.replace("_", "-"))) for name in NAMES
        }
        self.bootstrap_servers = ""

    @abstractmethod
    def start(self) -> Self:
        """Start the broker and the sidecar. Raises ``ClientError`` with the log where one does not come up."""

    @abstractmethod
    def stop(self) -> None:
        """Stop everything that was started."""

    @abstractmethod
    def logs(self) -> str:
        """What the sidecar has logged."""

    @abstractmethod
    def failed(self) -> bool:
        """Whether the sidecar ended by itself."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def send(
        self, records: Iterable[Mapping[str, Any]], *, key: str | None = None, partition: int | None = None
    ) -> None:
        """Write labelled records; without key and partition they go round robin. Returns once the broker has them."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        for number, record in enumerate(records):
            where = number % self.partitions if partition is None and key is None else partition
            producer.produce(
                self.topics["records"], encoded(number, record), key, -1 if where is None else where
            )
            producer.poll(0)
        if producer.flush(START_SECONDS):
            raise ClientError(f"{self.bootstrap_servers}: the broker did not take the records")

    def expect(self, count: int, timeout: float = 60) -> list[Explanation]:
        """The first ``count`` explanations. Raises ``TimeoutError`` with the sidecar's log where fewer come in time."""
        deadline = time.monotonic() + timeout
        while True:
            with Explanations(self.bootstrap_servers, self.topics["explanations"], follow=False) as stream:
                found = list(stream)
            if len(found) >= count:
                return found[:count]
            if self.failed() or time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} explanations came; the sidecar:\n{self.logs()}")
            time.sleep(0.2)

    def _environment(self, servers: str, keys: Path) -> dict[str, str]:
        given = {
            "kafka.bootstrap_servers": servers,
            "instance_id": "test",
            "checkpoint.hmac_key_file": keys,
            **self.settings,
        }
        return environment_of(given)

    def _make_records_topic(self) -> None:
        """Wait for the broker, then make the topic that the sidecar reads."""
        admin = self._admin()
        self._until(lambda: _topics(admin) is not None, "the broker")
        topic = NewTopic(self.topics["records"], self.partitions, 1)
        admin.create_topics([topic])[topic.topic].result()

    def _wait_for_the_sidecar(self) -> None:
        admin = self._admin()
        self._until(lambda: self.topics["explanations"] in (_topics(admin) or ()), "the sidecar")

    def _until(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if self.failed() or time.monotonic() > deadline:
                raise ClientError(f"{what} did not start:\n{self.logs()}")
            time.sleep(0.2)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})


def _topics(admin: AdminClient) -> Mapping[str, object] | None:
    try:
        topics: Mapping[str, object] = admin.list_topics(timeout=1).topics
    except KafkaException:
        return None
    return topics


class ExplainSidecarContainer(Sidecar):
    """The sidecar's image beside Apache Kafka's, in a network of their own; the file system of the sidecar is read-only."""

    def __init__(
        self, settings: Mapping[str, Any] | None = None, partitions: int = 1, *, image: str = IMAGE
    ) -> None:
        super().__init__(settings, partitions)
        self.image = image
        self._running = ExitStack()
        self.container: DockerContainer | None = None

    def start(self) -> Self:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.network import Network

        port = _free_port()
        self.bootstrap_servers = f"127.0.0.1:{port}"
        network = self._running.enter_context(Network())
        kafka = DockerContainer(KAFKA_IMAGE).with_network(network).with_network_aliases("kafka")
        # Containers reach the broker as kafka:19092, the test as 127.0.0.1.
        self._running.enter_context(kafka.with_bind_ports(9092, port).with_envs(**_single_node(port)))
        self._make_records_topic()
        sidecar = DockerContainer(self.image).with_network(network)
        sidecar.with_envs(**self._environment("kafka:19092", CONTAINER_KEYS))
        sidecar.with_volume_mapping(str(_new_keys(self._running)), str(CONTAINER_KEYS), "ro")
        sidecar.with_tmpfs_mount("/tmp").with_kwargs(read_only=True)
        self.container = self._running.enter_context(sidecar)
        self._wait_for_the_sidecar()
        return self

    def stop(self) -> None:
        self.container = None
        self._running.close()

    def logs(self) -> str:
        if self.container is None:
            return ""
        return "".join(part.decode(errors="replace") for part in self.container.get_logs())

    def failed(self) -> bool:
        return self.container is not None and self.container.status in ("exited", "dead")


class InstalledSidecar(Sidecar):
    """The sidecar that is installed in this environment, beside its own local broker: explanation-sidecar[broker]."""

    def __init__(self, settings: Mapping[str, Any] | None = None, partitions: int = 1) -> None:
        super().__init__(settings, partitions)
        self._running: list[subprocess.Popen[bytes]] = []
        self._log: Path | None = None
        self._files = ExitStack()

    def start(self) -> Self:
        command = shutil.which("explain-sidecar", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        if command is None:
            raise ClientError(
                "neither a Docker engine answers nor is the sidecar installed: pip install 'explanation-sidecar[broker]'"
            )
        self._log = Path(tempfile.mkstemp(prefix="explain-sidecar-", suffix=".log")[1])
        self._keys = _new_keys(self._files)
        broker = self._start(command, "kafka", "run")
        first = (broker.stdout.readline() if broker.stdout else b"").decode().strip()
        name, _, self.bootstrap_servers = first.partition("=")
        if name != "bootstrap.servers":
            raise ClientError(f"the local broker did not start:\n{self.logs()}")
        self._make_records_topic()
        self._start(command, "run")
        self._wait_for_the_sidecar()
        return self

    def stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
        self._files.close()
        if self._log is not None:
            self._log.unlink(missing_ok=True)

    def logs(self) -> str:
        return self._log.read_text(errors="replace") if self._log else ""

    def failed(self) -> bool:
        return any(process.poll() is not None for process in self._running)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        assert self._log is not None
        clean = {name: value for name, value in os.environ.items() if not name.startswith("EXPLAIN_")}
        environment = {**clean, **self._environment(self.bootstrap_servers, self._keys)}
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log)
        self._running.append(process)
        return process


def _new_keys(until: ExitStack) -> Path:
    """A file with a key, which a model that only its own code can store needs; it is gone after ``until``."""
    folder = Path(until.enter_context(tempfile.TemporaryDirectory(prefix="explain-sidecar-")))
    folder.chmod(0o755)  # the container's user is another one
    file = folder / "snapshot.keys"
    file.write_text(secrets.token_hex(32))
    return file


def _single_node(port: int) -> dict[str, str]:
    """A broker and controller in one, which forgets everything."""
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "INTERNAL://:19092,EXTERNAL://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"INTERNAL://kafka:19092,EXTERNAL://127.0.0.1:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def engine_answers() -> bool:
    """Whether there is a Docker engine to start containers with."""
    import docker
    from docker.errors import DockerException

    try:
        return bool(docker.from_env().ping())
    except DockerException:
        return False


@pytest.fixture(scope="session")
def explain_sidecar_settings() -> dict[str, Any]:
    """The settings of ``explain_sidecar``: override it in your conftest.py."""
    return {"emit.every": 100}


@pytest.fixture(scope="session")
def explain_sidecar(explain_sidecar_settings: dict[str, Any]) -> Iterator[Sidecar]:
    """A sidecar and its broker for the whole session: in containers, or the installed one where no engine answers."""
    kind = ExplainSidecarContainer if engine_answers() else InstalledSidecar
    with kind(explain_sidecar_settings) as sidecar:
        yield sidecar
