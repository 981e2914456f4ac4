"""``explain-sidecar reset``: begin a new epoch of a partition, with a new model."""

from __future__ import annotations

import sys
from functools import partial

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from service.errors import UserError
from service.kafka.checkpoints import Place, Pointer, point, to_records
from service.kafka.clients import ErrorLog, admin_client, reading_consumer
from service.kafka.past import Past
from service.kafka.topics import Topics
from service.kafka.transaction import Aborted, Transaction
from service.partition import fold_settings
from service.registry import json_reader, registry_of
from service.settings import Settings
from service.signatures import UNCHECKED, read_keys
from service.snapshot import begin, take


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
    group, reader = reading_consumer(settings, group=settings.app_id), reading_consumer(settings)
    uncommitted = partial(reading_consumer, settings, isolation_level="read_uncommitted")
    past = Past(reader, uncommitted, settings, partition, json_reader(registry_of(settings)))
    try:
        where = TopicPartition(records.name, partition)
        low, high = reader.get_watermark_offsets(where, timeout=10)
        committed = group.committed([where], timeout=10)[0]
        pointer = Pointer.decode(committed.metadata) if committed.offset >= 0 else None
        snapshot, published = past.find_snapshot(UNCHECKED), past.last_published()
        epochs = [one.epoch for one in (pointer, published) if one] + (
            [snapshot[0].epoch] if snapshot else []
        )
        if not epochs and committed.offset < 0:
            raise UserError(
                f"partition {partition} of {records.name!r} has no state of {settings.app_id!r}; there is nothing to reset"
            )
        ended = max(committed.offset, published.offset if published else 0)
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
        if first < ended:
            sys.stdout.write(
                f"  note:  records {first} to {ended - 1} are explained again, in the new epoch\n"
            )
        if not yes:
            raise UserError("nothing was done; add --yes to begin the new epoch")
        state = begin(settings, partition, epoch=epoch, start=first)
        stored = len(manifest.chunk_sizes) if manifest and manifest.topic_id == records.id else 0
        taken = take(state, settings.app_id, records.name, records.id, fold_settings(settings))
        entries = to_records(taken, stored, keys)
        transaction = Transaction(settings, f"{settings.app_id}-reset-{partition}", ErrorLog())
        transaction.begin()
        ends = transaction.send_all(settings.topics.checkpoints, partition, entries)
        transaction.flush()
        pointer = point(records.id, state, Place(ends, first, past.ends()))
        # The group is empty, so its metadata has no generation to check.
        transaction.commit([TopicPartition(records.name, partition, first, metadata=pointer.encode())], group)
    except Aborted as error:
        raise UserError(f"the reset was aborted and nothing was changed: {error}; try again") from None
    except KafkaException as error:
        raise UserError(f"partition {partition}: {error.args[0].str()}") from None
    finally:
        group.close()
        reader.close()
    sys.stdout.write("done\n")


def _check_stopped(settings: Settings) -> None:
    admin = admin_client(settings)  # kept: without it the request is dropped
    described = admin.describe_consumer_groups([settings.app_id], request_timeout=10)
    try:
        members = described[settings.app_id].result().members
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID):
            return
        raise UserError(f"group {settings.app_id!r}: {error.args[0].str()}") from None
    if members:
        raise UserError(
            f"group {settings.app_id!r} has {len(members)} running workers; stop the sidecar first, or wait until a killed one's session ends (10 s)"
        )
