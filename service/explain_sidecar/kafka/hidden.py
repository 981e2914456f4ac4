"""What readers of committed messages do not see of the output topics: an open transaction hides what comes after its beginning.

Kafka ends each after its time-out. One that it has forgotten in part, a torn one, stays open for good.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.ends import PartitionEnds
from explain_sidecar.settings import Settings

LOOK_SECONDS = 5.0
STANDS_SECONDS = 25.0
"""Kafka ends a transaction of ours after 10 s, and looks for such ones every 10 s."""

log = logging.getLogger(__name__)

Place = tuple[str, int]


@dataclass(frozen=True)
class Hidden:
    """An output that readers see only up to ``offset``, though it goes on to ``end``; ``since``: seconds since 1970; ``whose``: in words."""

    topic: str
    partition: int
    offset: int
    end: int
    since: float
    whose: str


class Readers:
    """Looks at what readers see of ``places``, which this worker writes to. Its questions run in the client's threads.

    ``replayed``: whether the worker publishes again what readers did not see, once it is aborted.
    """

    def __init__(
        self,
        settings: Settings,
        ends: PartitionEnds,
        places: Callable[[], Iterable[Place]],
        clock: Clock,
        replayed: bool = True,
    ) -> None:
        self._settings = settings
        self._ends = ends
        self._places = places
        self._clock = clock
        self._replayed = replayed
        self._asked: list[dict[TopicPartition, Future[Any]]] = []
        self._asked_at = clock.monotonic()
        self._open: dict[Place, tuple[int, float, float]] = {}
        self._whose: dict[Place, str] = {}
        self.hidden: list[Hidden] = []
        self.torn: deque[int] = deque()
        """Partitions on one of whose outputs a transaction was found that Kafka will not end."""

    def look(self) -> None:
        """Ask once in a while, and take in what was answered."""
        if self._asked:
            if all(future.done() for answers in self._asked for future in answers.values()):
                self._take_in()
        elif self._clock.monotonic() - self._asked_at > LOOK_SECONDS:
            self._asked_at = self._clock.monotonic()
            self._asked = self._ask(list(self._places()))

    def _ask(self, places: list[Place]) -> list[dict[TopicPartition, Future[Any]]]:
        asked = [
            self._ends.ask(places, isolation)
            for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        return asked if all(asked) else []

    def _take_in(self) -> None:
        ends, self._asked = _ends(self._asked), []
        if ends is None:
            return
        now, before = self._clock.monotonic(), self._open
        self._open, hidden = {}, []
        for place, (stable, high) in ends.items():
            if stable >= high:
                continue
            known = before.get(place)
            found = known if known and known[0] == stable else (stable, now, self._clock.time())
            self._open[place] = found
            if now - found[1] > STANDS_SECONDS:
                if place not in self._whose:
                    self._whose[place] = "whose it is can be asked for: explain-sidecar transactions show"
                    threading.Thread(target=self._tell, args=(place, *found[::2], high), daemon=True).start()
                hidden.append(Hidden(*place, stable, high, found[2], self._whose[place]))
        for place in self._whose.keys() - {(one.topic, one.partition) for one in hidden}:
            del self._whose[place]
            log.info(
                "%s: readers see what follows the open transaction again",
                place[0],
                extra={"partition": place[1]},
            )
        self.hidden = hidden

    def _tell(self, place: Place, stable: int, since: float, high: int) -> None:
        """Find out whose the transaction is, and log it once."""
        from explain_sidecar.errors import UserError
        from explain_sidecar.kafka.operators import find_open

        try:
            found = [replace(one, replayed=self._replayed) for one in find_open(self._settings, [place])]
            if any(one.torn for one in found):
                self.torn.append(place[1])
            self._whose[place] = "; ".join(map(str, found)) or self._whose[place]
        except UserError as error:
            log.debug("%s", error)
        log.error(
            "readers of %s stand still at offset %d of %d, since %d s: a transaction is open there. %s",
            place[0],
            stable,
            high,
            self._clock.time() - since,
            self._whose.get(place, ""),
            extra={"partition": place[1], "offset": stable},
        )


def _ends(asked: list[dict[TopicPartition, Future[Any]]]) -> dict[Place, tuple[int, int]] | None:
    """The last stable offset and the high watermark of each; None where one is not known."""
    if not asked:
        return {}
    committed, everything = asked
    found = {}
    try:
        for where, future in committed.items():
            stable, high = (int(answer.result(0).offset) for answer in (future, everything[where]))
            if min(stable, high) < 0:
                return None
            found[where.topic, where.partition] = stable, high
    except (KafkaException, TimeoutError):
        return None
    return found
