"""What a worker of the fold commits: outputs, snapshots, and input offsets with their pointers, in one transaction."""

from __future__ import annotations

from collections.abc import Collection

from explain_sidecar.fold.messages import Output
from explain_sidecar.kafka.cadence import Cadence
from explain_sidecar.kafka.checkpoints import Location
from explain_sidecar.kafka.commits import Clients, Commits
from explain_sidecar.kafka.lifecycle import OwnedPartition


class FoldCommits(Commits[OwnedPartition]):
    """The transactions of a worker."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients)
        self._checkpoints = clients.settings.topics.checkpoints
        self._cadence = Cadence(clients.settings.checkpoint, clients.clock)

    def moved(self, partition: OwnedPartition) -> bool:
        return partition.dirty

    def due(self, owned: Collection[OwnedPartition]) -> bool:
        if any(partition.copied for partition in owned):  # stored before its first record comes
            return True
        # Dirty without a transaction: a partition that has just begun, or an abort.
        return super().due(owned) or (not self._transaction.open and bool(self._cadence.due(_running(owned))))

    def publish(self, partition: int, outputs: list[Output], records: int) -> None:
        """Send the outputs of so many input records, if any. Raises ``Aborted``."""
        self._count(records)
        if outputs or not self._transaction.open:
            self._transaction.publish(partition, outputs)

    def commit(
        self, owned: Collection[OwnedPartition], saved: Collection[OwnedPartition] | None = None
    ) -> None:
        """One transaction: outputs so far, snapshots, offsets with their pointers. Raises ``Aborted``.

        ``saved``: which partitions to snapshot; by default those that are due. Those that never were come along, and those that
        have learnt a schema since.

        1. chunks and manifests of the snapshots; 2. their offsets, by flushing; 3. the input offsets, each with its
        pointer; 4. commit; 5. note what is now true.
        """
        running = _running(owned)
        due = (
            self._cadence.due(running)
            if saved is None
            else [partition for partition in running if partition in saved]
        )
        first = [
            partition
            for partition in running
            if ((partition.location is None and partition.dirty) or partition.learnt) and partition not in due
        ]
        saved = [partition for partition in (*due, *first) if partition.unsaved]
        moved = [partition for partition in running if partition.dirty or partition in saved]
        asked = self._begin(moved)
        if asked is None:
            return
        started = self._clock.monotonic()
        locations = {partition.partition: self._save(partition) for partition in saved}
        if locations:
            self._transaction.flush()
            self._totals.stored(len(locations), self._clock.monotonic() - started)
        offsets = [partition.offset(locations.get(partition.partition)) for partition in moved]
        self._end(offsets, asked, self._transaction.kept)
        for partition in moved:
            partition.committed(locations.get(partition.partition))

    def _save(self, owned: OwnedPartition) -> Location:
        """Send a snapshot; its offsets are known once the transaction is flushed."""
        started = self._clock.monotonic()
        records, ends, size = owned.snapshot()
        offsets = self._transaction.send_all(self._checkpoints, owned.partition, records)
        self._cadence.spent(owned.partition, self._clock.monotonic() - started, size)
        assert owned.state is not None
        return Location(offsets, owned.state.next_offset, ends)


def _running(owned: Collection[OwnedPartition]) -> list[OwnedPartition]:
    return [partition for partition in owned if partition.phase == "running" and partition.state is not None]
