"""The one place where Kafka clients are configured, and their errors are put into words.

Each value that differs from librdkafka's default has its reason beside it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ThrottleEvent
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription  # type: ignore[attr-defined]

from explain_client.kafka import COMMITTED
from explain_client.kafka import CONNECT_SECONDS as CONNECT_SECONDS
from explain_sidecar.errors import UserError
from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.oauth import token_source
from explain_sidecar.settings import Settings
from explain_sidecar.settings.kafka import TRANSACTION_TIMEOUT_MS

NO_COORDINATOR = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Errors of a broker that has just started: the groups' coordinator is not there yet."""

COORDINATOR_SECONDS = 30.0
"""A cluster that no group has used yet makes its topic of offsets first."""

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Kafka:
    """A worker's environment beside its settings: factories of the cluster's clients, and the clock.

    The default is Kafka itself; ``tests/driver`` has an in-memory cluster under the control of a test.
    """

    consumer: Callable[[dict[str, Any]], Consumer] = Consumer
    producer: Callable[[dict[str, Any]], Producer] = Producer
    admin: Callable[[dict[str, Any]], AdminClient] = AdminClient
    clock: Clock = field(default_factory=Clock)


KAFKA = Kafka()


def admin_client(settings: Settings, errors: ErrorLog | None = None, kafka: Kafka = KAFKA) -> AdminClient:
    """A client that knows a topic that it was told of for 15 minutes, whatever the settings say of others, see ``ends.PartitionEnds``."""
    return _made(kafka.admin, _common(settings, errors or ErrorLog()) | {"metadata.max.age.ms": 900_000})


def group_of(admin: AdminClient, group: str) -> ConsumerGroupDescription | None:
    """The members of a group and what this client may do with it, once a cluster that has just started has a coordinator for it; None where it has no such group.

    Raises ``KafkaException``.
    """
    deadline = time.monotonic() + COORDINATOR_SECONDS
    while True:
        described = admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=CONNECT_SECONDS
        )
        try:
            found: ConsumerGroupDescription = described[group].result()
            return found
        except KafkaException as error:
            code = error.args[0].code()
            if code in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID):
                return None
            if code not in NO_COORDINATOR or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def group_consumer(settings: Settings, slot: int, errors: ErrorLog, kafka: Kafka = KAFKA) -> Consumer:
    """The consumer of a worker: a member of the group, reading committed records from explicit offsets."""
    config = _common(settings, errors) | {
        "group.id": settings.app_id,
        "client.id": worker_name(settings, slot),
        **COMMITTED,
        **membership(settings),
        "throttle_cb": errors.throttle,
        # How long a rebalance waits for a member that does not join it. A broker that was killed and started again may know members
        # of before, and forget to look whether they live; the default is five minutes without a partition for anyone.
        "max.poll.interval.ms": 45_000,
        "fetch.queue.backoff.ms": 100,
        "fetch.wait.max.ms": 100,
    }
    if settings.kafka.group_instance_id:
        config["group.instance.id"] = f"{settings.kafka.group_instance_id}-{slot}"
    return _made(kafka.consumer, config | settings.kafka.config)


def membership(settings: Settings) -> dict[str, Any]:
    """How every member takes part in the group of these settings."""
    if settings.kafka.group_protocol == "consumer":
        # Assignor, session timeout and heartbeats are the broker's.
        return {"group.protocol": "consumer"}
    return {
        "partition.assignment.strategy": "cooperative-sticky",
        # A cooperative move is dark for about two heartbeats; a killed member is noticed after the session timeout.
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 500,
    }


def reading_consumer(
    settings: Settings,
    errors: ErrorLog | None = None,
    group: str | None = None,
    kafka: Kafka = KAFKA,
    **config: object,
) -> Consumer:
    """A consumer that joins no group, for reading at explicit offsets; ``group`` names the group whose offsets it can query.

    ``config``: more librdkafka properties, with _ for the dots.
    """
    own = {name.replace("_", "."): value for name, value in config.items()}
    known = _common(settings, errors or ErrorLog()) | {
        # librdkafka wants a name even where no group is joined; nothing is ever committed under it.
        "group.id": group or f"{settings.app_id}.reader",
        **COMMITTED,
        "fetch.wait.max.ms": 50,
        **own,
    }
    return _made(kafka.consumer, known | settings.kafka.config)


def uncommitted_reader(
    settings: Settings, errors: ErrorLog | None = None, kafka: Kafka = KAFKA
) -> Callable[[], Consumer]:
    """Makes a reader that sees open transactions too when it is first called, and gives that one from then on."""
    return cache(partial(reading_consumer, settings, errors, kafka=kafka, isolation_level="read_uncommitted"))


def check_properties(settings: Settings) -> None:
    """Raise ``UserError`` for a property in ``kafka.config`` that librdkafka does not have, or a value that it cannot be. Asks no broker.

    Files that properties name need not be there: settings are also checked where no secrets are.
    """
    try:
        _made(KAFKA.consumer, {"group.id": settings.app_id, "log_level": 0} | settings.kafka.config).close()
    except UserError as error:
        if "configuration property" in str(error):
            raise


