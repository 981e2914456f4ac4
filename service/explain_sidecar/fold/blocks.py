"""Ordinary records of a partition in blocks: plain JSON of the version of the model that was seen last, which brings no label, feature or category that
is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import orjson

from explain_core.engine.rows import A_NUMBER, A_STRING, Reader
from explain_core.engine.stream import LONGEST
from explain_core.losses import MAX_NUMBER, Prediction
from explain_core.stream import Event, StreamExplainer
from explain_core.stream.events import RecordBlock
from explain_sidecar.fold.records import Decoder, Further, InputRecord, Sample
from explain_sidecar.fold.selection import Choice
from explain_sidecar.fold.versions import ModelVersions, OneModel, Version
from explain_sidecar.fold.vocabulary import Vocabulary
from explain_sidecar.fold.waiting import WaitingPredictions
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.settings import Settings


class BlockFold:
    """Folds the first records of several, where ``PartitionState.step`` would do the same one by one; what it cannot take is left to that."""

    def __init__(
        self,
        stream: StreamExplainer,
        versions: ModelVersions | OneModel,
        decoder: Decoder,
        vocabulary: Vocabulary,
        settings: Settings,
        choice: Choice,
        waiting: WaitingPredictions,
    ) -> None:
        self._stream, self._versions, self._choice = stream, versions, choice
        self._waiting = waiting
        self._decoder, self._vocabulary = decoder, vocabulary
        self._record, self._emit = settings.record, settings.emit.every
        self._regression = settings.model.task == "regression"
        self._plain = decoder.plain and not choice.all
        self._by_more = settings.models.enabled or settings.predictions.enabled
        self._reader: Reader | None = None
        self._at = -1
        """The offset that came next for the stream when the reader was made, or the last block ended."""

    def fold(
        self, records: Iterable[InputRecord], offset: int, key: bytes | None
    ) -> tuple[list[InputRecord], list[Event]]:
        """Those that it has folded, of which the last one alone may complete an explanation, and what follows of it; often none. ``last`` is then that
        one's sample. ``offset`` is the least that one may have, and ``key`` that of all so far.
        """
        stream, version = self._stream, self._versions.newest
        if not self._plain or not stream.records or version is None:
            return [], []
        if stream.next_offset != self._at:
            self._reader, self._at = self._bound(version), stream.next_offset
        if self._reader is None:
            return [], []
        slot = version.slot
        most = min(slot.most, self._emit - slot.explained.records % self._emit, self._versions.room(version))
        given = self._ordinary(islice(records, max(most, 0)), version, offset, key)
        others: list[dict[str, Any]] = []
        xs = self._reader.read([record.value or b"" for record in given], self._rows, self._ys, others)
        without = np.isnan(self._rows[: len(xs)]).all(axis=1)  # records that have no feature of the version
        n = int(without.argmax()) if without.any() else len(xs)
        further, served = self._further(given[:n], others, version)
        n = len(further)
        if n == 0:
            return [], []
        weights, timestamps, identities, _ = zip(*further, strict=True)
        block = RecordBlock(
            [record.offset for record in given[:n]],
            timestamps,
            xs[:n],
            self._rows,
            self._ys,
            np.array(weights),
            served,
            version.name or None,
        )
        n, events = stream.fold_block(block)
        if n:
            last = n - 1
            self.last = Sample({}, None, weights[last], timestamps[last], identities[last], block.version)
        self._at = stream.next_offset
        return given[:n], events

    def _further(
        self, records: list[InputRecord], fields: list[dict[str, Any]], version: Version
    ) -> tuple[list[Further], list[Prediction | None]]:
        """What further fields say, and what was served as the model predicts; up to a record of which they are to be rejected, or whose prediction waits."""
        if not self._decoder.further:
            return [(1.0, record.timestamp, None, None) for record in records], []
        found, served, label = [], [], next(iter(self._vocabulary.labels), None)
        try:
            for record, others in zip(records, fields, strict=False):
                own = self._decoder.decode_further(others, record.timestamp)
                if own[2] in self._waiting:
                    break
                served.append(self._vocabulary.served(own[3], label, version.labels))
                found.append(own)
        except BadRecord:
            pass
        return found, served

    def _ordinary(
        self, records: Iterable[InputRecord], version: Version, offset: int, key: bytes | None
    ) -> list[InputRecord]:
        """The first records, up to one of another key, without a value, whose prediction is published, of which headers are to be rejected, or name another version."""
        most, by_more, found = self._record.max_bytes, self._by_more, []
        for record in records:
            value = record.value
            if (
                value is None
                or len(value) > most
                or record.unreadable_headers
                or record.offset < offset
                or (key is not None and record.key != key)
                or (by_more and not self._decoder.is_of(version.name, record))
                or (by_more and self._choice.has_offset(record.offset))
            ):
                break
            offset = record.offset + 1
            found.append(record)
        return found

    def _bound(self, version: Version) -> Reader | None:
        slot, vocabulary, fields = version.slot, self._vocabulary, self._decoder.further.values()
        if not slot.bind():
            return None
        explained, kinds = slot.explained, vocabulary.kinds
        features, field = self._decoder.names_of(version.name), self._decoder.version_field
        columns = explained.model.columns  # type: ignore[attr-defined]
        wanted = {name: "string" if name in columns.codes else "number" for name in columns.names}
        if any(kinds.get(name, kind) != kind for name, kind in wanted.items()) or any(
            "." in name or name in (self._record.label, field, *fields) for name in features or ()
        ):
            return None
        index = {name: column for name, column in explained.blocks.index.items() if name in kinds}
        if slot.columns is not None:
            others = kinds.keys() - {*slot.columns}
            index |= {name: A_STRING if kinds[name] == "string" else A_NUMBER for name in others}
        encoder = explained.blocks.encoder(index)
        self._rows, self._ys = np.empty((LONGEST, encoder.width)), np.empty(LONGEST)
        known = explained.blocks.labels
        labels = {label: known[code] for label, code in vocabulary.labels.items() if code in known}
        return Reader(
            orjson.loads,
            self._record.label,
            tuple(fields),
            None if field is None else (field, version.name),
            None if features is None else tuple(features),
            None if self._regression else labels,
            encoder,
            (MAX_NUMBER, self._record.max_string),
        )
