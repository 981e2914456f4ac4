"""What the join reads, keeps and publishes: events, labels, an entry for each id, joined records, and the counts of all of them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from explain_sidecar.formats.errors import Headers

EVENT: Final = 0
LABEL: Final = 1
DONE: Final = 2
"""Kinds of entries: an event that waits for its label, a label that waits for its event, an id whose outcome is known."""

KINDS = (EVENT, LABEL, DONE)

Outcome = Literal["event", "matched", "expired", "corrected"]
"""Of a joined record. ``event``: it waits for its label, and is published at once without one. ``expired``: no label arrived within ``join.wait``, so that the implied label is used."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event. ``body`` is its JSON object without the closing brace; ``partition`` is the one that the record goes to."""

    id: bytes
    timestamp: int
    body: bytes
    key: bytes | None
    headers: Headers
    partition: int


class Label(msgspec.Struct, frozen=True, gc=False):
    """A label; ``value`` is its JSON."""

    id: bytes
    timestamp: int
    value: bytes


class Joined(msgspec.Struct, frozen=True, gc=False):
    """An event with a label, in JSON. ``label_timestamp`` is None where the label is implied, or there is none yet."""

    event: Event
    label: bytes
    outcome: Outcome
    label_timestamp: int | None


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is known of an id. ``due``: the last stream time at which it is kept, in milliseconds since 1970.

    ``timestamp`` is the event's, of a waiting label the label's. Of an id whose outcome is known the body is there only if a
    correction may have to repeat it, and ``label`` is None where nothing was published.
    """

    kind: Literal[0, 1, 2]
    due: int
    timestamp: int
    body: bytes = b""
    key: bytes | None = None
    headers: Headers = ()
    partition: int = 0
    label: bytes | None = None


class Counts(msgspec.Struct):
    """The outcomes of everything that a partition of the join has read.

    ``events`` = matched + expired + dropped + pending, and ``labels`` = the sum of what follows it.
    """

    events: int = 0
    matched: int = 0
    expired: int = 0
    pending: int = 0
    unlabelled: int = 0
    duplicates: int = 0
    withdrawn: int = 0
    bad_events: int = 0

    labels: int = 0
    used: int = 0
    corrections: int = 0
    repeated: int = 0
    replaced: int = 0
    retracted: int = 0
    ignored: int = 0
    unmatched: int = 0
    bad_labels: int = 0
    waiting: int = 0

    remembered: int = 0
    evicted: int = 0
    tombstones: int = 0

    @property
    def dropped(self) -> int:
        """Events of which nothing is published: without a label, duplicates, withdrawn, or bad."""
        return self.unlabelled + self.duplicates + self.withdrawn + self.bad_events

    def by_name(self) -> dict[str, int]:
        """Every count, and ``dropped``."""
        return msgspec.structs.asdict(self) | {"dropped": self.dropped}
