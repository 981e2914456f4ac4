"""``explain-sidecar state``, ``model export`` and ``warm-up``: states and models in files, to and from a sidecar."""

from __future__ import annotations

import hashlib
import heapq
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Literal

from confluent_kafka import KafkaException, TopicPartition
from msgspec import structs

from explain_client.words import figure, loss_name
from explain_core.foreign import dumps
from explain_core.learners.as_river import as_river
from explain_core.learners.base import Learner
from explain_core.taught import Stored
from explain_sidecar.commands.reset import explained_again, first_of
from explain_sidecar.commands.stopped import Stopped, stopped
from explain_sidecar.commands.tables import read_table
from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.identity import fold_settings, settings_of
from explain_sidecar.fold.messages import letter_headers
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.source import schema_source
from explain_sidecar.kafka.clients import ErrorLog, reading_consumer, unreachable
from explain_sidecar.kafka.headers import offset_of
from explain_sidecar.kafka.input import record_of
from explain_sidecar.kafka.reading import read_to
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.files import MODEL, first_state, read_file, stored, write_file, written
from explain_sidecar.snapshots.signatures import Keys, read_keys
from explain_sidecar.snapshots.snapshot import Before, Snapshot, begin, take

TAIL = 20
"""Records before a state's offset, different ones, by which its place in a copy of the topic is found."""
LONGEST_TAIL = 5_000
"""Records among which so many different ones are looked for."""

From = Literal["same", "earliest", "latest"]


def export_state(settings: Settings, *, file: Path) -> None:
    """Write the newest whole snapshot of each partition, with what tells its place in a copy of the records topic."""
    found: list[Stored] = []
    with stopped(settings, "export", hold=False) as sidecar:
        for partition in range(sidecar.records.partitions):
            whole = sidecar.snapshots(partition)
            if not whole:
                sys.stdout.write(f"partition {partition}: no state\n")
                continue
            tail = _tail(sidecar, partition, whole[0].manifest.next_offset)
            found.append(stored(whole[0], sidecar.keys, tail))
            _tell(whole[0])
    if not found:
        raise UserError(
            f"{settings.topics.records!r} has no state of {settings.app_id!r}; there is nothing to export"
        )
    sys.stdout.write(f"{file}: {write_file(file, found):,} bytes, {len(found)} partitions\n")


def import_state(settings: Settings, *, file: Path, yes: bool = False, start: From = "same") -> None:
    """Begin an epoch of each partition of a file with the state in it, at the record that follows those that the state has learnt.

    Raises ``UserError`` where that record is not found in a partition; then no partition has changed.
    """
    snapshots = read_file(file, read_keys(settings.checkpoint))
    with stopped(settings, "import", hold=yes) as sidecar:
        here, plans = sidecar.records, []
        for snapshot, tail in snapshots:
            partition = snapshot.manifest.partition
            if partition >= here.partitions:
                raise UserError(
                    f"{file}: it has a partition {partition}, and {here.name!r} the partitions 0 to {here.partitions - 1}; a copy of a topic has as many"
                )
            found = sidecar.find(partition)
            first = {"earliest": found.low, "latest": found.high}.get(start)
            if first is None:
                first = _place(sidecar, partition, tail)
            carry = carry_over(snapshot.manifest.settings, settings)
            _tell(snapshot)
            sys.stdout.write(f"  here: epoch {found.epoch} from offset {first}; {carry.sentence}\n")
            if found.manifest is not None:
                sys.stdout.write(
                    f"  lost: epoch {max(found.epochs)}: the model and its explanations {found.manifest.learnt}\n"
                )
            if first < found.ended:
                sys.stdout.write(f"  {explained_again(first, found)}\n")
            if carry.loses_model and settings.checkpoint.on_mismatch != "new_model":
                raise UserError(
                    f"partition {partition}: the model would begin anew; set model and record.label as they were, or accept that by checkpoint.on_mismatch=new_model"
                )
            plans.append((partition, found, first, snapshot))
        if not yes:
            raise UserError("nothing was done; add --yes to begin with these states")
        for partition, found, first, snapshot in plans:
            made, chains = first_of(settings, partition, found, first, here, snapshot)
            sidecar.store(partition, made, chains, found)
    sys.stdout.write("done\n")


