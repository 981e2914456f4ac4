"""Whether the topics are still those that the worker started with: a topic deleted and created again has another id."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, wait

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import TopicDescription  # type: ignore[attr-defined]

from explain_sidecar.errors import UserError
from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.errors import kept_by_reset
from explain_sidecar.kafka.topics import NO_ID, WITHOUT_IDS, Topic, Topics, same

LOOK_SECONDS = 2.0
"""Seconds between checks of all topics."""

ANSWER_SECONDS = 1.0
"""How long a commit waits for an answer; without one it goes on, as other brokers may answer it."""

GONE_SECONDS = 5.0
"""How long a topic must be missing: a broker that has just started may not know it yet."""

log = logging.getLogger(__name__)

_LOST = {
    "topics.records": "the state is of records that are gone, and nothing of the new topic was committed. To go on with it in a new epoch, for each "
    f"partition P: {kept_by_reset('P')}",
    "topics.checkpoints": "the snapshots are gone, so that no partition can be restored from them. Start the sidecar again: it says of a partition whether its log is enough, "
    "and what to do if it is not",
}
_PUBLISHED = "what was published to it is gone; start the sidecar again, and it goes on after that"

Asked = Mapping[str, "Future[TopicDescription]"]


class TopicWatch:
    """Compares the ids of topics with those at the start. Its questions run in the client's threads; only ``confirm`` waits.

    ``known``: the topics by the setting that names them, ``inputs`` of them to begin with. ``ids``: whether the brokers give topics ids;
    without them only a topic that is missing is noticed.
    """

    def __init__(self, topics: Topics, known: Mapping[str, Topic], clock: Clock, inputs: int = 1) -> None:
        self._clock = clock
        self._topics = topics
        self._known = {topic.name: (setting, topic.id) for setting, topic in known.items()}
        self.ids = all(topic.id != NO_ID for topic in known.values())
        if not self.ids:
            log.warning(WITHOUT_IDS)
        self._inputs = [topic.name for topic in known.values()][:inputs]
        self._asked: Asked = {}
        self._asked_at = self._clock.monotonic()
        self._gone: dict[str, float] = {}

    def look(self) -> None:
        """Ask for all topics once in a while, and compare what was answered. Raises ``UserError``."""
        if all(future.done() for future in self._asked.values()):
            self._compare(self._asked)
            self._asked = {}
            if self._clock.monotonic() - self._asked_at > LOOK_SECONDS:
                self._asked_at = self._clock.monotonic()
                self._asked = self._topics.ask(*self._known)

    def ask(self) -> Asked:
        """Ask for the input: what has been read by now is of it if the answer is that it is the same."""
        return self._topics.ask(*self._inputs)

    def confirm(self, asked: Asked) -> None:
        """Wait for the answer; as long as the topic is missing, ask again. Raises ``UserError``."""
        while True:
            wait(asked.values(), ANSWER_SECONDS)
            self._compare(asked)
            if not any(name in self._gone for name in self._inputs):
                return
            self._clock.sleep(0.1)
            asked = self.ask()

    def _compare(self, asked: Asked) -> None:
        for name, future in asked.items():
            if not future.done():
                continue
            setting, known = self._known[name]
            what = ""
            try:
                found = str(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    since = self._gone.setdefault(name, self._clock.monotonic())
                    if self._clock.monotonic() - since > GONE_SECONDS:
                        what = "was deleted while the sidecar ran"
            else:
                self._gone.pop(name, None)
                if not same(known, found):
                    what = f"was deleted and created again while the sidecar ran (its id was {known} and is {found})"
            if what:
                raise UserError(f"{setting}: {name!r} {what}: {_LOST.get(setting, _PUBLISHED)}")
