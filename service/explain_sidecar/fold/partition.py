"""The fold: the state of a partition is a function of its input, and of nothing else.

``PartitionState.step(record)`` returns the messages that the record causes. There is no clock, no I/O, no global
random generator and no thread in it; that is what makes recovery exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec

from explain_core.alarms.detector import Position
from explain_core.losses import Prediction
from explain_core.models import Row
from explain_core.random import derive_seed
from explain_core.state import Count, Pack, State, Unpack, Value, check
from explain_sidecar.errors import UserError
from explain_sidecar.fold.alarms import Alarms, AlarmsData, make_alarms
from explain_sidecar.fold.blocks import BlockFold
from explain_sidecar.fold.challenger import Challenger, ChallengerData, ChallengerFailed, wanted_kinds
from explain_sidecar.fold.drift_on_alarm import Recent, RecentData
from explain_sidecar.fold.drift_windows import Windows, WindowsData
from explain_sidecar.fold.explained_model import ExplainedModel, ExplainedModelData
from explain_sidecar.fold.label_delay import Delays, LabelDelay
from explain_sidecar.fold.messages import (
    MAX_KEY,
    Chain,
    Destination,
    Event,
    Output,
    dead_letter,
    headers_of,
    key_text,
    sealed,
    trace,
)
from explain_sidecar.fold.models import load_model, record_settings
from explain_sidecar.fold.records import Decoder, InputRecord, Sample
from explain_sidecar.fold.rejections import Bits, Rejections
from explain_sidecar.fold.sizes import ExplanationSize
from explain_sidecar.fold.versions import Find, UnknownVersion, Version, Versions, VersionsData, narrowed
from explain_sidecar.fold.vocabulary import Vocabulary
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.schemas import Fetch, Schemas, StoredSchema
from explain_sidecar.settings import Settings

Content = tuple[Destination, str, dict[str, Any]]
"""The content of a message without the fields that identify its source, with its destination and schema."""


class CarriedData(State, frozen=True):
    """What an epoch that begins at ``offset`` took over from the one before, by names of parts, and what began anew with it."""

    from_epoch: Count
    offset: Count
    carried: list[str]
    begun: list[str]


class PartitionData(State, frozen=True):
    """The state of a partition as a snapshot holds it; without the settings. ``explained`` is the only model, where there are no ``versions``."""

    partition: Count
    epoch: Count
    next_offset: Count
    records: Count
    rejected: Count
    recently: Bits
    notices: list[str]
    fold_digest: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    chains: dict[str, tuple[Count, Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]]]
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


class FoldError(UserError):
    """The model failed on a record, so that no state after it is known."""


class PartitionState:
    """The explained model, or several versions of it, and all other state of one partition.

    ``explained`` is the only model, or that of the record folded last; ``challenger`` is compared with it.

    ``state()`` is what a snapshot holds; ``restore()`` puts it into a new object.
    """

    def __init__(self, settings: Settings, partition: int, epoch: int = 0, start: int = 0) -> None:
        identity = (settings.app_id, settings.topics.records, partition, epoch)
        seed = derive_seed(settings.seed, *identity)
        self.partition, self.epoch = partition, epoch
        self.next_offset = start
        self.records = 0
        self.rejections = Rejections()
        self.label_delay = LabelDelay()
        self.skipped = 0
        self.only_key: bytes | None = None
        self.notices: list[str] = []
        self.carried: CarriedData | None = None
        """What this epoch took over from the one before; its first message says so."""
        self.superseded: list[str] = []
        """Digests of the settings of the last epochs before this one."""
        self.fold_digest = hashlib.blake2b("/".join(map(str, identity)).encode(), digest_size=16).digest()
        self.chains = {name: Chain(*identity, name) for name in settings.outputs}
        model_seed = derive_seed(seed, "model")
        self._vocabulary = Vocabulary(settings, ExplanationSize(settings))
        self.labels, self.kinds = self._vocabulary.labels, self._vocabulary.kinds
        self.settings = settings
        self.schemas = Schemas()
        self.explained: ExplainedModel
        self.versions: Versions | None = None
        self.alarms: Alarms | None = None
        self.challenger: Challenger | None = None
        if settings.models.enabled:
            self.versions = Versions(settings, seed, self._vocabulary)
            self.alarms = make_alarms(settings, None, self.kinds)
        else:
            self.explained = ExplainedModel(
                settings, load_model(settings.model, model_seed), settings.model.static, seed
            )
            self.alarms = make_alarms(settings, self.explained, self.kinds)
            if settings.challenger_model is not None:
                self.challenger = Challenger(settings, self.explained, seed)
        self._wanted = {} if self.versions else wanted_kinds(self.explained, self.challenger)
        drift, drift_seed = settings.drift, derive_seed(seed, "drift")
        self.windows = (
            Windows(settings, drift_seed, model_seed, self.versions.model if self.versions else None)
            if drift.enabled and not drift.on_alarm
            else None
        )
        self.recent = Recent(settings, drift_seed, model_seed) if drift.on_alarm else None
        self._decoder = Decoder(
            record_settings(settings),
            settings.model.task,
            self.schemas,
            self.versions.columns_for if self.versions else None,
        )
        self._topic, self._on_bad = settings.topics.records, settings.record.on_bad
        self._emit_every = settings.emit.every
        self._blocks = BlockFold(self, self._decoder)

    @property
    def models(self) -> dict[str, ExplainedModel]:
        """Those that are explained, by version; the only one under the empty name."""
        if self.versions is None:
            return {"": self.explained}
        return {name: version.explained for name, version in self.versions.open.items()}

    @property
    def challengers(self) -> dict[str, Challenger]:
        """What is compared with the models, by version as ``models``; nothing without a challenger."""
        versions = {} if self.versions is None else self.versions.open
        found = {"": self.challenger} if self.versions is None else {}
        found |= {name: version.challenger for name, version in versions.items()}
        return {name: challenger for name, challenger in found.items() if challenger is not None}

    @property
    def watches(self) -> dict[str, Alarms | None]:
        """The alarms by version; those of the partition under the empty name."""
        versions = {} if self.versions is None else self.versions.open
        return {"": self.alarms, **{name: version.alarms for name, version in versions.items()}}

    @property
    def learnt(self) -> int:
        """How much came from outside so far, schemas and models: a snapshot is due with the first record that needed it."""
        return len(self.schemas) + (0 if self.versions is None else self.versions.loads)

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
            version: Version | None = None
            x: Row = sample.x
            if self.versions is not None and sample.version is not None:
                version = self.versions.find(sample.version)
                x = narrowed(x, version.columns)
            classes = version.labels if version else ()
            served = self._vocabulary.served(sample, classes)
            y = self._vocabulary.accept(sample, classes, version.wanted if version else self._wanted)
        except BadRecord as error:
            return self._reject(record, error)
        self.rejections.add(rejected=False)
        try:
            if self.versions is not None and version is not None:
                self.versions.serve(version)
                self.explained, self.challenger = version.explained, version.challenger
            found = self._fold(record.offset, sample, x, y, version, served)
        except Exception as error:
            raise self._failed(record.offset, error) from error
        self.label_delay.add(record.headers)
        self.next_offset = record.offset + 1
        if record.key != self.only_key:
            # The first record's key names the partition until another key comes.
            self.only_key = record.key if self.records == 1 and key_text(record.key) else None
        outputs = [self._message(*result, record, sample.timestamp, sample.id) for result in found]
        if self.explained.records % self._emit_every == 0:
            outputs.append(self._explanation(record, sample))
        return outputs

    def fold(self, records: Iterable[InputRecord]) -> tuple[list[InputRecord], list[Output]]:
        """``step`` of the first of these records in a block, up to one that causes messages; which, and these messages.

        It takes none where the first one, or the state, is not ordinary: that is for ``step`` or ``supplied``. Raises ``FoldError`` as these do.
        """
        try:
            folded = self._blocks.fold(records)
        except Exception as error:
            raise self._failed(self.next_offset, error) from error
        if not folded or self.explained.records % self._emit_every:
            return folded, []
        return folded, [self._explanation(folded[-1], self._blocks.last)]

    def _failed(self, offset: int, error: Exception) -> FoldError:
        what, failed = "model", self.explained
        cause: BaseException | None = error
        if isinstance(error, ChallengerFailed) and self.challenger is not None:
            what, failed, cause = "challenger", self.challenger.explained, error.__cause__
        kind, source = type(failed.model.wrapped).__name__, getattr(self.settings, what)
        factory = "models" if self.versions and what == "model" else f"{what}.factory or {what}.params"
        return FoldError(
            f"{self._topic} partition {self.partition} offset {offset}: the {what} ({kind}) failed: "
            f"{type(cause).__name__}: {cause}; nothing of this record was published. Correct {f'{what}.uri' if source.uri else factory}; "
            "or name in record.features those that the model can take; or begin a new epoch behind the record: "
            f"explain-sidecar reset --partition {self.partition} --from latest --yes"
        )

    def took(self, records: Sequence[InputRecord], digest: bytes) -> None:
        """Note the records of a block, after which the fold has that digest."""
        self.records += len(records)
        self.rejections.accept(len(records))
        for record in records:
            if record.headers:
                self.label_delay.add(record.headers)
        self.next_offset, self.fold_digest = records[-1].offset + 1, digest

    def _fold(
        self, offset: int, sample: Sample, x: Row, y: Any, version: Version | None, served: Prediction | None
    ) -> list[Content]:
        """Returns why the risk changed, for each drift window that the record ends, the alarms, and what alarms asked for: mostly none."""
        windows, model = self.windows, self.explained.model
        explained, periods = self.explained.explains, self.explained.periods
        if self.explained.records == 0 and periods is not None:
            periods.begin(offset, sample.timestamp)
        if self.challenger is not None:
            self.challenger.align()
        prediction = self.explained.explain(x, y)
        challenger_prediction = self.challenger.explain(x, y) if self.challenger else None
        changes = windows.fold(offset, sample, y, prediction, model) if windows is not None else []
        if self.recent is not None:
            self.recent.add(offset, sample, y, prediction, model)
        losses = self.explained.learn(x, y, sample.weight, prediction, served)
        traced = trace(offset, prediction, losses, len(self.labels))
        if self.challenger is not None and challenger_prediction is not None:
            challenger_losses = self.challenger.learn(x, y, sample.weight, challenger_prediction, losses)
            traced += trace(offset, challenger_prediction, challenger_losses, len(self.labels))
        position = Position(offset, sample.timestamp)
        alarms = self.alarms.folded(position, sample.x, explained) if self.alarms else []
        self.records += 1
        if self.versions is not None and version is not None:
            if version.alarms is not None:
                raised = version.alarms.folded(position, sample.x, explained)
                alarms += [alarm | {"version": version.name} for alarm in raised]
            self.versions.seen(version, self.records)
            if self.versions.kept:
                self.versions.keep(windows.named if windows else ())
        if alarms and periods is not None:
            periods.alarmed(self.explained.records, *position)
        self.fold_digest = hashlib.blake2b(self.fold_digest + traced, digest_size=16).digest()
        contents: list[Content] = [("drift", "drift/1", change) for change in changes]
        contents += [("alarms", "alarm/1", alarm) for alarm in alarms]
        if self.recent is not None:
            self.recent.ask(alarms, self.chains["alarms"].seq, offset)
            answers = self.recent.answers(sample.version, model)
            contents += [("drift", "drift/1", answer) for answer in answers]
        return contents

    def _reject(self, record: InputRecord, error: BadRecord) -> list[Output]:
        if self._on_bad == "fail":
            raise FoldError(
                f"{self._topic} partition {self.partition} offset {record.offset}: {error} ({error.error_class}); "
                "record.on_bad is fail: correct the record's producer, or set dead_letter or skip"
            ) from error
        self.next_offset = record.offset + 1
        self.rejections.add(rejected=True)
        position = Position(record.offset, record.timestamp)
        alarms = self.alarms.rejected(position) if self.alarms else []
        outputs = [
            self._message("alarms", "alarm/1", alarm, record, record.timestamp, None) for alarm in alarms
        ]
        if self._on_bad == "skip":
            return outputs
        chain = self.chains["dead_letters"]
        letter = dead_letter(record, error, self.settings, self._topic, self.partition, self.epoch, chain)
        return [letter, *outputs]

    @property
    def key(self) -> str | None:
        """The key that all records have, as far as it can be shown."""
        return key_text(self.only_key)

    def _explanation(self, record: InputRecord, sample: Sample) -> Output:
        position = Position(record.offset, sample.timestamp)
        notice = self.explained.judge(position)
        if notice is not None:
            self.notices.append(f"version {sample.version}: {notice}" if sample.version else notice)
        about = self.explained.content(position)
        alarms = self.watches.get(sample.version or "")
        if alarms is not None:
            alarms.fill_in(about)
        body = {
            "records": self.records,
            "explained": about["explained"],
            "rejected": self.rejections.total,
            "rejected_recently": self.rejections.recent,
            "status": "warming" if about["warming"] else "rejecting" if self.rejections.many else "ready",
            "version": self.versions.about(sample.version) if self.versions else None,
            "model": about["model"],
            "performance": about["performance"],
            "skew": about["skew"],
            "label_delay": self.label_delay.summary(),
            "importance": about["importance"],
            "estimators": about["estimators"],
            "challenger": self.challenger.content() if self.challenger else None,
            "segments": about["segments"],
            "drivers": about["drivers"],
            "periods": about["periods"],
            "carried": None
            if self.carried is None or self.chains["explanations"].seq
            else msgspec.structs.asdict(self.carried),
            "notices": self.notices,
        }
        output = self._message("explanations", "explanation/1", body, record, sample.timestamp, sample.id)
        self.notices = []
        return output

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
        event = Event(schema, self.epoch, chain.seq, timestamp)
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
            explained=None if self.versions else self.explained.state(pack),
            windows=None if self.windows is None else self.windows.state(),
            schemas=self.schemas.state(),
            alarms=None if self.alarms is None else self.alarms.state(),
            skipped=self.skipped,
            key=self.key,
            label_delay=self.label_delay.state(),
            versions=None if self.versions is None else self.versions.state(pack),
            recent=None if self.recent is None else self.recent.state(),
            challenger=None if self.versions or self.challenger is None else self.challenger.state(pack),
            carried=self.carried,
            superseded=list(self.superseded),
        )

    def restore(self, data: PartitionData, unpack: Unpack) -> None:
        """Restore a stored state, before the first record. Raises ``StateError`` where the state is not of these settings; the
        object is then unusable.
        """
        check(data.chains.keys() == self.chains.keys(), "chains: of other outputs")
        for name in ("windows", "versions", "alarms", "recent"):
            same = (getattr(data, name) is None) == (getattr(self, name) is None)
            check(same, f"{name}: with them, or without")
        check((data.versions is None) == (data.explained is not None), "explained: with versions, or without")
        check((data.challenger is None) == (self.challenger is None), "challenger: with one, or without")
        self.partition, self.epoch, self.next_offset = data.partition, data.epoch, data.next_offset
        self.records, self.notices = data.records, list(data.notices)
        self.carried, self.superseded = data.carried, list(data.superseded)
        self.rejections.restore(data.rejected, data.recently)
        self.fold_digest = data.fold_digest
        for name, (seq, digest) in data.chains.items():
            self.chains[name].seq, self.chains[name].digest = seq, digest
        self._vocabulary.restore(data.labels, data.kinds)
        if self.versions is not None and data.versions is not None:
            self.versions.restore(data.versions, unpack)
        elif data.explained is not None:
            self.explained.restore(data.explained, unpack)
        if self.challenger is not None and data.challenger is not None:
            self.challenger.restore(data.challenger, unpack)
        if self.windows is not None and data.windows is not None:
            self.windows.restore(data.windows, len(self.labels), unpack)
        if self.recent is not None and data.recent is not None:
            self.recent.restore(data.recent, len(self.labels), unpack)
        if self.alarms is not None and data.alarms is not None:
            self.alarms.restore(data.alarms)
        self.schemas.restore(data.schemas)
        self.skipped = data.skipped
        self.label_delay.restore(data.label_delay)
        self.only_key = None if data.key is None else data.key.encode()
