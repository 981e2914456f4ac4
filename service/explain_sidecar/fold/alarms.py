"""Alarms: when losses and importances of a partition changed, from what each record adds to them.

A few detectors watch the partition, each over its own records: all that were folded (losses, missing values), those that an
estimator explained (importances), all that were read (rejected records).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from explain_client.alarm_words import sentence
from explain_core.alarms.causes import Causes, CausesState
from explain_core.alarms.detector import Change, ChangeDetector, DetectorState, Position
from explain_core.importance.base import IncrementalEstimator
from explain_core.importance.segments import Segments
from explain_core.models import Row
from explain_core.models.empty import Performance
from explain_core.state import State, check
from explain_sidecar.settings import Settings

if TYPE_CHECKING:
    from explain_sidecar.fold.explained_model import ExplainedModel

MEMORY = 100
"""The assumed length of dependence, in records, of values that no reservoir makes dependent."""


TURNOVER = 4
"""Reservoir sizes after which 98 % of a geometric reservoir's rows are new."""


class AlarmsData(State, frozen=True):
    """The detectors by the name of what they watch, the causes, and the detectors of segments.

    ``segments`` has those of losses by feature and value, ``importances`` those of importances by estimator, loss and value.
    """

    detectors: dict[str, DetectorState]
    causes: CausesState
    segments: list[tuple[str, str | None, DetectorState]] = msgspec.field(default_factory=list)
    importances: list[tuple[str, str, str | None, DetectorState]] = msgspec.field(default_factory=list)


class Subject(NamedTuple):
    """What a detector's column measures; None for what does not apply."""

    kind: str
    loss: str | None = None
    estimator: str | None = None
    feature: str | None = None
    segment: tuple[str, str | None] | None = None


class _Watched(NamedTuple):
    """A detector with its subjects: one for each of ``kinds`` and losses, or one for each feature."""

    detector: ChangeDetector
    kind: str
    loss: str | None = None
    estimator: IncrementalEstimator | None = None
    row: int = 0
    name: str | None = None
    segment: tuple[str, str | None] | None = None


def make_alarms(
    settings: Settings, explained: ExplainedModel | None, kinds: Mapping[str, Any]
) -> Alarms | None:
    """Alarms about a model. Where there are versions of it, those about rejected records are about none of them: ``explained`` is None.

    None where there is nothing to watch.
    """
    subjects = settings.alarms.subjects
    if settings.models.enabled:
        subjects = [subject for subject in subjects if (subject == "rejected") == (explained is None)]
    if not settings.alarms.enabled or not subjects:
        return None
    chosen = settings.alarms.model_copy(update={"subjects": subjects})
    return Alarms(
        settings.model_copy(update={"alarms": chosen}),
        explained.explainers if explained else {},
        explained.performance if explained else Performance([], None),
        kinds,
        explained.segments if explained else {},
    )


