"""``explain-sidecar check``: can `run` work here? Asks and reads, and writes to no topic."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import cast

import orjson
from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource  # type: ignore[attr-defined]
from msgspec import structs

from explain_client.words import minute
from explain_core.markers import identifiers, other_unit, remarks
from explain_sidecar.commands.printing import print_rows
from explain_sidecar.commands.sampling import Placed, RecordShape, Tally, look, tally, to_paste
from explain_sidecar.errors import UserError
from explain_sidecar.fold.models import (
    described,
    described_challenger,
    foreign_code,
    load_challenger,
    load_model,
)
from explain_sidecar.fold.partition import FoldError, PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.source import schema_source
from explain_sidecar.kafka.clients import (
    CONNECT_SECONDS,
    ErrorLog,
    admin_client,
    group_of,
    reading_consumer,
    transactional_producer,
)
from explain_sidecar.kafka.errors import REMEDIES
from explain_sidecar.kafka.input import record_of
from explain_sidecar.kafka.reading import read_to
from explain_sidecar.kafka.topics import NO_ID, WITHOUT_IDS, Topic, Topics, retention_warning, too_small
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.files import check_first
from explain_sidecar.snapshots.signatures import UNSIGNED, check_trust, read_keys
from explain_sidecar.terminal import plain
from explain_sidecar.wire.registry import Registry

SAMPLE = 100
SHOWN_LABELS = 5

_READ = (AclOperation.READ, AclOperation.DESCRIBE)
_WRITE = (*_READ, AclOperation.WRITE)


@dataclass(frozen=True)
class Finding:
    """One check; ``ok`` is None where it has no result or only a remark."""

    what: str
    ok: bool | None
    detail: str


@dataclass
class Sampled:
    """What the newest records are, by the settings or by inferred ones; ``settings`` are the inferred ones, to be pasted."""

    tally: Tally = field(default_factory=Tally)
    settings: str | None = None


def check(settings: Settings, *, as_json: bool = False) -> None:
    """Print what was found. Raises ``UserError`` where `run` could not start or would fold nothing of the sample."""
    findings: list[Finding] = []
    sampled = Sampled()
    try:
        findings.append(_made("model", settings, _model))
        if settings.challenger_model is not None:
            findings.append(_made("challenger", settings, _challenger))
        findings.append(_signatures(settings, all(finding.ok for finding in findings)))
        if settings.join.events.topic is not None:
            findings.append(join_store())
        if settings.registry.url and settings.registry.format != "none":
            findings.append(_registry(settings))
        findings += (Finding("settings", None, sentence) for sentence in settings.warnings)
        admin = admin_client(settings, ErrorLog())
        names = {"records": settings.topics.records} | Topics(settings, admin).outputs
        found = Topics(settings, admin).describe(*names.values())
        findings.append(Finding("broker", True, f"{settings.servers} answers"))
        if settings.kafka.group_protocol == "consumer":
            findings.append(_session(admin))
        findings += _topics(settings, names, found)
        findings.append(_transactions(settings))
        findings += _rights(settings, admin, [name for name in names.values() if name in found])
        if names["records"] in found:
            findings += (
                replace(finding, detail=plain(finding.detail))
                for finding in _sample(settings, found[names["records"]], sampled, findings[0].ok is True)
            )
    except UserError as error:
        findings.append(Finding("stopped", False, str(error)))
    _print(findings, sampled, as_json)
    failed = [finding for finding in findings if finding.ok is False]
    if failed:
        raise UserError(
            f"{len(failed)} of {len(findings)} checks failed: {', '.join(finding.what for finding in failed)}"
        )


def _made(what: str, settings: Settings, described: Callable[[Settings], str]) -> Finding:
    try:
        # Some models print remarks on their parameters; stdout is for data.
        with redirect_stdout(sys.stderr):
            return Finding(what, True, f"{described(settings)} for {settings.model.task}")
    except UserError as error:
        return Finding(what, False, str(error))


def _model(settings: Settings) -> str:
    model = None if settings.models.enabled else load_model(settings.model, settings.seed)
    what = described(settings)
    check_first(settings)
    if model is not None:
        return what or model.title
    pattern = settings.models.pattern
    return what if pattern is None else f"{what}\nversions at {pattern}".strip()


def _challenger(settings: Settings) -> str:
    model = load_challenger(settings, settings.seed)
    return described_challenger(settings) or model.title


def join_store() -> Finding:
    """Whether what `join` keeps events in is installed."""
    if importlib.util.find_spec("rocksdict") is None:
        return Finding("join", False, "its store needs rocksdict; install explanation-sidecar[join]")
    return Finding("join", True, "rocksdict, which its store needs, is installed")


def _signatures(settings: Settings, made: bool) -> Finding:
    try:
        keys = read_keys(settings.checkpoint)
        foreign = foreign_code(settings) if made else None
        check_trust(keys, foreign)
    except UserError as error:
        return Finding("snapshots", False, str(error))
    signed = f"signed by key {keys.fingerprint} of {settings.checkpoint.hmac_key_file}; " if keys.keys else ""
    if not foreign and not keys.keys:
        return Finding("snapshots", None, f"data alone: reading one runs no code; {UNSIGNED}")
    if not foreign:
        return Finding("snapshots", True, f"{signed}data alone: reading one runs no code")
    return Finding("snapshots", True, f"{signed}{foreign} is stored by its own code")


def _registry(settings: Settings) -> Finding:
    config = settings.registry
    if config.auto_register:
        return Finding("registry", None, f"{config.url} is not asked: `run` registers the schemas")
    try:
        Registry(settings).resolve()
    except UserError as error:
        return Finding("registry", False, str(error))
    return Finding("registry", True, f"{config.url} has the {config.format} schemas")


def _session(admin: AdminClient) -> Finding:
    """How late a worker is noticed that dies with its machine, where the brokers decide it."""
    name, what = "group.consumer.session.timeout.ms", "group protocol"
    try:
        brokers = list(admin.list_topics(timeout=CONNECT_SECONDS).brokers)
        where = ConfigResource(ConfigResource.Type.BROKER, str(brokers[0]))
        config = admin.describe_configs([where], request_timeout=CONNECT_SECONDS)[where].result()
    except KafkaException as error:
        return Finding(what, None, f"consumer; the brokers do not tell {name}: {error.args[0].str()}")
    if name not in config:
        return Finding(
            what,
            False,
            "kafka.group_protocol is consumer, and these brokers do not know it: it needs Kafka 4.0; set classic",
        )
    seconds = int(config[name].value or 0) / 1000
    alone = (
        "; there is one broker only, whose coordinator may not load such a group again after a restart: see docs/guarantees.md, or set classic"
        if len(brokers) == 1
        else ""
    )
    return Finding(
        what,
        None if alone or seconds > 10 else True,
        f"consumer: the partitions of an instance that dies wait for {seconds:g} s ({name} of the brokers){alone}",
    )


def _topics(settings: Settings, names: dict[str, str], found: dict[str, Topic]) -> Iterator[Finding]:
    source = found.get(names["records"])
    for setting, name in names.items():
        what, topic = f"topics.{setting}", found.get(name)
        if topic is None:
            made = setting != "records" and settings.topics.create
            remedy = (
                "`run` creates it" if made else "create it: `explain-sidecar topics create --partitions N`"
            )
            yield Finding(what, made or False, f"there is no topic {name!r}; {remedy}")
        elif setting == "records":
            warning = retention_warning(topic, settings)
            compacted = "compact" in topic.config.get("cleanup.policy", "")
            yield Finding(
                what,
                not compacted,
                f"{name}, {topic.partitions} partitions{', compacted: a replay needs every record' * compacted}",
            )
            if warning:
                yield Finding("retention", None, warning)
            if topic.id == NO_ID:
                yield Finding("topic ids", None, WITHOUT_IDS)
        else:
            wanted = source.partitions if source is not None else topic.partitions
            few, grows = topic.partitions != wanted, topic.partitions < wanted and settings.topics.create
            remedy = f", and {names['records']} has {wanted}; they must be equal" if few else ""
            small = too_small(setting, topic, settings)
            remedy += f"; it {small}" if small else ""
            yield Finding(what, (not few or grows) and not small, f"{name}, {topic.partitions} partitions{remedy}")  # fmt: skip


def _rights(settings: Settings, admin: AdminClient, names: Sequence[str]) -> Iterator[Finding]:
    """The operations that the brokers allow this user: without an authorizer, all of them."""
    try:
        described = admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=CONNECT_SECONDS
        )
        allowed = {
            name: set(future.result().authorized_operations or ()) for name, future in described.items()
        }
        allowed[f"group {settings.app_id}"] = _of_group(settings.app_id, admin)
    except KafkaException as error:
        yield Finding("rights", False, f"{error.args[0].str()}; grant DESCRIBE on the topics and the group")
        return
    missing = [
        f"{operation.name} on {name}"
        for name, operations in allowed.items()
        for operation in (_READ if name == settings.topics.records or name.startswith("group ") else _WRITE)
        if operation not in operations
    ]
    yield Finding(
        "rights",
        not missing,
        f"missing: {', '.join(missing)}" if missing else "to read and write the topics, and for the group",
    )


def _transactions(settings: Settings) -> Finding:
    """Take a transactional id that no worker has; brokers forget it when it stays unused."""
    name = f"{settings.app_id}-check"
    try:
        transactional_producer(settings, name, ErrorLog()).init_transactions(CONNECT_SECONDS)
    except KafkaException as error:
        cause = error.args[0]
        remedy = REMEDIES.get(
            cause.code(), "without transactions `run` cannot publish: name a cluster that has them"
        )
        return Finding("transactions", False, f"{name}: {cause.str()}; {remedy}")
    return Finding("transactions", True, f"the brokers gave the transactional id {name}")


def _of_group(group: str, admin: AdminClient) -> set[AclOperation]:
    described = group_of(admin, group)
    if described is None:  # nothing said no
        return set(_READ)
    return set(cast("list[AclOperation]", described.authorized_operations or []))


def _sample(settings: Settings, topic: Topic, found: Sampled, has_model: bool) -> Iterator[Finding]:
    """Decode the newest records, and fold them, as `run` would, and compare them with the settings."""
    with closing(reading_consumer(settings)) as consumer:
        records = list(islice(_newest(consumer, topic), SAMPLE))
    if not records:
        yield Finding("sample", None, f"{topic.name} holds no records yet")
        return
    by_settings = tally(settings, settings.record, records)
    found.tally = by_settings
    seen = look(settings, records)
    if seen is not None:
        yield _format(settings, seen, foldable=by_settings.good > 0)
        if seen.settings is not None:
            found.settings = to_paste(settings, seen.settings, seen.fields)
            if not by_settings.good:
                found.tally = tally(settings, seen.settings, records)
    good, skipped, bad = by_settings.good, by_settings.skipped, by_settings.bad
    total = good + sum(count for count, _ in bad.values())
    some = f"; {skipped} others are skipped, as record.where and record.deletes say" if skipped else ""
    yield Finding("sample", good > 0, f"{good} of the newest {total} records can be folded{some}")
    for kind, (count, first) in bad.items():
        yield Finding(f"bad record: {kind}", None, f"{count}; {first}")
    if good and has_model and not settings.models.enabled:
        yield _fold(settings, records)
    features = found.tally.features
    columns = {name: feature.markers for name, feature in features.items()}
    for remark in remarks(columns, "set record.missing"):
        yield Finding("missing values", None, remark)
    for remark in identifiers(columns, "name the other features in record.features"):
        yield Finding("identifiers", None, remark)
    for role, count in by_settings.roles.items():
        if (name := getattr(settings.record, role)) is not None and not count:
            root = settings.record.root
            begins = "" if root is None else f"; its path begins at record.root, {root!r}"
            said = "absent or 1 in every record" if role == "weight" else "in no record"
            yield Finding(f"record.{role}", None, f"{name!r} is {said} of the sample{begins}")
    if settings.record.timestamp is not None and by_settings.newest is not None:
        odd = other_unit(by_settings.newest)
        yield Finding("times", None if odd else True, odd or f"the newest is of {minute(by_settings.newest)}")
    mixed = [name for name, feature in features.items() if len(feature.kinds) > 1]
    if mixed:
        yield Finding(
            "features",
            None,
            f"of several kinds, of which the first is kept and the others are dead letters: {', '.join(mixed)}",
        )


def _fold(settings: Settings, records: Sequence[Placed]) -> Finding:
    """Whether the models take the records."""
    try:
        with redirect_stdout(sys.stderr):
            state, fetch = PartitionState(settings, 0), schema_source(settings)
            for offset, (_, record) in enumerate(records):
                state.schemas.supply(state.step, structs.replace(record, offset=offset), fetch)
    except FoldError as error:
        if error.reason is not None:
            return Finding("fold", False, error.reason)
    return Finding("fold", True, "the model predicts, explains and learns the sample")


def _format(settings: Settings, seen: RecordShape, *, foldable: bool) -> Finding:
    """What the records look like, against the settings. Where these can fold some records, another look is only a remark."""
    if seen.settings == settings.record:
        return Finding("format", True, seen.words)
    if not foldable:
        return Finding("format", False, f"{seen.words}; by these settings `run` would fold none")
    if seen.settings is None:
        return Finding("format", True, "as the settings say")
    return Finding("format", None, f"{seen.words}; the settings say otherwise")


def _newest(consumer: Consumer, topic: Topic) -> Iterator[tuple[int, InputRecord]]:
    """The newest records of a topic, about as many from each partition."""
    each = -(-SAMPLE // topic.partitions)
    for partition in range(topic.partitions):
        where = TopicPartition(topic.name, partition)
        low, high = consumer.get_watermark_offsets(where, timeout=CONNECT_SECONDS)
        where.offset = max(low, high - each)
        for message in read_to(consumer, where, high):
            yield partition, record_of(message)


def _print(findings: list[Finding], sampled: Sampled, as_json: bool) -> None:
    labels = sampled.tally.labels
    rows = [
        {
            "feature": name,
            "kind": " and ".join(sorted(seen.kinds)),
            "records": seen.records,
            "example": seen.example,
        }
        for name, seen in sampled.tally.features.items()
    ]
    if as_json:
        body = {
            "checks": [asdict(finding) for finding in findings],
            "features": rows,
            "labels": dict(labels.most_common()),
            "settings": sampled.settings,
        }
        sys.stdout.write(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    words = {True: "ok", False: "FAILED", None: "note"}
    print_rows(
        [{"check": finding.what, "": words[finding.ok], "detail": finding.detail} for finding in findings],
        as_json=False,
        keep="\n",  # a model's files are lines of their own; what records hold has been made plain
    )
    if rows:
        sys.stdout.write("\n")
        print_rows(rows, as_json=False)
        most = ", ".join(
            f"{plain(str(label))} ({count})" for label, count in labels.most_common(SHOWN_LABELS)
        )
        sys.stdout.write(f"\nlabels: {most}{', …' if len(labels) > SHOWN_LABELS else ''}\n")
    if sampled.settings:
        sys.stdout.write(f"\nthe records are read by these settings:\n\n{sampled.settings}")
