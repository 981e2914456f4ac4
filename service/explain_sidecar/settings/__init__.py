"""Every setting: environment ``EXPLAIN_…`` (``__`` nests) over a YAML or TOML file over the defaults."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from explain_core import losses as known_losses
from explain_sidecar.errors import SettingsError
from explain_sidecar.settings.base import MESSAGES, Part, Section, not_among
from explain_sidecar.settings.checkpoint import CheckpointSettings, RecoverySettings
from explain_sidecar.settings.dependence import DependenceSettings
from explain_sidecar.settings.drift import AlarmSettings, DriftSettings
from explain_sidecar.settings.explain import EmitSettings, ExplainerSettings, ExplainSettings, RowsSettings
from explain_sidecar.settings.join import JoinSettings
from explain_sidecar.settings.kafka import CommitSettings, KafkaSettings, TopicSettings
from explain_sidecar.settings.model import ChallengerSettings, ModelSettings, VersionSettings
from explain_sidecar.settings.operation import HttpSettings, LogSettings, TracingSettings, WorkerSettings
from explain_sidecar.settings.predictions import PredictionSettings
from explain_sidecar.settings.records import RecordSettings
from explain_sidecar.settings.sources import (
    HIDDEN,
    PREFIX,
    Problem,
    SettingPath,
    describe,
    dotted,
    is_secret,
    merged,
    read_layers,
    source_of,
    without_credentials,
)
from explain_sidecar.settings.wire import CloudEventsSettings, RegistrySettings


class Settings(Section, BaseSettings):
    """All settings of the sidecar."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__")

    app_id: Annotated[str, MESSAGES] = Field("explanation-sidecar", pattern=r"^[A-Za-z0-9._-]{1,200}$")
    """Name of this sidecar: its consumer group, and part of every message."""
    instance_id: str = Field(default_factory=socket.gethostname, pattern=r"^[A-Za-z0-9._-]{1,200}$")
    """Name of this instance, unique and stable; by default the host's."""
    seed: Annotated[int, Part("model")] = Field(0, ge=0, lt=2**63)
    """Seed of every random choice."""
    partition_labels: dict[
        Annotated[int, Field(ge=0)], Annotated[str, Field(min_length=1, max_length=200)]
    ] = Field(default_factory=dict)
    """Names of partitions for the dashboard and `tail`, by number; by default that of the only key of its records, else its number."""
    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    topics: TopicSettings = Field(default_factory=TopicSettings)
    record: RecordSettings = Field(default_factory=RecordSettings)
    model: ModelSettings = Field(default_factory=ModelSettings)
    models: VersionSettings = Field(default_factory=VersionSettings)
    challenger: ChallengerSettings = Field(default_factory=ChallengerSettings)
    explainers: list[ExplainerSettings] = Field(
        default_factory=lambda: [ExplainerSettings(kind="ipfi"), ExplainerSettings(kind="isage")],
        min_length=1,
    )
    """Estimators to run."""
    explain: ExplainSettings = Field(default_factory=ExplainSettings)
    emit: EmitSettings = Field(default_factory=EmitSettings)
    rows: RowsSettings = Field(default_factory=RowsSettings)
    predictions: PredictionSettings = Field(default_factory=PredictionSettings)
    partial_dependence: DependenceSettings = Field(default_factory=DependenceSettings)
    commit: CommitSettings = Field(default_factory=CommitSettings)
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings)
    recovery: RecoverySettings = Field(default_factory=RecoverySettings)
    drift: DriftSettings = Field(default_factory=DriftSettings)
    alarms: AlarmSettings = Field(default_factory=AlarmSettings)
    cloudevents: CloudEventsSettings = Field(default_factory=CloudEventsSettings)
    registry: RegistrySettings = Field(default_factory=RegistrySettings)
    tracing: TracingSettings = Field(default_factory=TracingSettings)
    join: JoinSettings = Field(default_factory=JoinSettings)
    workers: WorkerSettings = Field(default_factory=WorkerSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    log: LogSettings = Field(default_factory=LogSettings)

    @model_validator(mode="before")
    @classmethod
    def _versions_are_static(cls, data: Any) -> Any:
        versions, model = data.get("models"), data.get("model") or {}
        known = isinstance(versions, dict) and (versions.get("uris") or versions.get("pattern"))
        return {**data, "model": {"static": True, **model}} if known and isinstance(model, dict) else data

    def problems(self) -> Iterable[Problem]:
        found = list(self._problems())
        return found or [*self._problems_of_the_model(), *self._problems_of_the_challenger()]

    @property
    def task(self) -> known_losses.Task:
        """The kind of task that losses are for."""
        return "regression" if self.model.task == "regression" else "classification"

    def _problems(self) -> Iterator[Problem]:
        features, alarms, watched = self.record.features, self.alarms, ("alarms", "subjects")
        names = [explainer.name or explainer.kind for explainer in self.explainers]
        used: list[tuple[SettingPath, str | None]] = [(("drift", "loss"), self.drift.loss)]
        for index, explainer in enumerate(self.explainers):
            here = ("explainers", index)
            used += [((*here, "losses"), loss) for loss in explainer.losses or []]
            if names[index] in names[:index]:
                yield here, f"is named {names[index]!r} as one before it; give each a name of its own"
            for group, members in explainer.groups.items():
                yield from not_among(features, (*here, "groups", group), members)
            yield from not_among(features, (*here, "by"), [explainer.by] if explainer.by else [])
        for group, members in self.drift.groups.items():
            yield from not_among(features, ("drift", "groups", group), members)
        yield from not_among(features, ("drift", "ignore"), self.drift.ignore)
        segmented = any(explainer.by is not None for explainer in self.explainers)
        for subject in ("segments", "segment_importance"):
            if alarms.enabled and subject in alarms.subjects and not segmented:
                yield (
                    watched,
                    f"has {subject}, and no explainer has segments; set explainers.by, or take {subject} out",
                )
        if self.drift.on_alarm and not (
            alarms.enabled and {*alarms.subjects} - {"rejected", "estimated_loss"}
        ):
            yield (
                ("drift", "on_alarm"),
                "waits for alarms about the model, and there are none; set alarms.enabled, with more than rejected and estimated_loss in alarms.subjects",
            )
        for path, loss in used:
            try:
                known_losses.get(
                    loss or known_losses.DEFAULT[self.task], self.task, None, path[0] == "explainers"
                )
            except ValueError as error:
                yield path, f"{error} (model.task is {self.model.task})"
        inputs = {
            ("record",): self.record,
            ("join", "events"): self.join.events,
            ("join", "labels"): self.join.labels,
        }
        for path, part in inputs.items():
            if part.needs_registry and self.registry.url is None:
                yield (
                    (*path, "format"),
                    f"{part.format} is read by schemas of a registry, and registry.url is not set; set it, "
                    f"or {dotted(path)}.framing none and {dotted(path)}.schema_file",
                )
        if alarms.enabled and "estimated_loss" in alarms.subjects and not self.explain.estimated_loss:
            yield watched, "estimated_loss needs the estimate; set explain.estimated_loss to true"
        if self.explain.estimated_loss and self.record.unlabelled != "predict":
            yield (
                ("explain", "estimated_loss"),
                "is of records without a label, and these are rejected; set record.unlabelled to predict, or take it out",
            )
        label = self.predictions.label
        if self.predictions.enabled and label is not None and self.task == "regression":
            yield ("predictions", "label"), f"{label!r} is a class, and model.task is regression; take it out"
        yield from self.partial_dependence.contradictions(self.record, self.model.task)
        yield from self.join.contradictions(self.app_id, self.topics, self.record, self.model.task)

    def _problems_of_the_model(self) -> Iterator[Problem]:
        model, versions, named = self.model, self.models.enabled, self.record.model_version is not None
        if versions:
            for name in ("uri", "factory", "params"):
                if getattr(model, name):
                    yield ("model", name), "and models are both given; keep one"
            if not model.static:
                yield ("model", "static"), "is false, and the models of models never learn; take it out"
            if not named:
                yield (
                    ("record", "model_version"),
                    "is missing: models has versions, and no field of the records or header says which one served them",
                )
        elif model.uri is None:
            for name in ("features", "classes"):
                if getattr(model, name) is not None:
                    yield ("model", name), "describes the file of model.uri, which is not set; take it out"
        if named and not versions:
            yield (
                ("record", "model_version"),
                "names versions, and models has none; set models.uris or models.pattern",
            )

    def _problems_of_the_challenger(self) -> Iterator[Problem]:
        losses = {
            known_losses.get(loss, self.task).name
            for explainer in self.explainers
            if not explainer.label_free
            for loss in explainer.losses or [known_losses.DEFAULT[self.task]]
        }
        for name in self.challenger.limits:
            if name not in losses:
                yield (
                    ("challenger", "limits", name),
                    f"no explainer has this loss; there are {', '.join(sorted(losses))}",
                )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,
        **named: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The environment is read by load_settings, which knows each value's source and reports unknown names.
        return (init_settings,)

    @property
    def warnings(self) -> list[str]:
        """A sentence for each setting that cannot be meant so: of sections that are off, as nobody has said whether they are on, and periods shorter than their messages."""
        found = []
        every, short = self.emit.every, min((p for p in self.emit.periods if isinstance(p, int)), default=0)
        if 0 < short < every:
            found.append(
                f"emit.periods: a period ends with a message, and one comes every {every} records (emit.every), so that a period of {short} has {every}; "
                f"set emit.every to at most {short}, or name no period of less than {every}"
            )
        for name in type(self).model_fields:
            section: Any = getattr(self, name)
            fields = type(section).model_fields if isinstance(section, Section) else {}
            given = [field for field in fields if field in section.model_fields_set]
            if given and "enabled" in fields and "enabled" not in given:
                names = ", ".join(f"{name}.{field}" for field in given)
                found.append(f"{names}: nothing comes of it while {name}.enabled is false; set that to true")
        return found

    @property
    def challenger_model(self) -> ModelSettings | None:
        """The challenger as a model for the task; None without one."""
        return self.challenger.model_settings(self.model.task) if self.challenger.enabled else None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The output topics of the fold, by their setting."""
        asked = {name: getattr(self, name).enabled for name in ("alarms", "rows", "predictions")}
        return ("explanations", "drift", *(name for name, wanted in asked.items() if wanted), "dead_letters")

    @property
    def servers(self) -> str:
        """The brokers, or the message that says how to name them."""
        if not self.kafka.bootstrap_servers:
            raise SettingsError(
                f"kafka.bootstrap_servers is not set: name your brokers in {PREFIX}KAFKA__BOOTSTRAP_SERVERS (host:port), "
                "or start a local one with `explain-sidecar kafka run`"
            )
        return self.kafka.bootstrap_servers

    def name_of(self, partition: int, key: str | None) -> str:
        """What people call a partition: its label, else the only key of its records, else its number."""
        return self.partition_labels.get(partition) or key or f"partition {partition}"


class Effective(NamedTuple):
    """A setting as it is in force: dotted name, value with secrets hidden, and where it came from."""

    name: str
    value: Any
    source: str


def load_settings(config: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force: the environment over the file over the defaults.

    Raises ``SettingsError`` that lists everything wrong, with value, source and remedy.
    """
    layers = read_layers(config, os.environ if environ is None else environ)
    try:
        return Settings(**merged(layers))
    except ValidationError as error:
        raise SettingsError(describe(error, layers, Settings)) from None


def effective(
    settings: Settings, config: Path | None = None, environ: Mapping[str, str] | None = None
) -> list[Effective]:
    """Every setting in force with its source; the arguments are those that the settings were loaded with."""
    layers = read_layers(config, os.environ if environ is None else environ)
    return [
        Effective(
            dotted(path),
            HIDDEN if value is not None and is_secret(path, Settings) else _shown(value),
            source_of(path, layers),
        )
        for path, value in _leaves(settings.model_dump(mode="json"))
    ]


def _shown(value: Any) -> Any:
    """A value without the credentials in addresses."""
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return without_credentials(value) if isinstance(value, str) else value


def _leaves(data: Any, path: SettingPath = ()) -> Iterator[tuple[SettingPath, Any]]:
    """Single values; a list is one value unless it holds sections."""
    if isinstance(data, dict) and (data or not path):
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        for position, item in enumerate(data):
            yield from _leaves(item, (*path, position))
    else:
        yield path, data
