"""Every setting, declared once: environment ``EXPLAIN_…`` (``__`` nests) over a YAML or TOML file over the defaults."""

from __future__ import annotations

import difflib
import os
import re
import socket
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from service.errors import SettingsError

PREFIX = "EXPLAIN_"
TRANSACTION_TIMEOUT_MS = 10_000
"""The broker aborts a transaction of this age; a killed worker holds its readers back no longer."""

OWNED_KEYS = {
    "bootstrap.servers": "kafka.bootstrap_servers",
    "group.id": "app_id",
    "group.instance.id": "kafka.group_instance_id",
    "transactional.id": "app_id and instance_id",
    "transaction.timeout.ms": "nothing: it is part of the exactly-once protocol",
    "enable.idempotence": "nothing: it is part of the exactly-once protocol",
    "enable.auto.commit": "nothing: offsets are committed in the transaction",
    "enable.auto.offset.store": "nothing: offsets are committed in the transaction",
    "auto.offset.reset": "nothing: every assignment has an explicit offset",
    "isolation.level": "nothing: the sidecar reads committed records",
    "partition.assignment.strategy": "nothing: it is cooperative-sticky",
    "group.protocol": "nothing: it is classic",
}
_SECRET = re.compile(r"password|secret|token|jaas|\.key|_key$|credential", re.IGNORECASE)

Losses = Literal["cross_entropy", "zero_one", "brier", "hinge", "squared", "absolute", "huber"]
_REGRESSION = ("squared", "absolute", "huber")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _topic_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError("a topic's name has 1 to 249 of the characters A-Z a-z 0-9 . _ -")
    return name


def _kafka_config(config: dict[str, Any]) -> dict[str, Any]:
    for key in config:
        if key in OWNED_KEYS:
            raise ValueError(f"{key} belongs to the sidecar; set {OWNED_KEYS[key]} instead")
    return config


TopicName = Annotated[str, AfterValidator(_topic_name)]


class KafkaSettings(_Section):
    """The cluster."""

    bootstrap_servers: str | None = Field(
        None,
        description="Brokers to start from, host:port[,host:port…]. Required by every command that connects.",
    )
    config: Annotated[dict[str, str | bool | int | float], AfterValidator(_kafka_config)] = Field(
        default_factory=dict,
        description="Any other librdkafka property (security.protocol, sasl.*, ssl.*, …), passed to every client.",
    )
    group_instance_id: str | None = Field(
        None, description="Static membership: stable name of this instance; the worker's slot is appended."
    )


class TopicSettings(_Section):
    """Names of the topics; all of them have the partitions of the records topic."""

    records: TopicName = Field("records", description="Input: labelled records.")
    explanations: TopicName = Field("explanations", description="Output: the explanation stream.")
    drift: TopicName = Field("drift", description="Output: drift attributions.")
    checkpoints: TopicName = Field("checkpoints", description="Compacted topic of the snapshots.")
    dead_letters: TopicName = Field("dead-letters", description="Output: records that could not be folded.")
    create: bool = Field(True, description="Create missing output topics with the settings they need.")
    replication_factor: int = Field(-1, ge=-1, description="Of created topics; -1 is the broker's default.")

    @model_validator(mode="after")
    def _different(self) -> TopicSettings:
        names = [self.records, self.explanations, self.drift, self.checkpoints, self.dead_letters]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the topic name {name!r} is used twice; every topic needs its own")
        return self


class RecordSettings(_Section):
    """What a record looks like: a JSON object; fields are named by paths such as `customer.age`."""

    features: list[str] | None = Field(
        None,
        min_length=1,
        description="Field paths of the features; without it every top-level field that is not named here.",
    )
    label: str = Field("label", min_length=1, description="Field path of the label.")
    timestamp: str | None = Field(
        None,
        description="Field path of the event time (ms since 1970 or ISO 8601); without it Kafka's timestamp.",
    )
    weight: str | None = Field(
        None, description="Field path of the sample weight for learning, a number above 0."
    )
    id: str | None = Field(None, description="Field path of the record's id, repeated in the messages.")
    max_bytes: int = Field(1_000_000, ge=1, description="Largest value, bytes.")
    max_features: int = Field(1_000, ge=1, description="Most features, in a record and in all.")
    max_string: int = Field(1_000, ge=1, description="Longest string, feature name or label, characters.")
    on_bad: Literal["dead_letter", "skip", "fail"] = Field(
        "dead_letter", description="What happens to a record that cannot be folded."
    )

    @model_validator(mode="after")
    def _label_is_no_feature(self) -> RecordSettings:
        for name in (self.label, self.timestamp, self.weight, self.id):
            if self.features is not None and name in self.features and name == self.label:
                raise ValueError(f"the label {name!r} is also among the features; take it out")
        if self.features is not None and len(set(self.features)) != len(self.features):
            raise ValueError("features names a field twice; take one out")
        return self


