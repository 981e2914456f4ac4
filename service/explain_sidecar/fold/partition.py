"""The fold: the state of a partition is a function of its input, and of nothing else.

``PartitionState.step(record)`` returns the messages that the record causes. There is no clock, no I/O, no global
random generator and no thread in it; that is what makes recovery exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from explain_core.alarms.detector import Position
from explain_core.losses import Task
from explain_core.random import derive_seed
from explain_core.state import Count, Pack, State, Unpack, Value, check
from explain_core.stream import Alarm, Event, Predicted, Record, StreamExplainer
from explain_core.stream.alarms import Alarms, AlarmsData
from explain_core.stream.challenger import Challenger, ChallengerData, ChallengerFailed
from explain_core.stream.explained import ExplainedModel, ExplainedModelData
from explain_core.stream.explainer import ONLY, Digest, PartsData
from explain_core.stream.identity import beginning
from explain_core.stream.recent import RecentData
from explain_core.stream.slot import Slot, SlotData
from explain_core.stream.windows import WindowsData
from explain_sidecar.errors import UserError
from explain_sidecar.fold import contents, predictions
from explain_sidecar.fold.blocks import BlockFold
from explain_sidecar.fold.label_delay import Delays, LabelDelays
from explain_sidecar.fold.messages import (
    MAX_KEY,
    Chain,
    Destination,
    Identity,
    Output,
    dead_letter,
    headers_of,
    key_text,
    sealed,
)
from explain_sidecar.fold.models import load_challenger, load_model, record_settings
from explain_sidecar.fold.options import check_weights, options_of, refused
from explain_sidecar.fold.records import Decoder, InputRecord, Sample
from explain_sidecar.fold.rejections import Bits, Rejections
from explain_sidecar.fold.selection import Choice
from explain_sidecar.fold.sizes import ExplanationSize
from explain_sidecar.fold.versions import Find, ModelVersions, OneModel, UnknownVersion, VersionsData
from explain_sidecar.fold.vocabulary import Vocabulary
from explain_sidecar.fold.waiting import Earlier, WaitingPredictions
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.schemas import Fetch, Schemas, StoredSchema
from explain_sidecar.settings import Settings


class CarriedData(State, frozen=True):
    """What an epoch that begins at ``offset`` took over from the one before, by names of parts, and what began anew with it.

    Where it took over the model of another partition, of which and after the records before which offset."""

    from_epoch: Count
    offset: Count
    carried: list[str]
    begun: list[str]
    from_partition: Count | None = None
    from_offset: Count | None = None


class PartitionData(State, frozen=True):
    """The state of a partition as a snapshot holds it; without the settings. ``explained`` is the only model, where there are no ``versions``."""

    partition: Count
    epoch: Count
    next_offset: Count
    records: Count
    rejected: Count
    recently: Bits
    notices: list[str]
    fold_digest: Digest
    chains: dict[str, tuple[Count, Digest]]
    labels: list[Value]
    kinds: dict[str, Literal["string", "number"]]
    explained: ExplainedModelData | None
    windows: WindowsData | None
    schemas: list[StoredSchema] = msgspec.field(default_factory=list)
    alarms: AlarmsData | None = None
    skipped: Count = 0
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY)] | None = None
    label_delay: Delays = msgspec.field(default_factory=list)
    versions: VersionsData | None = None
    recent: RecentData | None = None
    challenger: ChallengerData | None = None
    carried: CarriedData | None = None
    superseded: list[str] = msgspec.field(default_factory=list)
    unlabelled: Count = 0
    waiting: list[Earlier] = msgspec.field(default_factory=list)


class FoldError(UserError):
    """The model failed on a record, so that no state after it is known. ``reason``: how, and what can be done about the model; none of a bad record."""

    reason: str | None = None


class PartitionState:
    """The stream of one partition: the explained model, or several versions of it, and how its records and messages are numbered.

    A record is decoded, checked against what the partition has seen, and folded by ``stream``, which is a ``StreamExplainer``; what that tells
    becomes messages. ``versions`` opens and closes the slots of the stream where records name the version that served them.

    ``state()`` is what a snapshot holds; ``restore()`` puts it into a new object.
    """

    def __init__(self, settings: Settings, partition: int, epoch: int = 0, start: int = 0) -> None:
        identity = (settings.app_id, settings.topics.records, partition, epoch)
        seed, digest = beginning(settings.seed, *identity)
        self.partition, self.epoch = partition, epoch
        self.next_offset = start
        self.rejections = Rejections()
        self.label_delay = LabelDelays()
        self.skipped = 0
        self.only_key: bytes | None = None
        self.notices: list[str] = []
        self.carried: CarriedData | None = None
        """What this epoch took over from the one before; its first message says so."""
        self.superseded: list[str] = []
        """Digests of the settings of the last epochs before this one."""
        self.chains = {name: Chain(*identity, name) for name in settings.outputs}
        self._vocabulary = Vocabulary(settings, ExplanationSize(settings))
        self.labels, self.kinds = self._vocabulary.labels, self._vocabulary.kinds
        self.settings = settings
        self.schemas = Schemas()
        self.versions: ModelVersions | None = None
        self.stream = self._stream(seed, digest)
        if settings.models.enabled:
            self.versions = ModelVersions(settings, seed, self._vocabulary, self.stream)
        else:
            for section, kept in zip(("model", "challenger"), self.stream.newest.models, strict=False):
                self._vocabulary.bound(section, kept.model.most_classes)
        self._open: ModelVersions | OneModel = self.versions or OneModel(self.stream)
        self.choice = Choice(settings.predictions)
        self.waiting = WaitingPredictions(
            settings.predictions.remember if settings.predictions.enabled else 0
        )
        self._decoder = Decoder(
            record_settings(settings),
            settings.model.task,
            self.schemas,
            self.versions.columns_for if self.versions else None,
            self.choice,
        )
        self._topic, self._on_bad = settings.topics.records, settings.record.on_bad
        self._emit_every = settings.emit.every
        self._blocks = BlockFold(
            self.stream, self._open, self._decoder, self._vocabulary, settings, self.choice, self.waiting
        )

    def _stream(self, seed: int, digest: bytes) -> StreamExplainer:
        settings, several = self.settings, self.settings.models.enabled
        task: Task = "regression" if settings.model.task == "regression" else "classification"
        model_seed, static = derive_seed(seed, "model"), settings.model.static
        model = None if several else load_model(settings.model, model_seed)
        chosen = None if several else settings.challenger_model
        challenger = None if chosen is None else load_challenger(settings, derive_seed(seed, "challenger"))
        if model is not None:
            check_weights(settings, model, static)
        if challenger is not None and chosen is not None:
            check_weights(settings, challenger, chosen.static)
        try:
            return StreamExplainer(
                model,
                options_of(settings),
                seed,
                static=static,
                fresh=lambda: load_model(settings.model, model_seed),
                challenger=challenger,
                challenger_static=chosen is not None and chosen.static,
                task=task,
                labels=self.labels,
                kinds=self.kinds,
                digest=digest,
                models=lambda name: self.versions.model(name) if self.versions else self.explained.model,
            )
        except ValueError as error:
            raise refused(error) from None

    @property
    def records(self) -> int:
        """That were folded."""
        return self.stream.records

    @property
    def fold_digest(self) -> bytes:
        """Over offset, prediction and losses of every folded record."""
        return self.stream.digest

    @property
    def explained(self) -> ExplainedModel:
        """The only model, or that of the record folded last."""
        return self.stream.newest.explained

    @property
    def challenger(self) -> Challenger | None:
        """What that model is compared with."""
        return next(iter(self.stream.newest.challengers), None)

    @property
    def slots(self) -> dict[str, Slot]:
        """By version, the one seen longest ago first; that of the only model under the empty name."""
        return {name: version.slot for name, version in self._open.open.items()}

    @property
    def models(self) -> dict[str, ExplainedModel]:
        """Those that are explained, by version as ``slots``."""
        return {name: slot.explained for name, slot in self.slots.items()}

    @property
    def challengers(self) -> dict[str, Challenger]:
        """What is compared with the models, by version as ``slots``; nothing without a challenger."""
        return {name: challenger for name, slot in self.slots.items() for challenger in slot.challengers}

    @property
    def watches(self) -> dict[str, Alarms]:
        """The alarms by version as ``slots``; those about no version under the empty name."""
        found = {name: alarms for name, slot in self.slots.items() for alarms in slot.alarms}
        rejected = self.stream.parts.get("alarms")
        return {ONLY: rejected, **found} if isinstance(rejected, Alarms) else found

    @property
    def learnt(self) -> int:
        """How much came from outside so far, schemas and models: a snapshot is due with the first record that needed it."""
        return len(self.schemas) + self._open.loads

    def supplied(self, record: InputRecord, schema: Fetch, model: Find) -> list[Output]:
        """``step``, with the schema and the model that the record needs from outside."""
        try:
            return self.schemas.supply(self.step, record, schema)
        except UnknownVersion as unknown:
            assert self.versions is not None
            self.versions.learn(unknown.name, model(unknown.name, self.versions.unfit))
            return self.schemas.supply(self.step, record, schema)

    def step(self, record: InputRecord) -> list[Output]:
        """Fold one record; returns the messages that it causes, in order.

        Raises ``FoldError`` if the model fails, or if a bad record is to stop the service (``record.on_bad: fail``). Two errors come before
        anything has changed: ``UnknownSchema`` if ``schemas`` has to learn the record's schema first, and ``UnknownVersion`` if ``versions``
        has to learn the model of the version that served it.
        """
        if record.offset < self.next_offset:
            raise AssertionError(f"offset {record.offset} after {self.next_offset}: the fold never goes back")
        try:
            sample = self._decoder.decode(record)
            if sample is None:
                self.next_offset = record.offset + 1
                self.skipped += 1
                return []
            version = self._open.find(sample.version)
            version.check(sample.x)
            sample = sample._replace(x=version.fitting(sample.x)) if version.others else sample
            served = self._vocabulary.served(sample.served, sample.y, version.labels)
            y = self._vocabulary.accept(sample, version.labels, version.slot.wanted)
        except BadRecord as error:
            return self._reject(record, error)
        self.rejections.add(rejected=False)
        try:
            self._open.serve(version)
            given = Record(
                record.offset,
                sample.timestamp,
                sample.x,
                y,
                sample.weight,
                served,
                version.name or None,
            )
            settles = sample.labelled and sample.id in self.waiting
            told = sample.told or settles
            predicted = self.stream.predict(given.x, given.version) if told else None
            found = self.stream.fold(given) if sample.labelled else self.stream.fold_unlabelled(given)
            self._open.folded(version)
        except Exception as error:
            raise self._failed(record.offset, version.slot, error) from error
        if sample.labelled:
            self.label_delay.add(record.headers)
        self.next_offset = record.offset + 1
        if record.key != self.only_key:
            # The first record's key names the partition until another key comes.
            first = self.records + self.stream.unlabelled == 1
            self.only_key = record.key if first and key_text(record.key) else None
        outputs = [] if predicted is None else [self._predicted(predicted, record, sample, y)]
        return outputs + self._told_of(found, record, sample)

    def fold(self, records: Iterable[InputRecord]) -> tuple[list[InputRecord], list[Output]]:
        """``step`` of the first of these records in a block, up to one that causes messages; which, and these messages.

        It takes none where the first one, or the state, is not ordinary: that is for ``step`` or ``supplied``. Raises ``FoldError`` as these do.
        """
        try:
            folded, events = self._blocks.fold(records, self.next_offset, self.only_key)
        except Exception as error:
            raise self._failed(self.next_offset, self.stream.newest, error) from error
        if not folded:
            return [], []
        newest = self._open.newest
        assert newest is not None
        self._open.folded(newest)
        self.rejections.accept(len(folded))
        for record in folded:
            if record.headers:
                self.label_delay.add(record.headers)
        self.next_offset = folded[-1].offset + 1
        return folded, self._told_of(events, folded[-1], self._blocks.last)

    def _told_of(self, events: list[Event], record: InputRecord, sample: Sample) -> list[Output]:
        """The messages about a record that was folded."""
        outputs = [self._told(event, record, sample.timestamp, sample.id) for event in events]
        if sample.labelled and self.explained.records % self._emit_every == 0:
            outputs += self._explanation(record, sample)
        return outputs

    def _failed(self, offset: int, slot: Slot, error: Exception) -> FoldError:
        what, model = "model", slot.explained.model
        cause: BaseException | None = error
        if isinstance(error, ChallengerFailed):
            what, model, cause = "challenger", slot.challengers[0].explained.model, error.__cause__
        factory = "models" if self.versions and what == "model" else f"{what}.factory or {what}.params"
        correct = f"{what}.uri" if getattr(self.settings, what).uri else factory
        failed = f"the {what} ({model.title}) failed: {type(cause).__name__}: {cause}"
        remedy = f"Correct {correct}; or name in record.features those that the model can take"
        found = FoldError(
            f"{self._topic} partition {self.partition} offset {offset}: {failed}; nothing of this record was published. {remedy}; "
            f"or begin a new epoch behind the record and all that wait: explain-sidecar reset --partition {self.partition} --keep all --from latest --yes"
        )
        found.reason = f"{failed}. {remedy}"
        return found

    def _reject(self, record: InputRecord, error: BadRecord) -> list[Output]:
        if self._on_bad == "fail":
            raise FoldError(
                f"{self._topic} partition {self.partition} offset {record.offset}: {error} ({error.error_class}); "
                "record.on_bad is fail: correct the record's producer, or set dead_letter or skip"
            ) from error
        self.next_offset = record.offset + 1
        self.rejections.add(rejected=True)
        position = Position(record.offset, record.timestamp)
        alarms = self.stream.reject(position)
        outputs = [self._told(alarm, record, record.timestamp, None) for alarm in alarms]
        if self._on_bad == "skip":
            return outputs
        chain = self.chains["dead_letters"]
        letter = dead_letter(record, error, self.settings, self._topic, self.partition, self.epoch, chain)
        return [letter, *outputs]

    @property
    def key(self) -> str | None:
        """The key that all records have, as far as it can be shown."""
        return key_text(self.only_key)

    def _explanation(self, record: InputRecord, sample: Sample) -> list[Output]:
        """The explanation, and its rows."""
        position = Position(record.offset, sample.timestamp)
        notice = self.explained.judge(position)
        if notice is not None:
            self.notices.append(f"version {sample.version}: {notice}" if sample.version else notice)
        about = contents.explanation(self.stream.newest, position, self.settings)
        body = {
            "records": self.records,
            "explained": about["explained"],
            "rejected": self.rejections.total,
            "rejected_recently": self.rejections.recent,
            "status": "warming" if about["warming"] else "rejecting" if self.rejections.many else "ready",
            "version": self._open.about(sample.version),
            "model": about["model"],
            "performance": about["performance"],
            "skew": about["skew"],
            "estimated_loss": about["estimated_loss"],
            "label_delay": self.label_delay.summary(),
            "importance": about["importance"],
            "estimators": about["estimators"],
            "challenger": about["challenger"],
            "segments": about["segments"],
            "drivers": about["drivers"],
            "periods": about["periods"],
            "carried": None
            if self.carried is None or self.chains["explanations"].seq
            else msgspec.structs.asdict(self.carried),
            "notices": self.notices,
            "partial_dependence": contents.curves(self.explained.followed, list(self.labels)),
        }
        outputs = [self._message("explanations", "explanation/1", body, record, sample.timestamp, sample.id)]
        self.notices = []
        if "rows" in self.chains:
            of = {"version": sample.version}
            outputs += [
                self._message("rows", "row/1", of | row, record, sample.timestamp, sample.id)
                for row in contents.rows(about, position)
            ]
        return outputs

    def _predicted(self, predicted: Predicted, record: InputRecord, sample: Sample, y: Any) -> Output:
        labels, performance = list(self.labels), self.stream.newest.explained.performance
        newest = performance if sample.labelled else None
        content = predictions.content(predicted, sample, labels, newest, self.settings)
        earlier = self.waiting.pop(sample.id) if sample.labelled else None
        if not sample.labelled:
            self.waiting.add(sample.id, record.offset, sample.timestamp, predicted.prediction)
        content["earlier"] = earlier and predictions.settled(earlier, labels, performance.losses, y)
        predictions.bound(content, self.settings)
        return self._message("predictions", "prediction/1", content, record, sample.timestamp, sample.id)

    def _told(self, event: Event, record: InputRecord, timestamp: int, identity: str | None) -> Output:
        if isinstance(event, Alarm):
            content = contents.alarm(event, self.settings)
            return self._message("alarms", "alarm/1", content, record, timestamp, identity)
        content = contents.drift(event, self.settings)
        return self._message("drift", "drift/1", content, record, timestamp, identity)

    def _message(
        self,
        destination: Destination,
        schema: str,
        content: dict[str, Any],
        record: InputRecord,
        timestamp: int,
        identity: str | None,
    ) -> Output:
        chain = self.chains[destination]
        event = Identity(schema, self.epoch, chain.seq, timestamp)
        body = {
            "schema": schema,
            "app_id": self.settings.app_id,
            "topic": self._topic,
            "partition": self.partition,
            "offset": record.offset,
            "timestamp": timestamp,
            "id": identity,
            "keys": self.key,
            "epoch": self.epoch,
            "seq": chain.seq,
            **content,
        }
        key = f"{self._topic}/{self.partition}".encode()
        return Output(destination, key, sealed(body, chain), headers_of(event, record), event)

    def state(self, pack: Pack) -> PartitionData:
        """The state as data; ``pack`` stores what only foreign code understands."""
        parts = self.stream.parts_state(pack)
        only = None if self.versions else self.stream.slots[ONLY].state(pack)
        return PartitionData(
            partition=self.partition,
            epoch=self.epoch,
            next_offset=self.next_offset,
            records=self.records,
            rejected=self.rejections.total,
            recently=self.rejections.state(),
            notices=list(self.notices),
            fold_digest=self.fold_digest,
            chains={name: (chain.seq, chain.digest) for name, chain in self.chains.items()},
            labels=list(self.labels),
            kinds=dict(self.kinds),
            explained=None if only is None else only.explained,
            windows=parts.windows,
            schemas=self.schemas.state(),
            alarms=parts.alarms if only is None else only.alarms,
            skipped=self.skipped,
            key=self.key,
            label_delay=self.label_delay.state(),
            versions=None if self.versions is None else self.versions.state(pack),
            recent=parts.recent,
            challenger=None if only is None else only.challenger,
            carried=self.carried,
            superseded=list(self.superseded),
            unlabelled=self.stream.unlabelled,
            waiting=self.waiting.state(),
        )

    def restore(self, data: PartitionData, unpack: Unpack) -> None:
        """Restore a stored state, before the first record. Raises ``StateError`` where the state is not of these settings; the
        object is then unusable.
        """
        check(data.chains.keys() == self.chains.keys(), "chains: of other outputs")
        check((data.versions is None) == (self.versions is None), "versions: with them, or without")
        check((data.versions is None) == (data.explained is not None), "explained: with versions, or without")
        self.partition, self.epoch, self.next_offset = data.partition, data.epoch, data.next_offset
        self.stream.records, self.notices = data.records, list(data.notices)
        self.stream.unlabelled = data.unlabelled
        self.carried, self.superseded = data.carried, list(data.superseded)
        self.rejections.restore(data.rejected, data.recently)
        self.stream.digest = data.fold_digest
        for name, (seq, digest) in data.chains.items():
            self.chains[name].seq, self.chains[name].digest = seq, digest
        self.stream.raised = self.chains["alarms"].seq if "alarms" in self.chains else 0
        self._vocabulary.restore(data.labels, data.kinds)
        alarms = None
        if self.versions is not None and data.versions is not None:
            check(data.challenger is None, "challenger: with one, or without")
            self.versions.restore(data.versions, unpack)
            alarms = data.alarms
        elif data.explained is not None:
            slot = SlotData(data.explained, data.alarms, data.challenger)
            self.stream.slots[ONLY].restore(slot, len(self.labels), unpack)
        self.stream.restore_parts(PartsData(data.windows, data.recent, alarms), unpack)
        self.schemas.restore(data.schemas)
        self.skipped = data.skipped
        self.label_delay.restore(data.label_delay)
        self.waiting.restore(data.waiting, self.next_offset)
        self.only_key = None if data.key is None else data.key.encode()
