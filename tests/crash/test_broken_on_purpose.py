"""A protection whose absence goes unseen is not tested: the same scenario with it, and with it switched off.

Those that depend on what Kafka does; all of them, in memory, are in tests/driver/test_broken_on_purpose.py.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from benchmarks import oracle
from benchmarks.oracle import check
from explain_sidecar.broker.embedded import Broker
from tests.broker.harness import Pipeline, Process, mixed_records
from tests.brokers import LONG_SESSION
from tests.crash.sabotage import SABOTAGE, no_repair_of_outputs
from tests.crash.worker import SABOTAGE_VARIABLE

SESSION_SECONDS = 3

Scenario = Callable[["Line"], None]


class Line(Pipeline):
    """A pipeline whose workers are test builds; ``broken`` names the protection that those have not which ``suspect`` starts."""

    broken: str | None = None

    def worker(self, slot: int = 0, until_caught_up: bool = False, **environment: str) -> Process:
        arguments = ["-m", "tests.crash.worker", "--slot", str(slot)]
        return Process(
            [*arguments, *(["--until-caught-up"] if until_caught_up else [])],
            {**self.environment, **environment},
        )

    def suspect(self, until_caught_up: bool = False, **environment: str) -> Process:
        sabotage = {} if self.broken is None else {SABOTAGE_VARIABLE: self.broken}
        return self.worker(0, until_caught_up, **environment, **sabotage)

    def successor(self, slot: int = 0, until_caught_up: bool = False) -> Process:
        """A worker that takes what was committed as published: one that looks would publish what its predecessor lost."""
        return self.worker(slot, until_caught_up, **{SABOTAGE_VARIABLE: no_repair_of_outputs.__name__})

    def differences(self) -> list[str]:
        return check(self.settings, complete=False).differences


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"group.min.session.timeout.ms": "1000"} | LONG_SESSION) as running:
        yield running


def both(
    broker: Broker, name: str, scenario: Scenario, partitions: int = 1, **environment: str
) -> list[Line]:
    """Run a scenario with the protection and without it, at the same time; returns the two pipelines."""
    assert name in SABOTAGE
    environment.setdefault(
        "EXPLAIN_KAFKA__CONFIG", json.dumps({"session.timeout.ms": 1_000 * SESSION_SECONDS})
    )
    # Snapshots at the ends of runs alone: on a slow machine one of the clock's would leave nothing to replay.
    environment["EXPLAIN_CHECKPOINT__MAX_AGE"] = environment["EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS"] = (
        "3600"
    )
    lines = []
    for broken in (None, name):
        line = Line(broker, f"{name}-{'broken' if broken else 'intact'}", partitions, dict(environment))
        line.broken = broken
        lines.append(line)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(scenario, lines))
    return lines


def test_offsets_outside_the_transaction_lose_what_a_crash_aborts(broker: Broker) -> None:
    def scenario(line: Line) -> None:
        line.feed(mixed_records(1, 400))
        process = line.suspect(SIDECAR_CRASH_POINT="commit.before:2", EXPLAIN_COMMIT__MAX_RECORDS="40")
        assert process.wait() == -signal.SIGKILL
        assert line.successor(until_caught_up=True).wait() == 0

    intact, broken = both(broker, "offsets_outside_the_transaction", scenario)
    assert intact.differences() == []
    assert any("explanations" in difference for difference in broken.differences())


def test_metadata_of_a_consumer_that_never_joined_lets_a_zombie_commit(broker: Broker) -> None:
    def scenario(line: Line) -> None:
        # Its first commits, one or two, are of partitions that begin. Both workers are there before the first record, so that all is over within the zombie's transaction timeout.
        zombie = line.suspect(SIDECAR_CRASH_POINT="send_offsets.before:3:stop")
        line.wait_for(lambda: zombie.log().count("running from") == 2)
        successor = line.successor(1)
        line.wait_for(lambda: "running from" in successor.log())
        line.feed(mixed_records(2, 400))
        line.wait_for(lambda: "crash point" in zombie.log())
        line.wait_for(line.folded)
        zombie.signal(signal.SIGCONT)
        time.sleep(2)
        zombie.kill()
        assert successor.stop() == 0

    intact, broken = both(
        broker, "metadata_of_a_consumer_that_never_joined", scenario, 2, EXPLAIN_COMMIT__MAX_RECORDS="40"
    )
    assert intact.differences() == []
    assert any("explanations" in difference for difference in broken.differences())


def test_aborted_outputs_that_are_not_sent_again_are_missing(broker: Broker) -> None:
    def scenario(line: Line) -> None:
        process = line.suspect(SIDECAR_CRASH_POINT="send_offsets.before:3:stall=5")
        line.wait_for(lambda: process.log().count("running from") == 2)
        other = line.worker(1)
        line.wait_for(lambda: "running from" in other.log())
        line.feed(mixed_records(2, 400))
        line.wait_for(lambda: "crash point" in process.log())
        other.stop()  # the first holds the metadata of a generation that goes by
        line.wait_for(line.folded)
        assert "will be sent again" in process.log()
        assert process.stop() == 0

    intact, broken = both(
        broker, "aborted_outputs_not_sent_again", scenario, 2, EXPLAIN_COMMIT__MAX_RECORDS="40"
    )
    assert intact.differences() == []
    assert any("explanations" in difference for difference in broken.differences())


def test_earliest_jumps_over_deleted_records(broker: Broker) -> None:
    statuses = {}

    def scenario(line: Line) -> None:
        line.feed(mixed_records(1, 300))
        process = line.suspect()
        line.wait_for(line.folded)
        process.signal(signal.SIGSTOP)
        time.sleep(0.5)  # a fetch that is under way is answered
        line.feed(mixed_records(1, 200, seed=1))
        where = TopicPartition(line.topics["records"], 0, 400)
        line.admin.delete_records([where])[where].result()
        process.signal(signal.SIGCONT)
        line.wait_for(lambda: not process.running() or line.folded())
        statuses[line.broken] = process.wait() if not process.running() else process.stop()

    # With the session timeout that is set by default none ends while the worker is stopped.
    intact, broken = both(broker, "earliest_with_deleted_records", scenario, EXPLAIN_KAFKA__CONFIG="{}")
    assert statuses == {None: 1, "earliest_with_deleted_records": 0}
    # The records are gone, so the oracle has them from the test.
    published = [line.published()["explanations"][0] for line in (intact, broken)]
    assert published[0] == intact.oracle()["explanations"][0][:30]
    assert published[1] != broken.oracle()["explanations"][0][: len(published[1])]


def test_without_the_watch_a_topic_that_is_created_again_is_folded_by_the_old_model(broker: Broker) -> None:
    logs = {}

    def scenario(line: Line) -> None:
        line.feed(mixed_records(1, 300))
        process = line.suspect()
        line.wait_for(line.folded)
        topic = line.topics["records"]
        process.signal(
            signal.SIGSTOP
        )  # so that it meets the new topic with as many records as it has folded of the old one
        line.admin.delete_topics([topic])[topic].result()
        again = NewTopic(topic, 1, 1, config={"retention.ms": "-1"})
        line.wait_for(lambda: line.admin.create_topics([again])[topic].exception() is None)
        line.inputs[0] = []
        line.wait_for(lambda: topic in line.admin.list_topics(timeout=5).topics)
        line.feed(mixed_records(1, 500, seed=1))
        process.signal(signal.SIGCONT)
        line.wait_for(lambda: not process.running() or line.committed()[0].offset == 500)
        if process.running():
            process.stop()
        logs[line.broken] = process.log()

    intact, broken = both(broker, "no_watch_of_topics", scenario)
    assert "was deleted and created again while the sidecar ran" in logs[None]
    assert "reset --partition P --yes" in logs[None] and "Traceback" not in logs[None]
    assert len(intact.published()["explanations"][0]) == 30
    assert intact.committed()[0].offset < 500
    assert broken.published()["explanations"][0][30:] != []


@pytest.mark.parametrize("late", [True, False], ids=["decided late", "undecided"])
def test_the_oracle_waits_for_a_transaction_and_says_which_hangs(
    broker: Broker, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "READ_SECONDS", 10 if late else 2)
    line = Line(broker, f"undecided-{late}", 1, {})
    topic = line.topics["records"]
    line.feed([(0, b"committed")])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": line.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0)
    assert producer.flush(30) == 0
    differences: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(oracle.read_topic, line.settings, topic, differences)
        time.sleep(2.0)
        if late:
            producer.commit_transaction(30)
        found = reading.result()
    if not late:
        producer.abort_transaction(30)
    values = [message.value() for message in found[0]]
    assert values == [b"committed", b"undecided"] if late else values == [b"committed"]
    assert differences == ([] if late else [f"{topic} 0: a transaction hangs before offset 2"])
