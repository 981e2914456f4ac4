"""Alarms: when losses, importances and rates of a stream changed, from what each record adds to them.

A few detectors watch the stream, each over its own records: all that were folded (losses, missing values), those that an
estimator explained (importances), all that were read (rejected records). What a detector watches is one object, a ``Watch``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import msgspec
import numpy as np

from explain_core.alarms.causes import Causes, CausesState
from explain_core.alarms.detector import ChangeDetector, DetectorState, Position
from explain_core.engine.stream import LONGEST
from explain_core.foreign import dumps
from explain_core.importance.base import IncrementalEstimator
from explain_core.importance.blocks import until
from explain_core.importance.segments import Segments
from explain_core.models.empty import Performance
from explain_core.state import Pack, State, Unpack, check
from explain_core.stream.events import Alarm, Learnt, Record, Subject
from explain_core.stream.options import Alarming
from explain_core.stream.part import Part

MEMORY = 100
"""The assumed length of dependence, in records, of values that no reservoir makes dependent."""

TURNOVER = 4
"""Reservoir sizes after which 98 % of a geometric reservoir's rows are new."""


Segment = tuple[str, str | None]
"""Feature and value."""


class AlarmsData(State, frozen=True):
    """The detectors by the name of what they watch, the causes, and the detectors of segments.

    ``segments`` has those of losses by feature and value, ``importances`` those of importances by estimator, loss and value.
    """

    detectors: dict[str, DetectorState]
    causes: CausesState
    segments: list[tuple[str, str | None, DetectorState]] = msgspec.field(default_factory=list)
    importances: list[tuple[str, str, str | None, DetectorState]] = msgspec.field(default_factory=list)


class Watch:
    """A detector and what it watches: its values in a record, what they mean, and what a change has to exceed."""

    def __init__(self, detector: ChangeDetector) -> None:
        self.detector = detector

    def values(self, records: Sequence[Record], learnt: Learnt) -> Any:
        """Of records that were folded, or of those that were explained; None where these have none."""
        raise NotImplementedError

    of_explained = False
    """Whether it has values of records that were explained alone."""

    label_free = False
    """Whether its values are about predictions alone."""

    of_rejected: ClassVar[Sequence[float] | None] = None
    """Its values where a record could not be folded; None where that says nothing."""

    def subject(self, column: int) -> Subject:
        """Of a column of the values."""
        raise NotImplementedError

    @property
    def most(self) -> int:
        """Columns that there can be."""
        return self.detector.subjects

    def limits(self, share: float) -> list[float] | float:
        """The largest change of each column that is none."""
        return share


class _Losses(Watch):
    """The losses of each record, their gains over no model, or both; of a segment the losses alone."""

    def __init__(
        self,
        detector: ChangeDetector,
        performance: Performance,
        kinds: Sequence[str],
        segment: Segment | None = None,
    ) -> None:
        super().__init__(detector)
        self._performance, self._kinds, self._segment = performance, kinds, segment

    def values(self, records: Sequence[Record], learnt: Learnt) -> Any:
        if learnt.losses is None:
            return None
        own, empty = learnt.losses[:, 0], learnt.losses[:, 1]
        found = [own if kind == "loss" else empty - own for kind in self._kinds]
        return np.concatenate(found, axis=1) if len(found) > 1 else found[0]

    def subject(self, column: int) -> Subject:
        kind, loss = divmod(column, len(self._performance.losses))
        return Subject(self._kinds[kind], self._performance.losses[loss].name, segment=self._segment)

    def limits(self, share: float) -> list[float]:
        """A share of the loss of predicting the labels' frequencies."""
        empty = (self._performance.of(loss.name)[1] for loss in self._performance.losses)
        return [share * abs(loss) for loss in empty] * len(self._kinds)


class _Estimated(_Losses):
    """By how much each record without a label is estimated to lose more than the labelled ones, which a change of the labels' meaning does not move."""

    label_free = True

    def values(self, records: Sequence[Record], learnt: Learnt) -> Any:
        return learnt.excess


class _Importances(Watch):
    """What an estimator adds to each importance under one loss."""

    def __init__(
        self,
        detector: ChangeDetector,
        performance: Performance,
        name: str,
        estimator: IncrementalEstimator,
        row: int,
        segment: Segment | None = None,
    ) -> None:
        super().__init__(detector)
        self._performance, self._name, self._estimator, self._row = performance, name, estimator, row
        self._loss, self._segment = estimator.losses[row].name, segment
        self.label_free = estimator.label_free

    of_explained = True

    def values(self, records: Sequence[Record], learnt: Learnt) -> Any:
        increments = learnt.increments.get(self._name)
        return None if increments is None else increments[:, self._row]

    def subject(self, column: int) -> Subject:
        feature = self._estimator.players[column].name
        return Subject("importance", self._loss, self._name, feature, self._segment)

    @property
    def most(self) -> int:
        return len(self._estimator.players)

    def limits(self, share: float) -> float:
        """A share of the loss of predicting the labels' frequencies; without labels of all importances together."""
        estimator = self._estimator
        if estimator.label_free:
            return share * abs(float(estimator.explanation.values[self._row].sum()))
        return share * abs(self._performance.of(self._loss)[1])


