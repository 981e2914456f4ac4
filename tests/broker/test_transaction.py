"""A client call that never returns, brought about on a real broker that has no coordinator for any group."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from service.kafka.broker import Broker
from service.kafka.clients import ErrorLog, transactional_producer
from service.kafka.transaction import Aborted, Transaction
from service.messages import Output
from tests.broker.harness import Pipeline


def test_a_producer_that_hangs_is_replaced_and_what_it_sent_is_published_once() -> None:
    # The topic of the groups' offsets cannot be created by itself: this broker has not got as many neighbours as it shall have.
    with Broker(config={"offsets.topic.replication.factor": "3"}) as broker:
        pipeline = Pipeline(broker, "hung", partitions=1)
        for name in ("explanations", "drift", "dead_letters"):
            pipeline.create(pipeline.topics[name])
        transaction = Transaction(
            lambda: transactional_producer(pipeline.settings, "hung-0", ErrorLog()),
            pipeline.settings,
            lambda: None,
        )
        group = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "hung"})
        offsets = [TopicPartition(pipeline.topics["records"], 0, 7)]
        transaction.publish(0, [Output("explanations", b"key", b"once", ())])

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
        assert [message.value() for message in pipeline.read(pipeline.topics["explanations"])] == [b"once"]
