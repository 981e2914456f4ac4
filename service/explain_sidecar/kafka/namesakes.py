"""Members of the group under a worker's name that it is not: of a process that died. Their partitions are nobody's until they leave."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import ConsumerGroupDescription  # type: ignore[attr-defined]

from explain_sidecar.errors import UserError
from explain_sidecar.kafka.clients import worker_name
from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings

LOOK_SECONDS = 10.0

log = logging.getLogger(__name__)


class Namesakes:
    """Looks for them, and takes them out of the group. Its questions run in the client's threads.

    Under the classic protocol they are gone after the next rebalance. Under that of KIP-848 they are once their session ends, 45 s by default; and a
    coordinator that became leader of the group's log a second time while it was loading it (Kafka 4.3.0) never looks at their sessions at all.
    """

    def __init__(
        self, settings: Settings, slot: int, consumer: Consumer, topics: Topics, clock: Clock
    ) -> None:
        self._settings = settings
        self._name = worker_name(settings, slot)
        self._consumer, self._topics, self._clock = consumer, topics, clock
        self._asked: Future[ConsumerGroupDescription] | None = None
        self._asked_at = -LOOK_SECONDS
        self._needed = settings.kafka.group_protocol == "consumer"

    def look(self) -> None:
        now = self._clock.monotonic()
        if self._asked is None:
            if self._needed and now - self._asked_at > LOOK_SECONDS:
                self._asked_at = now
                self._asked = self._topics.ask_members(self._settings.app_id)
        elif self._asked.done():
            asked, self._asked = self._asked, None
            with suppress(KafkaException):
                self._dismiss(asked.result())

    def _dismiss(self, group: ConsumerGroupDescription) -> None:
        own = self._consumer.memberid()
        members = {
            member.member_id: None
            for member in group.members
            if own and member.client_id == self._name and member.member_id != own
        }
        if not members:
            return
        from explain_sidecar.kafka.operators import dismiss

        try:
            dismiss(self._settings, members)
        except UserError as error:
            log.warning("%s is a member of its group twice, and one of them is dead: %s", self._name, error)
        else:
            log.warning("%s was a member of its group twice: the one that is dead was taken out", self._name)