class _OfRecords(Watch):
    """Something of all records that needs neither a loss nor an estimator; ``kinds`` are the features seen."""

    columns: ClassVar = 1
    """Values of the first record."""

    of_model: ClassVar = True
    """Whether it is about a model, of which there may be several."""

    depends: ClassVar[Sequence[str]] = ()
    """The parts of the sidecar's settings that its values depend on, such as "features" or "labels": under others it begins anew."""

    def __init__(self, detector: ChangeDetector, kinds: Mapping[str, Any]) -> None:
        super().__init__(detector)
        self._kinds = kinds


class _Missing(_OfRecords):
    """Whether each feature is missing."""

    columns, depends = 0, ("features",)

    def values(self, records: Sequence[Record], learnt: Learnt) -> Any:
        values = [[0.0 if name in record.x else 1.0 for name in self._kinds] for record in records]
        return np.array(values)

    def subject(self, column: int) -> Subject:
        return Subject("missing", feature=list(self._kinds)[column])

    @property
    def most(self) -> int:
        return len(self._kinds)


class _Rejected(_OfRecords):
    """Whether a record could not be folded."""

    of_model, of_rejected = False, (1.0,)

    def values(self, records: Sequence[Record], learnt: Learnt) -> Any:
        return np.zeros((len(records), 1))

    def subject(self, column: int) -> Subject:
        return Subject("rejected")


OF_RECORDS: dict[str, type[_OfRecords]] = {"missing": _Missing, "rejected": _Rejected}
"""By their names in ``Alarming.subjects``, which are those of their detectors too."""

OF_NO_MODEL = frozenset(name for name, kind in OF_RECORDS.items() if not kind.of_model)


