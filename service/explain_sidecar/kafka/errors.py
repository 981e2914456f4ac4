"""How Kafka refuses what is read, and how a transaction fails."""

from __future__ import annotations

from confluent_kafka import KafkaError

from explain_sidecar.errors import UserError

DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
"""What a reader is told of a topic or group that it may not read, and of a topic or partition that is not there."""

REMEDIES = {
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of that topic: to emit.max_bytes, for dead letters to 16,384 more, and for a topic of the join above that of the events topic",
    KafkaError.INVALID_TIMESTAMP: "set this machine's clock: messages bear its time, and Kafka refuses those that are too far from the broker's "
    "(message.timestamp.after.max.ms, an hour by default)",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant this user WRITE on the output topics and the checkpoints topic",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant this user WRITE on the transactional ids that begin with app_id",
    KafkaError._UNSUPPORTED_FEATURE: "the sidecar publishes in transactions, which these brokers do not have; Apache Kafka 3.3 and later has them",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic was deleted; create it again",
    KafkaError._UNKNOWN_TOPIC: "the topic was deleted; create it again",
    KafkaError._UNKNOWN_PARTITION: "the topic has fewer partitions than the records topic; give it as many",
}
"""The remedy of each error that a retry cannot cure."""


def kept_by_reset(partition: int | str) -> str:
    """The command that begins a new epoch with what was learnt."""
    return f"explain-sidecar reset --partition {partition} --keep all --yes; without --keep all a new model begins"


class Aborted(Exception):
    """The transaction was aborted; its outputs are kept."""


class Refused(UserError):
    """Kafka refuses for good what is to be published."""


class Fatal(UserError):
    """The process cannot go on; one that starts again can."""


class Fenced(Fatal):
    """Another producer has begun under the same transactional id."""
