"""The sections of the settings: each setting is declared once, with its meaning, unit, bounds and default."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from explain_core import losses as known_losses
from explain_core.alarms import BASELINE, BLOCK, WARM_UP
from explain_core.importance import ESTIMATORS
from service.settings.sources import SettingPath, refuse

TRANSACTION_TIMEOUT_MS = 10_000
"""The broker aborts a transaction of this age; a killed worker holds its readers back no longer."""

OWNED_KEYS = {
    "bootstrap.servers": "set kafka.bootstrap_servers",
    "metadata.broker.list": "set kafka.bootstrap_servers",
    "group.id": "set app_id",
    "group.instance.id": "set kafka.group_instance_id",
    "transactional.id": "set app_id and instance_id",
    "transaction.timeout.ms": "it is part of the exactly-once protocol",
    "enable.idempotence": "it is part of the exactly-once protocol",
    "enable.auto.commit": "offsets are committed in the transaction, see commit.interval_ms",
    "auto.commit.enable": "offsets are committed in the transaction, see commit.interval_ms",
    "enable.auto.offset.store": "offsets are committed in the transaction, see commit.interval_ms",
    "auto.offset.reset": "every assignment has an explicit offset; to start anew use `explain-sidecar reset`",
    "isolation.level": "the sidecar reads committed records",
    "partition.assignment.strategy": "it is cooperative-sticky",
    "group.protocol": "it is classic",
    "message.max.bytes": "set emit.max_bytes",
    "batch.size": "it follows from emit.max_bytes",
    "enable.partition.eof": "the sidecar needs the ends of partitions",
}
"""Properties of librdkafka that the service sets itself, and what to do instead."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _topic_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError("a topic's name has 1 to 249 of the characters A-Z a-z 0-9 . _ -")
    return name


def _replication_factor(number: int) -> int:
    if number < 1 and number != -1:
        raise ValueError("it must be at least 1, or -1")
    return number


def _kafka_config(config: dict[str, Any]) -> dict[str, Any]:
    refuse(
        ((key,), f"belongs to the sidecar: {OWNED_KEYS[key]}; take it out")
        if key in OWNED_KEYS
        else ((key,), f"a {type(value).__name__} is not allowed; use a string, a number or a boolean")
        for key, value in config.items()
        if key in OWNED_KEYS or not isinstance(value, str | bool | int | float)
    )
    return config


def _estimator(kind: str) -> str:
    if kind not in ESTIMATORS and not re.fullmatch(r"[\w.]+:\w+", kind):
        raise ValueError(
            f"{kind!r} is not one of {', '.join(ESTIMATORS)}; name one of these, or a class of yours as module:Class"
        )
    return kind


def _loss(name: str) -> str:
    known_losses.get(name)
    return name


def _duplicates(names: Sequence[str]) -> list[str]:
    return [name for position, name in enumerate(names) if name in names[:position]]


TopicName = Annotated[str, AfterValidator(_topic_name)]
LossName = Annotated[str, AfterValidator(_loss)]


class KafkaSettings(Section):
    """The cluster."""

    bootstrap_servers: str | None = Field(
        None,
        description="Brokers to start from, host:port[,host:port…]. Required by every command that connects.",
    )
    config: Annotated[dict[str, Any], AfterValidator(_kafka_config)] = Field(
        default_factory=dict,
        description="Any other librdkafka property (security.protocol, sasl.*, ssl.*, …), passed to every client: a mapping from its name to a string, number or boolean.",
    )
    group_instance_id: str | None = Field(
        None, description="Static membership: stable name of this instance; the worker's slot is appended."
    )


class TopicSettings(Section):
    """Names of the topics; all of them have the partitions of the records topic."""

    records: TopicName = Field("records", description="Input: the labelled records.")
    explanations: TopicName = Field("explanations", description="Output: the explanation stream.")
    drift: TopicName = Field("drift", description="Output: drift attributions.")
    alarms: TopicName = Field("alarms", description="Output: alarms, where alarms.enabled is set.")
    checkpoints: TopicName = Field("checkpoints", description="Compacted topic for snapshots.")
    dead_letters: TopicName = Field("dead-letters", description="Output: records that cannot be used.")
    create: bool = Field(True, description="Create missing output topics with the configuration they need.")
    replication_factor: Annotated[int, AfterValidator(_replication_factor)] = Field(
        -1, le=32_767, description="Replicas of created topics; -1 is the broker's default."
    )

    @model_validator(mode="after")
    def _different(self) -> TopicSettings:
        names = {
            key: getattr(self, key)
            for key in ("records", "explanations", "drift", "alarms", "checkpoints", "dead_letters")
        }
        first = {name: key for key, name in reversed(names.items())}
        refuse(
            ((key,), f"{name!r} is topics.{first[name]} too; every topic needs a name of its own")
            for key, name in names.items()
            if first[name] != key
        )
        return self


