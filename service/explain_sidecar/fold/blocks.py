"""Ordinary records of a partition in blocks: plain JSON that brings no label, feature or category that is new."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from explain_core.engine.rows import Encoder, Reader
from explain_core.engine.stream import LONGEST
from explain_core.stream import Event
from explain_sidecar.fold.records import MAX_NUMBER, Decoder, InputRecord, Sample
from explain_sidecar.formats.errors import BadRecord

if TYPE_CHECKING:
    from explain_sidecar.fold.partition import PartitionState


class BlockFold:
    """Folds the first records of several, where ``PartitionState.step`` would do the same one by one; what it cannot take is left to that."""

    def __init__(self, state: PartitionState, decoder: Decoder) -> None:
        self._state, self._decoder = state, decoder
        self._possible = decoder.plain and state.stream.in_blocks
        self._record = state.settings.record
        self._reader: Reader | None = None
        self._after = -1
        """Records of the model after which the reader was made, or the last block ended."""

    def fold(self, records: Iterable[InputRecord]) -> tuple[list[InputRecord], list[Event]]:
        """Those that it has folded, of which the last one alone may complete an explanation, and what follows of it; often none. ``last`` is then that
        one's sample.
        """
        state, explained = self._state, self._state.explained if self._possible else None
        if explained is None or not state.records:
            return [], []
        if explained.records != self._after:
            self._reader, self._after = self._bound(), explained.records
        if self._reader is None:
            return [], []
        emit = state.settings.emit.every
        most = min(explained.blocks.most(explained.records), emit - explained.records % emit)
        given = self._ordinary(islice(records, most))
        others: list[dict[str, Any]] = []
        xs = self._reader.read([record.value or b"" for record in given], self._rows, self._ys, others)
        further = self._further(given, others) if self._decoder.further else None
        n = len(xs) if further is None else min(len(xs), len(further))
        if n == 0:
            return [], []
        weights = np.ones(n) if further is None else np.array([weight for weight, _, _ in further[:n]])
        timestamps = (
            [record.timestamp for record in given[:n]]
            if further is None
            else [at for _, at, _ in further[:n]]
        )
        offsets = [record.offset for record in given[:n]]
        n, events = state.stream.fold_block(offsets, timestamps, xs[:n], self._rows, self._ys, weights)
        del given[n:]
        if n:
            weight, timestamp, identity = (
                (1.0, given[-1].timestamp, None) if further is None else further[n - 1]
            )
            self.last = Sample({}, None, weight, timestamp, identity)
        self._after = explained.records
        return given, events

    def _further(
        self, records: list[InputRecord], fields: list[dict[str, Any]]
    ) -> list[tuple[float, int, str | None]]:
        """What further fields say, up to a record of which they are to be rejected."""
        found = []
        try:
            for record, others in zip(records, fields, strict=False):
                found.append(self._decoder.decode_further(others, record.timestamp))
        except BadRecord:
            pass
        return found

    def _ordinary(self, records: Iterable[InputRecord]) -> list[InputRecord]:
        """The first records, up to one of another key, without a value, or of which headers are to be rejected."""
        state, most, found = self._state, self._record.max_bytes, []
        key, offset = state.only_key, state.next_offset
        for record in records:
            value = record.value
            if (
                value is None
                or len(value) > most
                or record.unreadable_headers
                or record.offset < offset
                or (key is not None and record.key != key)
            ):
                break
            offset = record.offset + 1
            found.append(record)
        return found

    def _bound(self) -> Reader | None:
        state, explained = self._state, self._state.explained
        if not explained.blocks.bind():
            return None
        columns, kinds = explained.model.columns, state.kinds  # type: ignore[attr-defined]
        wanted = {name: "string" if name in columns.codes else "number" for name in columns.names}
        if any(kinds.get(name, kind) != kind for name, kind in wanted.items()):
            return None
        index = {name: column for name, column in columns.index.items() if name in kinds}
        encoder = Encoder([name if name in index else None for name in columns.names], index, columns.codes)
        self._rows, self._ys = np.empty((LONGEST, len(columns.names))), np.empty(LONGEST)
        known = explained.blocks.labels
        regression = state.settings.model.task == "regression"
        labels = {label: known[code] for label, code in state.labels.items() if code in known}
        features = self._record.features
        return Reader(
            orjson.loads,
            self._record.label,
            tuple(self._decoder.further.values()),
            None if features is None else tuple(features),
            None if regression else labels,
            encoder,
            MAX_NUMBER,
            self._record.max_string,
        )
