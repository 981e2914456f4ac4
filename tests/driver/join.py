"""The join on the in-memory cluster: what is fed, what is published, and what must have become of each event."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import orjson

from explain_sidecar.errors import UserError
from explain_sidecar.join.changelog import PROGRESS, Saved
from explain_sidecar.join.copies import join_of
from explain_sidecar.join.topics import account, join_settings
from explain_sidecar.kafka.member import Member
from explain_sidecar.settings import Settings
from tests.driver.clients import kafka_of
from tests.driver.driver import TINY, Driver
from tests.driver.log import Entry
from tests.driver.process import Process
from tests.service.join.local import Memory

EVENTS, LABELS = "events", "labels"
WAIT = 100.0
"""Seconds; everything that is fed in a test lies within, but for what ends it."""

JOIN: dict[str, Any] = TINY | {
    "join": {
        "events": {"topic": EVENTS, "id": "id", "timestamp": "at"},
        "labels": {"topic": LABELS, "id": "of", "timestamp": "at", "label": "is.label"},
        "wait": WAIT,
        "unlabelled": 0,
        "corrections": "emit",
        "remember": 10 * WAIT,
    }
}


class Given(NamedTuple):
    """A record of one of the inputs; ``label`` is None for an event. Bad ones have no id."""

    id: str | None
    at: int
    label: int | None = None

    def value(self) -> bytes:
        if self.id is None:
            return b"{"
        if self.label is None:
            return orjson.dumps({"id": self.id, "at": self.at, "x": self.at % 7, "label": None})
        return orjson.dumps({"of": self.id, "at": self.at, "is": {"label": self.label}})


def given(count: int, partition: int, seed: int) -> list[Given]:
    """Events and labels in any order: some without the other, some twice, corrected ones, and one in ten bad."""
    rng = random.Random(f"{partition} {seed}")
    made = []
    for number in range(count):
        id, at = f"{partition}-{seed}-{number}", rng.randrange(50_000)
        records = [Given(id, at)] * rng.choice([0, 1, 1, 1, 1, 2])
        records += [
            Given(id, at + rng.randrange(-900, 900), rng.randrange(1, 4))
            for _ in range(rng.choice([0, 1, 1, 2]))
        ]
        if rng.random() < 0.1:
            records.append(Given(None, 0, rng.choice([None, 1])))
        made += records
    rng.shuffle(made)
    return made


@dataclass
class JoinDriver(Driver):
    """Workers of the join, with local stores that outlive them as disks do."""

    settings: Settings = field(default_factory=lambda: Settings(**JOIN))
    stores: dict[tuple[int, int], tuple[Memory, Process]] = field(default_factory=dict)
    fed: dict[int, list[Given]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cluster.create(EVENTS, self.partitions)
        self.cluster.create(LABELS, self.partitions)

    def worker(self, settings: Settings, slot: int, process: Process) -> Member[Any]:
        def open(partition: int, fresh: bool) -> Memory:
            store, owner = self.stores.get((slot, partition), (Memory(), process))
            if (
                owner is not process
                and owner.alive
                and any(worker.process is owner for worker in self.workers.values())
            ):
                raise UserError("join.state_dir: another process has it open")
            self.stores[slot, partition] = (Memory() if fresh else store, process)
            return self.stores[slot, partition][0]

        return join_of(settings, slot, lambda: None, kafka_of(process), open)

    def give(self, partition: int, records: list[Given]) -> None:
        self.fed.setdefault(partition, []).extend(records)
        for record in records:
            log = self.cluster.log(EVENTS if record.label is None else LABELS, partition)
            log.append(Entry(b"k%d" % partition, record.value(), (("own", b"1"),), 1_700_000_000_000))

    def end(self) -> None:
        """Events that move stream time beyond everything, and expire it: three, as one clock alone would not."""
        for partition in range(self.partitions):
            self.give(partition, [Given(f"{partition}-end-{n}", 10**9 + n) for n in range(3)])
        self.finish()

    # --- what has become of it -------------------------------------------------------------------------------------

    def positions(self) -> dict[int, tuple[int, str]]:
        raise NotImplementedError

    def ends(self) -> list[int]:
        return [self.cluster.log(topic, p).high for topic in (EVENTS, LABELS) for p in range(self.partitions)]

    def committed(self) -> list[int]:
        group = self.cluster.groups.get(join_settings(self.settings).app_id)
        known = {} if group is None else group.committed
        return [
            known.get((topic, p), (0, ""))[0] for topic in (EVENTS, LABELS) for p in range(self.partitions)
        ]

    def visible(self, topic: str, partition: int) -> list[Entry]:
        log = self.cluster.log(topic, partition)
        return [log.entries[offset] for offset in log.visible(0, committed=True)]

    def progress(self, partition: int) -> Saved:
        log = self.visible("app-join-changelog", partition)
        (*_, newest) = (entry.value for entry in log if entry.key == PROGRESS)
        assert newest is not None
        return msgspec.msgpack.decode(newest, type=Saved)

    def differences(self) -> list[str]:
        """In words, whatever is not as what was fed demands; nothing of it is computed by the join's own code."""
        found = []
        for name, topic in self.cluster.topics.items():
            found += [f"{name} {p}: a transaction hangs" for p, log in enumerate(topic.logs) if log.open]
        for partition in range(self.partitions):
            found += [f"partition {partition}: {text}" for text in self._of_partition(partition)]
        return found

    def joined_differences(self) -> list[str]:
        """As ``differences``, of the records alone."""
        return [text for partition in range(self.partitions) for text in self._joined(partition)]

    def _of_partition(self, partition: int) -> list[str]:
        return self._joined(partition) + self._accounted(partition)

    def _joined(self, partition: int) -> list[str]:
        fed, found = self.fed.get(partition, []), []
        events = Counter(item.id for item in fed if item.label is None and item.id is not None)
        first = {item.id: item for item in reversed(fed) if item.label is None}
        labels: dict[str | None, list[Given]] = {}
        for item in fed:
            if item.label is not None:
                labels.setdefault(item.id, []).append(item)
        published: dict[str, list[tuple[str, int | None]]] = {}
        keyed, at_once = self.settings.join.key is not None, self.settings.join.at_once
        for entry in (
            entry
            for where in (range(self.partitions) if keyed else [partition])
            for entry in self.visible(self.settings.topics.records, where)
        ):
            assert entry.value is not None
            data, headers = orjson.loads(entry.value), dict(entry.headers)
            if keyed and not data["id"].startswith(f"{partition}-"):
                continue
            label, event = data.pop("label"), first.get(data["id"])
            published.setdefault(data["id"], []).append(((headers["outcome"] or b"").decode(), label))
            if event is None or data != {"id": event.id, "at": event.at, "x": event.at % 7}:
                found.append(f"{data} is no event that was fed")
            key = b"%d" % data["x"] if keyed else b"k%d" % partition
            if (entry.key, headers["own"]) != (key, b"1"):
                found.append(f"{data['id']}: key or headers are not the event's")
            if "label_timestamp" in headers:
                delay = int(headers["label_timestamp"] or 0) - data["at"]
                if int(headers["label_delay_ms"] or 0) != delay or delay + data["at"] not in [
                    at.at for at in labels.get(data["id"], [])
                ]:
                    found.append(f"{data['id']}: {headers}")
        for id in events:
            known = [item.label for item in labels.get(id, [])]
            end = id is not None and "-end-" in id
            found += [
                f"{id} {known}: {text}" for text in _wrong(published.pop(str(id), []), known, end, at_once)
            ]
        found += [f"{id}: published, never fed" for id in published]
        return found

    def _accounted(self, partition: int) -> list[str]:
        fed, found = self.fed.get(partition, []), []
        bad = Counter((EVENTS if item.label is None else LABELS) for item in fed if item.id is None)
        letters = Counter(
            dict(letter.headers)["__explain.errors.topic"].decode()  # type: ignore[union-attr]
            for letter in self.visible("app-join-dead-letters", partition)
        )
        if bad != letters:
            found.append(f"dead letters {letters} of {bad}")
        counts = self.progress(partition).progress.counts
        kept = account(counts)
        total = sum(1 for item in fed if item.label is None)
        if not kept.pop("events") == total == sum(kept.values()):
            found.append(f"{total} events, counted {account(counts)}")
        return found


def _wrong(
    published: list[tuple[str, int | None]], labels: list[int | None], end: bool, at_once: bool
) -> list[str]:
    """Whether this can have become of an event with these labels, which come before it or after it."""
    if at_once and published[:1] == [("event", None)]:
        published = published[1:]
    elif at_once and (published[:1] or [("", 0)])[0][0] != "matched":  # a label that came first
        return [f"{published} not at once"]
    if end:
        return [f"{published} before it is due"] if published else []
    outcomes, values = [outcome for outcome, _ in published], [label for _, label in published]
    if not labels:
        return [] if published == [("expired", 0)] else [f"{published} without a label"]
    if outcomes != ["matched"] + ["corrected"] * (len(outcomes) - 1):
        return [f"{published} with {labels}"]
    # Those before the event count as the last of them; of those after it each that differs is published.
    allowed = []
    for before in range(len(labels)):
        rest = labels[before:]
        allowed.append([label for n, label in enumerate(rest) if n == 0 or label != rest[n - 1]])
    return [] if values in allowed else [f"{published} with {labels}"]
