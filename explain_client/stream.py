"""``Explanations`` and ``Drifts``: the output topics, message by message, verified."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from explain_client.chain import Link, next_link
from explain_client.errors import ChainError, ClientError
from explain_client.kafka import CONNECT_SECONDS, POLL_SECONDS, connect, decoded, reached_end, reason
from explain_client.messages import Alarm, Drift, Explanation, Prediction, Row
from explain_client.position import PartitionPosition, Position

Start = Literal["earliest", "latest"] | datetime | timedelta | Position
Verify = Literal["raise", "warn", "off"]

LOOK_SECONDS = 15.0
"""How often a reader that is no member of a group looks for new partitions."""

MOVED = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS)
"""A commit is refused with these while partitions move to another member, which then gets the message again."""

log = logging.getLogger(__name__)

M = TypeVar("M", Explanation, Drift, Alarm, Row, Prediction)


class Stream(Generic[M]):
    """The messages of a topic in order of their partitions, committed ones alone; a context manager and an iterator.

    ``start`` is "earliest"; "latest", what comes from now on; a time (with its zone) or a ``timedelta`` before now, both
    by when messages were published; or the ``position`` of an earlier reader. ``app_id`` selects one sidecar, where
    several write to the topic. ``follow=False`` ends once every partition's end was reached. ``verify`` checks each partition's chain: "raise" a ``ChainError``, "warn" in the log,
    or "off". ``config`` has further librdkafka properties, such as those of SASL and TLS.

    With ``group_id`` the reader joins that consumer group: its members share the partitions and go on where the group was;
    ``start`` counts where the group has no offset. A message is committed when the loop's body is done with it.

    A partition that the topic gains meanwhile is read from its beginning.

    Raises ``ClientError`` for a broker, topic or setting at fault, ``SchemaError`` for a message that it cannot read.
    """

    _type: type[M]

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        start: Start = "earliest",
        app_id: str | None = None,
        follow: bool = True,
        verify: Verify = "raise",
        group_id: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        _check("start", start, ("earliest", "latest"), (datetime, timedelta, Position))
        _check("verify", verify, ("raise", "warn", "off"), ())
        if isinstance(start, datetime) and start.tzinfo is None:
            raise ValueError(f"start: {start} has no time zone; give it one, as in datetime.now(UTC)")
        self._topic, self._start, self._follow, self._verify = topic, start, follow, verify
        self._app_id = app_id
        self._group, self._servers, self._config = group_id, servers, dict(config or {})
        self._consumer: Consumer | None = None
        self._positions: dict[int, PartitionPosition] = {}
        self._left: set[int] = set()
        self._known: set[int] = set()
        """The partitions for which ``start`` counts, and those found since."""
        self._looked = 0.0
        self._open = False
        self._uncommitted: int | None = None
        self._polling: asyncio.Future[tuple[M, int, PartitionPosition] | None] | None = None

    @property
    def position(self) -> Position:
        """Where to go on after the message that came last: a ``start`` for another reader."""
        return Position(dict(self._positions))

    def __enter__(self) -> Self:
        consumer, partitions = connect(self._servers, self._topic, self._group, self._config)
        self._consumer, self._left, self._open = consumer, set(partitions), True
        self._known, self._looked = set(partitions), monotonic()
        try:
            if self._group is None:
                consumer.assign(self._begin(partitions))
            else:
                consumer.subscribe(
                    [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
                )
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._commit()
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if self._polling is not None:  # a thread is in poll; it returns soon
            await asyncio.wait([self._polling])
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def close(self) -> None:
        """Leave the topic; nothing is committed."""
        self._open = False
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def __iter__(self) -> Iterator[M]:
        return self

    def __aiter__(self) -> AsyncIterator[M]:
        return self

    def __next__(self) -> M:
        found = self._next()
        if found is None:
            raise StopIteration
        return self._taken(found)

    async def __anext__(self) -> M:
        # A wait that is cancelled leaves its poll running; the next one takes up what that finds.
        if self._polling is None:
            self._polling = asyncio.get_running_loop().run_in_executor(None, self._next)
        await asyncio.wait([self._polling])
        polled, self._polling = self._polling, None
        found = polled.result()
        if found is None:
            raise StopAsyncIteration
        return self._taken(found)

    def _next(self) -> tuple[M, int, PartitionPosition] | None:
        if self._consumer is None:
            raise ClientError("the stream is not open; use it in a with block")
        try:
            self._commit()
            while self._open and (self._follow or self._left):
                if self._group is None and monotonic() - self._looked > LOOK_SECONDS:
                    self._look(self._consumer)
                message = self._consumer.poll(POLL_SECONDS)
                if message is None:
                    continue
                if reached_end(message, self._topic, self._group):
                    self._left.discard(message.partition() or 0)
                    continue
                found = decoded(self._type, message)
                if self._app_id in (None, found.app_id):
                    return self._verified(message, found)
        except KafkaException as error:
            raise ClientError(f"topic {self._topic!r}: {reason(error)}") from None
        return None

    def _look(self, consumer: Consumer) -> None:
        """Read what partitions the topic has gained, too."""
        self._looked = monotonic()
        with suppress(
            KafkaException
        ):  # such as of a broker that is away: reading waits for it, and so does this
            found = consumer.list_topics(self._topic, timeout=CONNECT_SECONDS).topics[self._topic].partitions
            consumer.incremental_assign(self._gained(sorted(found.keys() - self._known)))
            self._known |= found.keys()

    def _gained(self, partitions: Sequence[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in partitions]

    def _verified(self, message: Message, found: M) -> tuple[M, int, PartitionPosition]:
        """The message, its partition, and the position after it."""
        number = message.partition() or 0
        chains: dict[str, Link] = {}
        before = self._positions.get(number)
        if self._verify != "off":
            name = f"{found.app_id}/{found.topic}/{found.partition}"
            chains = dict(before.chains) if before else {}
            try:
                chains[name] = next_link(chains.get(name), found)
            except ChainError as error:
                if self._verify == "raise":
                    raise ChainError(f"{error}; with verify='warn' reading goes on after it") from None
                log.warning("%s", error)
                chains[name] = Link(found.epoch, found.seq, found.digest)
        return found, number, PartitionPosition((message.offset() or 0) + 1, chains)

    def _taken(self, found: tuple[M, int, PartitionPosition]) -> M:
        message, number, self._positions[number] = found
        self._uncommitted = number
        return message

    # --- where to begin

    def _begin(self, partitions: Sequence[int]) -> list[TopicPartition]:
        """The offsets that ``start`` means; positions are kept, so that they are known before the first message."""
        consumer, start = self._reader, self._start
        if isinstance(start, Position):
            self._positions |= {number: at for number, at in start.partitions.items() if number in partitions}
            return [
                TopicPartition(self._topic, number, self._positions[number].offset)
                for number in partitions
                if number in self._positions
            ] + self._gained([number for number in partitions if number not in self._positions])
        try:
            if isinstance(start, datetime | timedelta):
                moment = datetime.now(UTC) - start if isinstance(start, timedelta) else start
                wanted = [TopicPartition(self._topic, p, int(moment.timestamp() * 1000)) for p in partitions]
                found = consumer.offsets_for_times(wanted, timeout=CONNECT_SECONDS)
                starts = {known.partition: known.offset for known in found if known.offset >= 0}
            else:
                starts = {}
            for number in partitions:
                if number not in starts:
                    partition = TopicPartition(self._topic, number)
                    low, high = consumer.get_watermark_offsets(partition, timeout=CONNECT_SECONDS)
                    starts[number] = low if start == "earliest" else high
        except KafkaException as error:
            raise ClientError(f"topic {self._topic!r}: {reason(error)}") from None
        self._positions |= {number: PartitionPosition(offset) for number, offset in starts.items()}
        return [TopicPartition(self._topic, number, offset) for number, offset in starts.items()]

    # --- as a member of a group

    def _assigned(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        known: list[TopicPartition] = []
        for committed in consumer.committed(given, timeout=CONNECT_SECONDS):
            if committed.offset >= 0:
                self._positions[committed.partition] = PartitionPosition(
                    committed.offset, _chains(committed.metadata)
                )
                known.append(TopicPartition(self._topic, committed.partition, committed.offset))
        fresh = sorted(
            {assigned.partition for assigned in given} - {committed.partition for committed in known}
        )
        self._left = {assigned.partition for assigned in given}
        gained = [number for number in fresh if number not in self._known]
        consumer.assign(known + self._gained(gained) + self._begin([n for n in fresh if n in self._known]))

    def _revoked(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        # What the loop's body was done with is committed before each poll, and this runs within one.
        for revoked in taken:
            self._positions.pop(revoked.partition, None)
            self._left.discard(revoked.partition)

    def _commit(self) -> None:
        """Commit the message that the loop's body is done with; the chain goes along in the metadata."""
        number, self._uncommitted = self._uncommitted, None
        if self._group is None or number is None:
            return
        position = self._positions[number]
        metadata = orjson.dumps(position.to_dict()).decode()
        try:
            self._reader.commit(
                offsets=[TopicPartition(self._topic, number, position.offset, metadata=metadata)],
                asynchronous=False,
            )
        except KafkaException as error:
            if error.args[0].code() not in MOVED:
                raise ClientError(f"group {self._group!r}: {reason(error)}") from None
            log.warning("group %r: %s; the message comes again", self._group, reason(error))

    @property
    def _reader(self) -> Consumer:
        assert self._consumer is not None
        return self._consumer


