"""The join by brute force: everything that was ever read in one list, looked through anew for each record.

Written from the documentation, not from the code: no index, no store, no counters that are carried along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from explain_sidecar.join.joiner import Rules


class Read(NamedTuple):
    """A record as the join reads it; ``what`` is event, label, withdraw_event or withdraw_label."""

    what: str
    id: int
    timestamp: int
    value: int = 0


@dataclass
class Item:
    """An event or a label, and what has become of it. ``published`` is the label of its newest record."""

    what: str
    id: int
    timestamp: int
    value: int
    order: int
    fate: str = "open"
    published: int | None = None
    gone: bool = False
    """No longer remembered."""


class Oracle:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.items: list[Item] = []
        self.out: list[tuple[int, int, int, str, int | None]] = []
        self.times: list[int] = []
        self.near: list[int] = []
        self.time: int | None = None

    def read(self, record: Read) -> list[tuple[int, int, int, str, int | None]]:
        """What is published then: id, the event's timestamp, label, outcome, the label's timestamp."""
        self.out = []
        self._move(record.timestamp)
        self._expire()
        if record.what == "event":
            self._event(record)
        elif record.what == "label":
            self._label(record)
        else:
            what = record.what.removeprefix("withdraw_")
            for item in self._of(record.id, what):
                if item.fate == "open":
                    item.fate = "withdrawn"
                    item.gone = what == "label"
        self._expire()
        self._make_room()
        return self.out

    def _of(self, id: int, what: str) -> list[Item]:
        return [item for item in self.items if item.id == id and item.what == what and not item.gone]

    def _move(self, timestamp: int) -> None:
        """Stream time is the third largest of the last 100 times within ``wait``, and follows three in a row that are beyond, on one side."""
        if self.time is None or abs(timestamp - self.time) <= self.rules.wait:
            self.times = []
            self.near.append(timestamp)
            third = sorted(self.near[-100:])[-3:][0]
            self.time = third if self.time is None or len(self.near) <= 3 else max(self.time, third)
        else:
            self.times.append(timestamp)
            ahead = [t > self.time for t in self.times]
            if len(set(ahead)) > 1:
                self.times = [timestamp]
            if len(self.times) == 3:
                self.time = min(self.times) if ahead[-1] else max(self.times)
                self.times, self.near = [], [self.time] * 3

    def _event(self, record: Read) -> None:
        item = Item("event", record.id, record.timestamp, record.value, len(self.items))
        if self._of(record.id, "event"):
            item.fate, item.gone = "duplicate", True
        labels = [label for label in self._of(record.id, "label") if label.fate == "open"]
        self.items.append(item)
        if labels and item.fate == "open":
            self._match(item, labels[0])

    def _label(self, record: Read) -> None:
        item = Item("label", record.id, record.timestamp, record.value, len(self.items))
        events = self._of(record.id, "event")
        waiting = [label for label in self._of(record.id, "label") if label.fate == "open"]
        self.items.append(item)
        if not events:
            for label in waiting:
                label.fate, label.gone = "replaced", True
            return
        event = events[0]
        if event.fate == "open":
            self._match(event, item)
        elif event.published == item.value:
            item.fate = "repeated"
        elif self.rules.corrections and event.published is not None:
            item.fate, event.published = "correction", item.value
            self.out.append((event.id, event.timestamp, item.value, "corrected", item.timestamp))
        else:
            item.fate = "ignored"
        item.gone = True

    def _match(self, event: Item, label: Item) -> None:
        event.fate, event.published, label.fate, label.gone = "matched", label.value, "used", True
        self.out.append((event.id, event.timestamp, label.value, "matched", label.timestamp))

    def _end(self, item: Item) -> None:
        """What waits and is too old, or too much."""
        if item.what == "label":
            item.fate, item.gone = "unmatched", True
        elif item.fate != "open":
            item.gone = True
        elif self.rules.implied is None:
            item.fate = "unlabelled"
        else:
            item.fate, item.published = "expired", int(self.rules.implied)
            self.out.append((item.id, item.timestamp, item.published, "expired", None))

    def _due(self, item: Item) -> int:
        more = self.rules.remember if item.what == "event" and item.fate != "open" else 0
        return item.timestamp + self.rules.wait + more

    def _kept(self, *kinds: str) -> list[Item]:
        """What is kept of some kinds, what is due first at the front."""

        def kind(item: Item) -> str:
            return "done" if item.what == "event" and item.fate != "open" else item.what

        kept = [item for item in self.items if not item.gone and kind(item) in kinds]
        return sorted(kept, key=lambda item: (self._due(item), str(item.id).encode()))

    def _expire(self) -> None:
        assert self.time is not None
        for kind in ("event", "label", "done"):
            for item in self._kept(kind):
                if self._due(item) < self.time:
                    self._end(item)

    def _make_room(self) -> None:
        while len(self._kept("event", "label", "done")) > self.rules.max_pending:
            self._end((self._kept("done") or self._kept("label") or self._kept("event"))[0])

    def counts(self) -> dict[str, Any]:
        """Events and labels by what has become of them, counted from the list."""
        fates: dict[str, int] = {}
        for item in self.items:
            name = f"{item.what} {item.fate}"
            fates[name] = fates.get(name, 0) + 1
        return fates