class Alarms:
    """Watches a partition; its state is part of the partition's state.

    ``kinds`` are the features seen, in order of appearance: a mapping that grows. ``segments`` are by estimator; of several of one
    feature the losses in the first are watched.
    """

    def __init__(
        self,
        settings: Settings,
        explainers: Mapping[str, IncrementalEstimator],
        performance: Performance,
        kinds: Mapping[str, Any],
        segments: Mapping[str, Segments],
    ) -> None:
        self._settings = settings.alarms
        self._performance, self._kinds = performance, kinds
        self._explainers, self._every = explainers, settings.explain.every
        self._model = settings.model.source
        self._causes = Causes()
        subjects = self._settings.subjects
        self._losses = [loss.name for loss in performance.losses]
        self._own, self._gain = "loss" in subjects, "gain" in subjects
        self._watched: dict[str, _Watched] = {}
        if self._own or self._gain:
            count = (self._own + self._gain) * len(self._losses)
            self._watched["performance"] = _Watched(self._detector(count), "performance")
        if "importance" in subjects:
            for name, explainer in explainers.items():
                for row, loss in enumerate(explainer.losses):
                    detector = self._of_estimator(explainer)
                    key = f"importance/{name}/{loss.name}"
                    self._watched[key] = _Watched(detector, "importance", loss.name, explainer, row, name)
        self._segments: dict[str, Segments] = {}
        self._by_segment: dict[tuple[str, str | None], _Watched] = {}
        if "segments" in subjects:
            for found in segments.values():
                self._segments.setdefault(found.feature, found)
        self._apart = segments if "segment_importance" in subjects else {}
        self._by_importance: dict[tuple[str, str, str | None], _Watched] = {}
        for kind, columns in (("missing", 0), ("rejected", 1)):
            if kind in subjects:
                self._watched[kind] = _Watched(self._detector(columns), kind)

    def _detector(self, subjects: int, **dependence: int) -> ChangeDetector:
        alarms = self._settings
        how = {"memory": MEMORY, "warm_up": alarms.warm_up} | dependence
        return ChangeDetector(
            subjects, one_in=alarms.one_in, baseline=alarms.baseline, season=alarms.season, **how
        )

    def _of_estimator(self, explainer: IncrementalEstimator) -> ChangeDetector:
        """On average, a row stays in a geometric reservoir for ``stay`` records; rows from before a feature's first appearance lack it.

        Its subjects are the players at its last record: those that came later are no part of what a snapshot has.
        """
        kind, size = getattr(explainer.reservoir, "kind", None), explainer.reservoir.size
        stay = max(size // self._every, 2) if kind == "geometric" else MEMORY
        warm_up = max(self._settings.warm_up, TURNOVER * stay)
        return self._detector(0, memory=stay, draws=explainer.n_samples, warm_up=warm_up)

    def folded(self, position: Position, x: Row, explained: bool) -> list[dict[str, Any]]:
        """Take in a folded record, explained or not; returns the contents of the alarms that it raises."""
        raised: list[dict[str, Any]] = []
        for watched in self._watched.values():
            kind = watched.kind
            values: Any
            if kind == "performance":
                own, empty = self._performance.newest.tolist()
                values = own if self._own else []
                if self._gain:
                    values = values + [b - a for a, b in zip(own, empty, strict=True)]
            elif kind == "importance":
                assert watched.estimator is not None
                increments = watched.estimator.increments
                if not explained or increments is None:
                    continue
                values = increments[watched.row]
            elif kind == "missing":
                values = [0.0 if name in x else 1.0 for name in self._kinds]
            else:
                values = [0.0]
            raised += self._add(watched, values, position)
        if explained:
            for segments in self._segments.values():
                if segments.begun:
                    watched = self._of_segment(segments.feature, segments.newest)
                    raised += self._add(watched, self._performance.newest[0], position)
            for name, segments in self._apart.items():
                increments = self._explainers[name].increments
                if segments.begun and increments is not None:
                    for row in range(len(increments)):
                        watched = self._of_importance(name, row, segments.newest)
                        raised += self._add(watched, increments[row], position)
        return raised

    def _add(self, watched: _Watched, values: Any, position: Position) -> list[dict[str, Any]]:
        detector = watched.detector
        if len(values) != detector.subjects:
            detector.grow(len(values))
        return self._end(watched) if detector.add(values, position) else []

    def _of_segment(self, *segment: Any) -> _Watched:
        """The detector of a segment, made at its first record."""
        found = self._by_segment.get(segment)
        if found is None:
            detector = self._detector(len(self._losses))
            found = self._by_segment[segment] = _Watched(detector, "segment", segment=segment)
        return found

    def _of_importance(self, name: str, row: int, value: str | None) -> _Watched:
        """The detector of the importances in a segment, made at its first record."""
        estimator = self._explainers[name]
        loss = estimator.losses[row].name
        found = self._by_importance.get((name, loss, value))
        if found is None:
            detector, segment = self._of_estimator(estimator), (self._apart[name].feature, value)
            found = _Watched(detector, "importance", loss, estimator, row, name, segment)
            self._by_importance[name, loss, value] = found
        return found

    def rejected(self, position: Position) -> list[dict[str, Any]]:
        """The same for a record that was not folded."""
        watched = self._watched.get("rejected")
        return self._end(watched) if watched is not None and watched.detector.add([1.0], position) else []

    def _end(self, watched: _Watched) -> list[dict[str, Any]]:
        return [
            self._alarm(watched, change)
            for change in watched.detector.end_block(self._limits(watched), self._among)
        ]

    @property
    def _among(self) -> int:
        """The subjects of all detectors, among which ``one_in`` is shared."""
        every = chain(self._watched.values(), self._by_segment.values(), self._by_importance.values())
        return sum(watched.detector.subjects for watched in every)

    def floors(self, *kinds: str) -> Iterator[tuple[Subject, float]]:
        """The smallest lasting change of each subject that could be noticed now, of detectors of these kinds; not where it warms up."""
        for watched in self._watched.values():
            if watched.kind in kinds:
                yield from self._floors(watched)

    def _floors(self, watched: _Watched) -> Iterator[tuple[Subject, float]]:
        for column, floor in enumerate(watched.detector.floor(self._among).tolist()):
            if not math.isnan(floor):
                yield self._subject(watched, column), floor

    def fill_in(self, about: Mapping[str, Any]) -> None:
        """Put the floors of losses, gains, importances and segments into the content of an explanation."""
        for name, told in about["segments"].items():
            for loss, cells in told["importance"].items():
                apart = self._by_importance.get((name, loss, told["value"]))
                for subject, floor in self._floors(apart) if apart else ():
                    cells[subject.feature]["floor"] = floor
            segment = self._by_segment.get((told["feature"], told["value"]))
            for subject, floor in self._floors(segment) if segment else ():
                if subject.loss in told["performance"]:
                    told["performance"][subject.loss]["floor"] = floor
        for subject, floor in self.floors("performance", "importance"):
            if subject.kind == "importance":
                about["importance"][subject.estimator][subject.loss][subject.feature]["floor"] = floor
            else:
                about["performance"][subject.loss]["floor" if subject.kind == "loss" else "gain_floor"] = (
                    floor
                )

    def _limits(self, watched: _Watched) -> list[float] | float:
        """The tolerance: a share of the loss of predicting the labels' frequencies, or of all records."""
        least = self._settings.min_change
        if watched.loss is not None:
            return least * abs(self._performance.of(watched.loss)[1])
        if watched.kind == "performance":
            return self._of_losses(least) * (self._own + self._gain)
        if watched.kind == "segment":
            return self._of_losses(least)
        return least

    def _of_losses(self, share: float) -> list[float]:
        return [share * abs(self._performance.of(loss)[1]) for loss in self._losses]

    def _subject(self, watched: _Watched, column: int) -> Subject:
        if watched.kind == "performance":
            kinds = [kind for kind, wanted in (("loss", self._own), ("gain", self._gain)) if wanted]
            kind, loss = divmod(column, len(self._losses))
            return Subject(kinds[kind], self._losses[loss])
        if watched.kind == "importance":
            assert watched.estimator is not None
            feature = watched.estimator.players[column].name
            return Subject("importance", watched.loss, watched.name, feature, watched.segment)
        if watched.kind == "segment":
            return Subject("loss", self._losses[column], segment=watched.segment)
        return Subject(watched.kind, feature=list(self._kinds)[column] if watched.kind == "missing" else None)

    def _alarm(self, watched: _Watched, change: Change) -> dict[str, Any]:
        """The content of the message, without the fields that identify its source."""
        subject = self._subject(watched, change.subject)
        alarm = {
            "subject": subject.kind,
            "feature": subject.feature,
            "estimator": subject.estimator,
            "loss": subject.loss,
            "segment": subject.segment and dict(zip(("feature", "value"), subject.segment, strict=True)),
            "direction": "up" if change.least > 0.0 else "down",
            "least": abs(change.least),
            "before": change.before._asdict(),
            "after": change.after._asdict(),
            "onset": change.onset._asdict(),
            "earliest": change.earliest._asdict(),
            "latest": change.latest._asdict(),
            "evidence": change.evidence,
            "clipped": change.clipped,
            "cause": self._causes.of(change.earliest.offset, change.latest.offset),
            "one_in": self._settings.one_in,
            "min_change": self._settings.min_change,
            "model": self._model,
            "version": None,
        }
        return {**alarm, "sentence": sentence(alarm)}

    def state(self) -> AlarmsData:
        detectors = {name: watched.detector.state() for name, watched in self._watched.items()}
        segments = [(*key, watched.detector.state()) for key, watched in self._by_segment.items()]
        importances = [(*key, watched.detector.state()) for key, watched in self._by_importance.items()]
        return AlarmsData(detectors, self._causes.state(), segments, importances)

    def restore(self, data: AlarmsData) -> None:
        """Restore a stored state, after the estimators and the features seen. Raises ``StateError`` where it is invalid."""
        check(list(data.detectors) == list(self._watched), "alarms: of other subjects")
        for name, watched in self._watched.items():
            most = watched.detector.subjects
            if watched.estimator is not None:
                most = len(watched.estimator.players)
            elif watched.kind == "missing":
                most = len(self._kinds)
            watched.detector.restore(data.detectors[name], most)
        for feature, value, state in data.segments:
            check(
                feature in self._segments and value in self._segments[feature],
                "alarms: of a segment that is none",
            )
            check((feature, value) not in self._by_segment, "alarms: of a segment twice")
            self._of_segment(feature, value).detector.restore(state, len(self._losses))
        for name, loss, value, state in data.importances:
            check(name in self._apart and value in self._apart[name], "alarms: of a segment that is none")
            estimator = self._explainers[name]
            losses = [one.name for one in estimator.losses]
            check(loss in losses, "alarms: of a segment's loss that is none")
            check((name, loss, value) not in self._by_importance, "alarms: of a segment twice")
            watched = self._of_importance(name, losses.index(loss), value)
            watched.detector.restore(state, len(estimator.players))
        self._causes.restore(data.causes)
