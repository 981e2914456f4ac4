"""The loop of the join: both inputs of a partition in, records out, and the waiting entries on the changelog, in one transaction."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import orjson
from confluent_kafka import Message

from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.paths import ABSENT, find, path_of
from explain_sidecar.join.entries import Joined, Outcome
from explain_sidecar.join.inputs import record_value
from explain_sidecar.join.joiner import Rules
from explain_sidecar.join.pace import PacedMember
from explain_sidecar.join.partition import JoinCluster, JoinPartition
from explain_sidecar.join.partitioner import partition_of
from explain_sidecar.join.rocks import Rocks
from explain_sidecar.join.topics import join_settings, prepare
from explain_sidecar.kafka.clients import (
    KAFKA,
    Kafka,
    admin_client,
    uncommitted_reader,
)
from explain_sidecar.kafka.ends import PartitionEnds
from explain_sidecar.kafka.hidden import Readers
from explain_sidecar.kafka.report import JoinReport, Report
from explain_sidecar.kafka.sent import Sent
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.kafka.totals import Totals
from explain_sidecar.settings import Settings
from explain_sidecar.settings.join import DROP, JoinSettings

_OUTCOMES = {outcome: ("outcome", outcome.encode()) for outcome in get_args(Outcome)}

Open = Callable[[int, bool], Rocks]


def rules_of(settings: JoinSettings) -> Rules:
    implied = None if settings.unlabelled == DROP else orjson.dumps(settings.unlabelled)
    return Rules(
        wait=round(settings.wait * 1000),
        implied=implied,
        corrections=settings.corrections == "emit",
        remember=round(settings.remember * 1000),
        max_pending=settings.max_pending,
        at_once=settings.at_once,
    )


class JoinTotals(Totals):
    """What the join has done, for the line at its end."""

    def __str__(self) -> str:
        elapsed, on_cpu = self.elapsed()
        return (
            f"joined {self.records} records; {elapsed:.3f} s, {on_cpu:.3f} s of them on the CPU, from the first of them to the last commit: "
            f"{self.commits.seconds:.3f} s committing{self.unused}"
        )


def _text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


class JoinStage(PacedMember[JoinPartition]):
    """Joins events and labels in the partitions that the group gives it. ``open`` is for tests: where local stores are."""

    def __init__(
        self,
        settings: Settings,
        slot: int,
        alive: Callable[[], None],
        kafka: Kafka = KAFKA,
        open: Open | None = None,
    ) -> None:
        stage = join_settings(settings)
        topics = Topics(stage, kafka=kafka)
        self._known = known = prepare(stage, topics)
        inputs = {"join.events.topic": known.events, "join.labels.topic": known.labels}
        watched = inputs | {"join": known.changelog, "topics.records": known.records}
        totals = JoinTotals(stage.topics)
        super().__init__(stage, slot, alive, kafka, topics, known=watched, totals=totals, inputs=2)
        self._label, self._key = orjson.dumps(stage.record.label), path_of(stage.join.key)
        self._cluster = JoinCluster(
            stage,
            rules_of(stage.join),
            (known.events.name, known.labels.name),
            (known.events.id, known.labels.id),
            known.changelog.name,
            known.changelog.id,
            self._consumer,
            self._reader,
            uncommitted_reader(stage, topics.errors, kafka),
            open or partial(_open, stage.join.state_dir / stage.app_id / str(slot)),
            kafka.clock,
        )
        ends = PartitionEnds(admin_client(stage, topics.errors, kafka), kafka.clock.monotonic)
        self._readers = Readers(stage, ends, self._written, kafka.clock, replayed=False)
        if stage.join.merges:
            self._keep_pace(stage.join.max_skew, ends, known.events.partitions)

    def report(self, alive_at: float) -> Report:
        """What this worker is doing; for another thread."""
        return self._report(
            alive_at,
            join=[
                JoinReport(
                    partition.partition,
                    partition.phase,
                    partition.restore_left,
                    partition.counts.by_name(),
                    partition.ahead / 1000,
                    partition.delay if partition.phase == "waiting" else "",
                )
                for partition in list(self._owned.values())
            ],
            hidden=list(self._readers.hidden),
        )

    # --- input -----------------------------------------------------------------------------------------------------

    def _take_in(self, owned: JoinPartition, message: Message, record: InputRecord) -> int:
        owned.turns.receive(message.topic(), record)
        return 1

    def _at_end(self, owned: JoinPartition, message: Message) -> None:
        owned.turns.at_end(message)

    # --- commits ---------------------------------------------------------------------------------------------------

    def _publish(self, partition: int, published: Sequence[Joined | Output]) -> None:
        """Send the outputs of a record, if any. Raises ``Aborted``."""
        self._count()
        if published or not self._transaction.open:
            self._transaction.keep([self._sent(partition, result) for result in published])

    def _sent(self, partition: int, result: Joined | Output) -> Sent:
        if isinstance(result, Output):
            return Sent(
                self._transaction.topic_of(result), partition, result.key, result.value, list(result.headers)
            )
        event, at, records = result.event, result.label_timestamp, self._known.records
        value = record_value(event.body, self._label, result.label)
        headers = [*event.headers, _OUTCOMES[result.outcome], ("event_timestamp", b"%d" % event.timestamp)]
        if at is not None:
            headers += (("label_timestamp", b"%d" % at), ("label_delay_ms", b"%d" % (at - event.timestamp)))
        key, to = event.key, event.partition
        if self._key is not None:
            found = find(orjson.loads(event.body + b"}"), self._key)
            key = None if found is ABSENT or found is None else _text(found)
            to = partition_of(key or b"", records.partitions)
        return Sent(records.name, to, key, value, headers, partition)

    def _commit(self, saved: Collection[JoinPartition] | None = None) -> None:
        """One transaction. Raises ``Aborted``.

        1. what has changed in each partition, to the changelog; 2. where that ends, by flushing; 3. the offsets of both
        inputs; 4. commit; 5. only now the local stores.
        """
        moved = [partition for partition in self._owned.values() if partition.dirty]
        asked = self._begin(moved)
        if asked is None:
            return
        changelog = self._known.changelog.name
        ends = {
            partition.partition: self._transaction.send_all(
                changelog, partition.partition, partition.changes()
            )
            for partition in moved
        }
        self._transaction.flush()
        offsets = [position for partition in moved for position in partition.positions()]
        self._end(offsets, asked)
        for partition in moved:
            partition.committed(ends[partition.partition].last)

    # --- partitions ------------------------------------------------------------------------------------------------

    def _own(self, partition: int) -> JoinPartition:
        return JoinPartition(self._cluster, partition)

    def _gone(self, owned: JoinPartition) -> None:
        owned.close()

    def _end_offsets(self) -> Mapping[int, Any]:
        return {
            partition: tuple(self._end_of(topic, partition) for topic in self._cluster.topics)
            for partition in range(self._known.events.partitions)
        }

    def _written(self) -> list[tuple[str, int]]:
        """Where this worker's partitions write to. Any of them may write to each partition of the records."""
        known = self._known
        return [
            (topic.name, place)
            for topic in (known.changelog, known.dead_letters, known.records)
            for place in range(topic.partitions)
            if place % known.events.partitions in self._owned
        ]

    def _look(self) -> None:
        super()._look()
        self._readers.look()

    def _close(self) -> None:
        super()._close()
        for owned in self._owned.values():
            owned.close()


def _open(folder: Path, partition: int, fresh: bool) -> Rocks:
    """RocksDB in the worker's own folder: another worker on this machine may have owned the partition before."""
    path = folder / str(partition)
    if fresh:
        shutil.rmtree(path, ignore_errors=True)
    return Rocks(path)
