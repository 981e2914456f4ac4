"""The join of one partition: a state machine without clock, network or files. The same records in the same order give the same output.

Time is *stream time*: the largest timestamp that ``REACHED`` of the last ``NEWEST`` records have reached, of both inputs together; it
does not go back. An event waits for its label until stream time has passed its own timestamp by ``wait``. Kafka Streams takes the largest
timestamp, so that one wrong clock ends the wait of all events; Flink subtracts a delay from it, which only bounds the harm.
"""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import dataclass

import msgspec
import orjson

from explain_sidecar.join.entries import DONE, EVENT, KINDS, LABEL, Counts, Entry, Event, Joined, Label
from explain_sidecar.join.store import Store

REACHED, NEWEST = 3, 100
"""Two wrong clocks among so many records do not move time."""

NO_LABEL = b"null"

LEAP_RECORDS = 3
"""Records in a row that must lie further than ``wait`` from stream time, on the same side of it, to move it there. One wrong
clock alone would otherwise expire everything that waits, or keep it for ever."""


STEP = 1_000
"""Entries that expire or are evicted at a time where a record ends the wait of many: all of them would outlast a transaction."""


@dataclass(frozen=True)
class Rules:
    """The settings of a join; times in milliseconds.

    ``implied`` is the label, in JSON, of an event without one; None drops the event. ``remember``: how long after ``wait`` an id whose
    outcome is known is recognised. ``corrections``: whether another label for a published event is published too. ``at_once``: whether an event
    that waits is published without one first.
    """

    wait: int
    implied: bytes | None = None
    corrections: bool = False
    remember: int = 0
    max_pending: int = 1_000_000
    at_once: bool = False


class Progress(msgspec.Struct):
    """The state of a partition's join beside its entries."""

    time: int | None = None
    leaps: list[int] = []
    """Timestamps of the last records if they lie beyond a leap, all on the same side."""
    records: int = 0
    """Whose times have counted so far."""
    ahead: list[tuple[int, int]] = []
    """Of the last ``NEWEST`` records those that are ahead of time, as their number and timestamp: too few to move it."""
    counts: Counts = msgspec.field(default_factory=Counts)