class ModelSettings(Section):
    """The model that the sidecar explains."""

    factory: str | None = Field(
        None,
        pattern=r"^[\w.]+:[\w.]+$",
        description="`module:Class` or `module:function` that makes the model, e.g. river.forest:ARFClassifier; by default a pipeline for mixed features.",
    )
    params: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the factory.")
    task: Literal["binary", "multiclass", "regression"] = Field(
        "binary", description="Kind of label: one of two classes, one of several, or a number."
    )
    uri: str | None = Field(
        None,
        min_length=1,
        description="Instead of a factory a trained model, explained as it is: a file of XGBoost, LightGBM, scikit-learn (skops), ONNX or CatBoost, an MLflow directory, or models:/name@alias of an MLflow registry.",
    )
    features: list[str] | None = Field(
        None, min_length=1, description="Columns of the file in their order, where it does not name them."
    )
    classes: list[str | int | bool] | None = Field(
        None,
        min_length=2,
        description="Labels of the file's probabilities in their order, where its library numbers them from 0.",
    )
    static: bool = Field(False, description="Explain the model, never teach it; true with model.uri.")
    learner: Literal["auto", "river"] = Field(
        "auto",
        description="auto: known models of river learn in flat arrays, with the same bits and several times faster; river: river's own code learns.",
    )
    modules: list[str] = Field(
        default_factory=list,
        description="More modules of yours whose classes a snapshot may hold, besides the factory's.",
    )

    @model_validator(mode="before")
    @classmethod
    def _a_file_is_static(cls, data: Any) -> Any:
        return {"static": True, **data} if isinstance(data, dict) and data.get("uri") else data

    @model_validator(mode="after")
    def _one_source(self) -> ModelSettings:
        problems: list[tuple[SettingPath, str]] = []
        if self.uri is not None:
            problems += [
                ((name,), "and model.uri are both given; keep one")
                for name in ("factory", "params")
                if getattr(self, name)
            ]
            if not self.static:
                problems.append((("static",), "is false, and a model of model.uri never learns; take it out"))
        else:
            problems += [
                ((name,), "describes the file of model.uri, which is not set; take it out")
                for name in ("features", "classes")
                if getattr(self, name) is not None
            ]
        refuse(problems)
        return self


class ReservoirSettings(Section):
    """The rows that perturbed copies take their values from."""

    kind: Literal["geometric", "uniform"] = Field(
        "geometric", description="geometric follows drift; uniform represents the whole past."
    )
    size: int = Field(100, ge=1, le=100_000, description="Rows.")


