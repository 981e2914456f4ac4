"""The versions of a model that changes in mid-stream: each record is explained under the version that served it, and no other.

Models are loaded outside the fold. The first record of a version that is not open raises ``UnknownVersion``. The model is
found and handed to ``learn``, and the record is read again; if it can be folded, the version is opened. The transaction that first commits a
record after it stores what was loaded (``loads``). So a replay finds every version that it needs in its snapshot; a record of any other
version was refused the first time too, and is again. The sha256 of what was loaded is state: another file under the same name is never taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict

from explain_core.artefacts.artefact import Artefact
from explain_core.engine.stream import LONGEST
from explain_core.models import FeatureKind, Model, Row
from explain_core.random import derive_seed
from explain_core.state import Count, Pack, State, Unpack, check
from explain_core.stream import StreamExplainer
from explain_core.stream.alarms import AlarmsData
from explain_core.stream.challenger import ChallengerData
from explain_core.stream.explained import ExplainedModelData
from explain_core.stream.explainer import ONLY
from explain_core.stream.models import ModelData, model_data, restored_model
from explain_core.stream.slot import Slot, SlotData
from explain_sidecar.errors import UserError
from explain_sidecar.fold.models import challenger_artefact, first, load_challenger, version_artefact
from explain_sidecar.fold.options import check_weights, options_of, refused
from explain_sidecar.fold.vocabulary import Vocabulary
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.settings import Settings
from explain_sidecar.settings.explain import ExplainerSettings
from explain_sidecar.settings.model import MAX_VERSION

MAX_PINS = 1_000
"""Versions whose sha256 is remembered; beyond it those are forgotten that were opened first."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_VERSION)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class VersionData(State, frozen=True):
    """An open version in a snapshot, without its model."""

    name: Name
    seen: Count
    explained: ExplainedModelData
    alarms: AlarmsData | None
    challenger: ChallengerData | None = None


class VersionsData(State, frozen=True):
    """The versions of a partition, the one seen longest ago first.

    ``kept`` are closed ones that a drift window still names; ``ready`` is one that is loaded and not open yet; ``challenger`` is the model
    that is compared with all of them.
    """

    open: list[VersionData]
    kept: list[Name]
    pins: dict[Name, Sha256]
    columns: list[str]
    loads: Count
    ready: Name | None
    challenger: ModelData | None = None


class UnknownVersion(Exception):
    """A record was served by a version that is not open."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


Unfit = Callable[[str, Artefact], str | None]
"""Why an artefact cannot be this version of the partition's model; None where it can."""

Find = Callable[[str, Unfit], Artefact | None]
"""Finds the artefact of a version, outside the fold; None where there is none that fits."""


class Version:
    """An open version: its slot in the stream, and the codes of its classes where these are fixed.

    ``seen``: records of the partition when it last served one. ``others``: the kinds that other versions fix, of features that it does not take.
    """

    def __init__(self, name: str, slot: Slot, labels: Mapping[Any, int]) -> None:
        self.name, self.slot, self.labels = name, slot, labels
        self.seen = 0
        self.others: dict[str, FeatureKind] = {}

    def check(self, x: Row) -> None:
        """Raise ``BadRecord`` where a record has none of the version's features."""
        if not self.slot.features(x):
            raise BadRecord(
                "no_features", "the record has no feature of its model's version that is not null"
            )

    def fitting(self, x: dict[str, Any]) -> dict[str, Any]:
        """The features of a record but for values that are another version's to take, and that it cannot take: they would fix their feature's kind."""
        strange = [
            name
            for name, kind in self.others.items()
            if name in x and (type(x[name]) is str) != (kind == "string")
        ]
        return {name: value for name, value in x.items() if name not in strange} if strange else x


def _of_features(chosen: ExplainerSettings, features: Collection[str]) -> ExplainerSettings:
    """An explainer's settings, with what its groups have of these features."""
    groups = {
        name: found
        for name, group in chosen.groups.items()
        if (found := [feature for feature in group if feature in features])
    }
    return chosen.model_copy(update={"groups": groups})


class OneModel:
    """The only model of a partition, as a version that is always open."""

    loads = 0

    def __init__(self, stream: StreamExplainer) -> None:
        self.open = {name: Version(name, slot, {}) for name, slot in stream.slots.items()}

    @property
    def newest(self) -> Version:
        return self.open[ONLY]

    def room(self, version: Version) -> int:
        """It never closes."""
        return LONGEST

    def find(self, name: str | None) -> Version:
        return self.open[ONLY]

    def serve(self, version: Version) -> None:
        """It is open."""

    def folded(self, version: Version) -> None:
        """It stays open."""

    def about(self, name: str | None) -> None:
        """It has no name."""


