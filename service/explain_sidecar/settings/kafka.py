"""The sections on Kafka: the cluster, the topics, and how often a transaction is committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from explain_sidecar.settings.base import MESSAGES, Section, TopicName
from explain_sidecar.settings.sources import Problem

TRANSACTION_TIMEOUT_MS = 10_000
"""The broker aborts a transaction of this age; a killed worker holds its readers back no longer."""

OWNED_KEYS = {
    "bootstrap.servers": "set kafka.bootstrap_servers",
    "metadata.broker.list": "set kafka.bootstrap_servers",
    "group.id": "set app_id",
    "group.instance.id": "set kafka.group_instance_id",
    "transactional.id": "set app_id and instance_id",
    "transaction.timeout.ms": "it is part of the exactly-once protocol",
    "enable.idempotence": "it is part of the exactly-once protocol",
    "enable.auto.commit": "offsets are committed in the transaction, see commit.interval_ms",
    "auto.commit.enable": "offsets are committed in the transaction, see commit.interval_ms",
    "enable.auto.offset.store": "offsets are committed in the transaction, see commit.interval_ms",
    "auto.offset.reset": "every assignment has an explicit offset; to start anew use `explain-sidecar reset`",
    "isolation.level": "the sidecar reads committed records",
    "partition.assignment.strategy": "it is cooperative-sticky",
    "group.protocol": "set kafka.group_protocol",
    "message.max.bytes": "set emit.max_bytes",
    "batch.size": "it follows from emit.max_bytes",
    "enable.partition.eof": "the sidecar needs the ends of partitions",
}
"""Properties of librdkafka that the service sets itself, and what to do instead."""


def _replication_factor(number: int) -> int:
    if number < 1 and number != -1:
        raise ValueError("it must be at least 1, or -1")
    return number


class KafkaSettings(Section):
    """The cluster."""

    bootstrap_servers: str | None = None
    """Brokers to start from, host:port[,host:port…]. Required by every command that connects."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Any other librdkafka property (security.protocol, sasl.*, ssl.*, …), passed to every client: a mapping from its name to a string, number or boolean."""
    oauth: str | None = Field(None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`module:function` that gives a token for OAUTHBEARER, such as one of MSK IAM: called with sasl.oauthbearer.config, it returns the token and when that expires, in seconds since 1970. By default librdkafka asks as sasl.oauthbearer.method says."""
    group_protocol: Literal["classic", "consumer"] = "classic"
    """Protocol of the group: consumer is that of KIP-848, which Kafka 4.0 has by default. There the broker sets the session timeout (group.consumer.session.timeout.ms, 45 s by default): an instance that dies is noticed so late."""
    group_instance_id: str | None = None
    """Static membership: stable name of this instance; the worker's slot is appended."""

    def problems(self) -> Iterator[Problem]:
        for key, value in self.config.items():
            if key in OWNED_KEYS:
                yield ("config", key), f"belongs to the sidecar: {OWNED_KEYS[key]}; take it out"
            elif not isinstance(value, str | bool | int | float):
                kind = type(value).__name__
                yield ("config", key), f"a {kind} is not allowed; use a string, a number or a boolean"


class TopicSettings(Section):
    """Names of the topics; all of them have the partitions of the records topic."""

    records: Annotated[TopicName, MESSAGES] = "records"
    """Input: the labelled records."""
    explanations: TopicName = "explanations"
    """Output: the explanation stream."""
    drift: TopicName = "drift"
    """Output: drift attributions."""
    alarms: TopicName = "alarms"
    """Output: alarms, where alarms.enabled is set."""
    rows: TopicName = "rows"
    """Output: means as rows, where rows.enabled is set."""
    predictions: TopicName = "predictions"
    """Output: single predictions, where predictions.enabled is set."""
    checkpoints: TopicName = "checkpoints"
    """Compacted topic for snapshots."""
    dead_letters: TopicName = "dead-letters"
    """Output: records that cannot be used."""
    control: TopicName | None = None
    """Input of the dashboard and of tail, never of the fold: which changes are expected, or were seen. It is not created."""
    create: bool = True
    """Create missing output topics with the configuration they need."""
    replication_factor: Annotated[int, AfterValidator(_replication_factor)] = Field(-1, le=32_767)
    """Replicas of created topics; -1 is the broker's default."""

    @property
    def names(self) -> dict[str, str]:
        """The name of each topic by its setting, but for the one that people write."""
        return {key: name for key, name in self if isinstance(name, str) and key != "control"}

    def problems(self) -> Iterator[Problem]:
        names = self.names | ({} if self.control is None else {"control": self.control})
        first = {name: key for key, name in reversed(names.items())}
        for key, name in names.items():
            if first[name] != key:
                yield key, f"{name!r} is topics.{first[name]} too; every topic needs a name of its own"


class CommitSettings(Section):
    """How often a transaction is committed."""

    interval_ms: int = Field(100, ge=1, le=TRANSACTION_TIMEOUT_MS // 2)
    """Milliseconds; well below the transaction timeout of 10 s. Four times as long, 5 s at the most, while so many records wait that their outputs are late anyway."""
    max_records: int = Field(10_000, ge=1, le=1_000_000)
    """Largest number of records in one transaction."""
