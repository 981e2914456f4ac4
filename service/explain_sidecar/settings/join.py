"""The section ``join``: events and labels that come on two topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from explain_core.losses import fits_64_bits
from explain_sidecar.settings.base import Section, TopicName
from explain_sidecar.settings.kafka import TopicSettings
from explain_sidecar.settings.records import FormatSettings, RecordSettings
from explain_sidecar.settings.sources import Problem

DROP = "drop"
"""``unlabelled``: publish nothing."""


class JoinInputSettings(FormatSettings):
    """A topic that the join reads: objects in any format, or tombstones with the id as their key."""

    topic: TopicName | None = None
    """Its name; the join is off as long as it is not set."""
    id: str | None = Field(None, min_length=1)
    """Field path of the id, a string or an integer; by default the Kafka key."""
    timestamp: str | None = None
    """Field path of the event time (ms since 1970 or ISO 8601); by default Kafka's timestamp."""


class JoinLabelSettings(JoinInputSettings):
    """The labels."""

    label: str = Field("label", min_length=1)
    """Field path of the label."""


class JoinSettings(Section):
    """Labels that come late: `explain-sidecar join` joins events and labels by id and writes the records topic."""

    events: JoinInputSettings = Field(default_factory=JoinInputSettings)
    labels: JoinLabelSettings = Field(default_factory=JoinLabelSettings)
    wait: float = Field(86_400.0, ge=0, le=10 * 366 * 86_400)
    """How long an event waits for its label, seconds of event time; so does a label for its event."""
    unlabelled: str | bool | int | float = DROP
    """What the lack of a label means after `wait`: drop publishes nothing, any other value is the label, e.g. 0 for no click."""
    corrections: Literal["ignore", "emit"] = "ignore"
    """What to do with another label for a published event: nothing, or publish the event again with it."""
    remember: float = Field(0.0, ge=0, le=10 * 366 * 86_400)
    """How long after `wait` an id is recognised, so that duplicates and corrections are; seconds of event time."""
    at_once: bool = False
    """Publish each event without its label too, as soon as it comes: with record.unlabelled: predict its prediction and reasons are told at its own time."""
    key: str | None = Field(None, min_length=1)
    """Field path in the event of the records' key, whose hash gives the partition; by default the event's own key and partition."""
    max_skew: float = Field(3_600.0, gt=0, le=10 * 366 * 86_400)
    """With `key` or `repartition`: how far, in seconds of event time, a worker may be ahead of a partition with a backlog whose records meet its own."""
    max_pending: int = Field(1_000_000, ge=1)
    """Most ids that are kept in a partition; beyond it the oldest expire, whatever `wait` says."""
    repartition: bool = False
    """Copy both topics through internal ones by id first, for topics that are not partitioned by id alike."""
    state_dir: Path = Path("join-state")
    """Folder of the local store. It is restored from the changelog topic where it is lost."""

    @property
    def on(self) -> bool:
        """Whether there is anything to join."""
        return self.events.topic is not None

    @property
    def merges(self) -> bool:
        """Whether records of several partitions meet in one."""
        return self.key is not None or self.repartition

    def problems(self) -> Iterator[Problem]:
        events, labels, value = self.events.topic, self.labels.topic, self.unlabelled
        if (events is None) != (labels is None):
            missing = "labels" if events else "events"
            yield (
                (missing, "topic"),
                "is not set; the join needs both topics, name it or take the other out",
            )
        elif events is not None and events == labels:
            yield ("labels", "topic"), f"{labels!r} is join.events.topic too; they must be two topics"
        if isinstance(value, int) and not fits_64_bits(value):
            yield "unlabelled", f"{value:.0e} has more than 64 bits; no label can be it"

    def contradictions(
        self, app_id: str, topics: TopicSettings, record: RecordSettings, task: str
    ) -> Iterator[Problem]:
        """What does not fit the rest of the settings."""
        if not self.on:
            return
        names = {name: f"topics.{key}" for key, name in topics.names.items()}
        own = {f"{app_id}-join-{name}" for name in ("changelog", "dead-letters", "events", "labels")}
        for key, name in topics.names.items():
            if name in own:
                yield ("topics", key), f"{name!r} is a topic of the join's own; give it another name"
        for side, topic in (("events", self.events.topic), ("labels", self.labels.topic)):
            if topic in names or topic in own:
                whose = f"{names[topic]} too" if topic in names else "a topic of the join's own"
                yield ("join", side, "topic"), f"{topic!r} is {whose}; the join reads it, so name another"
        if record.framed or record.format not in ("json", "json_schema"):
            yield (
                ("record", "format"),
                "does not fit the join, which writes the records in JSON without a schema's id; say in "
                "join.events.format and join.labels.format what its inputs are, and take record.format and record.framing out",
            )
        if record.root is not None:
            yield (
                ("record", "root"),
                f"{record.root!r}: the join writes the label beside it, not into it; take it out, and name paths from the top",
            )
        if self.at_once and record.unlabelled != "predict":
            yield (
                ("join", "at_once"),
                "publishes records without a label, which would all be dead letters; set record.unlabelled: predict",
            )
        value, implied = self.unlabelled, ("join", "unlabelled")
        number, boolean = isinstance(value, int | float), isinstance(value, bool)
        if value == DROP:
            return
        if task == "regression" and (boolean or not number):
            yield implied, f"{value!r} is no label of a regression; give a number, or {DROP}"
        elif task != "regression" and number and not float(value).is_integer():
            yield (
                implied,
                f"{value!r} is no class; give a string, a whole number or a boolean, or {DROP}",
            )
