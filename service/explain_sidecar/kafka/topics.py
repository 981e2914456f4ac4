"""The topics: what they must be, what they are, and making the missing ones."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    TopicDescription,
)

from explain_sidecar.errors import UserError
from explain_sidecar.fold.sizes import HEADROOM
from explain_sidecar.kafka.clients import CONNECT_SECONDS, KAFKA, ErrorLog, Kafka, admin_client, unreachable
from explain_sidecar.settings import Settings
from explain_sidecar.settings.explain import LEAST_MESSAGE

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(64 * 2**20),
    "segment.ms": str(10 * 60 * 1000),
    "max.compaction.lag.ms": str(60 * 60 * 1000),
}
"""Of a topic that a restore reads: what was replaced is soon gone from it."""

_CHECKPOINT_CONFIG = COMPACTED | {"max.message.bytes": "1048588"}

NO_ID = str(Uuid(0, 0))
"""What brokers that give topics no ids answer: Apache Kafka before 2.8, and some others that speak its protocol."""

WITHOUT_IDS = (
    "these brokers give topics no ids (Apache Kafka does from 2.8 on): a topic that is deleted and created again cannot be told from the old one. "
    "Stop the sidecar before you do that, and then begin a new epoch, for each partition P: explain-sidecar reset --partition P --yes"
)


@dataclass(frozen=True)
class Topic:
    """A topic as it is on the cluster."""

    name: str
    id: str
    partitions: int
    config: Mapping[str, str]


class Topics:
    """The sidecar's topics on a cluster."""

    def __init__(
        self,
        settings: Settings,
        admin: AdminClient | None = None,
        errors: ErrorLog | None = None,
        kafka: Kafka = KAFKA,
    ) -> None:
        self._settings = settings
        self.errors = errors or ErrorLog()
        self._admin = admin or admin_client(settings, self.errors, kafka)
        self._clock = kafka.clock

    @property
    def outputs(self) -> dict[str, str]:
        """Name of each output topic by its setting."""
        names = (*self._settings.outputs, "checkpoints")
        return {name: getattr(self._settings.topics, name) for name in names}

    def describe(self, *names: str) -> dict[str, Topic]:
        """The topics that are there. Raises ``UserError`` where no broker answers or access is denied."""
        self._connect()
        try:
            described = self._admin.describe_topics(
                TopicCollection(list(names)), request_timeout=CONNECT_SECONDS
            )
            asked = {name: _allowed(name, future) for name, future in described.items()}
            found = {name: topic for name, topic in asked.items() if topic is not None}
            resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in found]
            configs = (
                self._admin.describe_configs(resources, request_timeout=CONNECT_SECONDS) if found else {}
            )
            settings = {
                resource.name: {
                    key: str(entry.value) for key, entry in _allowed(resource.name, future).items()
                }
                for resource, future in configs.items()
            }
        except KafkaException as error:
            raise unreachable(self._settings, self.errors, error) from None
        return {
            name: Topic(name, str(topic.topic_id), len(topic.partitions), settings[name])
            for name, topic in found.items()
        }

    def written(self, *names: str) -> dict[str, Topic]:
        """Topics that the sidecar has made or read. Raises ``UserError`` where one is not there, too."""
        found = self.describe(*names)
        for name in names:
            if name not in found:
                raise UserError(
                    f"topic {name!r} is not on {self._settings.servers}; has the sidecar run yet? It creates its topics at its start"
                )
        return found

    def ask(self, *names: str) -> dict[str, Future[TopicDescription]]:
        """Ask what topics are, without waiting for the answers."""
        return self._admin.describe_topics(TopicCollection(list(names)), request_timeout=CONNECT_SECONDS)

    def _connect(self) -> None:
        """Raises ``UserError`` where no broker answers in time, or as soon as one refuses us."""
        deadline = self._clock.monotonic() + CONNECT_SECONDS
        while True:
            try:
                self._admin.list_topics(timeout=1.0)
                return
            except KafkaException as error:
                self._admin.poll(0)  # lets the client say why
                if self.errors.refused or self._clock.monotonic() > deadline:
                    raise unreachable(self._settings, self.errors, error) from None

    def until_described(self, *names: str) -> dict[str, Topic]:
        """Topics that were just created; a broker learns of them a little later."""
        deadline = self._clock.monotonic() + CONNECT_SECONDS
        while True:
            found = self.describe(*names)
            missing = [name for name in names if name not in found]
            if not missing:
                return found
            if self._clock.monotonic() > deadline:
                raise UserError(
                    f"topics: {', '.join(missing)} were created and no broker of {self._settings.servers} knows them yet; start again"
                )
            self._clock.sleep(0.1)

    def found_or_made(self, setting: str, name: str, partitions: int | None) -> Topic:
        """A topic, made with so many partitions where it is missing. Raises ``UserError`` where it has others, or nobody says how many."""
        if name not in self.describe(name):
            if partitions is None:
                raise UserError(
                    f"{setting}: there is no topic {name!r} on {self._settings.servers}; give --partitions N to create it"
                )
            self.create_topics([(name, partitions, {})])
        found = self.until_described(name)[name]
        if partitions not in (None, found.partitions):
            raise UserError(
                f"--partitions {partitions}: {name!r} is there already, with {found.partitions}; leave the option out"
            )
        return found

    def prepare(self, change: bool = True) -> dict[str, Topic]:
        """Create what is missing, where allowed, and check the rest; returns every topic by its setting. Without ``change`` those that are there, as they are.

        Raises ``UserError`` for a missing or compacted records topic, a missing output topic that may not be created,
        and partition counts that differ.
        """
        records = self._settings.topics.records
        found = self.describe(records, *self.outputs.values())
        if records not in found:
            raise UserError(
                f"topics.records: there is no topic {records!r} on {self._settings.servers}; create it with the partitions "
                "you want (`explain-sidecar topics create --partitions N`), or name the right one"
            )
        source = found[records]
        if "compact" in source.config.get("cleanup.policy", ""):
            raise UserError(
                f"topics.records: {records!r} is compacted (cleanup.policy={source.config['cleanup.policy']}): a replay would not see "
                "the same records; use a topic with cleanup.policy=delete"
            )
        missing = [name for name in self.outputs.values() if name not in found]
        if missing:
            if not self._settings.topics.create:
                raise UserError(
                    f"topics: {', '.join(missing)} missing on {self._settings.servers} and topics.create is false; run "
                    f"`explain-sidecar topics create`, or create them with {source.partitions} partitions"
                    f" ({self.outputs['checkpoints']} with cleanup.policy=compact, {self.outputs['dead_letters']} with "
                    f"max.message.bytes={least_bytes(self._settings)['dead_letters']})"
                )
            if change:
                self.create(missing, source)
                found = self.until_described(records, *self.outputs.values())
        outputs = {setting: found[name] for setting, name in self.outputs.items() if name in found}
        for setting, topic in outputs.items():
            name, count = topic.name, topic.partitions
            if count < source.partitions and self._settings.topics.create:
                if change:
                    self.grow(name, source.partitions)
            elif count != source.partitions:
                raise UserError(
                    f"topics.{setting}: {name!r} has {count} partitions and {records!r} has {source.partitions}; "
                    "they must be equal: what partition p of the input produces goes to partition p of each output"
                )
        policy = (
            outputs["checkpoints"].config.get("cleanup.policy", "") if "checkpoints" in outputs else "compact"
        )
        if "compact" not in policy:
            raise UserError(
                f"topics.checkpoints: {self.outputs['checkpoints']!r} has cleanup.policy={policy}: snapshots would be deleted; set it to compact"
            )
        for setting, topic in outputs.items():
            problem = too_small(setting, topic, self._settings)
            if problem:
                raise UserError(f"topics.{setting}: {topic.name!r} {problem}")
        return {"records": source} | outputs

    def create(self, names: list[str], source: Topic) -> None:
        """Create output topics with the partitions of the records topic and the settings that each needs."""
        configs: dict[str, Mapping[str, str]] = {self.outputs["checkpoints"]: _CHECKPOINT_CONFIG}
        for setting, least in least_bytes(self._settings).items():
            configs[self.outputs[setting]] = {"max.message.bytes": str(least)}
        self.create_topics([(name, source.partitions, configs.get(name, {})) for name in names])

    def create_topics(self, topics: list[tuple[str, int, Mapping[str, str]]]) -> None:
        replication = self._settings.topics.replication_factor
        new = [NewTopic(name, count, replication, config=dict(config)) for name, count, config in topics]
        for name, future in self._admin.create_topics(new, request_timeout=CONNECT_SECONDS).items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another worker was faster
                    raise UserError(
                        f"topics: {name!r} cannot be created: {error.args[0].str()}; create it by hand, or grant the right"
                    ) from None

    def grow(self, name: str, partitions: int) -> None:
        """Give an output topic the partitions that the records topic gained."""
        for future in self._admin.create_partitions(
            [NewPartitions(name, partitions)], request_timeout=CONNECT_SECONDS
        ).values():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.INVALID_PARTITIONS:  # another worker was faster
                    raise UserError(
                        f"topics: {name!r} needs {partitions} partitions and cannot be given them: {error.args[0].str()}; "
                        f"run kafka-topics.sh --alter --topic {name} --partitions {partitions}"
                    ) from None