class ExplainerSettings(Section):
    """One estimator of feature importance."""

    kind: Annotated[str, AfterValidator(_estimator)] = Field(
        description="Incremental permutation importance (ipfi), incremental SAGE (isage), or an IncrementalEstimator of yours as module:Class."
    )
    params: dict[str, Any] = Field(
        default_factory=dict, description="What the estimator's class is called with besides, if it is yours."
    )
    name: str | None = Field(None, min_length=1, description="Name in the messages; by default its kind.")
    alpha: float | None = Field(None, gt=0, le=1, description="Smoothing parameter; by default 0.001.")
    window: float | None = Field(
        None, ge=1, description="Instead of alpha: as smooth as a window of this many records."
    )
    n_samples: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Draws per copy; by default 1 (ipfi), 10 or two in product form (isage).",
    )
    losses: list[LossName] | None = Field(
        None,
        min_length=1,
        description=f"Any of {', '.join(known_losses.NAMED)} that fit the task, or a loss of yours as module:name; by default cross_entropy, in a regression squared.",
    )
    groups: dict[str, list[str]] = Field(
        default_factory=dict, description="Features that are perturbed together, by name of the group."
    )
    reservoir: ReservoirSettings = Field(default_factory=ReservoirSettings)
    band: Literal["normal", "chebyshev"] = Field("normal", description="Confidence band.")
    confidence: float = Field(0.95, gt=0, lt=1, description="Confidence level of the band.")
    empty: Literal["ema", "reservoir"] = Field(
        "ema", description="isage: how the prediction without any feature is estimated."
    )
    removal: Literal["marginal", "conditional"] = Field(
        "marginal",
        description="isage: whether removing a feature takes the others into account (conditional) or not (marginal). conditional keeps a tree per feature and costs tens of times as much.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> ExplainerSettings:
        problems: list[tuple[SettingPath, str]] = []
        if self.alpha is not None and self.window is not None:
            problems.append(
                (
                    ("alpha",),
                    f"{self.alpha:g} and window {self.window:g} are both given and say the same; keep one",
                )
            )
        if self.kind != "isage":
            problems += [
                ((name,), "is a setting of isage alone; take it out")
                for name in ("empty", "removal")
                if getattr(self, name) != type(self).model_fields[name].default
            ]
        if self.params and self.kind in ESTIMATORS:
            problems.append(
                (("params",), f"are for a class of yours, and {self.kind} is none; take them out")
            )
        problems += [
            (("losses",), f"names {loss!r} twice; take one out") for loss in _duplicates(self.losses or [])
        ]
        refuse(problems + _group_problems(self.groups))
        return self


def _group_problems(groups: dict[str, list[str]]) -> list[tuple[SettingPath, str]]:
    empty: list[tuple[SettingPath, str]] = [
        (("groups", name), "is empty; name at least one feature")
        for name, features in groups.items()
        if not features
    ]
    return empty + [
        (("groups",), f"name {feature!r} twice; groups must be disjoint")
        for feature in _duplicates([feature for features in groups.values() for feature in features])
    ]


class ExplainSettings(Section):
    """When to explain."""

    every: int = Field(1, ge=1, description="Explain each k-th record; the model learns from all.")
    warm_up: int | None = Field(
        None, ge=1, description="Rows in the reservoir before explaining starts; by default its size."
    )
    evaluator: Literal["auto", "generic", "batch", "arrays"] = Field(
        "auto",
        description="How the model is evaluated on perturbed copies; auto takes the fastest that knows the model.",
    )


class EmitSettings(Section):
    """When to publish."""

    every: int = Field(100, ge=1, description="Records per explanation message.")
    max_bytes: int = Field(
        1_048_588,
        ge=50_000,
        le=50_000_000,
        description="Largest message, bytes; a dead letter may have 16,384 more. A record whose new features' names would lead to a larger message becomes a dead letter.",
    )


class CommitSettings(Section):
    """How often a transaction is committed."""

    interval_ms: int = Field(
        100,
        ge=1,
        le=TRANSACTION_TIMEOUT_MS // 2,
        description="Milliseconds; well below the transaction timeout of 10 s.",
    )
    max_records: int = Field(10_000, ge=1, description="Largest number of records in one transaction.")


class CheckpointSettings(Section):
    """When snapshots are taken. The caps (max_overhead, max_bytes_per_second) override the goals (max_replay_seconds, max_age), with a warning."""

    max_replay_seconds: float = Field(
        3, gt=0, description="Longest replay after a restart, seconds for all partitions of a worker."
    )
    max_age: float = Field(
        15, gt=0, description="Longest time without a snapshot of a partition with new records, seconds."
    )
    max_overhead: float = Field(
        0.05, gt=0, le=1, description="Largest share of the processing time that snapshots may take."
    )
    max_bytes_per_second: float = Field(
        1_000_000, gt=0, description="Largest number of snapshot bytes per second of a worker."
    )
    hmac_key_file: Path | None = Field(
        None, description="File with one key per line: the first signs snapshots, all are accepted."
    )
    allow_unsigned: bool = Field(
        False,
        description="Accept unsigned snapshots of a model that only its own code can store: anyone who can write to the checkpoints topic may then run code in the worker.",
    )
    on_mismatch: Literal["fail", "reset"] = Field(
        "fail",
        description="What to do if settings that the state depends on have changed: fail and show the difference, or begin a new epoch.",
    )


class RecoverySettings(Section):
    """What to accept after a divergence."""

    on_divergence: Literal["fail", "continue"] = Field(
        "fail", description="continue accepts a replay that differs, for the partition and offset named here."
    )
    partition: int | None = Field(None, ge=0, description="Partition whose divergence is accepted.")
    offset: int | None = Field(None, ge=0, description="Committed offset whose divergence is accepted.")

    @model_validator(mode="after")
    def _named(self) -> RecoverySettings:
        if self.on_divergence == "continue":
            refuse(
                (
                    (name,),
                    "is missing; recovery.on_divergence continue needs the one that the error message gave",
                )
                for name in ("partition", "offset")
                if getattr(self, name) is None
            )
        return self


class DriftSettings(Section):
    """Attribution of the change of risk between consecutive windows."""

    enabled: bool = Field(False, description="Publish why the risk changed from each window to the next.")
    window: int = Field(5_000, ge=10, le=1_000_000, description="Largest number of records in a window.")
    period: float | None = Field(
        None,
        ge=0.001,
        description="Windows also end when the event time passes a multiple of this many seconds.",
    )
    loss: LossName | None = Field(
        None, description="Loss whose change is attributed; by default zero_one, in a regression squared."
    )
    factorisation: Literal["joint", "per_feature"] = Field(
        "joint", description="per_feature also splits the part of the inputs by feature."
    )
    groups: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Split by these groups of features; features in no group stand alone.",
    )
    bootstrap: int = Field(20, ge=2, description="Resamples for the intervals of single features.")
    max_cells: int = Field(100_000, ge=1, description="Largest number of cells for the exact computation.")
    max_samples: int = Field(
        5_000,
        ge=100,
        description="Largest number of predictions per attribution; of longer windows a random part is evaluated.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> DriftSettings:
        refuse(_group_problems(self.groups))
        return self


Watched = Literal["loss", "gain", "importance", "missing", "rejected"]


class AlarmSettings(Section):
    """Alarms where a loss or an importance changed, with a stated rate of false ones."""

    enabled: bool = Field(
        False, description="Publish when a mean changed: of the losses, of the increments of each importance."
    )
    one_in: int = Field(
        1_000_000,
        ge=1_000,
        description="Records between false alarms, at least, over all subjects of a partition together.",
    )
    min_change: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Changes up to this share of the loss without a model are none; of missing values and rejected records, up to this share of the records.",
    )
    subjects: list[Watched] = Field(
        ["loss", "gain", "importance"],
        min_length=1,
        description="What is watched: loss, gain (over no model), importance; missing (each feature's share of missing values), rejected.",
    )
    warm_up: int = Field(
        WARM_UP,
        ge=BLOCK,
        le=1_000_000,
        description="Records, of a subject, from which only the spread of its values is taken; anew after each of its alarms.",
    )
    baseline: int = Field(
        BASELINE,
        ge=BLOCK,
        le=1_000_000,
        description="Records after that before which no change can begin.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> AlarmSettings:
        refuse((("subjects",), f"{name!r} is there twice") for name in _duplicates(self.subjects))
        return self


class HttpSettings(Section):
    """Metrics, health and the dashboard."""

    enabled: bool = Field(False, description="Serve metrics, health and the dashboard with `run`.")
    host: str = Field("127.0.0.1", description="Address to bind; 0.0.0.0 is every address of this machine.")
    port: int = Field(8080, ge=0, le=65535, description="Port; 0 takes a free one.")
    token: SecretStr | None = Field(
        None, description="Bearer token that requests must carry, except those for health."
    )
    allowed_hosts: list[str] = Field(
        default_factory=list,
        description="Names under which this server is reached, besides localhost, its own host name and every IP address.",
    )
    stall_seconds: float = Field(
        30, gt=0, description="A worker that shows no sign of life for this long makes /healthz fail."
    )
    dashboard: bool = Field(True, description="Serve the dashboard too.")
    max_streams: int = Field(
        100,
        ge=1,
        le=500,
        description="Largest number of open dashboard pages; one more is answered with 503.",
    )
    importance: bool = Field(
        False,
        description="Also serve metrics of importance: 20 features per partition, and the sum of the others.",
    )
    show_payloads: bool = Field(
        False, description="Show keys, values and error messages of dead letters in the dashboard."
    )

    @field_validator("token")
    @classmethod
    def _sendable(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not re.fullmatch(r"[!-~]+", token.get_secret_value()):
            raise ValueError(
                "a token has at least one character, and none but printable ASCII without spaces"
            )
        return token


class CloudEventsSettings(Section):
    """Explanations and drift messages as CloudEvents 1.0: headers of the Kafka binding's binary mode."""

    enabled: bool = Field(False, description="Add the headers ce_id, ce_source, ce_type, ce_time, ….")


def _registry_config(config: dict[str, Any]) -> dict[str, Any]:
    refuse([(("url",), "belongs to the sidecar: set registry.url; take it out")] if "url" in config else [])
    return config


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address is http://host:port or https://host:port, and a path where it has one")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong into an address, which is shown in logs")
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(_address)]


class RegistrySettings(Section):
    """A Schema Registry for explanations and drift messages: their values are framed for it."""

    url: Address | None = Field(
        None,
        description="Address of the registry, http://host:8081 (Confluent) or http://host:8080/apis/ccompat/v7 (Apicurio); by default messages are plain JSON.",
    )
    format: Literal["json", "avro", "none"] = Field(
        "json",
        description="JSON by a JSON Schema, or Avro; none: the messages are plain JSON, and the registry serves to read records alone.",
    )
    auto_register: bool = Field(
        False,
        description="Register the schemas at the start; by default use `explain-sidecar schemas register`.",
    )
    config: Annotated[dict[str, Any], AfterValidator(_registry_config)] = Field(
        default_factory=dict,
        description="Any other property of confluent-kafka's SchemaRegistryClient: basic.auth.user.info, ssl.ca.location, ….",
    )


class TracingSettings(Section):
    """Spans of the messages whose last record has a traceparent; the header itself is always passed on."""

    endpoint: Address | None = Field(
        None,
        description="Collector for OTLP over HTTP, http://host:4318; by default there are no spans.",
    )


class LogSettings(Section):
    """Logs go to stderr."""

    format: Literal["console", "json"] = Field(
        "console", description="console is for people, json is one object per line."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged."
    )
