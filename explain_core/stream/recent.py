"""Why the risk changed, asked by an alarm: the records before its onset beside those since, in place of fixed windows.

A fixed window may hold records from both before and after the change; an alarm says where the change is. The last
2 · ``options.window`` records are kept in chunks, each with the model from before its first record, so that the model that judges
a side of the onset has learnt from none of its records.

An alarm comes early, and because the losses since the onset were high: these records say too much. So the answer waits until there are as many
since the onset as a chunk has.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from explain_core.alarms.causes import OPEN
from explain_core.foreign import dumps
from explain_core.losses import Prediction
from explain_core.models import Model
from explain_core.state import Count, Pack, State, Unpack, check
from explain_core.stream.alarms import OF_NO_MODEL
from explain_core.stream.attribution import RiskAttribution
from explain_core.stream.events import Alarm, Asked, Extent, Record, RiskChanged
from explain_core.stream.models import ModelData
from explain_core.stream.part import Part
from explain_core.stream.rows import Rows

CHUNKS = 4
"""Chunks of a window: as many models are kept for it."""


class ChunkData(State, frozen=True):
    """Consecutive records in a snapshot: ``rows`` is what ``Rows.pack`` returns, ``model`` is from before the first of them."""

    model: ModelData | None
    rows: bytes


class Question(State, frozen=True):
    """An alarm whose answer waits for so many records more: its number, its offset and cause, its onset, and whose model it is about."""

    seq: Count
    offset: int
    cause: Count
    onset: int
    version: str | None
    wait: Count


class RecentData(State, frozen=True):
    """The chunks, the oldest first; how many attributions were made; the causes of the newest alarms that asked; and those that wait.

    ``taught``: before the first record the model had learnt already.
    """

    chunks: list[ChunkData]
    attributions: Count
    causes: list[tuple[str | None, Count]]
    waiting: list[Question] = msgspec.field(default_factory=list)
    taught: bool | msgspec.UnsetType = msgspec.UNSET  # not stored where it is not so


class _Chunk:
    """``rows`` are closed once there are as many ``records`` as a chunk has."""

    def __init__(self, model: ModelData | None, rows: Rows) -> None:
        self.model = model
        self.rows = rows
        self.records = len(rows)


class Recent(Part):
    """The last records of a partition, part of its state."""

    def __init__(self, attribution: RiskAttribution) -> None:
        self._attribution = attribution
        self._window = attribution.options.window
        self._size = max(self._window // CHUNKS, 1)
        self._chunks: list[_Chunk] = []
        self._fresh, self._taught = True, False
        self._attributions = 0
        self._causes: list[tuple[str | None, int]] = []
        self._waiting: list[Question] = []

    def predicted(self, record: Record, prediction: Prediction, model: Model) -> tuple[()]:
        """Add a record."""
        chunks = self._chunks
        if not chunks or chunks[-1].records == self._size:
            if chunks:
                chunks[-1].rows = chunks[-1].rows.closed()
            chunks.append(_Chunk(self._attribution.freeze(model, self._fresh and not self._taught), Rows()))
            self._fresh = False
            if sum(chunk.records for chunk in chunks[1:]) >= 2 * self._window:
                del chunks[0]
        last = chunks[-1]
        last.rows.add(record, self._attribution.loss(record.y, prediction))
        last.records += 1
        self._waiting = [
            replace(asked, wait=asked.wait - 1) if asked.version == record.version else asked
            for asked in self._waiting
        ]
        return ()

    def room(self, timestamps: Sequence[int], before: int) -> int:
        # The record for which an answer waits is the last one.
        return min(
            [
                self._size - self._chunks[-1].records if self._chunks else 0,
                *(asked.wait for asked in self._waiting),
            ]
        )

    def answers(self, record: Record, model: Model, alarms: Sequence[Alarm], first: int) -> list[RiskChanged]:
        """The first alarm of a cause asks why; the answers that are due with the record, which this model served, and this version of it."""
        for number, alarm in enumerate(alarms, first):
            version, cause, onset = alarm.version, alarm.cause, alarm.change.onset.offset
            asks = not alarm.label_free and alarm.subject.kind not in OF_NO_MODEL
            if asks and (version, cause) not in self._causes:
                self._causes = [*self._causes, (version, cause)][-OPEN:]
                kept = [chunk.rows.read() for chunk in self._chunks]
                places = (
                    (at, of) for rows in kept for at, of in zip(rows.offsets, rows.versions, strict=True)
                )
                since = sum(at >= onset and of == version for at, of in places)
                asked = Question(number, record.offset, cause, onset, version, max(self._size - since, 0))
                self._waiting = [*self._waiting, asked][-OPEN:]
        due = [asked for asked in self._waiting if asked.wait == 0 and asked.version == record.version]
        self._waiting = [asked for asked in self._waiting if asked not in due]
        return [self._answer(asked, model) for asked in due]

    def _answer(self, asked: Question, model: Model) -> RiskChanged:
        rows, others = Rows(), []
        starts: list[tuple[int, ModelData | None]] = []
        for chunk in self._chunks:
            starts.append((len(rows), chunk.model))
            kept = chunk.rows.read()
            rows.extend(kept, [i for i, served in enumerate(kept.versions) if served == asked.version])
            others += [
                offset
                for offset, served in zip(kept.offsets, kept.versions, strict=True)
                if served != asked.version
            ]
        cut = next(at for at, kept_offset in enumerate(rows.offsets) if kept_offset >= asked.onset)
        begin, end = max(0, cut - self._window), min(len(rows), cut + self._window)
        hypothesis: Model | tuple[Model, Model] = model
        if not self._attribution.static:
            known = [(at, kept) for at, kept in starts if kept is not None and begin <= at <= cut]
            begin = known[0][0] if known else cut
            if known:
                hypothesis = self._attribution.thaw(known[0][1]), self._attribution.thaw(known[-1][1])
        alarm = Asked(asked.seq, asked.offset, asked.cause)
        number = 2 * self._attributions
        self._attributions += 1
        if cut - begin < 2 or end - cut < 2:
            problem = f"not computed: of the records before the onset at offset {asked.onset} too few are kept; a wider window keeps more"
            sides = _side(number, rows, others), _side(number + 1, rows, others)
            return RiskChanged(*sides, alarm, None, None, problem)
        before, since = rows.take(range(begin, cut)), rows.take(range(cut, end))
        sides = _side(number, before, others), _side(number + 1, since, others)
        why = self._attribution.between(before, since, hypothesis, number + 1)
        return RiskChanged(*sides, alarm, None, *why)

    def state(self, pack: Pack = dumps) -> RecentData:
        return RecentData(
            [ChunkData(chunk.model, chunk.rows.pack()) for chunk in self._chunks],
            self._attributions,
            list(self._causes),
            list(self._waiting),
            self._taught or msgspec.UNSET,
        )

    def restore(self, data: RecentData, classes: int, unpack: Unpack) -> None:
        """Restore a stored state. Raises ``StateError`` where it is invalid."""
        check(len(data.chunks) <= 2 * CHUNKS + 4, "recent records: too many chunks")
        last = -1
        for at, stored in enumerate(data.chunks):
            rows = Rows.restored(stored.rows, self._attribution.task, classes)
            check(
                len(rows) > 0 and rows.offsets[0] > last, "recent records: not in the order of their offsets"
            )
            last = rows.offsets[-1]
            newest = at == len(data.chunks) - 1
            check(len(rows) <= self._size, "recent records: a chunk of another size")
            check(newest or len(rows) == self._size, "recent records: a chunk that is not full")
            if stored.model is not None:
                self._attribution.thaw(stored.model, unpack)
            chunk = _Chunk(stored.model, rows)
            if not newest:
                chunk.rows = chunk.rows.closed()
            self._chunks.append(chunk)
        check(len(data.causes) <= OPEN, f"recent records: more than {OPEN} causes")
        check(len(data.waiting) <= OPEN, f"recent records: more than {OPEN} alarms that wait")
        for asked in data.waiting:
            check(
                asked.onset <= asked.offset <= last,
                "recent records: an alarm of a record that is still to come",
            )
            check(asked.wait <= self._size, "recent records: an alarm that waits for too long")
        self._fresh, self._taught = not data.chunks, data.taught is True
        self._attributions, self._causes = data.attributions, list(data.causes)
        self._waiting = list(data.waiting)


def _side(number: int, rows: Rows, others: list[int]) -> Extent:
    """One side of the onset; ``others`` are offsets of records that other versions of the model served."""
    between = sum(rows.offsets[0] <= offset <= rows.offsets[-1] for offset in others)
    return rows.about(number, len(rows), 0, rows.versions[0], between)