def same(known: str, found: str) -> bool:
    """Whether these can be ids of one topic. One that its brokers gave no id may have got it since."""
    return known == found or NO_ID in (known, found)


def _allowed(name: str, future: Future[Any]) -> Any:
    """What is told of a topic; None where there is none. Raises ``UserError`` where access is denied."""
    try:
        return future.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise UserError(
            f"topic {name!r}: {error.args[0].str()}; grant this user DESCRIBE and DESCRIBE_CONFIGS, see docs/guarantees.md for all rights"
        ) from None


def least_bytes(settings: Settings) -> dict[str, int]:
    """What ``max.message.bytes`` of an output topic must be at least, by its setting, so that every message of the fold fits."""
    largest = settings.emit.max_bytes
    return {name: largest + HEADROOM if name == "dead_letters" else largest for name in settings.outputs}


def too_small(setting: str, topic: Topic, settings: Settings) -> str | None:
    """The problem of an output topic that does not accept the largest message."""
    least = least_bytes(settings).get(setting, 0)
    limit = int(topic.config.get("max.message.bytes", least))
    if limit >= least:
        return None
    room = settings.emit.max_bytes - least + limit
    smaller = f"; or set emit.max_bytes to {room} at the most" if room >= LEAST_MESSAGE else ""
    return (
        f"takes messages of {limit} bytes and the largest may have {least}: run kafka-configs.sh --alter --topic {topic.name} "
        f"--add-config max.message.bytes={least}{smaller}"
    )


def retention_warning(source: Topic, settings: Settings) -> str | None:
    """The problem of an input whose retention is too short for a replay."""
    retention = int(source.config.get("retention.ms", "-1"))
    wanted = 10 * settings.checkpoint.max_age * 1000
    if 0 <= retention < wanted:
        return (
            f"topics.records: {source.name!r} keeps records for {retention / 1000:g} s; a replay needs them from the last snapshot on, "
            f"so keep them for at least {wanted / 1000:g} s (10 × checkpoint.max_age)"
        )
    return None