class ModelSettings(_Section):
    """The model that is kept and explained."""

    factory: str | None = Field(
        None,
        pattern=r"^[\w.]+:[\w.]+$",
        description="`module:Class` or `module:function` that makes it, e.g. river.forest:ARFClassifier; without it a pipeline for mixed features.",
    )
    params: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the factory.")
    task: Literal["binary", "multiclass", "regression"] = Field("binary", description="What the label is.")
    static: bool = Field(False, description="Explain the model, never teach it.")
    modules: list[str] = Field(
        default_factory=list,
        description="Modules of your own whose classes a snapshot may hold, besides the factory's.",
    )


class ReservoirSettings(_Section):
    """The rows that perturbed copies take their values from."""

    kind: Literal["geometric", "uniform"] = Field(
        "geometric", description="geometric follows drift; uniform is the whole past."
    )
    size: int = Field(100, ge=1, le=100_000, description="Rows.")


class ExplainerSettings(_Section):
    """One estimator of feature importance."""

    kind: Literal["ipfi", "isage"] = Field(
        description="Incremental permutation importance, or incremental SAGE."
    )
    name: str | None = Field(None, min_length=1, description="Name in the messages; by default the kind.")
    alpha: float | None = Field(None, gt=0, le=1, description="Smoothing parameter; by default 0.001.")
    window: float | None = Field(
        None, ge=1, description="In place of alpha: as smooth as a window of this many records."
    )
    n_samples: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Draws per copy; by default 1 (ipfi), 10 or two in product form (isage).",
    )
    losses: list[Losses] | None = Field(
        None, min_length=1, description="By default cross_entropy, in a regression squared."
    )
    groups: dict[str, list[str]] = Field(
        default_factory=dict, description="Features that are perturbed together, by name of the group."
    )
    reservoir: ReservoirSettings = Field(default_factory=ReservoirSettings)
    band: Literal["normal", "chebyshev"] = Field("normal", description="Confidence band.")
    confidence: float = Field(0.95, gt=0, lt=1, description="Of the band.")
    empty: Literal["ema", "reservoir"] = Field("ema", description="isage: the prediction of no feature.")

    @model_validator(mode="after")
    def _consistent(self) -> ExplainerSettings:
        if self.alpha is not None and self.window is not None:
            raise ValueError(
                f"alpha {self.alpha} and window {self.window:g} are both given; they mean the same, keep one"
            )
        if self.losses is not None and len(set(self.losses)) != len(self.losses):
            raise ValueError("losses names one twice; take it out")
        if self.kind != "isage" and self.empty != "ema":
            raise ValueError("empty is a setting of isage alone; take it out")
        members: list[str] = []
        for name, features in self.groups.items():
            if not features:
                raise ValueError(f"groups: {name!r} is empty; name at least one feature")
            members += features
        for feature in members:
            if members.count(feature) > 1:
                raise ValueError(f"groups: {feature!r} is in two groups; groups must be disjoint")
        return self


class ExplainSettings(_Section):
    """When to explain."""

    every: int = Field(1, ge=1, description="Explain each k-th record; all are learnt.")
    warm_up: int | None = Field(
        None, ge=1, description="Rows in the reservoir before explaining starts; by default its size."
    )


class EmitSettings(_Section):
    """When to publish."""

    every: int = Field(100, ge=1, description="Folded records per explanation message.")


class CommitSettings(_Section):
    """How often a transaction is committed."""

    interval_ms: int = Field(
        100,
        ge=1,
        le=TRANSACTION_TIMEOUT_MS // 2,
        description="Milliseconds; well below the transaction timeout of 10 s.",
    )
    max_records: int = Field(10_000, ge=1, description="Records in one transaction at the most.")


