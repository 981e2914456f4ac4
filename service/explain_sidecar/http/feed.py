"""The dashboard's data: the output topics of the whole group, and the group's progress."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from explain_client.chain import Link, next_link
from explain_client.errors import ChainError, SchemaError
from explain_client.messages import Alarm, Drift, Explanation, Prediction
from explain_client.stories import Stories, control_of
from explain_sidecar.errors import UserError
from explain_sidecar.fold.messages import app_of, letter_headers
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.http.changes import LONGEST, shown_alarm, shown_change
from explain_sidecar.http.history import MAX_POINTS, packed, release
from explain_sidecar.http.partition import Partition
from explain_sidecar.http.predictions import MOST, look_up
from explain_sidecar.kafka.clients import admin_client, reading_consumer
from explain_sidecar.kafka.ends import PartitionEnds, committed_offsets
from explain_sidecar.kafka.input import record_of
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings
from explain_sidecar.wire.registry import json_reader, registry_of

MAX_BACKLOG = 20_000
"""Explanations read at the start at the most, over all partitions; fewer where that is more than the charts show."""

MAX_WINDOW = 1_000
"""Explanations whose records an average is weighted by, at the most."""

MAX_LETTERS = 20
MAX_PROBLEMS = 20
UNREAD = ("rows",)
"""Outputs that the dashboard does not show."""
MAX_CLASSES = 50
"""Classes of dead letters that are counted one by one; the sidecar writes fewer, but other writers may add classes."""

MANY = 1_000
"""After so many messages memory is given back, once there is nothing to read."""

FETCH_BYTES = 2 * 2**20
LAG_SECONDS = 2.0
LOOK_SECONDS = 15.0
"""How often it looks for new topics and partitions."""

log = logging.getLogger(__name__)

_Kind = TypeVar("_Kind", Explanation, Drift, Alarm, Prediction)


@dataclass(frozen=True)
class Letter:
    """A dead letter; ``details`` are its message, key and value, and None unless ``http.show_payloads``."""

    error_class: str
    partition: int
    offset: int
    timestamp: int
    details: dict[str, str] | None


@dataclass
class ReadingProblem:
    """What kept the dashboard from reading, from when until when in milliseconds since 1970; it lasts where ``until`` is None."""

    text: str
    since: int
    until: int | None = None


class Feed:
    """Follows the topics in its own thread; readers take the lock. ``version`` rises with each change.

    ``foreign`` has, by topic and partition, how many messages could not be read, and what is wrong with the newest. ``unread`` are outputs that it leaves out.
    """

    def __init__(self, settings: Settings, unread: Sequence[str] = UNREAD) -> None:
        self.settings = settings
        self._unread = unread
        self.lock = threading.Lock()
        self.version = 0
        self.partitions: dict[int, Partition] = {}
        self.stories = Stories()
        self.window: deque[Explanation] = deque(maxlen=MAX_WINDOW)
        self.letters: deque[Letter] = deque(maxlen=MAX_LETTERS)
        self.letter_classes: Counter[str] = Counter()
        self.problem: str | None = "connecting to Kafka"
        self.problems: deque[ReadingProblem] = deque(maxlen=MAX_PROBLEMS)
        self.foreign: dict[tuple[str, int], tuple[int, str]] = {}
        self.stopping = False
        self._json = json_reader(registry_of(settings))
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Read the topics within the block."""
        self._thread.start()
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        self.stopping = True

    def _run(self) -> None:
        while not self.stopping:
            try:
                self._follow()
            except (UserError, KafkaException) as error:
                reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
                self._say(reason)
                time.sleep(1.0)
            except Exception as error:
                log.exception("the dashboard's reader begins again")
                self._say(f"the dashboard's reader begins again after {type(error).__name__}: {error}")
                time.sleep(10.0)

    def _follow(self) -> None:
        """Read from where a chart's worth of messages begins, until there are new partitions or an error."""
        topics = self.settings.topics
        names = [getattr(topics, name) for name in self.settings.outputs if name not in self._unread]
        also = [] if topics.control is None else [topics.control]
        # The queue must stay small: at the start it is the backlog of every partition.
        consumer = reading_consumer(
            self.settings, fetch_max_bytes=FETCH_BYTES, queued_max_messages_kbytes=FETCH_BYTES // 1024
        )
        admin = admin_client(self.settings)
        ends = PartitionEnds(admin)
        # Offsets whose transaction is still open count as those before it, and are not waited for.
        group = reading_consumer(
            self.settings, group=self.settings.app_id, isolation_level="read_uncommitted"
        )
        try:
            partitions = {
                name: topic.partitions
                for name, topic in Topics(self.settings, admin).describe(*names, *also).items()
            }
            if topics.explanations not in partitions:
                self._say(
                    f"there is no topic {topics.explanations!r} yet; the sidecar creates it when it starts"
                )
                time.sleep(1.0)
                return
            consumer.assign(self._starts(consumer, partitions))
            with self.lock:
                self.partitions = {
                    number: Partition(number) for number in range(partitions[topics.explanations])
                }
                self.stories = Stories()
                self.window.clear()
                self.letters.clear()
                self.letter_classes.clear()
                self.foreign.clear()
            self._say(None)
            taken, asked_at, looked = 0, 0.0, time.monotonic()
            while not self.stopping:
                first = consumer.poll(0.1)
                if first is not None:
                    with self.lock:
                        messages = [first, *consumer.consume(200, 0.0)]
                        for message in messages:
                            self._take(message)
                        taken += len(messages)
                        self.version += 1
                now = time.monotonic()
                if now - asked_at > LAG_SECONDS:
                    asked_at = now
                    self._ask_for_lag(ends, group)
                if first is None and taken > MANY:
                    taken = 0
                    release()
                if now - looked > LOOK_SECONDS:
                    looked = now
                    found = admin.list_topics(timeout=5.0).topics
                    if any(
                        len(found[name].partitions) > partitions.get(name, 0)
                        for name in (*names, *also)
                        if name in found
                    ):
                        return
        finally:
            group.close()
            consumer.close()

    def _starts(self, consumer: Consumer, partitions: dict[str, int]) -> list[TopicPartition]:
        starts = []
        for name, count in partitions.items():
            # Two offsets a message: every other one may be a transaction's end.
            most = {
                self.settings.topics.explanations: min(2 * MAX_POINTS, MAX_BACKLOG // count),
                self.settings.topics.predictions: 2 * MOST // count,
            }.get(name, 500)
            for number in range(count):
                low, high = consumer.get_watermark_offsets(TopicPartition(name, number), timeout=5.0)
                starts.append(TopicPartition(name, number, max(low, high - most)))
        return starts

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return
            if error.code() == KafkaError._AUTO_OFFSET_RESET or error.fatal():
                raise KafkaException(error)
            self._set_problem(error.str())
            return
        self._set_problem(None)
        number: int = message.partition()  # type: ignore[assignment]
        try:
            self._read(number, message)
        except Exception as error:  # whatever one message holds, the next one is shown
            log.exception("a message of %s partition %d offset %d", message.topic(), number, message.offset())
            self._refuse(str(message.topic()), number, f"{type(error).__name__}: {error}")

    def _read(self, number: int, message: Message) -> None:
        topics, topic, value = self.settings.topics, message.topic(), message.value() or b""
        takes = {
            topics.explanations: self.explanation,
            topics.drift: self.change,
            topics.alarms: self.alarm,
            topics.predictions: self.prediction,
        }
        if topic in takes:
            takes[topic](number, self._json(value))
        elif topic == topics.control:
            self.control(number, value)
        else:
            self.letter(number, record_of(message))

    def explanation(self, number: int, value: bytes) -> None:
        """Take a message of the explanations topic in."""
        found = self._verified(number, "explanations", value, Explanation)
        if found is None:
            return
        partition, explanation = found
        # A message of the past only tells the traffic.
        self.window.append(
            replace(
                explanation,
                importances={},
                performance={},
                estimators={},
                challenger=None,
                segments={},
                raw=b"",
            )
        )
        partition.take(replace(explanation, raw=b""))
        self.stories.add(explanation)

    def change(self, number: int, value: bytes) -> None:
        """Take a message of the drift topic in."""
        found = self._verified(number, "drift", value, Drift)
        if found is not None:
            found[0].changes.append(packed(shown_change(dict(orjson.loads(found[1].raw)))))
            self.stories.add(found[1])

    def alarm(self, number: int, value: bytes) -> None:
        """Take a message of the alarms topic in."""
        found = self._verified(number, "alarms", value, Alarm)
        if found is not None and not found[1].void:
            (story, *_) = self.stories.add(replace(found[1], raw=b""))
            found[0].alarms.append(shown_alarm(found[1], story))

    def prediction(self, number: int, value: bytes) -> None:
        """Take a message of the predictions topic in."""
        found = self._verified(number, "predictions", value, Prediction)
        if found is not None:
            found[0].predictions.add(found[1], len(self.partitions))

    def look_up(self, wanted: str) -> tuple[int, dict[str, Any]]:
        """``predictions.look_up`` in what was read; the caller has the lock."""
        return look_up(self.settings, [each.predictions for each in self.partitions.values()], wanted)

    def control(self, number: int, value: bytes) -> None:
        """Take a message of the control topic in."""
        try:
            self.stories.add(control_of(value))
        except SchemaError as error:
            self._refuse(str(self.settings.topics.control), number, str(error))

    def _verified(
        self, number: int, name: str, value: bytes, kind: type[_Kind]
    ) -> tuple[Partition, _Kind] | None:
        """The partition and a message of ours, its chain checked; None for one that is not ours or cannot be read."""
        try:
            message = kind.from_json(value)
        except SchemaError as error:
            if app_of(value) in (None, self.settings.app_id):  # it is not another sidecar's
                self._refuse(getattr(self.settings.topics, name), number, str(error))
            return None
        if message.app_id != self.settings.app_id:
            return None
        partition = self.partitions.setdefault(number, Partition(number))
        try:
            partition.links[name] = next_link(partition.links.get(name), message)
            partition.verified += 1
        except ChainError as error:  # after a break the chain begins anew with what came
            partition.broken = partition.broken or str(error)
            partition.links[name] = Link(message.epoch, message.seq, message.digest)
        return partition, message

    def _refuse(self, topic: str, number: int, reason: str) -> None:
        count, _ = self.foreign.pop((topic, number), (0, ""))  # the newest is the last in the dict
        self.foreign[topic, number] = (count + 1, reason[:1_000])

    @property
    def notice(self) -> str | None:
        """What is wrong with the messages that could not be read; None where there are none."""
        if not self.foreign:
            return None
        (topic, number), (_, newest) = next(reversed(self.foreign.items()))
        total = sum(count for count, _ in self.foreign.values())
        return f"{total} messages of the output topics cannot be read and are left out, such as one of {topic} partition {number}: {newest}"

    def letter(self, number: int, record: InputRecord) -> None:
        """Take a message of the dead-letters topic in."""
        found = letter_headers(record.headers)
        if found.get("app_id") != self.settings.app_id:
            return
        kind = found.get("errors.class", "unknown")[:100]
        if kind not in self.letter_classes and len(self.letter_classes) >= MAX_CLASSES:
            kind = "other"
        self.letter_classes[kind] += 1
        details = None
        if self.settings.http.show_payloads:
            message = found.get("errors.message", "")
            details = {"message": message, "key": _text(record.key), "value": _text(record.value)}
        offset_text = found.get("errors.offset", "")
        offset = int(offset_text) if offset_text.isdecimal() and len(offset_text) < 20 else -1
        self.letters.append(Letter(kind, number, offset, record.timestamp, details))

    def _ask_for_lag(self, ends: PartitionEnds, group: Consumer) -> None:
        topic = self.settings.topics.records
        committed = committed_offsets(group, topic, self.partitions)
        stable = ends.last_stable(topic, committed)
        with self.lock:
            for number, partition in self.partitions.items():
                known = number in committed and number in stable
                lag = max(0, stable[number] - committed[number]) if known else None
                if lag != partition.lag:
                    partition.lag = lag
                    self.version += 1

    def _say(self, problem: str | None) -> None:
        with self.lock:
            if problem != self.problem:
                self._set_problem(problem)
                self.version += 1

    def _set_problem(self, problem: str | None) -> None:
        """From now on this is the problem, or there is none; the one before is over."""
        if problem == self.problem:
            return
        now = time.time_ns() // 1_000_000
        if self.problems and self.problems[-1].until is None:
            self.problems[-1].until = now
        if problem is not None:
            self.problems.append(ReadingProblem(problem[:LONGEST], now))
        self.problem = problem


def _text(value: bytes | None) -> str:
    """The beginning of a payload, as far as it is text."""
    return (value or b"")[:1_000].decode(errors="replace")