def export_model(settings: Settings, *, partition: int, file: Path, river: Path | None = None) -> None:
    """Write the model of a partition's newest whole snapshot, without any of the rows that explain it; to ``river`` as an object of river's interface."""
    with stopped(settings, "export", hold=False, running=True) as sidecar:
        whole = sidecar.snapshots(partition) if partition < sidecar.records.partitions else []
    if not whole:
        raise UserError(
            f"--partition {partition}: {settings.topics.checkpoints!r} has no state of it; run the sidecar first, or name one of the partitions 0 to {sidecar.records.partitions - 1}"
        )
    state = _write_model(settings, whole[0], file, sidecar.keys)
    if river is None:
        return
    model, labels = state.explained.model, list(state.labels)
    found = as_river(model, labels) if isinstance(model, Learner) else model.wrapped
    written(river, dumps(found))
    classes = "" if isinstance(model, Learner) or not labels else f"; its classes are places in {labels}"
    sys.stdout.write(
        f"{river}: {type(found).__name__}{classes}. pickle.load reads it, and runs what it says: only for files of your own\n"
    )


def warm_up(
    settings: Settings,
    *,
    out: Path,
    file: Path | None = None,
    topic: str | None = None,
    label: str | None = None,
    limit: int | None = None,
) -> None:
    """Fold the rows of a file, or the records that a topic has now, as a partition's records, and write the model that has learnt from them."""
    if file is not None and topic is None:
        chosen, name, records = _rows(settings, file, label, limit)
    elif topic is not None and file is None and label is None:
        chosen, name, records = settings, topic, _history(settings, topic)
    else:
        raise SettingsError("name --input or --topic, and not both; --label is for --input")
    state, fetch = first_state(chosen, 0), schema_source(chosen)
    bad = ""
    for offset, record in enumerate(islice(records, limit)):
        for output in state.supplied(structs.replace(record, offset=offset), fetch, lambda name, unfit: None):
            if output.destination == "dead_letters" and not bad:
                bad = f" (the first, record {offset}: {letter_headers(output.headers)['errors.message']})"
    if not state.records:
        raise UserError(
            f"{name}: no record could be used{bad}, so that there is no model to write; set record as the records are"
        )
    taken = take(state, settings.app_id, name, name, fold_settings(chosen))
    _write_model(settings, taken.model_copy(update={"trusted": True}), out, read_keys(settings.checkpoint))
    performance = state.explained.performance
    losses = ", ".join(
        f"{loss_name(loss.name)} {figure(performance.of(loss.name)[0])}" for loss in performance.losses
    )
    sys.stdout.write(
        f"learnt from {state.records:,} records, {state.rejections.total:,} could not be used{bad}; smoothed losses: {losses}\n"
    )


def _rows(
    settings: Settings, file: Path, label: str | None, limit: int | None
) -> tuple[Settings, str, Iterator[InputRecord]]:
    """The rows of a file as records, the settings that read them, and their name."""
    table = read_table("--input", file, limit, ())
    label = label or settings.record.label
    table.check("--label", label)
    plain = settings.record.model_copy(
        update={"format": "json", "framing": None, "schema_file": None, "where": {}, "root": None}
    )
    encode = table.writer(label, plain, settings.registry, settings.topics.records)
    rows = (InputRecord(0, 0, None, encode(record)) for _, record in table.rows())
    return settings.model_copy(update={"record": plain}), file.name, rows


def _history(settings: Settings, topic: str) -> Iterator[InputRecord]:
    """The records that a topic has now: those of all its partitions by their timestamps, each partition in its order."""
    try:
        found = Topics(settings).describe(topic).get(topic)
        if found is None:
            raise UserError(f"--topic {topic}: it is not on {settings.servers}; name one that holds records")
        logs = [_log(settings, TopicPartition(topic, place)) for place in range(found.partitions)]
        yield from heapq.merge(*logs, key=lambda record: record.timestamp)
    except KafkaException as error:
        raise unreachable(settings, ErrorLog(), error) from None


