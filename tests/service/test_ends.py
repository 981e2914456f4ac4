"""Ends of partitions are asked for only once their leaders are known: else librdkafka's admin client may end the process."""

from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from explain_sidecar.kafka.ends import LEADERS_SECONDS, PartitionEnds

COMMITTED = IsolationLevel.READ_COMMITTED


class Admin:
    """Of a cluster with some topics, or one that does not answer; ``calls``: what was asked, in order."""

    def __init__(self, *topics):
        self.topics, self.calls = topics, []

    def list_topics(self, timeout):
        self.calls.append("topics")
        if not self.topics:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics=dict.fromkeys(self.topics))

    def list_offsets(self, wanted, isolation_level, request_timeout):
        self.calls.append(sorted((where.topic, where.partition) for where in wanted))
        found = {where: Future() for where in wanted}
        for future in found.values():
            future.set_result(SimpleNamespace(offset=7))
        return found


def test_the_topics_are_asked_for_before_their_ends_and_again_before_they_are_forgotten():
    now = [0.0]
    admin = Admin("a", "b")
    ends = PartitionEnds(admin, lambda: now[0])
    for now[0] in (0.0, LEADERS_SECONDS - 1, LEADERS_SECONDS + 1, LEADERS_SECONDS + 2):
        assert ends.last_stable("a", [0, 1]) == {0: 7, 1: 7}
    asked = [("a", 0), ("a", 1)]
    assert admin.calls == ["topics", asked, asked, "topics", asked, asked]


def test_a_topic_that_is_not_there_is_looked_for_each_time_and_not_asked_about():
    admin = Admin("a")
    ends = PartitionEnds(admin, lambda: 0.0)
    assert list(ends.ask([("a", 0), ("gone", 0)], COMMITTED)) and not ends.ask([("gone", 0)], COMMITTED)
    assert admin.calls == ["topics", [("a", 0)], "topics"]


def test_where_no_broker_tells_the_leaders_nothing_is_asked():
    admin = Admin()
    ends = PartitionEnds(admin, lambda: 0.0)
    assert ends.last_stable("a", [0]) == {} and ends.ask([("a", 0)], COMMITTED) == {}
    assert admin.calls == ["topics", "topics"]
