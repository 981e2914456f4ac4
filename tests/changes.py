"""Settings that change while a state lives on: an oracle that applies the same changes at the same offsets, in a plain loop over the fold."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from explain_core.foreign import dumps, loads
from explain_core.smoothing import SmootherState
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.partition import PartitionData, PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.versions import Find
from explain_sidecar.formats.schemas import Fetch
from explain_sidecar.kafka.checkpoints import MANIFEST
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.files import first_state
from explain_sidecar.snapshots.snapshot import Before, Manifest, Snapshot, begin, load_parts, take

Pair = tuple[bytes | None, bytes | None]
"""Key and value."""


def merged(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """``a`` with the settings of ``b`` in it."""
    return {
        **a,
        **{
            name: merged(a[name], value)
            if isinstance(value, dict) and isinstance(a.get(name), dict)
            else value
            for name, value in b.items()
        },
    }


@contextmanager
def later() -> Iterator[None]:
    """The next version of the sidecar, in which a part of each state has another shape."""
    with patch.multiple(SmootherState, VERSION=2, MIGRATIONS={1: lambda old: old}):
        yield


class Epochs:
    """A partition whose settings change before the record of each of these offsets; in ``compare`` it stands for a ``PartitionState``."""

    def __init__(
        self,
        settings: Settings,
        partition: int,
        changes: Sequence[tuple[int, Settings]],
        first: PartitionState | None = None,
    ) -> None:
        self._settings, self.partition, self._changes = settings, partition, list(changes)
        self._state = first or PartitionState(settings, partition)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def _begin(self, offset: int, last: int | None = None) -> None:
        """The changes up to an offset; several may be at one, and ``last`` is the epoch after which no further one begins."""
        while self._changes and self._changes[0][0] <= offset and self._state.epoch != last:
            start, settings = self._changes.pop(0)
            carry = carry_over(fold_settings(self._settings), settings)
            before = Before(self._state.state(dumps), carry, loads)
            self._state = begin(settings, self.partition, self._state.epoch + 1, start, before)
            self._settings = settings

    def supplied(self, record: InputRecord, schema: Fetch, model: Find) -> list[Output]:
        self._begin(record.offset)
        return self._state.supplied(record, schema, model)

    def stored(self, epoch: int) -> Snapshot:
        """The snapshot of now, in an epoch that may begin here."""
        if self._state.epoch < epoch:
            self._begin(self._changes[0][0], epoch)
        known = self._settings
        taken = take(self._state, known.app_id, known.topics.records, "", fold_settings(known))
        return taken.model_copy(update={"trusted": True})

    def end(self, offset: int) -> None:
        """The changes up to an offset have happened, whether or not a record came after them."""
        self._begin(offset)


class History:
    """Where the epochs of each partition began, as the first snapshot of each says.

    ``known`` are the settings that there were; ``checkpoints`` and ``inputs`` give what is in a partition of these topics, for a reader of committed records.
    """

    def __init__(
        self,
        known: Iterable[Settings],
        checkpoints: Callable[[int], Iterable[Pair]],
        inputs: Callable[[int], Sequence[InputRecord]],
    ) -> None:
        self._known = {str(fold_settings(settings)): settings for settings in known}
        self._checkpoints, self._inputs = checkpoints, inputs

    def stored(self, partition: int) -> Iterator[tuple[Manifest, PartitionData]]:
        """The first stored snapshot of each epoch."""
        chunks: dict[str, bytes] = {}
        seen: set[int] = set()
        for key, value in self._checkpoints(partition):
            name = (key or b"").decode().rpartition("/")[2]
            if name != MANIFEST:
                chunks[name] = value or b""
                continue
            manifest = Manifest.decode(value or b"")
            if manifest.epoch not in seen:
                seen.add(manifest.epoch)
                whole = [chunks[str(index)] for index in range(len(manifest.chunk_sizes))]
                yield manifest, load_parts(Snapshot(manifest=manifest, chunks=whole))

    def epochs(self, partition: int) -> list[tuple[int, Settings]]:
        """The offset at which each epoch began, and its settings."""
        return [
            (0 if data.carried is None else data.carried.offset, self._known[str(manifest.settings)])
            for manifest, data in self.stored(partition)
        ]

    def oracle(self, partition: int) -> Epochs:
        """A partition whose settings change there, with the first model that its first epoch names."""
        (_, before), *changes = self.epochs(partition)
        _, data = next(self.stored(partition))
        said = data.carried
        if said is None or said.from_partition is None or said.from_offset is None:
            return Epochs(before, partition, changes)
        donor = self.oracle(said.from_partition)
        for record in self._inputs(donor.partition)[: said.from_offset]:
            donor.supplied(record, lambda key: None, lambda name, unfit: None)
        snapshot = donor.stored(said.from_epoch)
        return Epochs(before, partition, changes, first_state(before, partition, donor=snapshot))
