"""The in-memory cluster of tests/driver does not lie: the same client calls have the same outcomes on it and on a broker."""

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.kafka.clients import (
    KAFKA,
    ErrorLog,
    Kafka,
    admin_client,
    group_consumer,
    reading_consumer,
    transactional_producer,
)
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings
from tests.broker.harness import Factory, Pipeline, delete_before, mixed_records
from tests.broker.memory import MEMORY, MemoryPipeline, kafka_in
from tests.driver.driver import OUTPUTS, TINY
from tests.driver.log import Cluster

SECONDS = 60.0

OTHERWISE = r'"digest":"\w+"|[\d,]+(?= bytes)|\d+ +(?=python)| {2,}'
"""Of what commands say: what topics' ids go into, the age of a snapshot in seconds, and the width of columns."""

Outcome = tuple[str, bool, bool] | str


def outcome(call: Callable[[], Any]) -> Outcome:
    """What a call came to: its error's name, whether it is fatal, and whether the transaction must be aborted."""
    try:
        call()
    except KafkaException as error:
        cause = error.args[0]
        return cause.name(), cause.fatal(), cause.txn_requires_abort()
    return "done"


class Side:
    """Kafka, or the one in memory, with the topics of a sidecar: two partitions each."""

    def __init__(self, kafka: Kafka, servers: str, name: str) -> None:
        topics = {setting: f"{setting}-{name}" for setting in ("records", *OUTPUTS, "checkpoints")}
        given = {**TINY, "app_id": name, "topics": topics, "kafka": {"bootstrap_servers": servers}}
        self.kafka, self.settings = kafka, Settings(**given)
        self.records = self.settings.topics.records
        self.topics = Topics(self.settings, kafka=kafka)
        self.create()
        self.topics.prepare()
        self.open: list[Consumer] = []

    def create(self) -> None:
        self.topics.create_topics([(self.records, 2, {"retention.ms": "-1"})])
        self.topics.until_described(self.records)

    def producer(self, name: str) -> Producer:
        made = transactional_producer(self.settings, f"{self.settings.app_id}-{name}", ErrorLog(), self.kafka)
        made.init_transactions(SECONDS)
        return made

    def write(self, producer: Producer, values: Iterable[bytes]) -> None:
        """A transaction with these records in partition 0."""
        producer.begin_transaction()
        for value in values:
            producer.produce(self.records, value, b"k", partition=0, headers=[])
        producer.commit_transaction(SECONDS)

    def reader(self, **config: Any) -> Consumer:
        made = reading_consumer(self.settings, kafka=self.kafka, **config)
        self.open.append(made)
        return made

    def member(self) -> tuple[Consumer, list[Any]]:
        """A member of the group, and what it has been told."""
        made, told = group_consumer(self.settings, 0, ErrorLog(), self.kafka), []

        def telling(kind: str) -> Callable[[Consumer, list[TopicPartition]], None]:
            def tell(consumer: Consumer, places: list[TopicPartition]) -> None:
                told.append((kind, sorted(place.partition for place in places)))
                if kind == "assign":
                    consumer.incremental_assign(
                        [TopicPartition(self.records, place.partition, 0) for place in places]
                    )
                else:
                    consumer.incremental_unassign(places)

            return tell

        made.subscribe(
            [self.records],
            on_assign=telling("assign"),
            on_revoke=telling("revoke"),
            on_lost=telling("lost"),
        )
        self.open.append(made)
        return made, told

    def until(self, condition: Callable[[], bool], *polled: Consumer) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline
            for consumer in polled:
                consumer.poll(0.1)

    def read(self, topic: str, partition: int, start: int = 0, **config: Any) -> list[Any]:
        """Offset and value of each message up to the end, which comes last, or the name of the error."""
        reader = self.reader(**config)
        reader.assign([TopicPartition(topic, partition, start)])
        return self.to_end(reader)

    def to_end(self, reader: Consumer) -> list[Any]:
        found: list[Any] = []
        while not found or isinstance(found[-1][1], bytes):
            message = reader.poll(1.0)
            if message is not None:
                error = message.error()
                found.append((message.offset(), message.value() if error is None else error.name()))
        return found


