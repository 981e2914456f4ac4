"""``explain-sidecar reset``: begin a new epoch of a partition, with a new model."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import cache, partial

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from explain_sidecar.crash_points import reach
from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.kafka.checkpoints import Location, Pointer, Undecided, point, to_records
from explain_sidecar.kafka.clients import ErrorLog, admin_client, reading_consumer, unreachable
from explain_sidecar.kafka.errors import Aborted, Fenced
from explain_sidecar.kafka.past import Past, Seen
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.kafka.transaction import Transaction
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.signatures import Keys, read_keys
from explain_sidecar.snapshots.snapshot import Manifest, begin, take
from explain_sidecar.wire.registry import json_reader, registry_of

JOIN_SECONDS = 20.0
"""A broker waits 3 s for other members before it admits the first one to an empty group."""

DECIDE_SECONDS = 25.0
"""Kafka ends the transaction of a worker that is gone within 20 s."""


def reset(settings: Settings, *, partition: int, yes: bool = False, start: str = "committed") -> None:
    """Print what is lost; with ``yes`` write the first snapshot of the next epoch and commit its offset, in one transaction.

    ``start``: "committed" goes on where the old epoch ended, "earliest" folds the whole topic again, "latest" what comes.
    """
    keys = read_keys(settings.checkpoint)
    topics = Topics(settings).prepare()
    records = topics["records"]
    if partition >= records.partitions:
        raise UserError(
            f"--partition {partition}: {records.name!r} has the partitions 0 to {records.partitions - 1}"
        )
    _check_stopped(settings)
    # The same settings as a worker's: the group accepts the member, and a crashed reset leaves it no later than a worker would.
    group = reading_consumer(
        settings,
        group=settings.app_id,
        partition_assignment_strategy="cooperative-sticky",
        session_timeout_ms=10_000,
    )
    reader = reading_consumer(settings)
    uncommitted = cache(partial(reading_consumer, settings, isolation_level="read_uncommitted"))
    past = Past(reader, uncommitted, settings, partition, json_reader(registry_of(settings)))
    try:
        metadata = _hold(settings, group, records.name) if yes else None
        where = TopicPartition(records.name, partition)
        low, high = reader.get_watermark_offsets(where, timeout=10)
        committed = group.committed([where], timeout=10)[0]
        pointer = Pointer.decode(committed.metadata) if committed.offset >= 0 else None
        snapshot, visible, unreadable = _look(past, keys)
        known = [pointer, *visible.values(), snapshot[0] if snapshot else None]
        epochs = [found.epoch for found in known if found is not None]
        if not epochs and committed.offset < 0 and unreadable is None:
            raise UserError(
                f"partition {partition} of {records.name!r} has no state of {settings.app_id!r}; there is nothing to reset"
            )
        newest = [seen.offset + 1 for seen in visible.values() if seen.epoch == max(epochs)]
        ended = max([committed.offset, 0, *newest])
        first = {"earliest": low, "latest": high, "committed": min(max(ended, low), high)}[start]
        epoch = max(epochs, default=-1) + 1
        manifest = snapshot[1] if snapshot else None
        sys.stdout.write(
            f"{records.name} partition {partition}, group {settings.app_id}\n"
            f"  lost:  epoch {max(epochs, default=0)}: the model and its explanations after {manifest.records if manifest else 0:,} records "
            f"(snapshot at offset {manifest.next_offset if manifest else 'none'}, committed offset {committed.offset if committed.offset >= 0 else 'none'})\n"
            f"  stays: all messages that were published\n"
            f"  next:  epoch {epoch} with a new model, from offset {first} (the log has {low} to {high - 1})\n"
        )
        if unreadable is not None:
            sys.stdout.write(
                f"  note:  the newest manifest on {settings.topics.checkpoints!r} cannot be used and counts as none: {unreadable}\n"
            )
        if first < ended:
            sys.stdout.write(
                f"  note:  records {first} to {ended - 1} are explained again, in the new epoch\n"
            )
        if not yes:
            raise UserError("nothing was done; add --yes to begin the new epoch")
        reach("reset.before")
        state = begin(settings, partition, epoch=epoch, start=first)
        stored = len(manifest.chunk_sizes) if manifest and manifest.topic_id == records.id else 0
        taken = take(state, settings.app_id, records.name, records.id, fold_settings(settings))
        entries = to_records(taken, stored, keys)
        transaction = Transaction(settings, f"{settings.app_id}-reset-{partition}", ErrorLog())
        transaction.begin()
        ends = transaction.send_all(settings.topics.checkpoints, partition, entries)
        transaction.flush()
        pointer = point(records.id, state, Location(ends, first, past.ends()))
        offset = TopicPartition(records.name, partition, first, metadata=pointer.encode())
        transaction.commit([offset], group, metadata)
    except Aborted as error:
        raise UserError(
            f"the reset was aborted and nothing was changed: {error}; did a worker or another reset begin meanwhile? Stop the sidecar, and try again"
        ) from None
    except Fenced:
        raise UserError(
            f"another reset of partition {partition} was begun meanwhile; this one changed nothing"
        ) from None
    except KafkaException as error:
        raise UserError(f"partition {partition}: {error.args[0].str()}") from None
    finally:
        group.close()
        reader.close()
    sys.stdout.write("done\n")


def look_at(settings: Settings) -> Iterator[tuple[int, Manifest | None]]:
    """The newest whole manifest of each partition; None where there is none."""
    topics = Topics(settings)
    found = topics.describe(settings.topics.records, settings.topics.checkpoints)
    for name in (settings.topics.records, settings.topics.checkpoints):
        if name not in found:
            raise UserError(f"topic {name!r} is not on {settings.servers}; has the sidecar run yet?")
    keys, reader = read_keys(settings.checkpoint), reading_consumer(settings)
    uncommitted = cache(partial(reading_consumer, settings, isolation_level="read_uncommitted"))
    try:
        for partition in range(found[settings.topics.records].partitions):
            past = Past(reader, uncommitted, settings, partition, json_reader(registry_of(settings)))
            yield partition, past.newest_manifest(0, keys)
    except KafkaException as error:
        raise unreachable(settings, ErrorLog(), error) from None
    finally:
        reader.close()


def _look(
    past: Past, keys: Keys
) -> tuple[tuple[Pointer, Manifest] | None, dict[str, Seen], SnapshotError | None]:
    """The newest usable snapshot, the last message that readers see of each output, and the error of the newest manifest if it is not usable.

    Raises ``Undecided`` where an open transaction hides it for too long.
    """
    deadline = time.monotonic() + DECIDE_SECONDS
    while True:
        try:
            visible = past.visible()
            try:
                return past.find_snapshot(keys), visible, None
            except SnapshotError as error:
                return past.find_snapshot(keys, strict=False), visible, error
        except Undecided:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _hold(settings: Settings, group: Consumer, topic: str) -> object:
    """Join the group; returns the metadata of its only member. A commit with it is refused once another member has joined."""
    held: list[object] = []

    def joined(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        held.append(consumer.consumer_group_metadata())
        consumer.incremental_assign([])

    group.subscribe([topic], on_assign=joined)
    deadline = time.monotonic() + JOIN_SECONDS
    while not held:
        group.poll(0.1)
        if time.monotonic() > deadline:
            raise UserError(
                f"group {settings.app_id!r} could not be joined within {JOIN_SECONDS:g} s, so that nothing was changed; try again"
            )
    _check_stopped(settings, members=1)
    return held[0]


def _check_stopped(settings: Settings, members: int = 0) -> None:
    """Raises ``UserError`` where the group has more members than that."""
    admin = admin_client(settings)  # kept: without it the request is dropped
    described = admin.describe_consumer_groups([settings.app_id], request_timeout=10)
    try:
        found = described[settings.app_id].result().members
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID):
            return
        raise UserError(f"group {settings.app_id!r}: {error.args[0].str()}") from None
    if len(found) > members:
        raise UserError(
            f"group {settings.app_id!r} has {len(found) - members} running workers, or another reset; stop the sidecar first, or wait until a "
            "killed one's session ends (10 s)"
        )
