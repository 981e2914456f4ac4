"""Client calls that never come to an end, brought about on a real broker that lacks what they need."""

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.fold.messages import Output
from explain_sidecar.kafka import transaction as transaction_module
from explain_sidecar.kafka.clients import ErrorLog
from explain_sidecar.kafka.errors import Aborted, Fatal, Fenced
from explain_sidecar.kafka.topics import WITHOUT_IDS
from explain_sidecar.kafka.transaction import Transaction
from tests.broker.harness import Pipeline, mixed_records
from tests.brokers import LONG_SESSION
from tests.crash.proxy import Proxy, proxied_broker

METADATA, INIT_PRODUCER_ID, END_TXN = 3, 22, 26
"""Their API keys."""

INVALID_PRODUCER_EPOCH = 47


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_module, "CALL_SECONDS", 1.5)
    monkeypatch.setattr(transaction_module, "STUCK_SECONDS", 4.0)


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[Broker, Proxy]]:
    """A broker behind a proxy, for what its answers lack."""
    running, proxy = proxied_broker(None)
    with running:
        yield running, proxy
        proxy.close()


@pytest.fixture
def behind(proxied: tuple[Broker, Proxy]) -> Iterator[Proxy]:
    yield proxied[1]
    proxied[1].lost = None
    proxied[1].limits.clear()


def pipeline_on(broker: Broker, name: str) -> Pipeline:
    pipeline = Pipeline(broker, name, partitions=1)
    for topic in ("explanations", "drift", "dead_letters"):
        pipeline.create(pipeline.topics[topic])
    return pipeline


def opened(pipeline: Pipeline) -> Transaction:
    """A transaction that has sent an explanation."""
    transaction = Transaction(pipeline.settings, f"{pipeline.name}-0", ErrorLog())
    transaction.publish(0, [Output("explanations", b"key", b"once", ())])
    return transaction


def group_of(pipeline: Pipeline) -> Consumer:
    return Consumer({"bootstrap.servers": pipeline.broker.bootstrap_servers, "group.id": pipeline.name})


def published(pipeline: Pipeline) -> list[bytes | None]:
    return [message.value() for message in pipeline.read(pipeline.topics["explanations"])]


def test_a_group_without_a_coordinator_is_said_once_and_ends_the_worker_and_what_hung_is_published_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The topic of the groups' offsets cannot be created by itself: this broker has not got as many neighbours as it shall have.
    with Broker(config={"offsets.topic.replication.factor": "3"} | LONG_SESSION) as alone:
        given_up(alone, caplog)
        hang_on(alone)