class CheckpointSettings(_Section):
    """When snapshots are taken. The caps win over the wishes, with a warning."""

    max_replay_seconds: float = Field(
        10, gt=0, description="Longest replay after a restart, seconds for all partitions of a worker."
    )
    max_age: float = Field(
        60, gt=0, description="A partition with new records has a snapshot within this many seconds."
    )
    max_overhead: float = Field(
        0.05, gt=0, le=1, description="Share of the processing time that snapshots may take."
    )
    max_bytes_per_second: float = Field(1_000_000, gt=0, description="Snapshot bytes per second of a worker.")
    hmac_key_file: Path | None = Field(
        None, description="File with one key a line: the first signs manifests, all are accepted."
    )
    on_mismatch: Literal["fail", "reset"] = Field(
        "fail",
        description="What to do when settings that the fold depends on changed: fail with the difference, or begin a new epoch.",
    )


class RecoverySettings(_Section):
    """What to accept after a divergence."""

    on_divergence: Literal["fail", "continue"] = Field(
        "fail", description="continue accepts a replay that differs, for the partition and offset named here."
    )
    partition: int | None = Field(None, ge=0, description="Partition whose divergence is accepted.")
    offset: int | None = Field(None, ge=0, description="Committed offset whose divergence is accepted.")

    @model_validator(mode="after")
    def _named(self) -> RecoverySettings:
        if self.on_divergence == "continue" and (self.partition is None or self.offset is None):
            raise ValueError(
                "on_divergence is continue: name the partition and the offset that the error message gave"
            )
        return self


class DriftSettings(_Section):
    """The windowed attribution of risk change."""

    enabled: bool = Field(False, description="Reserved: attribute the change of risk between windows.")
    window: int = Field(5_000, ge=10, description="Records per window.")
    max_cells: int = Field(100_000, ge=1, description="Cells of the exact computation at the most.")
    max_samples: int = Field(20_000, ge=1, description="Samples of the Monte-Carlo route.")


class HttpSettings(_Section):
    """Metrics and health."""

    enabled: bool = Field(False, description="Reserved: serve metrics and health.")
    host: str = Field("127.0.0.1", description="Address to bind.")
    port: int = Field(8080, ge=0, le=65535, description="Port; 0 takes a free one.")
    token: SecretStr | None = Field(None, description="Bearer token that requests must carry.")


class LogSettings(_Section):
    """Logs go to stderr."""

    format: Literal["console", "json"] = Field(
        "console", description="For people, or one JSON object a line."
    )
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level.")


class Settings(BaseSettings):
    """All settings of the sidecar."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    app_id: str = Field(
        "explanation-sidecar",
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="Name of this sidecar: its consumer group, and part of every message.",
    )
    instance_id: str = Field(
        default_factory=socket.gethostname,
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="Name of this instance, unique and stable; by default the host's.",
    )
    seed: int = Field(0, ge=0, description="Of every random choice.")
    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    topics: TopicSettings = Field(default_factory=TopicSettings)
    record: RecordSettings = Field(default_factory=RecordSettings)
    model: ModelSettings = Field(default_factory=ModelSettings)
    explainers: list[ExplainerSettings] = Field(
        default_factory=lambda: [ExplainerSettings(kind="ipfi"), ExplainerSettings(kind="isage")],
        min_length=1,
        description="Estimators to run.",
    )
    explain: ExplainSettings = Field(default_factory=ExplainSettings)
    emit: EmitSettings = Field(default_factory=EmitSettings)
    commit: CommitSettings = Field(default_factory=CommitSettings)
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings)
    recovery: RecoverySettings = Field(default_factory=RecoverySettings)
    drift: DriftSettings = Field(default_factory=DriftSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    log: LogSettings = Field(default_factory=LogSettings)

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        names = [one.name or one.kind for one in self.explainers]
        for index, one in enumerate(self.explainers):
            if names.count(names[index]) > 1:
                raise ValueError(f"explainers: two are named {names[index]!r}; give each a name of its own")
            for loss in one.losses or []:
                if (loss in _REGRESSION) != (self.model.task == "regression"):
                    fitting = (
                        _REGRESSION
                        if self.model.task == "regression"
                        else ("cross_entropy", "zero_one", "brier", "hinge")
                    )
                    raise ValueError(
                        f"explainers.{index}.losses: {loss} does not fit model.task {self.model.task}; use {', '.join(fitting)}"
                    )
            for group, members in one.groups.items():
                for feature in members:
                    if self.record.features is not None and feature not in self.record.features:
                        raise ValueError(
                            f"explainers.{index}.groups.{group}: {feature!r} is not among record.features"
                        )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The environment is read by load_settings, which knows each value's source and reports unknown names.
        return (init_settings,)

    @property
    def servers(self) -> str:
        """The brokers, or the message that says how to name them."""
        if not self.kafka.bootstrap_servers:
            raise SettingsError(
                f"kafka.bootstrap_servers is not set: name your brokers in {PREFIX}KAFKA__BOOTSTRAP_SERVERS (host:port), "
                "or start a local one with `explain-sidecar kafka run`"
            )
        return self.kafka.bootstrap_servers


class Effective(NamedTuple):
    """A setting as it is in force: dotted name, value with secrets hidden, and where it came from."""

    name: str
    value: Any
    source: str


def load_settings(
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings in force. Raises ``SettingsError`` that lists everything wrong, with value, source and remedy."""
    environ = os.environ if environ is None else environ
    file = _read_file(config) if config else {}
    env = _read_environment(environ)
    merged = _merge(_merge(file, env), dict(overrides or {}))
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise SettingsError(
            "\n".join(_explain(one, file, environ, config) for one in error.errors(include_url=False))
        ) from None