class Alarms(Part):
    """Watches a model and its records, or of several models the records that could not be folded.

    ``kinds`` are the features seen, in order of appearance: a mapping that grows. ``segments`` are by estimator; of several of one
    feature the losses in the first are watched. Of each kind of subject that the options name there is a watch, or one for each segment that comes.
    """

    def __init__(
        self,
        options: Alarming,
        explainers: Mapping[str, IncrementalEstimator],
        performance: Performance,
        kinds: Mapping[str, Any],
        segments: Mapping[str, Segments],
        every: int = 1,
    ) -> None:
        self._options, self._every = options, every
        self._performance, self._kinds, self._explainers = performance, kinds, explainers
        self._causes = Causes()
        subjects, losses = options.subjects, len(performance.losses)
        self._watches: dict[str, Watch] = {}
        chosen = [kind for kind in ("loss", "gain") if kind in subjects]
        if chosen:
            detector = self._detector(len(chosen) * losses)
            self._watches["performance"] = _Losses(detector, performance, chosen)
        if "estimated_loss" in subjects:
            self._watches["estimated"] = _Estimated(self._detector(losses), performance, ["estimated_loss"])
        for name, explainer in explainers.items() if "importance" in subjects else ():
            for row, loss in enumerate(explainer.losses):
                self._watches[f"importance/{name}/{loss.name}"] = self._importances(name, row)
        self._features = {name: found.feature for name, found in segments.items()}
        self._made: dict[tuple[str, ...], tuple[str, Segments, Callable[[Segment], Watch]]] = {}
        """How the watch of a segment is made, by what stands before the value in its key, with the estimator and its segments."""
        self._by_segment: dict[tuple[Any, ...], Watch] = {}
        """By feature and value that of losses; by estimator, loss and value that of importances."""
        for name, found in segments.items() if "segments" in subjects else ():
            self._made.setdefault((found.feature,), (name, found, self._segment_losses))
        for name, found in segments.items() if "segment_importance" in subjects else ():
            for row, loss in enumerate(explainers[name].losses):
                self._made[name, loss.name] = name, found, partial(self._importances, name, row)
        for name, kind in OF_RECORDS.items():
            if name in subjects:
                self._watches[name] = kind(self._detector(kind.columns), kinds)

    def _detector(self, subjects: int, **dependence: int) -> ChangeDetector:
        options = self._options
        how = {"memory": MEMORY, "warm_up": options.warm_up} | dependence
        return ChangeDetector(
            subjects, one_in=options.one_in, baseline=options.baseline, season=options.season, **how
        )

    def _segment_losses(self, segment: Segment) -> Watch:
        return _Losses(self._detector(len(self._performance.losses)), self._performance, ["loss"], segment)

    def _importances(self, name: str, row: int, segment: Segment | None = None) -> Watch:
        """On average, a row stays in a geometric reservoir for ``stay`` records; rows from before a feature's first appearance lack it.

        Its subjects are the players at its last record: those that came later are no part of what a snapshot has.
        """
        explainer = self._explainers[name]
        kind, size = getattr(explainer.reservoir, "kind", None), explainer.reservoir.size
        stay = max(size // self._every, 2) if kind == "geometric" else MEMORY
        warm_up = max(self._options.warm_up, TURNOVER * stay)
        detector = self._detector(0, memory=stay, draws=explainer.n_samples, warm_up=warm_up)
        return _Importances(detector, self._performance, name, explainer, row, segment)

    def room(self, timestamps: Sequence[int], before: int) -> int:
        return min(
            (
                until(watch.detector.room, before, self._every) if watch.of_explained else watch.detector.room
                for watch in self._all
            ),
            default=LONGEST,
        )

    def learnt(self, records: Sequence[Record], learnt: Learnt) -> list[Alarm]:
        """Take in consecutive records, of which the last one alone ends a detector's block."""
        raised: list[Alarm] = []
        last = len(records) - 1
        # The last one apart: what an alarm may exceed depends on the subjects that there are by then.
        for begin, end in ((0, last), (last, last + 1)) if last else ((0, 1),):
            given, part = records[begin:end], learnt.part(begin, end) if last else learnt
            positions = [Position(record.offset, record.timestamp) for record in given]
            for watch in self._watches.values():
                raised += self._add(watch, given, part, positions)
            for i, place in enumerate(part.explained if self._made else ()):
                alone = part.part(place, place + 1)
                for watch in self._of_segments({name: values[i] for name, values in part.segments.items()}):
                    raised += self._add(watch, given[place : place + 1], alone, positions[place : place + 1])
        return raised

    def _add(
        self, watch: Watch, records: Sequence[Record], learnt: Learnt, positions: Sequence[Position]
    ) -> list[Alarm]:
        values, detector = watch.values(records, learnt), watch.detector
        if watch.of_explained:
            positions = [positions[place] for place in learnt.explained]
        if values is None or not positions:
            return []
        if values.shape[1] != detector.subjects:
            detector.grow(values.shape[1])
        return self._end(watch) if detector.add(values, positions) else []

    def _of_segments(self, newest: Mapping[str, str | None]) -> Iterator[Watch]:
        """The watches of the segments of a record."""
        for key, (name, _, _) in self._made.items():
            if name in newest:
                yield self._of_segment(*key, newest[name])

    def _of_segment(self, *key: Any) -> Watch:
        """The watch of a segment, made at its first record."""
        found = self._by_segment.get(key)
        if found is None:
            _, segments, made = self._made[key[:-1]]
            found = self._by_segment[key] = made((segments.feature, key[-1]))
        return found

    def rejected(self, position: Position) -> list[Alarm]:
        raised: list[Alarm] = []
        for watch in self._watches.values():
            if watch.of_rejected is not None and watch.detector.add([*watch.of_rejected], [position]):
                raised += self._end(watch)
        return raised

    def _end(self, watch: Watch) -> list[Alarm]:
        changes = watch.detector.end_block(watch.limits(self._options.min_change), self._among)
        return [
            Alarm(
                watch.subject(change.subject),
                change,
                self._causes.of(change.earliest.offset, change.latest.offset),
                label_free=watch.label_free,
            )
            for change in changes
        ]

    @property
    def _all(self) -> Iterator[Watch]:
        return chain(self._watches.values(), self._by_segment.values())

    @property
    def _among(self) -> int:
        """The subjects of all detectors, among which ``one_in`` is shared."""
        return sum(watch.detector.subjects for watch in self._all)

    def floors(self, reported: Mapping[str, str | None] | None = None) -> dict[Subject, float]:
        """The smallest lasting change of each subject that could be noticed now; not where it warms up.

        Of segments those alone that are ``reported``: their values, by estimator.
        """
        watches = list(self._watches.values())
        for name, value in (reported or {}).items():
            of_importances = [(name, loss.name, value) for loss in self._explainers[name].losses]
            keys = [*of_importances, (self._features[name], value)]
            watches += [self._by_segment[key] for key in keys if key in self._by_segment]
        among = self._among
        return {
            watch.subject(column): floor
            for watch in watches
            for column, floor in enumerate(watch.detector.floor(among).tolist())
            if not math.isnan(floor)
        }

    def state(self, pack: Pack = dumps) -> AlarmsData:
        detectors = {name: watch.detector.state() for name, watch in self._watches.items()}
        apart: Any = [(*key, watch.detector.state()) for key, watch in self._by_segment.items()]
        losses, importances = ([of for of in apart if len(of) == n] for n in (3, 4))
        return AlarmsData(detectors, self._causes.state(), losses, importances)

    def restore(self, data: AlarmsData, classes: int, unpack: Unpack) -> None:
        """Restore a stored state, after the estimators and the features seen. Raises ``StateError`` where it is invalid."""
        check(list(data.detectors) == list(self._watches), "alarms: of other subjects")
        for name, watch in self._watches.items():
            watch.detector.restore(data.detectors[name], watch.most)
        stored: list[Any] = [*data.segments, *data.importances]
        for *key, value, state in stored:
            made = self._made.get(tuple(key))
            check(made is not None and value in made[1], "alarms: of a segment that is none")
            check((*key, value) not in self._by_segment, "alarms: of a segment twice")
            watch = self._of_segment(*key, value)
            watch.detector.restore(state, watch.most)
        self._causes.restore(data.causes)
