"""A stream's heart: models with all that is known of them, and what watches their records."""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import structs

from explain_core.alarms.detector import Position
from explain_core.engine.stream import LONGEST, chain
from explain_core.explanation import Explanation
from explain_core.foreign import dumps, refuse
from explain_core.losses import Prediction, Task
from explain_core.models import FeatureKind, Model, Row
from explain_core.models.empty import Performance
from explain_core.random import derive_seed
from explain_core.state import Count, Pack, State, Unpack, Value, check
from explain_core.stream import given
from explain_core.stream.alarms import OF_NO_MODEL, Alarms, AlarmsData
from explain_core.stream.attribution import Fresh, RiskAttribution
from explain_core.stream.challenger import Challenger
from explain_core.stream.events import Alarm, Event, Learnt, Record, RecordBlock
from explain_core.stream.explained import ExplainedModel
from explain_core.stream.options import Options
from explain_core.stream.part import Part
from explain_core.stream.reasoner import Predicted, Reasoner
from explain_core.stream.recent import Recent, RecentData
from explain_core.stream.slot import Slot, SlotData
from explain_core.stream.windows import Windows, WindowsData

if TYPE_CHECKING:
    from explain_core.taught import Taught

Digest = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]

Dated = tuple[Row, Any, int | None]
"""A record: features, label (None where it has none), and event time in milliseconds since 1970 (None without times)."""

DEFAULT = Options()

_OF_NUMBERS = ("kind", "alpha", "n_samples", "groups", "by", "segments", "rows", "reservoir", "params")
"""Of an explainer."""

_said = msgspec.json.Encoder(enc_hook=lambda value: type(value).__name__).encode

ONLY = ""
"""The name of the slot where there are no versions of the model."""


class PartsData(State, frozen=True):
    """What is kept of a stream besides its slots: each part by its name, None where there is none."""

    windows: WindowsData | None = None
    recent: RecentData | None = None
    alarms: AlarmsData | None = None


class StreamData(State, frozen=True):
    """The state of a stream with one model."""

    offset: Count
    records: Count
    raised: Count
    digest: Digest
    labels: list[Value]
    kinds: dict[str, FeatureKind]
    slot: SlotData
    parts: PartsData
    unlabelled: Count = 0
    options: dict[str, str] = msgspec.field(default_factory=dict)


