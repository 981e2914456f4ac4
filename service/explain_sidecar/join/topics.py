"""The topics of the join: what they must be, and making the missing ones."""

from __future__ import annotations

from dataclasses import dataclass

from explain_sidecar.errors import UserError
from explain_sidecar.fold.sizes import HEADROOM
from explain_sidecar.join.entries import Counts
from explain_sidecar.kafka.topics import COMPACTED, Topic, Topics
from explain_sidecar.settings import Settings

_CHANGELOG_CONFIG = COMPACTED | {"delete.retention.ms": str(24 * 60 * 60 * 1000)}


def join_settings(settings: Settings) -> Settings:
    """The settings with the stage's own names: group, transactional ids, and topic of dead letters."""
    app_id = f"{settings.app_id}-join"
    topics = settings.topics.model_copy(update={"dead_letters": f"{app_id}-dead-letters"})
    return settings.model_copy(update={"app_id": app_id, "topics": topics})


def changelog(stage: Settings) -> str:
    return f"{stage.app_id}-changelog"


def internal(stage: Settings) -> tuple[str, str]:
    """The topics that events and labels are copied to, by id."""
    return f"{stage.app_id}-events", f"{stage.app_id}-labels"


def sources(settings: Settings) -> tuple[str, str]:
    """The topics of events and labels. Raises ``UserError`` where none are set."""
    events, labels = settings.join.events.topic, settings.join.labels.topic
    if events is None or labels is None:
        raise UserError(
            "join.events.topic is not set: name the topic of the events in it, and that of the labels in join.labels.topic"
        )
    return events, labels


@dataclass(frozen=True)
class JoinTopics:
    """The topics of a stage, as they are. ``events`` and ``labels`` are those that are joined."""

    events: Topic
    labels: Topic
    changelog: Topic
    records: Topic
    dead_letters: Topic
    copied: tuple[Topic, Topic] | None = None
    """Where the joined topics are copies: the ones that they are copied from."""


def prepare(stage: Settings, topics: Topics) -> JoinTopics:
    """Check the inputs, and create what is missing, where allowed. ``stage`` is from ``join_settings``.

    Raises ``UserError`` for missing inputs, and for numbers of partitions that do not fit.
    """
    names = sources(stage)
    found = topics.describe(*names)
    for section, name in zip(("events", "labels"), names, strict=True):
        if name not in found:
            raise UserError(
                f"join.{section}.topic: there is no topic {name!r} on {stage.servers}; name the right one"
            )
    events, labels = (found[name] for name in names)
    copied = None
    room = _room(stage, events, labels)
    if stage.join.repartition:
        count = max(events.partitions, labels.partitions)
        made = _made(stage, topics, dict.fromkeys(internal(stage), (count, room)))
        copied = (events, labels)
        events, labels = (made[name] for name in internal(stage))
    if events.partitions != labels.partitions:
        raise UserError(
            f"join: {events.name!r} has {events.partitions} partitions and {labels.name!r} has {labels.partitions}; an event and its "
            "label must be in the same one, so both need as many, and producers that choose the partition by the id; "
            "or set join.repartition: true, which copies both through internal topics"
        )
    log, records, letters = changelog(stage), stage.topics.records, stage.topics.dead_letters
    origin = events if copied is None else copied[0]
    made = _made(
        stage,
        topics,
        {
            log: (events.partitions, _CHANGELOG_CONFIG | room),
            letters: (events.partitions, room),
            records: (origin.partitions, room),
        },
    )
    for name in (log, letters):
        if made[name].partitions != events.partitions:
            raise UserError(
                f"join: {name!r} has {made[name].partitions} partitions and {events.name!r} has {events.partitions}; they must be equal. Nothing was lost: "
                f"give it as many by kafka-topics --alter --topic {name} --partitions {events.partitions}. Where keys choose partitions, the label of an "
                "event that waits may now go to another partition than the event, which then has no label"
            )
    if stage.join.key is None and made[records].partitions != origin.partitions:
        raise UserError(
            f"topics.records: {records!r} has {made[records].partitions} partitions and {origin.name!r} has {origin.partitions}: a record goes "
            "to its event's partition, so they must be equal; or set join.key, whose hash then gives the partition"
        )
    if "compact" not in made[log].config.get("cleanup.policy", ""):
        raise UserError(f"join: {log!r} is the changelog and must have cleanup.policy=compact; set it")
    return JoinTopics(events, labels, made[log], made[records], made[letters], copied)


def _room(stage: Settings, *inputs: Topic) -> dict[str, str]:
    """What a topic that the join makes must take: the largest record of an input, and what is added to it."""
    sizes = [int(topic.config.get("max.message.bytes", 0)) for topic in inputs]
    return {"max.message.bytes": str(max(stage.emit.max_bytes, *sizes) + HEADROOM)}


def _made(stage: Settings, topics: Topics, wanted: dict[str, tuple[int, dict[str, str]]]) -> dict[str, Topic]:
    found = topics.describe(*wanted)
    missing = [name for name in wanted if name not in found]
    if missing and not stage.topics.create:
        raise UserError(
            "join: "
            + ", ".join(f"{name!r} ({wanted[name][0]} partitions)" for name in missing)
            + f" missing on {stage.servers} and topics.create is false; create them"
        )
    if missing:
        topics.create_topics([(name, *wanted[name]) for name in missing])
    return topics.until_described(*wanted)


def account(counts: Counts) -> dict[str, int]:
    """The outcomes of the events; all but ``events`` add up to it."""
    named = counts.by_name()
    return {name: named[name] for name in ("events", "matched", "expired", "dropped", "pending")}