class Explanations(Stream[Explanation]):
    """The explanations: what drives the model of each partition.

    with Explanations("127.0.0.1:9092", "explanations", start=timedelta(hours=1)) as stream:
        for explanation in stream:
            print(explanation.time, explanation.importance("ipfi").top(5))
    """

    _type = Explanation


class Drifts(Stream[Drift]):
    """The drift messages: why the risk of a partition's model changed.

    with Drifts("127.0.0.1:9092", "drift", start="latest") as stream:
        for drift in stream:
            print(drift.time, drift.sentence)
    """

    _type = Drift


class Alarms(Stream[Alarm]):
    """The alarms: when a loss or an importance changed.

    with Alarms("127.0.0.1:9092", "alarms", start="latest") as stream:
        for alarm in stream:
            print(alarm.sentence)
    """

    _type = Alarm


class Rows(Stream[Row]):
    """The rows: means over the periods that ended, one of a feature each, where ``rows.enabled`` is set.

    with Rows("127.0.0.1:9092", "rows", follow=False) as stream:
        frame = to_pandas(stream)
    """

    _type = Row


class Predictions(Stream[Prediction]):
    """Single predictions with their reasons, one of a record each, where ``predictions.enabled`` is set.

    with Predictions("127.0.0.1:9092", "predictions") as stream:
        for prediction in stream:
            print(prediction.id, prediction.sentence())
    """

    _type = Prediction


def _chains(metadata: str | None) -> Mapping[str, Link]:
    """The chains that came with a committed offset; none where something else committed it."""
    try:
        return PartitionPosition.from_dict(orjson.loads(metadata or "")).chains
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _check(name: str, value: object, words: tuple[str, ...], types: tuple[type, ...]) -> None:
    if value not in words and not isinstance(value, types):
        others = "".join(f", or a {kind.__name__}" for kind in types)
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(map(repr, words))}{others}")
