"""Settings that change while a state lives on: an oracle that applies the same changes at the same offsets, in a plain loop over the fold."""

from collections.abc import Mapping, Sequence
from typing import Any

from explain_core.foreign import dumps, loads
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.versions import Find
from explain_sidecar.formats.schemas import Fetch
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import Before, Snapshot, begin, take


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

    def _begin(self, offset: int) -> None:
        while self._changes and self._changes[0][0] <= offset:
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
            self._begin(self._changes[0][0])
        known = self._settings
        taken = take(self._state, known.app_id, known.topics.records, "", fold_settings(known))
        return taken.model_copy(update={"trusted": True})

    def end(self, offset: int) -> None:
        """The changes up to an offset have happened, whether or not a record came after them."""
        self._begin(offset)