def given_up(alone: Broker, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = pipeline_on(alone, "alone")
    transaction, group = opened(pipeline), group_of(pipeline)

    def again_and_again() -> None:
        for _ in range(100):
            with suppress(Aborted):
                transaction.begin()
                transaction.commit([TopicPartition(pipeline.topics["records"], 0, 7)], group)

    with pytest.raises(Fatal, match="asking the coordinator of the group has had no outcome for 4 s"):
        again_and_again()
    group.close()
    said = [record for record in caplog.records if "coordinator of the group" in record.message]
    assert [record.levelname for record in said] == ["WARNING"]
    assert published(pipeline) == []


def hang_on(alone: Broker) -> None:
    pipeline = pipeline_on(alone, "hung")
    transaction, group = opened(pipeline), group_of(pipeline)
    offsets = [TopicPartition(pipeline.topics["records"], 0, 7)]

    with pytest.raises(Aborted, match="hung, and was replaced"):
        transaction.commit(offsets, group)
    assert (transaction.open, len(transaction.kept)) == (False, 1)
    transaction.begin()
    with pytest.raises(Aborted, match="coordinator of the group"):  # and does not hang again
        transaction.commit(offsets, group)

    topic = NewTopic("__consumer_offsets", 4, 1, config={"cleanup.policy": "compact"})
    pipeline.admin.create_topics([topic])["__consumer_offsets"].result()
    for _ in range(20):
        transaction.begin()
        try:
            transaction.commit(offsets, group)
            break
        except Aborted:
            pass
    assert transaction.outcomes["committed"] == 1
    assert group.committed([offsets[0]], 10)[0].offset == 7
    group.close()
    assert published(pipeline) == [b"once"]


def pipeline_behind(proxied: tuple[Broker, Proxy], name: str) -> Pipeline:
    broker, proxy = proxied
    pipeline = pipeline_on(broker, name)
    pipeline.environment["EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"] = f"127.0.0.1:{proxy.port}"
    return pipeline


def test_a_commit_that_has_no_outcome_ends_the_worker_and_the_next_one_begins_anew(
    proxied: tuple[Broker, Proxy], behind: Proxy
) -> None:
    pipeline = pipeline_behind(proxied, "stuck")
    transaction, group = opened(pipeline), group_of(pipeline)
    behind.lost = END_TXN
    with pytest.raises(Fatal, match="commit_transaction has had no outcome for 4 s while Kafka answers"):
        transaction.commit([], group)
    transaction.abort()  # as the loop does when it leaves: it is not waited for
    behind.lost = None
    assert published(pipeline) == []
    opened(pipeline).commit([], group)
    group.close()
    assert published(pipeline) == [b"once"]


def test_a_producer_that_learns_of_another_one_between_two_messages_says_so(broker: Broker) -> None:
    pipeline = pipeline_on(broker, "fenced")
    first = opened(pipeline)
    opened(pipeline)
    # Here the client learns it, if it has not by itself before, and every call fails from now on.
    with suppress(KafkaException, SystemError):
        first._producer.produce(pipeline.topics["explanations"], b"refused", partition=0)
        first._producer.flush(10)
    with pytest.raises(Fenced, match="another worker runs under instance_id"):
        first.publish(0, [Output("explanations", b"key", b"twice", ())])


def test_an_end_that_arrives_after_its_repetition_is_refused(
    proxied: tuple[Broker, Proxy], behind: Proxy
) -> None:
    """Its connection breaks, librdkafka asks again and is answered; Kafka would take the first one for the end of the next transaction."""
    pipeline = pipeline_behind(proxied, "late")
    transaction, group = opened(pipeline), group_of(pipeline)
    for number in range(2):
        behind.hold = END_TXN
        transaction.commit([], group)
        transaction.publish(0, [Output("explanations", b"key", b"%d" % number, ())])
        transaction.flush()
        assert behind.late() == INVALID_PRODUCER_EPOCH
        transaction.abort()
        transaction.begin()
    transaction.commit([], group)
    group.close()
    assert published(pipeline) == [b"once", b"0", b"1"]


def test_brokers_without_transactions_or_topic_ids_are_named_and_do_no_harm_once_they_are_upgraded(
    proxied: tuple[Broker, Proxy], behind: Proxy
) -> None:
    line = Pipeline(proxied[0], "old", partitions=2)
    line.environment["EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"] = f"127.0.0.1:{behind.port}"

    def checked(status: int = 0) -> dict[str, str]:
        found = json.loads(line.cli("check", "--json", status=status).stdout)["checks"]
        return {check["what"]: check["detail"] for check in found if bool(status) == (check["ok"] is False)}

    behind.limits[METADATA] = 9  # that of Kafka 2.7
    line.feed(mixed_records(2, 100))
    assert WITHOUT_IDS in line.run_to_end().log()
    found = checked()
    assert found["topic ids"] == WITHOUT_IDS
    assert "gave the transactional id old-check" in found["transactions"]
    line.feed(mixed_records(2, 100, seed=1))
    line.run_to_end()
    behind.limits.clear()
    line.feed(mixed_records(2, 100, seed=2))
    assert WITHOUT_IDS not in line.run_to_end().log()
    line.verify()
    behind.limits[INIT_PRODUCER_ID] = -1
    ((what, detail),) = checked(status=1).items()
    assert what == "transactions"
    assert "which these brokers do not have; Apache Kafka 3.3 and later has them" in detail