class ModelVersions:
    """The versions of a partition: ``open`` by name, the one seen longest ago first; ``kept`` are models of closed ones.

    A version is loaded before it is known whether its record can be folded. Until then it is not open: a bad record must not close another
    version.

    ``columns`` are those of all versions so far, in their order; ``vocabulary`` learns the classes of each. A challenger is one model, which
    sees the records of all versions; its explanations and comparisons are apart for each.
    """

    def __init__(
        self,
        settings: Settings,
        seed: int,
        vocabulary: Vocabulary,
        stream: StreamExplainer,
    ) -> None:
        self.open: dict[str, Version] = {}
        self.columns: list[str] = []
        self.loads = 0
        self.pins: dict[str, str] = {}
        self.kept: dict[str, Model] = {}
        self._absent: str | None = None
        self._ready: Version | None = None
        self._settings = settings
        self._seed = seed
        self._vocabulary = vocabulary
        self._stream = stream
        self._challenger = (
            load_challenger(settings, derive_seed(seed, "challenger")) if settings.challenger_model else None
        )
        if self._challenger is not None:
            check_weights(settings, self._challenger, self._static)
        file = challenger_artefact(settings)
        self._classes = list(file.classes or ()) if file else []
        self._columns = file.features if file else ()

    def find(self, name: str | None) -> Version:
        """The version of this name, open or loaded.

        Raises ``UnknownVersion`` once for a record of another: ``learn`` its artefact and fold the record again. If there is no artefact,
        ``learn`` None; the record then raises ``BadRecord``.
        """
        assert name is not None  # a record without one is rejected before
        found = self.open.get(name)
        if found is not None:
            return found
        if self._ready is not None and self._ready.name == name:
            return self._ready
        if name != self._absent:
            raise UnknownVersion(name)
        self._absent = None
        raise BadRecord(
            "unknown_version",
            f"the model's version {name!r} served the record, and models has none that can be loaded",
        )

    @property
    def newest(self) -> Version | None:
        """The one that was seen last."""
        return next(reversed(self.open.values()), None)

    def room(self, version: Version) -> int:
        """How many records of an open version can be folded so that with the last one alone another may close."""
        seen = (other.seen for other in self.open.values() if other is not version)
        return (
            min(seen, default=self._stream.records) + self._settings.models.close_after - self._stream.records
        )

    def columns_for(self, name: str) -> list[str]:
        """The features to read of a record that this version served. Raises as ``find`` does."""
        self.find(name)
        return self.columns

    def about(self, name: str | None) -> dict[str, Any] | None:
        """What a message says about the version of its record."""
        assert name is not None
        return {"name": name, "sha256": self.pins[name], "records": self.open[name].slot.explained.records}

    def model(self, name: str) -> Model:
        """The model of a version that is open, or that a drift window names."""
        found = self.open.get(name)
        return self.kept[name] if found is None else found.slot.explained.model

    def unfit(self, name: str, artefact: Artefact) -> str | None:
        """Why an artefact cannot be this version; None where it can."""
        known, label = self.pins.get(name), self._settings.record.label
        if known not in (None, artefact.sha256):
            return (
                f"its content is another (sha256 {artefact.sha256}) than the one that records were explained under ({known}): put that back, "
                "or give the new model a version of its own"
            )
        if label in artefact.features:
            return f"{label!r} is one of its columns, and record.label names it: it would be told the label"
        if self._classes and artefact.classes and set(self._classes) != set(artefact.classes):
            return f"its classes are {first(artefact.classes)}, and those of the challenger {first(self._classes)}; two models are compared on the same labels"
        return self._vocabulary.unfit(artefact.classes or ())

    def learn(self, name: str, artefact: Artefact | None) -> None:
        """Take in the artefact of a version; None is not remembered beyond the next ``find``."""
        if artefact is None:
            self._absent = name
            return
        self.columns += [column for column in self._of_both(artefact) if column not in self.columns]
        self._vocabulary.learn(artefact.classes or ())
        self._ready = self._version(name, artefact)
        self._tell_kinds()
        self.loads += 1
        self.pins[name] = artefact.sha256
        for old in list(self.pins):
            if len(self.pins) > MAX_PINS and old not in (*self.open, *self.kept, name):
                del self.pins[old]

    def serve(self, version: Version) -> None:
        """Open the version of a record that is folded, if it is not open yet, and close the one seen longest ago if that is one too many."""
        if version is self._ready:
            if len(self.open) >= self._settings.models.max_open:
                self._close(next(iter(self.open)))
            self._open(version)
            self.kept.pop(version.name, None)
            self._ready = None

    def _open(self, version: Version) -> None:
        self.open[version.name], self._stream.slots[version.name] = version, version.slot

    def folded(self, version: Version) -> None:
        """A record of a version was folded: close the one that was not seen for too long. Models of closed ones are kept while a drift window needs them."""
        version.seen = self._stream.records
        self.open[version.name] = self.open.pop(version.name)
        first = next(iter(self.open.values()))
        if version.seen - first.seen >= self._settings.models.close_after:
            self._close(first.name)
        if self.kept:
            needed = {name for part in self._stream.parts.values() for name in part.versions}
            self.kept = {name: model for name, model in self.kept.items() if name in needed}

    def _of_both(self, artefact: Artefact) -> list[str]:
        """The columns of a version, and of the challenger's file."""
        return list(dict.fromkeys([*artefact.features, *self._columns]))

    def _version(self, name: str, artefact: Artefact) -> Version:
        settings, record = self._settings, self._settings.record
        columns = self._of_both(artefact)
        codes = self._vocabulary.labels
        if record.features is not None:
            own = [feature for feature in record.features if feature in columns]
            settings = settings.model_copy(
                update={
                    "record": record.model_copy(update={"features": own}),
                    "explainers": [_of_features(chosen, own) for chosen in settings.explainers],
                }
            )
        try:
            slot = self._stream.slot(
                artefact.model,
                options_of(settings),
                derive_seed(self._seed, "version", name),
                static=True,
                challenger=self._challenger,
                challenger_static=self._static,
                shared=True,
                columns=columns,
            )
        except ValueError as error:
            raise refused(error) from None
        return Version(name, slot, {label: codes[label] for label in artefact.classes or ()})

    def _close(self, name: str) -> None:
        self.kept[name] = self.open.pop(name).slot.explained.model
        del self._stream.slots[name]
        self._tell_kinds()

    def _tell_kinds(self) -> None:
        """Let each version know what kinds the others fix."""
        loaded = [*self.open.values(), *([] if self._ready is None else [self._ready])]
        wanted: dict[str, FeatureKind] = {}
        for version in sorted(loaded, key=lambda version: version.name):
            wanted |= version.slot.wanted
        for version in loaded:
            own = version.slot.columns or ()
            version.others = {name: kind for name, kind in wanted.items() if name not in own}

    @property
    def _static(self) -> bool:
        model_settings = self._settings.challenger_model
        return model_settings is not None and model_settings.static

    def state(self, pack: Pack) -> VersionsData:
        return VersionsData(
            open=[
                VersionData(version.name, version.seen, **asdict(version.slot.state(pack)))
                for version in self.open.values()
            ],
            kept=list(self.kept),
            pins=dict(self.pins),
            columns=list(self.columns),
            loads=self.loads,
            ready=None if self._ready is None else self._ready.name,
            challenger=None if self._challenger is None else model_data(self._challenger, self._static, pack),
        )

    def restore(self, data: VersionsData, unpack: Unpack) -> None:
        """Restore a stored state, after the vocabulary.

        Raises ``StateError`` if the state is not of these settings, and ``UserError`` if a model is gone or is another.
        """
        names = [*(version.name for version in data.open), *([] if data.ready is None else [data.ready])]
        check(
            len(set(names)) == len(names) and {*names, *data.kept} <= data.pins.keys(),
            "versions: one twice, or of no sha256",
        )
        check(len(data.pins) <= MAX_PINS + len(names) + len(data.kept), "versions: too many are remembered")
        check(len(data.open) <= self._settings.models.max_open, "versions: too many are open")
        self.pins, self.columns, self.loads = dict(data.pins), list(data.columns), data.loads
        check((data.challenger is None) == (self._challenger is None), "challenger: with one, or without")
        if self._challenger is not None and data.challenger is not None:
            self._challenger = restored_model(self._challenger, data.challenger, self._static, unpack)
        for stored in data.open:
            version = self._version(stored.name, self._reloaded(stored.name))
            self._open(version)
            version.seen = stored.seen
            slot = SlotData(stored.explained, stored.alarms, stored.challenger)
            version.slot.restore(slot, len(self._vocabulary.labels), unpack)
        for name in data.kept:
            self.kept[name] = self._version(name, self._reloaded(name)).slot.explained.model
        if data.ready is not None:
            self._ready = self._version(data.ready, self._reloaded(data.ready))
        self._tell_kinds()

    def _reloaded(self, name: str) -> Artefact:
        """The artefact of a version that was loaded before."""
        artefact = version_artefact(self._settings, name)
        problem = self.unfit(name, artefact)
        if problem is not None:
            raise UserError(f"models: version {name!r}: {problem}")
        labels = self._vocabulary.labels
        check(
            all(label in labels for label in artefact.classes or ()),
            f"labels: without those of version {name!r}",
        )
        return artefact