def _log(settings: Settings, where: TopicPartition) -> Iterator[InputRecord]:
    with closing(reading_consumer(settings)) as reader:
        where.offset, high = reader.get_watermark_offsets(where, timeout=10)
        yield from map(record_of, read_to(reader, where, high))


def _write_model(settings: Settings, snapshot: Snapshot, file: Path, keys: Keys) -> PartitionState:
    """Returns a state that has nothing but the model."""
    manifest = snapshot.manifest
    known = settings_of(manifest.settings, settings)
    carry = carry_over(manifest.settings, known).of(MODEL)
    before = Before.of(snapshot, carry)
    state = begin(known, 0, 0, manifest.next_offset, before)
    if state.versions is not None or settings.model.static:
        raise UserError("model: it never learns, so that there is nothing to export; its file is the model")
    taken = take(state, manifest.app_id, manifest.topic, manifest.topic_id, manifest.settings)
    about = {
        "partition": manifest.partition,
        "epoch": manifest.epoch,
        "records": manifest.records,
        "superseded": manifest.superseded,
        "fold_digest": manifest.fold_digest,
    }
    written = taken.model_copy(update={"manifest": taken.manifest.model_copy(update=about)})
    size = write_file(file, [stored(written, keys)])
    model = before.data.explained.model if before.data.explained else None
    kind = f"a {model.learner.kind} learner" if model and model.learner else "a model of its own code"
    sys.stdout.write(
        f"{file}: {size:,} bytes; {kind} of {manifest.origin}\nBegin with it: model.initial: {file}\n"
    )
    return state


def _tell(snapshot: Snapshot) -> None:
    manifest = snapshot.manifest
    sys.stdout.write(
        f"partition {manifest.partition}: epoch {manifest.epoch} after {manifest.records:,} records, up to offset {manifest.next_offset}\n"
    )


def _digests(sidecar: Stopped, partition: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Offset and digest of each record from an offset up to another."""
    for message in read_to(sidecar.reader, TopicPartition(sidecar.records.name, partition, start), end):
        parts = (message.key(), message.value())
        content = b"".join(b"-" if part is None else b"%d:%b" % (len(part), part) for part in parts)
        yield offset_of(message), hashlib.blake2b(content, digest_size=16).digest()


def _tail(sidecar: Stopped, partition: int, offset: int) -> list[bytes]:
    """The last records before an offset, from the one on with which ``TAIL`` of them differ; all of the last ones where they do not."""
    low, _ = sidecar.reader.get_watermark_offsets(TopicPartition(sidecar.records.name, partition), timeout=10)
    newest: list[bytes] = []
    for length in (4 * TAIL, LONGEST_TAIL):
        start = max(low, offset - length)
        newest = [digest for _, digest in _digests(sidecar, partition, start, offset)]
        different: set[bytes] = set()
        for place in reversed(range(len(newest))):
            different.add(newest[place])
            if len(different) == TAIL:
                return newest[place:]
    return newest


def _place(sidecar: Stopped, partition: int, tail: Sequence[bytes]) -> int:
    """The offset after the only place where these records follow one another."""
    if len(set(tail)) < 2:
        raise UserError(
            f"partition {partition}: the last {len(tail)} records that the state has learnt do not tell its place in {sidecar.records.name!r}: "
            "none of them differs; go on with --from latest, once the topic is copied, or --from earliest, which learns what is there once more"
        )
    low, high = sidecar.reader.get_watermark_offsets(
        TopicPartition(sidecar.records.name, partition), timeout=10
    )
    newest: deque[bytes] = deque(maxlen=max(len(tail), 1))
    places = []
    for offset, digest in _digests(sidecar, partition, low, high):
        newest.append(digest)
        if tail and list(newest) == list(tail):
            places.append(offset + 1)
    if len(places) == 1:
        return places[0]
    what = (
        f"they are there {len(places)} times, up to the offsets {', '.join(map(str, places[:5]))}"
        if places
        else "they are not there"
    )
    raise UserError(
        f"partition {partition}: the last {len(tail)} records that the state has learnt are looked for in {sidecar.records.name!r} ({low} to {high - 1}), "
        f"and {what}; wait until the topic is copied; or go on with --from latest, or --from earliest, which learns what is there once more"
    )
