"""One embedded broker for the whole session; every test has topics and groups of its own."""

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from explain_sidecar.broker.embedded import Broker
from tests.broker.apicurio import Apicurio
from tests.broker.harness import Factory, Pipeline, Process, mixed_records
from tests.broker.memory import MEMORY, MemoryPipeline, alone
from tests.brokers import LONG_SESSION
from tests.driver.log import Cluster

# So that a test that forces compaction waits a second and not minutes; more often, each broker would look through its logs for nothing.
CONFIG = {"log.initial.task.delay.ms": "100", "log.cleaner.backoff.ms": "1000"} | LONG_SESSION


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The address of a Schema Registry."""
    with Apicurio() as running:
        yield running.url


@pytest.fixture(autouse=True)
def _no_foreign_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXPLAIN_KAFKA__BOOTSTRAP_SERVERS", raising=False)


@pytest.fixture(autouse=True)
def _no_survivors() -> Iterator[None]:
    """A test that fails leaves no process behind to slow down the others."""
    yield
    while Process.started:
        process = Process.started.pop()
        if process.running():
            process.kill()


_numbers = itertools.count()


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """``unique_name("records")``: a name that no other test has, for a topic, a consumer group or an application."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:60]
    return lambda name: f"{name}-{test}-{next(_numbers)}"


@pytest.fixture
def pipeline(broker: Broker, unique_name: Callable[[str], str]) -> Factory:
    """``pipeline(partitions, EXPLAIN_…="…")``: topics of its own on the shared broker, and a sidecar configured for them."""

    def make(partitions: int = 4, **environment: str) -> Pipeline:
        return Pipeline(broker, unique_name("app"), partitions, dict(environment))

    return make


@pytest.fixture
def memory(unique_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Factory:
    """The same on a cluster in memory."""
    cluster = Cluster()
    alone(monkeypatch, cluster)

    def make(partitions: int = 4, **environment: str) -> Pipeline:
        return MemoryPipeline(MEMORY, unique_name("app"), partitions, dict(environment), cluster=cluster)

    return make


@pytest.fixture
def line(memory: Factory) -> Pipeline:
    """A pipeline in memory, of one partition, that has folded 300 records and was stopped in order."""
    line = memory(1)
    line.feed(mixed_records(1, 300))
    line.run_to_end()
    return line