class Joiner:
    """Takes in events and labels in the order in which they are read; returns what is to be published.

    Every event has exactly one outcome: matched, expired or dropped; before it, by ``Rules.at_once``, it is published without. ``store`` holds the entries.
    """

    def __init__(self, rules: Rules, store: Store, progress: Progress) -> None:
        self._rules = rules
        self._wait = rules.wait
        self._store = store
        self.progress = progress
        self._counts = progress.counts

    def event(self, event: Event) -> list[Joined]:
        """An event; of several with the same id the first one counts, as long as it is remembered."""
        joined = self._pass_time(event.timestamp)
        counts = self._counts
        counts.events += 1
        known = self._store.get(event.id)
        if known is None:
            counts.pending += 1
            due = event.timestamp + self._wait
            self._store.put(
                event.id,
                Entry(EVENT, due, event.timestamp, event.body, event.key, event.headers, event.partition),
            )
            if self._rules.at_once:
                joined.append(Joined(event, NO_LABEL, "event", None))
        elif known.kind == LABEL:
            assert known.label is not None
            counts.waiting -= 1
            counts.used += 1
            joined.append(self._match(event, known.label, known.timestamp))
        else:
            counts.duplicates += 1
        return self._resolve(joined)

    def label(self, label: Label) -> list[Joined]:
        """A label: for a waiting event, for an event still to come, or a further label for an event with a known outcome."""
        joined = self._pass_time(label.timestamp)
        counts, store = self._counts, self._store
        counts.labels += 1
        known = store.get(label.id)
        if known is not None and known.kind == EVENT:
            counts.pending -= 1
            counts.used += 1
            joined.append(self._match(_event(label.id, known), label.value, label.timestamp))
        elif known is not None and known.kind == DONE:
            joined += self._another(label, known)
        else:
            if known is None:
                counts.waiting += 1
            else:
                counts.replaced += 1
            due = label.timestamp + self._wait
            store.put(label.id, Entry(LABEL, due, label.timestamp, label=label.value))
        return self._resolve(joined)

    def withdraw_event(self, id: bytes, timestamp: int) -> list[Joined]:
        """A tombstone on the events topic: an event that still waits is dropped."""
        joined = self._pass_time(timestamp)
        self._counts.tombstones += 1
        known = self._store.get(id)
        if known is not None and known.kind == EVENT:
            self._counts.pending -= 1
            self._counts.withdrawn += 1
            self._remember(_event(id, known), None)
        return self._resolve(joined)

    def withdraw_label(self, id: bytes, timestamp: int) -> list[Joined]:
        """A tombstone on the labels topic: a label that still waits is taken back. What was published stays."""
        joined = self._pass_time(timestamp)
        self._counts.tombstones += 1
        known = self._store.get(id)
        if known is not None and known.kind == LABEL:
            self._counts.waiting -= 1
            self._counts.retracted += 1
            self._store.delete(id)
        return self._resolve(joined)

    def bad_event(self) -> None:
        """An event that cannot be read: it is counted, and moves nothing."""
        self._counts.events += 1
        self._counts.bad_events += 1

    def bad_label(self) -> None:
        self._counts.labels += 1
        self._counts.bad_labels += 1

    def ahead_of(self, timestamp: int, most: int = STEP) -> tuple[list[Joined], bool]:
        """Expire so many at most of the entries that a record of this time makes due, and say whether there may be more: call again
        before the record. The record alone moves time, so that a restart amid them goes on with the rest.
        """
        before = self.progress
        self.progress = copy(before)
        self._move(timestamp)
        time, self.progress = self.progress.time, before
        assert time is not None
        joined: list[Joined] = []
        return joined, not self._settle(joined, time, most)

    def leaps(self, timestamp: int) -> bool:
        """Whether a timestamp is too far from stream time to move it by itself."""
        time = self.progress.time
        return time is not None and not -self._wait <= timestamp - time <= self._wait

    # --- outcomes --------------------------------------------------------------------------------------------------

    def _match(self, event: Event, label: bytes, timestamp: int) -> Joined:
        self._counts.matched += 1
        self._remember(event, label)
        return Joined(event, label, "matched", timestamp)

    def _another(self, label: Label, known: Entry) -> list[Joined]:
        counts = self._counts
        if known.label is not None and _same(known.label, label.value):
            counts.repeated += 1
        # Without its body it was published by other settings, under which nothing was kept to publish it again.
        elif self._rules.corrections and known.label is not None and known.body:
            counts.corrections += 1
            self._store.put(label.id, msgspec.structs.replace(known, label=label.value))
            return [Joined(_event(label.id, known), label.value, "corrected", label.timestamp)]
        else:
            counts.ignored += 1
        return []

    def _remember(self, event: Event, label: bytes | None) -> None:
        """Keep the id of an event with an outcome; ``label`` is what was published, None for nothing."""
        self._counts.remembered += 1
        due = event.timestamp + self._wait + self._rules.remember
        entry = Entry(DONE, due, event.timestamp, label=label)
        if self._rules.corrections and label is not None:
            entry = msgspec.structs.replace(
                entry, body=event.body, key=event.key, headers=event.headers, partition=event.partition
            )
        self._store.put(event.id, entry)

    # --- time ------------------------------------------------------------------------------------------------------

    def _pass_time(self, timestamp: int) -> list[Joined]:
        """Move stream time, and expire what it has passed."""
        return self._resolve([]) if self._move(timestamp) else []

    def _move(self, timestamp: int) -> bool:
        """Take in the time of a record; returns whether stream time may have moved."""
        progress = self.progress
        time = progress.time
        if time is None:
            progress.time, progress.records = timestamp, 1
            return True
        if -self._wait <= timestamp - time <= self._wait:
            progress.records += 1
            if progress.leaps:
                progress.leaps = []
            return self._reached(timestamp, time)
        forward = timestamp > time
        leaps = progress.leaps
        progress.leaps = leaps = (
            [*leaps, timestamp] if leaps and (leaps[0] > time) == forward else [timestamp]
        )
        if len(leaps) < LEAP_RECORDS:
            return False
        # Of several wrong clocks, the least wrong.
        progress.time = min(leaps) if forward else max(leaps)
        progress.leaps, progress.ahead = [], []
        progress.records = max(progress.records, REACHED)
        return True

    def _reached(self, timestamp: int, time: int) -> bool:
        """Take in a timestamp that is no leap; returns whether enough records are ahead of stream time, which then goes on."""
        progress, n = self.progress, self.progress.records
        if timestamp <= time:
            if n <= REACHED:  # of so few, time is the smallest
                progress.time = timestamp
                progress.ahead = [*progress.ahead, (n, time)]
            return False
        ahead = [(number, other) for number, other in progress.ahead if n - number < NEWEST]
        ahead.append((n, timestamp))
        moves = len(ahead) >= REACHED
        if moves:
            progress.time = time = min(other for _, other in ahead)
            ahead = [entry for entry in ahead if entry[1] > time]
        progress.ahead = ahead
        return moves

    def _resolve(self, joined: list[Joined]) -> list[Joined]:
        """Expire the entries that are due, and evict the oldest beyond ``max_pending``."""
        time = self.progress.time
        assert time is not None
        self._settle(joined, time, sys.maxsize)
        return joined

    def _settle(self, joined: list[Joined], time: int, most: int) -> int:
        """``_resolve`` at this time, for so many entries at most; returns how many more it might have been."""
        counts, store = self._counts, self._store
        if time > store.first_due:
            for kind in KINDS:
                while most and (found := store.pop(kind, time)) is not None:
                    most -= 1
                    if kind == EVENT:
                        joined += self._expire(*found)
                    elif kind == LABEL:
                        self._forget_label(found[0])
                    else:
                        self._forget(found[0])
            if most:
                store.update_first_due()
        while most and counts.pending + counts.waiting + counts.remembered > self._rules.max_pending:
            most -= 1
            joined += self._evict()
        return most

    def _evict(self) -> list[Joined]:
        """Make room: an id with an outcome goes first, then a label without its event, then the oldest event."""
        store = self._store
        if self._counts.remembered and (found := store.pop(DONE)):
            self._forget(found[0])
        elif self._counts.waiting and (found := store.pop(LABEL)):
            self._counts.evicted += 1
            self._forget_label(found[0])
        else:
            found = store.pop(EVENT)
            assert found is not None
            self._counts.evicted += 1
            return self._expire(*found)
        return []

    def _expire(self, id: bytes, entry: Entry) -> list[Joined]:
        self._counts.pending -= 1
        event, implied = _event(id, entry), self._rules.implied
        self._remember(event, implied)
        if implied is None:
            self._counts.unlabelled += 1
            return []
        self._counts.expired += 1
        return [Joined(event, implied, "expired", None)]

    def _forget(self, id: bytes) -> None:
        self._counts.remembered -= 1
        self._store.delete(id)

    def _forget_label(self, id: bytes) -> None:
        self._counts.waiting -= 1
        self._counts.unmatched += 1
        self._store.delete(id)


def _same(one: bytes, other: bytes) -> bool:
    """Whether two labels in JSON are the same to whoever reads the records: 1 is 1.0, and true is not 1."""
    if one == other:
        return True
    first, second = orjson.loads(one), orjson.loads(other)
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


def _event(id: bytes, entry: Entry) -> Event:
    return Event(id, entry.timestamp, entry.body, entry.key, entry.headers, entry.partition)
