"""``explain-sidecar checkpoint show``: the stored snapshot of each partition, and whether it verifies."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from explain_sidecar.commands.printing import print_rows
from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.kafka.checkpoints import Pointer, SnapshotReader, Undecided
from explain_sidecar.kafka.clients import ErrorLog, reading_consumer, unreachable
from explain_sidecar.kafka.reading import Superseded
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.signatures import Keys, read_keys
from explain_sidecar.snapshots.snapshot import verify

READ_SECONDS = 20.0


def show(settings: Settings, *, as_json: bool = False, clean: bool = False) -> None:
    """Print a row per partition; with ``clean`` fail unless every snapshot is at its committed offset.

    A clean checkpoint needs no replay, so that a new build of the sidecar can take over.
    """
    records = settings.topics.records
    found = Topics(settings).written(records, settings.topics.checkpoints)
    keys = read_keys(settings.checkpoint)
    group = reading_consumer(settings, group=settings.app_id)
    reader = reading_consumer(settings)
    rows, unclean = [], []
    try:
        partitions = [TopicPartition(records, partition) for partition in range(found[records].partitions)]
        for committed in group.committed(partitions, timeout=10):
            row = _row(settings, committed, reader, keys)
            rows.append(row)
            if row["state"] != "verified" or row["snapshot_offset"] != row["committed_offset"]:
                unclean.append(str(committed.partition))
    except KafkaException as error:
        raise unreachable(settings, ErrorLog(), error) from None
    finally:
        group.close()
        reader.close()
    print_rows(rows, as_json)
    if clean and unclean:
        raise UserError(
            f"not clean: partitions {', '.join(unclean)} need a replay; stop the sidecar with SIGTERM, which takes a last snapshot"
        )


def _row(settings: Settings, committed: TopicPartition, reader: Consumer, keys: Keys) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(
        (
            "partition",
            "state",
            "committed_offset",
            "snapshot_offset",
            "epoch",
            "records",
            "bytes",
            "chunks",
            "age_seconds",
            "versions",
        )
    )
    row |= {"partition": committed.partition, "state": "no committed offset"}
    if committed.offset < 0:
        return row
    row["committed_offset"] = committed.offset
    pointer = Pointer.decode(committed.metadata)
    if pointer is None:
        return row | {"state": "the committed offset is not ours"}
    row |= {"snapshot_offset": pointer.next_offset, "epoch": pointer.epoch}
    source = SnapshotReader(
        reader, settings.topics.checkpoints, committed.partition, pointer, settings.app_id, keys
    )
    deadline = time.monotonic() + READ_SECONDS
    try:
        snapshot = None
        while snapshot is None and time.monotonic() < deadline:
            snapshot = source.advance(1.0)
        if snapshot is None:
            return row | {"state": "could not be read in time"}
        verify(snapshot)
    except Superseded:
        return row | {"state": "missing: not at the offset that the pointer names"}
    except (SnapshotError, Undecided) as error:
        return row | {"state": str(error)}
    manifest = snapshot.manifest
    return row | {
        "state": "verified",
        "records": manifest.records,
        "bytes": snapshot.size,
        "chunks": len(snapshot.chunks),
        "age_seconds": round(time.time() - source.written_at / 1000),
        "versions": f"python {manifest.versions.python}, river {manifest.versions.river}, numpy {manifest.versions.numpy}",
    }
