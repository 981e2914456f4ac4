"""What librdkafka's admin client cannot do, by kafka-python: remove a member from a group, and find and end another's transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from kafka import TopicPartition
from kafka.admin import AbortTransactionSpec, KafkaAdminClient, TransactionState
from kafka.errors import InvalidProducerEpochError, KafkaError

from explain_sidecar.errors import UserError
from explain_sidecar.kafka.clients import ErrorLog, transactional_producer, worker_name
from explain_sidecar.kafka.group_members import members_named, remove
from explain_sidecar.settings import Settings

ANSWER_SECONDS = 5.0

_PROPERTIES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}
"""The name that kafka-python has for a property of librdkafka."""

UNDER_WAY = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""States in which the coordinator will end a transaction itself."""

log = logging.getLogger(__name__)
# At the level debug it logs its configuration, passwords included; at the level error, with a traceback, what it raises as well.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class Unsupported(UserError):
    """The cluster is reached in a way that kafka-python does not know."""


@contextmanager
def operator(settings: Settings) -> Iterator[KafkaAdminClient]:
    """An admin client, closed with the block. Raises ``UserError`` where Kafka does not answer, or refuses a request of the block."""
    try:
        client = KafkaAdminClient(
            bootstrap_servers=settings.servers.split(","),
            client_id=f"{settings.app_id}-operator",
            request_timeout_ms=round(ANSWER_SECONDS * 1000),
            bootstrap_timeout_ms=round(ANSWER_SECONDS * 1000),
            **_translated(settings.kafka.config),
        )
        try:
            yield client
        finally:
            client.close()
    except KafkaError as error:
        raise UserError(f"kafka.bootstrap_servers {settings.servers}: {error}") from None


def _translated(config: dict[str, Any]) -> dict[str, Any]:
    """The properties that decide how brokers are reached."""
    options = {_PROPERTIES[name]: value for name, value in config.items() if name in _PROPERTIES}
    for name in ("security_protocol", "sasl_mechanism"):
        if name in options:
            options[name] = str(options[name]).upper()
    unknown = [
        name
        for name in config
        if name.startswith(("ssl.", "sasl.")) and name not in (*_PROPERTIES, _ENDPOINT)
    ]
    if unknown or options.get("sasl_mechanism") in ("GSSAPI", "OAUTHBEARER"):
        raise Unsupported(
            f"kafka.config: {', '.join(unknown) or 'sasl.mechanism'} is of librdkafka alone; what it cannot do itself is not done"
        )
    if config.get(_ENDPOINT) == "none":
        options["ssl_check_hostname"] = False
    return options


_ENDPOINT = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True)
class Open:
    """A transaction that is open on a partition since an offset. ``torn``: its coordinator knows of none, so that Kafka will not end it. ``replayed``: what it
    held of the sidecar's messages is published again once it is aborted."""

    topic: str
    partition: int
    offset: int
    producer: int
    epoch: int
    coordinator_epoch: int
    name: str | None
    torn: bool
    replayed: bool = True

    def __str__(self) -> str:
        whose = f"producer {self.producer}, epoch {self.epoch}" + (
            f", transactional id {self.name!r}" if self.name else ""
        )
        if not self.torn:
            remedy = "Kafka ends it after its transaction.timeout.ms, at most transaction.max.timeout.ms of the brokers (15 minutes by default)"
        else:
            remedy = "Kafka has forgotten it and will not end it. " + (
                "Run `explain-sidecar transactions abort --yes`: what it held of the sidecar's messages is published again from the replay"
                if self.replayed
                else "`kafka-transactions.sh abort` ends it; what its program wrote with it is lost then"
            )
        return f"{self.topic} partition {self.partition}, offset {self.offset}: the transaction of {whose}. {remedy}"


def find_open(settings: Settings, places: Iterable[tuple[str, int]]) -> list[Open]:
    """The transactions that are open on these partitions. Raises ``UserError``."""
    with operator(settings) as client:
        described = client.describe_producers([TopicPartition(*place) for place in places])
        states = [
            (place, producer)
            for place, state in described.items()
            for producer in state.active_producers
            if producer.current_transaction_start_offset >= 0
        ]
        numbers = sorted({producer.producer_id for _, producer in states})
        listed = client.list_transactions(producer_id_filters=numbers) if numbers else {}
        names = {one.producer_id: one.transactional_id for many in listed.values() for one in many}
        transactions = client.describe_transactions(sorted(set(names.values()))) if names else {}
    found = []
    for place, producer in states:
        name = names.get(producer.producer_id)
        known = transactions.get(name)
        under_way = (
            known is not None
            and known.state in UNDER_WAY
            and known.producer_epoch == producer.producer_epoch
            and place in known.topic_partitions
        )
        found.append(
            Open(
                place.topic,
                place.partition,
                producer.current_transaction_start_offset,
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                name,
                torn=not under_way,
            )
        )
    return found


def abort(settings: Settings, transactions: Iterable[Open]) -> None:
    """Write the markers that end torn transactions. Raises ``UserError``."""
    with operator(settings) as client:
        for one in transactions:
            # A later transaction of its producer may have ended it meanwhile.
            with suppress(InvalidProducerEpochError):
                client.abort_transaction(
                    AbortTransactionSpec(
                        TopicPartition(one.topic, one.partition),
                        one.producer,
                        one.epoch,
                        one.coordinator_epoch,
                    )
                )


def dismiss(settings: Settings, name: str, own: str | None = None) -> int:
    """Take the members under a worker's name out of its group, but for the one of the id ``own``; how many. Raises ``UserError``."""
    group, protocol = settings.app_id, settings.kafka.group_protocol
    with operator(settings) as client:
        members = members_named(client, group, protocol, name)
        members.pop(own or "", None)
        # Beside the one that lives, none of its stable name is back soon.
        remove(client, group, protocol, dict.fromkeys(members) if own else members)
    return len(members)


def release(settings: Settings, slot: int) -> None:
    """Free what a worker that was killed holds: its partitions, and its open transaction. They would wait for its session's end, and for 10 s.

    The worker must be dead, and no other may start under its name before this returns. What Kafka does not answer is left to time.
    """
    name = worker_name(settings, slot)
    try:
        dismiss(settings, name)
    except UserError as error:
        log.info("%s stays a member of its group until its session ends: %s", name, error)
    with suppress(KafkaException, UserError):
        transactional_producer(settings, name, ErrorLog()).init_transactions(ANSWER_SECONDS)