def effective(
    settings: Settings, config: Path | None, environ: Mapping[str, str] | None = None
) -> list[Effective]:
    """Every setting in force with its source."""
    environ = os.environ if environ is None else environ
    file = _read_file(config) if config else {}
    rows = []
    for path, value in _leaves(settings.model_dump(mode="json")):
        name = ".".join(path)
        hidden = value is not None and (
            _SECRET.search(name) is not None and name != "checkpoint.hmac_key_file"
        )
        rows.append(Effective(name, "********" if hidden else value, _source(path, file, environ, config)))
    return rows


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config {path}: cannot be read: {error}") from None
    try:
        if path.suffix == ".toml":
            data: Any = tomllib.loads(text)
        elif path.suffix in (".yaml", ".yml"):
            import yaml

            data = yaml.safe_load(text) or {}
        else:
            raise SettingsError(
                f"--config {path}: {path.suffix or 'no ending'} is not known; use .yaml, .yml or .toml"
            )
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(f"--config {path}: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise SettingsError(
            f"--config {path}: it holds a {type(data).__name__}; the top level is a mapping of settings"
        )
    return data


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        path = variable.removeprefix(PREFIX).lower().split("__")
        target = data
        for part in path[:-1]:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                raise SettingsError(
                    f"{variable}: {'.'.join(path[:-1])} is set as a whole as well; keep one of the two"
                )
        target[path[-1]] = _parse(environ[variable], variable)
    return data


def _parse(text: str, variable: str) -> Any:
    """JSON where it is a mapping or a list; else the text, which pydantic converts; nothing at all is null."""
    if text[:1] not in ("[", "{"):
        return text or None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SettingsError(
            f"{variable}: {text[:80]!r} is not JSON ({error}); write a mapping or list as JSON"
        ) from None


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        known = merged.get(key)
        merged[key] = _merge(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _explain(error: Any, file: dict[str, Any], environ: Mapping[str, str], config: Path | None) -> str:
    path = tuple(str(part) for part in error["loc"])
    name, source = ".".join(path), _source(path, file, environ, config)
    if error["type"] == "extra_forbidden":
        known = _known_names()
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        return f"{name}: no such setting ({source})" + (
            f"; did you mean {near[0]}?" if near else "; see `explain-sidecar config show`"
        )
    value = error["input"]
    hidden = _SECRET.search(name) is not None or isinstance(value, dict | list | BaseModel)
    shown = "" if hidden or error["type"] == "missing" else f"{value!r}: "
    message = error["msg"].removeprefix("Value error, ")
    return f"{name}: {shown}{message} ({source})" if name else message


def _source(
    path: tuple[str, ...], file: dict[str, Any], environ: Mapping[str, str], config: Path | None
) -> str:
    """Where the value at a path came from: the variable that set it, a part of it, or the whole that it is in."""
    for variable in sorted(environ):
        if variable.startswith(PREFIX):
            set_path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
            shared = min(len(path), len(set_path))
            if path[:shared] == set_path[:shared]:
                return f"environment {variable}"
    data: Any = file
    for part in path:
        if not isinstance(data, dict):
            break
        if part not in data:
            return "default"
        data = data[part]
    return f"file {config}" if path and file else "default"


def _leaves(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(data, dict) and (data or not path) and path not in (("model", "params"),):
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    else:
        yield path, data


def _known_names(model: type[BaseModel] = Settings, prefix: str = "") -> list[str]:
    names = []
    for key, field in model.model_fields.items():
        names.append(prefix + key)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names += _known_names(field.annotation, f"{prefix}{key}.")
    return names
