"""Members of the group under a worker's name that it is not: of a process that died. Their partitions are nobody's until they leave."""

from __future__ import annotations

import logging
import math
import threading

from confluent_kafka import Consumer

from explain_sidecar.errors import UserError
from explain_sidecar.kafka.clients import worker_name
from explain_sidecar.kafka.clock import Clock
from explain_sidecar.settings import Settings

LOOK_SECONDS = 30.0

log = logging.getLogger(__name__)


class Namesakes:
    """Looks for them under the group protocol of KIP-848, in a thread of its own, and takes them out of the group.

    Under the classic protocol they are gone after the next rebalance. Under that one they are once their session ends, 45 s by default; and a
    coordinator that became leader of the group's log a second time while it was loading it (Kafka 4.3.0) never looks at their sessions at all.
    """

    def __init__(self, settings: Settings, slot: int, consumer: Consumer, clock: Clock) -> None:
        self._settings, self._name = settings, worker_name(settings, slot)
        self._consumer, self._clock = consumer, clock
        self._due = 0.0 if settings.kafka.group_protocol == "consumer" else math.inf
        self._looking: threading.Thread | None = None

    def look(self) -> None:
        now = self._clock.monotonic()
        if now < self._due or (self._looking is not None and self._looking.is_alive()):
            return
        self._due = now + LOOK_SECONDS
        own = self._consumer.memberid()
        if own:
            self._looking = threading.Thread(target=self._dismiss, args=(own,), daemon=True)
            self._looking.start()

    def _dismiss(self, own: str) -> None:
        from explain_sidecar.kafka.operators import Unsupported, dismiss

        try:
            found = dismiss(self._settings, self._name, own)
        except Unsupported as error:
            self._due = math.inf
            log.warning("a dead process that is a member of the group is left to the brokers: %s", error)
        except UserError as error:
            log.info(
                "whether a dead process is a member of the group as %s is not known: %s", self._name, error
            )
        else:
            if found:
                log.warning(
                    "%s was a member of its group twice: the one that is dead was taken out", self._name
                )