def transactions(side: Side) -> Any:
    """What readers see of transactions that were committed, aborted, and are open."""
    producer, seen = side.producer("a"), []
    for values_, commit in ((b"abc", True), (b"de", False), (b"f", True)):
        producer.begin_transaction()
        for value in values_:
            producer.produce(side.records, bytes([value]), b"k", partition=0, headers=[])
        producer.flush(SECONDS)
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
    seen.append(side.read(side.records, 0))
    producer.begin_transaction()
    producer.produce(side.records, b"open", b"k", partition=0, headers=[])
    producer.flush(SECONDS)
    where = TopicPartition(side.records, 0)
    for isolation in ("read_committed", "read_uncommitted"):
        seen.append(side.read(side.records, 0, isolation_level=isolation))
        reader = side.reader(isolation_level=isolation)
        seen.append(reader.get_watermark_offsets(where, timeout=SECONDS, cached=False))
        reader.assign([TopicPartition(side.records, 0, 0)])
        while (message := reader.poll(1.0)) is None or message.error() is None:
            pass
        seen.append(reader.get_watermark_offsets(where, cached=True))
    producer.abort_transaction(SECONDS)
    return seen


def fenced(side: Side) -> Any:
    """A second producer under the same transactional id, and what becomes of the first one and of its transaction."""
    first = side.producer("same")
    first.begin_transaction()
    first.produce(side.records, b"first", b"k", partition=0, headers=[])
    first.flush(SECONDS)
    second = side.producer("same")
    fate = outcome(lambda: first.commit_transaction(SECONDS))
    second.begin_transaction()
    second.produce(side.records, b"second", b"k", partition=0, headers=[])
    return fate, outcome(lambda: second.commit_transaction(SECONDS)), side.read(side.records, 0)


def offsets(side: Side) -> Any:
    """Offsets in a transaction: undecided, aborted, committed; and with the metadata of a generation that has gone by."""
    producer = side.producer("a")
    member, told = side.member()
    side.until(lambda: told != [], member)
    place = TopicPartition(side.records, 0, 3, metadata="m")
    seen, asking = [], side.reader(group=side.settings.app_id)

    def committed() -> Any:
        found = asking.committed([TopicPartition(side.records, 0)], SECONDS)[0]
        return found.offset, found.metadata or ""

    seen.append(committed())
    for commit in (False, True):
        producer.begin_transaction()
        producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), SECONDS)
        seen.append(outcome(lambda: asking.committed([TopicPartition(side.records, 0)], 0.5)))
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
        seen.append(committed())
    producer.begin_transaction()
    stranger = asking.consumer_group_metadata()  # of a consumer that never joined: nothing is checked
    seen.append(outcome(lambda: producer.send_offsets_to_transaction([place], stranger, SECONDS)))
    member.commit(offsets=[TopicPartition(side.records, 0, 2)], asynchronous=False)
    producer.abort_transaction(SECONDS)
    seen.append(committed())
    old = member.consumer_group_metadata()
    other, others = side.member()
    side.until(lambda: ("assign", [1]) in others or ("assign", [0]) in others, member, other)
    producer.begin_transaction()
    seen.append(outcome(lambda: producer.send_offsets_to_transaction([place], old, SECONDS)))
    seen.append(outcome(lambda: producer.commit_transaction(SECONDS)))
    seen.append(outcome(lambda: producer.abort_transaction(SECONDS)))
    gone = other.consumer_group_metadata()
    other.close()
    producer.begin_transaction()
    seen.append(outcome(lambda: producer.send_offsets_to_transaction([place], gone, SECONDS)))
    seen.append(outcome(lambda: producer.abort_transaction(SECONDS)))
    seen.append(committed())
    return seen


def rebalances(side: Side) -> Any:
    """What members are told when another joins, and when it leaves; which partition moves is Kafka's to choose."""
    first, told = side.member()
    side.until(lambda: ("assign", [0, 1]) in told, first)
    second, others = side.member()
    side.until(lambda: any(kind == "assign" and places for kind, places in others), first, second)
    side.until(lambda: told[-1] == ("assign", []), first, second)
    second.close()
    side.until(lambda: told[-1][1] != [], first)
    first.close()
    return [[(kind, len(places)) for kind, places in calls if places] for calls in (told, others)]


def mistakes(side: Side) -> Any:
    """What is not there: offsets, partitions, topics, which no question creates; what is assigned twice; and what is too large."""
    producer, reader = side.producer("a"), side.reader()
    producer.list_topics("absent", timeout=SECONDS)
    where = TopicPartition(side.records, 0, 0)
    reader.incremental_assign([where])
    seen = [side.read(side.records, 0, start=7), outcome(lambda: reader.incremental_assign([where]))]
    reader.incremental_unassign([where])
    seen.append(outcome(lambda: reader.incremental_unassign([where])))
    producer.begin_transaction()
    producer.list_topics(side.records, timeout=SECONDS)
    seen.append(outcome(lambda: producer.produce(side.records, b"", b"", partition=5, headers=[])))
    admin = admin_client(side.settings, kafka=side.kafka)  # kept: without it the request is dropped
    asked = admin.describe_topics(TopicCollection(["absent", side.records]), request_timeout=SECONDS)
    seen.append(asked["absent"].exception().args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)  # type: ignore[union-attr]
    seen.append(len(asked[side.records].result().partitions))
    producer.produce(side.records, os.urandom(2_000_000), b"k", partition=0, headers=[])
    producer.flush(SECONDS)
    seen.append(outcome(lambda: producer.commit_transaction(SECONDS)))
    producer.abort_transaction(SECONDS)
    return seen