class Connections(logging.Handler):
    """Takes librdkafka's own lines of a producer, which alone say that a connection broke or an answer did not come in time.

    ``broken``: whether that was so. It then asked again by itself, and what it had asked before may still be on its way to the broker.
    """

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self._logger = logging.Logger("kafka")
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.broken = self.broken or record.getMessage().startswith(("FAIL ", "REQTMOUT "))
        log.debug("librdkafka: %s", record.getMessage())

    def config(self, level: int) -> dict[str, Any]:
        """What a client needs to report them. ``level``: of the lines that the user asked for."""
        return {"logger": self._logger, "log_level": max(level, 6), "log.connection.close": True}


def transactional_producer(
    settings: Settings,
    name: str,
    errors: ErrorLog,
    kafka: Kafka = KAFKA,
    connections: Connections | None = None,
) -> Producer:
    """The producer whose transactions carry outputs, snapshots and offsets, connected to a broker if one answers.

    A stable transactional id lets a restarted worker abort its predecessor's open transaction at once.
    """
    config = (
        _common(settings, errors)
        | {
            "transactional.id": name,
            "client.id": name,
            "throttle_cb": errors.throttle,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "message.timeout.ms": TRANSACTION_TIMEOUT_MS - 1_000,
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            # Messages that wait together count as one against the topic's limit.
            "batch.size": min(1_000_000, settings.emit.max_bytes),
            # Large records must fit into dead letters; topics have limits of their own.
            "message.max.bytes": 100_000_000,
            "queue.buffering.max.messages": 1_000_000,
            # Back-to-back transactions otherwise wait 100 ms for the one before to end.
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 100,
        }
        | settings.kafka.config
    )
    if connections is not None:
        config |= connections.config(int(config["log_level"]))
    producer = _made(kafka.producer, config)
    # What is asked for before a broker is connected librdkafka asks for again after half a second.
    with suppress(KafkaException):
        producer.list_topics(settings.topics.records, timeout=1.0)
    return producer


def plain_producer(settings: Settings) -> Producer:
    """An idempotent producer, for feeding records."""
    config = _common(settings, ErrorLog()) | {
        "enable.idempotence": True,
        "linger.ms": 20,
        "compression.type": "lz4",
    }
    return _made(KAFKA.producer, config | settings.kafka.config)


def worker_name(settings: Settings, slot: int) -> str:
    """Transactional id and client id of a worker."""
    return f"{settings.app_id}-{settings.instance_id}-{slot}"


class ErrorLog:
    """Keeps the errors that a client reports in the background: they explain a call that merely timed out."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None
        self.throttled = 0.0
        """Seconds that brokers made the clients wait by their quotas."""
        self._logged: str | None = None

    @property
    def refused(self) -> bool:
        """Whether a broker refused the client."""
        return self.last is not None and self.last.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)

    def throttle(self, event: ThrottleEvent) -> None:
        self.throttled += event.throttle_time

    def __call__(self, error: KafkaError) -> None:
        # "All brokers down" and "transport failure" follow the error that says why.
        if not self.refused and error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error
        if error.str() != self._logged:
            self._logged = error.str()
            log.warning("kafka: %s", error.str())


def unreachable(settings: Settings, errors: ErrorLog, cause: KafkaException | None = None) -> UserError:
    """Why the cluster did not answer, in one message."""
    error = errors.last or (cause.args[0] if cause else None)
    reason = error.str() if error else "no answer"
    if error is not None and error.code() == KafkaError._AUTHENTICATION:
        return UserError(
            f"kafka.bootstrap_servers {settings.servers}: the broker refused the credentials: {reason}; "
            "check sasl.mechanism, sasl.username and sasl.password in kafka.config, or the token's source"
        )
    if error is not None and error.code() == KafkaError._SSL:
        return UserError(
            f"kafka.bootstrap_servers {settings.servers}: TLS failed: {reason}; check security.protocol and ssl.ca.location in kafka.config"
        )
    return UserError(
        f"kafka.bootstrap_servers {settings.servers}: no broker answered within {CONNECT_SECONDS:g} s ({reason}); "
        "check the address, and that the broker runs"
    )


def _common(settings: Settings, errors: ErrorLog) -> dict[str, Any]:
    return {
        "bootstrap.servers": settings.servers,
        "error_cb": errors,
        # librdkafka's own lines repeat what error_cb gets.
        "log_level": 2,
        "reconnect.backoff.max.ms": 1_000,
        **({"oauth_cb": token_source(settings.kafka.oauth)} if settings.kafka.oauth else {}),
        **settings.kafka.config,
    }


def _made(client: Callable[[dict[str, Any]], T], config: dict[str, Any]) -> T:
    try:
        return client(config)
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else error
        raise UserError(f"kafka.config: {reason}") from None