class StreamExplainer:
    """Explains a model on a stream of labelled records, tests each prediction before the model learns from its record, and watches both.

    What the sidecar runs for a partition of a topic: the same numbers, events and digest.

    =====================  =====================================================================================
    ``model``              a model (``learner_of`` makes one of a model of river that learns in arrays, ``wrap`` one of any other);
                           None where there are versions of it, each of which ``slot`` makes and ``slots`` names
    ``options``            what is kept of it: estimators, alarms, windows
    ``seed``               of all draws
    ``static``             the model never learns
    ``fresh``              makes the model as it is now once more: what windows of a model that learns are judged by
    ``challenger``         a second model of the same task, which is compared with the first
    ``challenger_static``  that one never learns
    ``task``               of versions; a single model has its own
    ``labels``             code of each label; grows with the records
    ``kinds``              kind of each feature; grows with the records
    ``digest``             what the digest begins with, 16 bytes
    ``models``             the model of a version, which a window of records may ask for after its slot was closed
    =====================  =====================================================================================

    Raises ``ValueError`` where the options do not suit the model.

    >>> from river import linear_model
    >>> from explain_core import Explainer, Options, StreamExplainer, learner_of
    >>> model = learner_of(linear_model.LogisticRegression(), "classification")
    >>> explainer = StreamExplainer(model, Options(explainers=[Explainer(rows=10)]))
    >>> for i in range(200):
    ...     events = explainer.update({"a": float(i % 7), "noise": float(i % 3)}, i % 7 > 3)
    >>> explainer.explanation["ipfi"].top(1)[0][0], explainer.records, explainer.digest.hex()[:4] != "0000"
    ('a', 200, True)
    """

    def __init__(
        self,
        model: Model | None,
        options: Options = DEFAULT,
        seed: int = 0,
        *,
        static: bool = False,
        fresh: Fresh | None = None,
        challenger: Model | None = None,
        challenger_static: bool = False,
        task: Task = "classification",
        labels: dict[Any, int] | None = None,
        kinds: dict[str, FeatureKind] | None = None,
        digest: bytes = bytes(16),
        models: Callable[[str], Model] | None = None,
    ) -> None:
        self.options, self.seed, self._single = options, seed, model is not None
        self.task = task if model is None else model.task
        self.labels: dict[Any, int] = {} if labels is None else labels
        self.kinds: dict[str, FeatureKind] = {} if kinds is None else kinds
        self.digest = digest
        """Over offset, predictions and losses of every record."""
        self.next_offset = 0
        self.records = 0
        """That were folded."""
        self.unlabelled = 0
        """Records without a label that were noted."""
        self.raised = 0
        """Alarms so far."""
        self.slots: dict[str, Slot] = {}
        self.newest: Slot
        """That of the newest record."""
        self.parts: dict[str, Part] = {}
        """What watches the records of all slots: windows, recent, alarms."""
        self._bound_at = -1
        """The offset that came next when the slot was bound, or the last block ended; −1 where nothing is bound."""
        drift = options.drift
        if model is not None:
            self.newest = self.slots[ONLY] = self.slot(
                model,
                options,
                seed,
                static=static,
                challenger=challenger,
                challenger_static=challenger_static,
            )
        else:
            self.parts.update(("alarms", alarms) for alarms in self._alarms(options))
        if drift is not None:
            if fresh is None and model is not None and not static:
                raise ValueError("drift: a model that learns needs fresh, which makes it once more")
            attribution = RiskAttribution(
                drift, self.task, derive_seed(seed, "drift"), None if static or model is None else fresh
            )
            part = Recent(attribution) if drift.on_alarm else Windows(attribution, models or self._model)
            self.parts = {"recent" if drift.on_alarm else "windows": part, **self.parts}

    def slot(
        self,
        model: Model,
        options: Options,
        seed: int,
        *,
        static: bool,
        challenger: Model | None = None,
        challenger_static: bool = False,
        shared: bool = False,
        columns: Sequence[str] | None = None,
    ) -> Slot:
        """A slot for a model. A ``shared`` challenger is stored by others; ``columns`` are the features that the model takes."""
        alarms = options.alarms
        if alarms is not None and "estimated_loss" in alarms.subjects and not options.estimates:
            raise ValueError("subjects: estimated_loss needs estimates")
        model = model.relabelled(self.labels) if static else model
        if challenger is not None and challenger_static:
            challenger = challenger.relabelled(self.labels)
        explained = ExplainedModel(model, options, seed, static=static, labels=self.labels)
        challengers = [
            Challenger(other, explained, options, seed, static=challenger_static, stored=not shared)
            for other in ([] if challenger is None else [challenger])
        ]
        reasoner = None
        if options.reasoning is not None:
            if not explained.reservoirs:
                raise ValueError(
                    "reasoning: reasons are against the first explainer's reservoir, and there is none"
                )
            reservoir = next(iter(explained.reservoirs.values()))
            reasoner = Reasoner(model, options.reasoning, reservoir, seed)
        return Slot(explained, challengers, self._alarms(options, explained), columns, reasoner)

    def _alarms(self, options: Options, explained: ExplainedModel | None = None) -> list[Alarms]:
        """Alarms about a model, or where there are several about what is none of one's; none where there is nothing to watch."""
        alarms = options.alarms
        if alarms is None:
            return []
        of_models = [subject for subject in alarms.subjects if subject not in OF_NO_MODEL]
        of_none = [subject for subject in alarms.subjects if subject in OF_NO_MODEL]
        chosen = alarms.subjects if self._single else of_models if explained else of_none
        if not chosen:
            return []
        return [
            Alarms(
                replace(alarms, subjects=chosen),
                explained.explainers if explained else {},
                explained.performance if explained else Performance([], None),
                self.kinds,
                explained.segments if explained else {},
                options.every,
            )
        ]

    def begin_with(self, taught: Taught) -> None:
        """Before the first record: go on with a model that has learnt elsewhere (``load_taught`` reads one). The stream's own is one like it, and learns.

        Raises ``StateError`` where it is another one; the stream is then of no more use.
        """
        fresh = self.state()
        windows, recent = (
            part and structs.replace(part, taught=True) for part in (fresh.parts.windows, fresh.parts.recent)
        )
        explained = structs.replace(fresh.slot.explained, model=taught.model)
        self.restore(
            structs.replace(
                fresh,
                labels=taught.labels,
                kinds=taught.kinds,
                slot=structs.replace(fresh.slot, explained=explained),
                parts=structs.replace(fresh.parts, windows=windows, recent=recent),
            )
        )

    def _model(self, version: str) -> Model:
        return self.slots[version].explained.model

    def update(
        self,
        x: Row,
        y: Any,
        *,
        weight: float = 1.0,
        timestamp: int | None = None,
        served: Prediction | None = None,
    ) -> list[Event]:
        """Take in the next record: features, label, event time (milliseconds since 1970; by default the records before it).

        ``served`` is the prediction that was served for it: a number, or the probability of each label.

        Returns the alarms that it raises, and why the risk changed where a window ends with it: mostly nothing.
        Raises ``ValueError`` for what is no feature, or no label; nothing has changed then, and the next record may follow. What the model itself raises,
        such as a linear one for a text, goes through; the stream is then of no more use.
        """
        offset = self.next_offset
        x, y = given.features(offset, x), given.label(offset, y, self.task == "regression")
        kinds, time = self._kinds(offset, x, self.slots[ONLY]), given.time(offset, timestamp)
        if served is not None:
            codes = self.labels if y in self.labels else {**self.labels, y: len(self.labels)}
            served = given.served(offset, served, None if self.task == "regression" else codes)
        code = y if self.task == "regression" else self._code(offset, y)
        self.kinds |= kinds
        return self.fold(Record(offset, time, x, code, weight, served))

    def _code(self, offset: int, y: Any) -> int:
        """The code of a label. Raises ``ValueError`` for one more than the model, or its challenger, has classes."""
        labels = self.labels
        if y not in labels and len(labels) >= min(
            kept.model.most_classes for kept in self.slots[ONLY].models
        ):
            raise ValueError(
                f"record {offset}: the label {y!r:.40} would be class {len(labels) + 1}; the model is binary and has seen "
                f"{', '.join(map(repr, labels))}; give a model of more classes, or name the task multiclass"
            )
        return labels.setdefault(y, len(labels))

    def _kinds(self, offset: int, x: Row, slot: Slot) -> dict[str, FeatureKind]:
        """The kinds of a record's features. Raises ``ValueError`` for one that is of another kind than before, or than the model takes."""
        kinds: dict[str, FeatureKind] = {}
        for name, value in x.items():
            kind = kinds[name] = "string" if isinstance(value, str) else "number"
            wanted = slot.wanted.get(name) or self.kinds.get(name, kind)
            if wanted != kind:
                who = "the model takes" if name in slot.wanted else "it was"
                raise ValueError(
                    f"record {offset}: feature {name!r:.40} is a {kind}, {value!r:.40}, and {who} a {wanted}; convert it, or leave it out"
                )
        return kinds

    def update_unlabelled(self, x: Row, *, timestamp: int | None = None) -> list[Event]:
        """Take in the next record, which has no label: the model does not learn from it, and no loss counts it."""
        offset = self.next_offset
        x, time = given.features(offset, x), given.time(offset, timestamp)
        self.kinds |= self._kinds(offset, x, self.slots[ONLY])
        return self.fold_unlabelled(Record(offset, time, x, None))

    def update_many(self, block: Iterable[tuple[Row, Any]]) -> list[Event]:
        """``update`` of each (features, label); several times as fast where models learn in arrays."""
        pairs = list(block)
        steps = self._updates([x for x, _ in pairs], [y for _, y in pairs], None)
        return [event for _, events in steps for event in events]

    def updates(self, block: Iterable[Dated]) -> Iterator[tuple[int, list[Event]]]:
        """``update_many`` of (features, label, event time or None), step by step: how many records each took in, and what follows of the last of them."""
        dated = list(block)
        return self._updates(
            [x for x, _, _ in dated], [y for _, y, _ in dated], [time for _, _, time in dated]
        )

    def _updates(
        self, xs: list[Row], ys: list[Any], times: list[int | None] | None
    ) -> Iterator[tuple[int, list[Event]]]:
        """``updates``, by columns: a tuple of each record is what the garbage collector would look for again and again."""
        place = 0
        while place < len(xs):
            taken, events = self._update_block(xs, ys, times, place)
            if not taken:
                time = None if times is None else times[place]
                taken, events = 1, self.update(xs[place], ys[place], timestamp=time)
            place += taken
            yield taken, events

    def _update_block(
        self, xs: list[Row], ys: list[Any], times: list[int | None] | None, place: int
    ) -> tuple[int, list[Event]]:
        """How many of the records from a place on were folded as a block, and what follows; none where the first one, or the state, is not ordinary."""
        if not self._single or not self.records:
            return 0, []
        slot = self.newest
        if self.next_offset != self._bound_at:
            self._bound_at = self.next_offset if slot.bind() else -1
        if self._bound_at < 0:
            return 0, []
        taken = slice(place, place + slot.most)
        xs, truths = xs[taken], ys[taken]
        if self.task == "regression":
            truths = list(takewhile(given.is_number, truths))
        else:
            # Others may be no labels, or not to be looked up: ``update`` says so.
            truths = list(map(self.labels.get, truths)) if {*map(type, truths)} <= given.CLASSES else []
        if times is not None:
            truths = truths[: sum(1 for _ in takewhile(given.is_time, times[taken]))]
        rows, numbers = slot.explained.blocks.encode(xs, truths)
        n = len(numbers)
        offsets = range(self.next_offset, self.next_offset + n)
        stamps: Sequence[int] = offsets
        if times is not None:
            dated = zip(offsets, times[taken], strict=False)
            stamps = [offset if time is None else time for offset, time in dated]
        xs = list(map(given.known, xs[:n]))
        found = self.fold_block(RecordBlock(offsets, stamps, xs, rows, numbers, np.ones(n), ()))
        self._bound_at = self.next_offset
        return found

    def fold(self, record: Record) -> list[Event]:
        """Take in a record whose label is a code of ``labels``, and whose features have their kinds; returns what follows, in order.

        What the model or a challenger raises goes through; the stream is then of no more use.
        """
        slot = self.newest = self.slots[record.version or ONLY]
        model, explains = slot.explained.model, slot.explained.explains
        x = slot.features(record.x)
        predictions = slot.predict(record, x)
        events: list[Event] = [
            event for part in self.parts.values() for event in part.predicted(record, predictions[0], model)
        ]
        losses = slot.learn(record, x, predictions)
        alarms: list[Alarm] = []
        if self.parts or slot.alarms:
            alarms = self._watched([record], slot.explained.learnt(explains))
        self.records += 1
        self.next_offset = record.offset + 1
        traced = b"".join(
            trace(record.offset, *found, len(self.labels)) for found in zip(predictions, losses, strict=True)
        )
        self.digest = hashlib.blake2b(self.digest + traced, digest_size=16).digest()
        return events + self._ended(record, alarms)

    def predict(self, x: Row, version: str | None = None) -> Predicted:
        """The prediction for a record by the model as it is, or by a version of it, and with ``Options.reasoning`` its reasons: of labels by their codes in ``labels``.

        Nothing is learnt or counted: it may be called before ``fold`` or ``fold_unlabelled``, or at any time. But features and texts that no record had yet take
        their places in a model that learns with it, and their order decides on last digits: where digests are compared, ask of none before its record comes.
        """
        slot, x = self.slots[version or ONLY], given.features(self.next_offset, x)
        self._kinds(self.next_offset, x, slot)
        return slot.predicted(slot.features(x))

    def fold_unlabelled(self, record: Record) -> list[Event]:
        """Take in a record whose label is not known, whatever its ``y``; returns what follows, in order.

        The model does not learn from it, and losses, windows and periods do not count it. Its features are noted: reservoirs may keep it. Explainers that
        need no label (``losses=["prediction"]``) explain its prediction, and alarms about these, and about missing values, watch it.
        The digest covers its prediction.
        """
        slot = self.newest = self.slots[record.version or ONLY]
        x = slot.features(record.x)
        prediction = slot.explained.predict(x)
        learnt = slot.explained.note(x, prediction)
        for challenger in slot.challengers:
            challenger.observe(x)
            challenger.note(x, slot.explained.unlabelled)
        alarms = self._watched([record], learnt)
        self.unlabelled += 1
        self.next_offset = record.offset + 1
        traced = trace(record.offset, prediction, (), len(self.labels))
        self.digest = hashlib.blake2b(self.digest + traced, digest_size=16).digest()
        self._raise(record, alarms)
        return [*alarms]

    def _watched(self, records: Sequence[Record], learnt: Learnt) -> list[Alarm]:
        """The alarms about records of the newest slot, of what watches those of all slots first."""
        alarms = [alarm for part in self.parts.values() for alarm in part.learnt(records, learnt)]
        version, worse = records[-1].version, self.newest.explained.worth.since is not None
        for watch in self.newest.alarms:
            for alarm in watch.learnt(records, learnt):
                void = worse and alarm.subject.kind == "importance" and not alarm.label_free
                alarms.append(alarm._replace(version=version, void=void))
        return alarms

    def _ended(self, record: Record, alarms: list[Alarm]) -> list[Event]:
        """What follows once all is known of a record, which raised these alarms."""
        events: list[Event] = [*alarms]
        for part in self.parts.values():
            events += part.answers(record, self.newest.explained.model, alarms, self.raised)
        self._raise(record, alarms)
        return events

    def _raise(self, record: Record, alarms: Sequence[Alarm]) -> None:
        """Count alarms; the period since the last one begins with the record."""
        explained = self.newest.explained
        if alarms and explained.periods is not None:
            explained.periods.alarmed(explained.records, record.offset, record.timestamp)
        self.raised += len(alarms)

    def fold_block(self, block: RecordBlock) -> tuple[int, list[Event]]:
        """``fold`` of the first records of a block, once its slot is bound; how many, and what follows of the last one."""
        slot = self.newest = self.slots[block.version or ONLY]
        watches = [*self.parts.values(), *slot.alarms]
        rooms = [watch.room(block.timestamps, slot.explained.records) for watch in watches]
        n = min(len(block.xs), *rooms, LONGEST)
        if n <= 0:  # a damaged state may leave less room than none
            return 0, []
        found = slot.fold_block(block, n)
        if not found:
            return 0, []
        (predictions, learnt), n = found[0], len(found[0][0])
        codes = [None] if self.task == "regression" else list(self.labels.values())
        traced, offsets = [], np.array(block.offsets[:n], np.int64).view(np.float64)
        for kept, (numbers, known) in zip(slot.models, found, strict=True):
            assert known.losses is not None
            places = np.array([kept.blocks.places.get(code, -1) for code in codes], np.int64)
            traced += [offsets[:, None], np.where(places >= 0, numbers[:, places], 0.0), known.losses[:, 0]]
        self.digest = chain(self.digest, np.ascontiguousarray(np.concatenate(traced, axis=1)))
        self.records += n
        self.next_offset = block.offsets[n - 1] + 1
        if not watches:
            return n, []
        explained = slot.explained
        truths, version = explained.blocks.truths(block.ys[:n]), block.version
        records = [
            Record(*of, version=version)
            for of in zip(block.offsets, block.timestamps, block.xs, truths, strict=False)
        ]
        if self.parts:
            for record, prediction in zip(records, explained.blocks.told(predictions), strict=True):
                for part in self.parts.values():
                    part.predicted(record, prediction, explained.model)
        return n, self._ended(records[-1], self._watched(records, learnt))

    def reject(self, position: Position) -> list[Alarm]:
        """There was a record that cannot be folded; returns the alarms that this raises."""
        self.next_offset = position.offset + 1
        watches = [*self.parts.values(), *(self.slots[ONLY].alarms if ONLY in self.slots else ())]
        alarms = [alarm for watch in watches for alarm in watch.rejected(position)]
        self.raised += len(alarms)
        return alarms

    @property
    def explanation(self) -> dict[str, Explanation]:
        """The importances of the model of the newest record, by explainer."""
        return self.newest.explained.explanations

    def parts_state(self, pack: Pack = dumps) -> PartsData:
        """The state of ``parts``."""
        states: dict[str, Any] = {name: part.state(pack) for name, part in self.parts.items()}
        return PartsData(**states)

    def restore_parts(self, data: PartsData, unpack: Unpack = refuse) -> None:
        """Restore ``parts``, after labels and slots. Raises ``StateError`` where they are not of these options."""
        for name in ("windows", "recent", "alarms"):
            stored = getattr(data, name)
            check((stored is None) == (name not in self.parts), f"{name}: with them, or without")
            if stored is not None:
                self.parts[name].restore(stored, len(self.labels), unpack)

    def state(self, pack: Pack = dumps) -> StreamData:
        """The state of a stream with one model, as data; ``pack`` stores a model that is no learner."""
        return StreamData(
            self.next_offset,
            self.records,
            self.raised,
            self.digest,
            list(self.labels),
            dict(self.kinds),
            self.slots[ONLY].state(pack),
            self.parts_state(pack),
            self.unlabelled,
            self._options(),
        )

    def _options(self) -> dict[str, str]:
        """Options by which the numbers of a state are made, as far as its shape does not tell them."""
        options, explained = self.options, self.slots[ONLY].explained
        parts = {"alarms": options.alarms, "drift": options.drift, "following": options.following}
        found: dict[str, Any] = {"every": options.every}
        found |= {
            f"{name}.{key}": value
            for name, part in parts.items()
            if part is not None
            for key, value in asdict(part).items()
        }
        if self.slots[ONLY].challengers:
            found |= {f"comparing.{key}": value for key, value in asdict(options.comparing).items()}
        for chosen, (name, explainer) in zip(options.explainers, explained.explainers.items(), strict=True):
            found |= {f"{name}.{key}": getattr(chosen, key) for key in _OF_NUMBERS}
            found[f"{name}.losses"] = [loss.name for loss in explainer.losses]
        return {name: _said(value).decode() for name, value in found.items()}

    def restore(self, data: StreamData, unpack: Unpack = refuse) -> None:
        """Restore a stored state, before the first record. ``unpack=explain_core.foreign.loads`` also reads a model that is no learner:
        it runs code, so it is for bytes of your own.

        Raises ``StateError`` where the state is not of these options; the stream is then of no more use. What only says how numbers are made or
        shown (``evaluator``, ``warm_up``, ``band``, ``confidence``, ``reasoning``) may be another one.
        """
        for name, now in self._options().items():
            before = data.options.get(name, now)
            check(
                before == now,
                f"{name}: it was {before} and is {now}, which would give the numbers another meaning; pass the one of before, or begin without the state",
            )
        self.next_offset, self.records, self.unlabelled = data.offset, data.records, data.unlabelled
        self.raised, self.digest = data.raised, data.digest
        self.labels.clear()
        self.labels.update((label, code) for code, label in enumerate(data.labels))
        self.kinds.update(data.kinds)
        self.slots[ONLY].restore(data.slot, len(self.labels), unpack)
        self.restore_parts(data.parts, unpack)


@functools.cache
def _packed(numbers: int) -> Callable[..., bytes]:
    return struct.Struct(f"<q{numbers}d").pack


@functools.cache
def _codes(labels: int) -> tuple[int, ...]:
    return tuple(range(labels))


def trace(offset: int, prediction: Prediction, losses: Sequence[float], labels: int) -> bytes:
    """What the digest covers of a record: offset, the prediction of each label's code, and losses."""
    if isinstance(prediction, float):
        values = [prediction]
    else:
        codes = _codes(labels)
        values = (
            list(prediction.values())
            if tuple(prediction) == codes
            else [prediction.get(code, 0.0) for code in codes]
        )
    return _packed(len(values) + len(losses))(offset, *values, *losses)
