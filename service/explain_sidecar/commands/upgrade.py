"""``explain-sidecar upgrade check``: whether this software gives the bytes that were published."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import orjson
from confluent_kafka import TopicPartition

from explain_sidecar.commands.stopped import Stopped, decided, stopped
from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.fold.identity import settings_of
from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.formats.source import schema_source
from explain_sidecar.kafka.checkpoints import Pointer
from explain_sidecar.kafka.input import record_of
from explain_sidecar.kafka.past import Past
from explain_sidecar.kafka.reading import read_to
from explain_sidecar.kafka.recovery import Target
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import Snapshot, Versions, load


class ChangedValue(NamedTuple):
    """A value in which a message of this software differs from the published one."""

    path: str
    here: Any
    there: Any

    @property
    def digit(self) -> int:
        """The first decimal digit in which the numbers differ, from 1; 0 where they are no numbers."""
        numbers = all(isinstance(value, int | float) for value in (self.here, self.there))
        if not numbers or isinstance(self.here, bool) or isinstance(self.there, bool):
            return 0
        largest, apart = max(abs(self.here), abs(self.there)), abs(self.here - self.there)
        return max(1, math.floor(math.log10(largest)) - math.floor(math.log10(apart)) + 1)

    def __str__(self) -> str:
        ending = "th" if self.digit % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(self.digit % 10, "th")  # fmt: skip
        where = f"the {self.digit}{ending} digit" if self.digit else "what it says"
        return f"in {where} ({self.path}: {self.here!r} here, {self.there!r} there)"


def differences(here: Any, there: Any, path: str = "") -> Iterator[ChangedValue]:
    """Each value in which two messages differ, but for their digests, which have all of them in them."""
    if isinstance(here, dict) and isinstance(there, dict):
        for name in dict.fromkeys([*here, *there]):
            if (path, name) != ("", "digest"):
                yield from differences(here.get(name), there.get(name), f"{path}.{name}" if path else name)
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for index, pair in enumerate(zip(here, there, strict=True)):
            yield from differences(*pair, f"{path}.{index}")
    elif here != there:
        yield ChangedValue(path, here, there)


def check(settings: Settings, *, last: int) -> None:
    """Fold the last records of each partition from a snapshot before them, and compare with what was published.

    The sidecar may run. Raises ``UserError`` where a partition differs.
    """
    differing: list[str] = []
    with stopped(settings, "check", hold=False, running=True) as sidecar:
        for partition in range(sidecar.records.partitions):
            said, same = _compared(sidecar, settings, partition, last)
            sys.stdout.write(f"partition {partition}: {said}\n")
            if not same:
                differing.append(str(partition))
    if differing:
        raise UserError(
            f"partitions {', '.join(differing)}: a replay by this software would differ. Before it takes over, stop the sidecar with SIGTERM: "
            "where `explain-sidecar checkpoint show --clean` succeeds, nothing is replayed"
        )


def _compared(sidecar: Stopped, settings: Settings, partition: int, last: int) -> tuple[str, bool]:
    """What there is to say of a partition, and whether nothing differs."""
    committed = sidecar.committed(partition)
    pointer = Pointer.decode(committed.metadata) if committed.offset >= 0 else None
    if pointer is None:
        return "no state", True
    low, _ = sidecar.reader.get_watermark_offsets(committed, timeout=10)
    found = decided(lambda: _before(sidecar, pointer, committed, max(low, committed.offset - last), low))
    if found is None:
        try:
            sidecar.newest(partition)
        except SnapshotError as error:
            return f"nothing to compare: {error}", True
        return "nothing to compare: Kafka has kept no snapshot before the committed offset; ask again while the sidecar runs", True  # fmt: skip
    manifest = found.manifest
    state = load(found, settings_of(manifest.settings, settings))
    outputs = _folded(sidecar, settings, state, committed)
    what = f"{state.records - manifest.records:,} records from offset {manifest.next_offset} on"
    if not Target(committed.offset, pointer.fold_digest, pointer.chains).differences(state):
        return f"{what}: same bytes", True
    software = f"stored by {manifest.versions}, this is {Versions.here()}"
    for output, published in _pairs(sidecar, partition, manifest.epoch, outputs):
        found_here = list(differences(orjson.loads(output.value or b""), published))
        if found_here:
            first = min(found_here, key=lambda difference: difference.digit)
            return f"{what}: other bytes from offset {published['offset']} on {first}; {software}", False
    return f"{what}: another state, and the same bytes so far; {software}", False


def _before(
    sidecar: Stopped, pointer: Pointer, committed: TopicPartition, wanted: int, low: int
) -> Snapshot | None:
    """Of the snapshots of the newest epoch that records of the log follow the newest at or before an offset, else the oldest."""
    found = None
    for snapshot in sidecar.past(committed.partition).snapshots(sidecar.keys):
        manifest = snapshot.manifest
        if manifest.epoch == pointer.epoch and low <= manifest.next_offset < committed.offset:
            found = snapshot if found is None or manifest.next_offset <= wanted else found
    return found


def _folded(
    sidecar: Stopped, settings: Settings, state: PartitionState, committed: TopicPartition
) -> list[Output]:
    """The messages of the records up to the committed offset."""
    fetch, models = schema_source(settings), VersionSource(settings).find
    outputs: list[Output] = []
    where = TopicPartition(committed.topic, committed.partition, state.next_offset)
    for message in read_to(sidecar.reader, where, committed.offset):
        outputs += state.supplied(record_of(message), fetch, models)
    state.next_offset = committed.offset  # what is left are control records
    return outputs


def _pairs(
    sidecar: Stopped, partition: int, epoch: int, outputs: list[Output]
) -> Iterator[tuple[Output, dict[str, Any]]]:
    """Messages of this software, in the order of their records, with the published ones of the same number; dead letters compute nothing."""
    past, published = sidecar.past(partition), {}
    for name in sorted({output.destination for output in outputs} - {"dead_letters"}):
        for message in decided(partial(_all, past, name, epoch)):
            published[name, message["seq"]] = message
    for output in outputs:
        there = published.get((output.destination, output.event.seq if output.event else -1))
        if there is not None:
            yield output, there


def _all(past: Past, name: str, epoch: int) -> list[dict[str, Any]]:
    return list(past.bodies(name, epoch))