def deleted(side: Side) -> Any:
    """What readers meet where retention has deleted records, and whose topic was deleted and created again while they stood still."""
    admin, where = admin_client(side.settings, kafka=side.kafka), TopicPartition(side.records, 0, 2)
    side.write(side.producer("a"), [b"old"] * 4)
    admin.delete_records([where])[where].result()
    seen = [side.read(side.records, 0, 1, auto_offset_reset=reset) for reset in ("error", "earliest")]
    reader = side.reader()
    reader.assign([where])
    seen.append(side.to_end(reader))
    reader.pause([where])
    admin.delete_topics([side.records])[side.records].result()
    side.until(lambda: side.records not in admin.list_topics(timeout=SECONDS).topics)
    side.create()
    side.write(side.producer("b"), [b"new"] * 7)
    reader.resume([where])
    return [*seen, side.to_end(reader)]


@pytest.mark.parametrize("scenario", [transactions, fenced, offsets, rebalances, mistakes, deleted])
def test_the_cluster_in_memory_does_what_kafka_does(
    broker: Broker, unique_name: Callable[[str], str], scenario: Callable[[Side], Any]
) -> None:
    name = unique_name("app")
    found = []
    for kafka, servers in (
        (kafka_in(Cluster()), "memory"),
        (KAFKA, broker.bootstrap_servers),
    ):
        side = Side(kafka, servers, name)
        found.append(scenario(side))
        for consumer in side.open:
            consumer.close()
    assert found[0] == found[1]


def commands(line: Pipeline, folder: Path) -> list[str]:
    """What commands say of a sidecar to whom everything happens that costs one, and what it publishes."""
    state, model = str(folder / "state"), str(folder / "model")
    said = []

    def do(*command: str, status: int = 0, **environment: str) -> None:
        done = line.cli(*command, status=status, **environment)
        assert done.stdout
        said.extend([" ".join(command[:2]), *done.stdout.splitlines()])

    def create_again(topic: str, **config: str) -> None:
        name = line.topics[topic]
        line.admin.delete_topics([name])[name].result()
        line.wait_for(lambda: name not in line.admin.list_topics(timeout=5).topics)
        line.create(name, **config)

    line.feed([*mixed_records(1, 300), (0, b"{")])
    do("check", "--json")
    line.run_to_end()
    do("checkpoint", "show", "--clean")
    do("dead-letters", "show", "--json")
    do("config", "check", "--against-running", EXPLAIN_EXPLAIN__EVERY="2")
    do("model", "export", "--partition", "0", model)
    do("warm-up", "--topic", line.topics["records"], "--out", model)
    do("upgrade", "check")
    line.feed(mixed_records(1, 99, seed=1))
    delete_before(line, 350)
    assert "were deleted by retention" in line.fails()
    do("reset", "--partition", "0", "--keep", "all", "--yes")
    line.feed(mixed_records(1, 20, seed=2))
    line.run_to_end()
    do("state", "export", state)
    line.admin.delete_consumer_groups([line.name])[line.name].result()
    assert line.committed()[0].offset == OFFSET_INVALID
    line.feed(mixed_records(1, 20, seed=3))
    assert "no committed offset: recovering" in line.run_to_end().log()
    create_again("checkpoints", cleanup_policy="compact")
    assert "that topic was emptied or created again" in line.fails()
    do("state", "import", state, "--yes")
    line.run_to_end()
    do("dead-letters", "replay", "--yes")
    line.run_to_end()
    create_again("records", retention_ms="-1")
    line.inputs[0] = []
    assert "was deleted and created again" in line.fails()
    line.feed(mixed_records(1, 100, seed=4))
    do("reset", "--partition", "0", "--keep", "all", "--yes")
    line.run_to_end()
    do("tail", "--json", "--until-caught-up")
    return said


def test_commands_say_and_do_in_memory_what_they_do_on_a_broker(
    broker: Broker, unique_name: Callable[[str], str], memory: Factory, tmp_path: Path
) -> None:
    name, found = unique_name("app"), []
    for line in (MemoryPipeline(MEMORY, name, 1), Pipeline(broker, name, 1)):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        said = "\n".join(commands(line, folder))
        for here in (str(folder), line.broker.bootstrap_servers):
            said = said.replace(here, "")
        found.append(re.sub(OTHERWISE, " ", said).splitlines())
    assert found[0] == found[1]
