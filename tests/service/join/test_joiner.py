"""The join of one partition: time lines written by hand, and any sequence against brute force."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explain_sidecar.errors import RecoveryError
from explain_sidecar.join.entries import Counts, Event, Joined, Label
from explain_sidecar.join.joiner import Joiner, Progress, Rules
from explain_sidecar.join.store import Store, restore
from tests.service.join.local import Memory
from tests.service.join.oracle import Oracle, Read

DROP = Rules(wait=100)
IMPLY = Rules(wait=100, implied=b"0")
EMIT = Rules(wait=100, implied=b"0", corrections=True, remember=50)


class Joins:
    """A join that is committed, restarted and restored at will. ``changelog`` is the topic, compacted."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.local = Memory()
        self.changelog: dict[bytes, bytes | None] = {}
        self.saved = msgspec.msgpack.encode(Progress())
        self.restart()

    def restart(self) -> None:
        """From what is committed, with the local store that is there."""
        self.joiner = Joiner(
            self.rules, store := Store(self.local), msgspec.msgpack.decode(self.saved, type=Progress)
        )
        self.store = store

    def commit(self) -> None:
        changes = self.store.changes()
        self.changelog.update(changes)
        self.saved = msgspec.msgpack.encode(self.joiner.progress)
        self.store.committed(changes, b"")

    def restore(self) -> None:
        """From the changelog alone."""
        self.local = Memory()
        restore(self.local, self.changelog, b"", "here")
        self.restart()

    def read_ahead(self) -> None:
        """What the local store has of every id."""
        self.store.read([str(id).encode() for id in range(6)])

    def read(self, record: Read) -> list[tuple[int, int, int, str, int | None]]:
        id, timestamp = str(record.id).encode(), record.timestamp
        due, more = self.joiner.ahead_of(timestamp, 2)
        while more:
            if len(due) % 4 == 0:
                self.commit()
                self.restart()
            found, more = self.joiner.ahead_of(timestamp, 2)
            due += found
        if record.what == "event":
            event = Event(id, timestamp, b'{"n":%d' % record.value, b"k", (("h", b"1"),), 3)
            joined = self.joiner.event(event)
        elif record.what == "label":
            joined = self.joiner.label(Label(id, timestamp, b"%d" % record.value))
        else:
            joined = getattr(self.joiner, record.what)(id, timestamp)
        return [_short(output) for output in due + joined]

    def counts(self) -> Counts:
        return self.joiner.progress.counts


def _short(joined: Joined) -> tuple[int, int, int, str, int | None]:
    event = joined.event
    assert event.body.startswith(b'{"n":') and (event.key, event.headers, event.partition) == (
        b"k",
        (("h", b"1"),),
        3,
    )
    return int(event.id), event.timestamp, int(joined.label), joined.outcome, joined.label_timestamp


def event(id: int, timestamp: int) -> Read:
    return Read("event", id, timestamp, id)


def label(id: int, timestamp: int, value: int = 1) -> Read:
    return Read("label", id, timestamp, value)


def passes(timestamp: int, first: int) -> list[Read]:
    """Stream time comes to a timestamp, by events with new ids: one clock alone would not move it."""
    return [event(first + n, timestamp) for n in range(3)]


LINES = {
    "label after event": (DROP, [event(1, 0), label(1, 100)], [(1, 0, 1, "matched", 100)], {"matched": 1}),
    "label before event": (DROP, [label(1, 0), event(1, 40)], [(1, 40, 1, "matched", 0)], {"matched": 1}),
    "label twice": (
        DROP,
        [event(1, 0), label(1, 1), label(1, 2)],
        [(1, 0, 1, "matched", 1)],
        {"repeated": 1},
    ),
    "corrected before the event": (
        DROP,
        [label(1, 0), label(1, 1, 7), event(1, 2)],
        [(1, 2, 7, "matched", 1)],
        {"replaced": 1},
    ),
    "corrected, ignored": (
        DROP,
        [event(1, 0), label(1, 1), label(1, 2, 7)],
        [(1, 0, 1, "matched", 1)],
        {"ignored": 1},
    ),
    "corrected, emitted": (
        EMIT,
        [event(1, 0), label(1, 1), label(1, 2, 7), label(1, 3, 7)],
        [(1, 0, 1, "matched", 1), (1, 0, 7, "corrected", 2)],
        {"matched": 1, "corrections": 1, "repeated": 1},
    ),
    "retracted before the event": (
        IMPLY,
        [label(1, 0), Read("withdraw_label", 1, 1), event(1, 2), *passes(102, 2), *passes(103, 5)],
        [(1, 2, 0, "expired", None)],
        {"retracted": 1, "expired": 1, "pending": 6},
    ),
    "retracted too late": (
        EMIT,
        [event(1, 0), label(1, 1), Read("withdraw_label", 1, 2)],
        [(1, 0, 1, "matched", 1)],
        {"retracted": 0, "tombstones": 1},
    ),
    "after expiry": (
        IMPLY,
        [event(1, 0), *passes(101, 2), label(1, 101)],
        [(1, 0, 0, "expired", None)],
        {"expired": 1, "waiting": 1},
    ),
    "after expiry, remembered": (
        EMIT,
        [event(1, 0), *passes(101, 2), label(1, 101), label(1, 102, 0)],
        [(1, 0, 0, "expired", None), (1, 0, 1, "corrected", 101), (1, 0, 0, "corrected", 102)],
        {"expired": 1, "corrections": 2},
    ),
    "dropped": (
        DROP,
        [event(1, 0), *passes(100, 2), *passes(101, 5)],
        [],
        {"unlabelled": 1, "pending": 6},
    ),
    "event twice": (
        DROP,
        [event(1, 0), event(1, 5), label(1, 6), event(1, 7)],
        [(1, 0, 1, "matched", 6)],
        {"events": 3, "matched": 1, "duplicates": 2},
    ),
    "event withdrawn": (
        IMPLY,
        [event(1, 0), Read("withdraw_event", 1, 1), label(1, 2)],
        [],
        {"withdrawn": 1, "ignored": 1},
    ),
    "quiet labels": (
        IMPLY,
        [event(id, 30 * id) for id in range(8)],
        [(0, 0, 0, "expired", None), (1, 30, 0, "expired", None)],
        {"expired": 2, "pending": 6},
    ),
    "two clocks are ahead by less than wait": (
        IMPLY,
        [event(1, 0), event(2, 100), event(3, 100), event(4, 1), label(1, 2), label(4, 50), label(5, 60)],
        [(1, 0, 1, "matched", 2), (4, 1, 1, "matched", 50)],
        {"matched": 2, "expired": 0, "pending": 2},
    ),
    "the first clock is ahead by less than wait": (
        IMPLY,
        [event(1, 90), event(2, 0), event(3, 1), event(4, 2), event(5, 3), label(2, 90)],
        [(2, 0, 1, "matched", 90)],
        {"matched": 1, "expired": 0, "pending": 4},
    ),
    "one clock leaps ahead": (
        IMPLY,
        [event(1, 0), event(2, 10**12), event(3, 1), label(1, 2)],
        [(1, 0, 1, "matched", 2)],
        {"matched": 1, "pending": 2, "expired": 0},
    ),
    "time has gone on": (
        IMPLY,
        [event(1, 0), event(2, 5000), event(3, 5001), event(4, 5002)],
        [(1, 0, 0, "expired", None)],
        {"expired": 1, "pending": 3},
    ),
    "all clocks were ahead, and come back": (
        IMPLY,
        [event(1, 10**9), event(2, 0), event(3, 1), event(4, 2), event(5, 50), label(5, 60)],
        [(2, 0, 0, "expired", None), (3, 1, 0, "expired", None), (5, 50, 1, "matched", 60)],
        {"expired": 2, "pending": 2},
    ),
    "too many": (
        Rules(wait=100, implied=b"0", max_pending=2),
        [label(9, 0), event(1, 3), event(2, 2), event(3, 4)],
        [(2, 2, 0, "expired", None)],
        {"unmatched": 1, "expired": 1, "evicted": 2, "pending": 2},
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_time_line(name: str) -> None:
    rules, records, published, counts = LINES[name]
    joins, oracle = Joins(rules), Oracle(rules)
    assert [output for record in records for output in joins.read(record)] == published
    assert [output for record in records for output in oracle.read(record)] == published
    found = msgspec.structs.asdict(joins.counts())
    assert {key: found[key] for key in counts} == counts


def test_wrong_clocks_that_are_rare_never_move_time_and_those_of_long_ago_are_forgotten() -> None:
    joins = Joins(IMPLY)
    out = [joins.read(event(n, 99 if n % 60 == 5 else 0)) for n in range(1_000)]
    assert not any(out) and joins.joiner.progress.time == 0


TIMES = st.one_of(st.integers(0, 400), st.integers(0, 400), st.sampled_from([-(10**15), 10**15, 2**62]))
RECORDS = st.builds(
    Read,
    st.sampled_from(["event", "event", "label", "label", "label", "withdraw_event", "withdraw_label"]),
    st.integers(0, 5),
    TIMES,
    st.integers(0, 2),
)
RULES = st.builds(
    Rules,
    wait=st.sampled_from([0, 30, 100, 1000]),
    implied=st.sampled_from([None, b"0"]),
    corrections=st.booleans(),
    remember=st.sampled_from([0, 60]),
    max_pending=st.sampled_from([1, 3, 1000]),
)
STEPS = st.lists(
    st.one_of(RECORDS, RECORDS, RECORDS, st.sampled_from(["read_ahead", "commit", "restart", "restore"])),
    max_size=60,
)


@settings(max_examples=400, derandomize=True, database=None, deadline=None)
@given(rules=RULES, steps=STEPS)
def test_any_sequence_joins_as_by_brute_force_whenever_it_is_committed_or_restored(
    rules: Rules, steps: list[Read | str]
) -> None:
    joins, oracle = Joins(rules), Oracle(rules)
    events = labels = 0
    for step in steps:
        if step == "read_ahead":
            joins.read_ahead()
            continue
        if isinstance(step, str):
            joins.commit()
            if step != "commit":
                getattr(joins, step)()
            continue
        assert joins.read(step) == oracle.read(step)
        events += step.what == "event"
        labels += step.what == "label"
    counts, fates = joins.counts(), oracle.counts()
    assert counts.events == events == counts.matched + counts.expired + counts.dropped + counts.pending
    assert counts.labels == labels
    of_events = {"matched": "matched", "expired": "expired", "open": "pending", "unlabelled": "unlabelled"}
    of_events |= {"duplicate": "duplicates", "withdrawn": "withdrawn"}
    of_labels = {"used": "used", "correction": "corrections", "repeated": "repeated", "replaced": "replaced"}
    of_labels |= {"withdrawn": "retracted", "ignored": "ignored", "unmatched": "unmatched", "open": "waiting"}
    for what, names in (("event", of_events), ("label", of_labels)):
        for fate, name in names.items():
            assert getattr(counts, name) == fates.pop(f"{what} {fate}", 0), name
    assert not fates


def test_what_was_read_ahead_of_a_commit_is_not_used_after_it() -> None:
    joins = Joins(DROP)
    assert joins.read(event(1, 1)) == []
    joins.read_ahead()
    joins.commit()
    assert joins.read(label(1, 2)) == [(1, 1, 1, "matched", 2)]


def test_what_was_published_when_corrections_were_ignored_is_not_published_again_without_its_fields() -> None:
    joins = Joins(DROP)
    assert len(joins.read(event(1, 1)) + joins.read(label(1, 2))) == 1
    joins.commit()
    joins.rules = EMIT
    joins.restart()
    assert joins.joiner.label(Label(b"1", 3, b"7")) == []
    assert joins.counts().ignored == 1


@pytest.mark.parametrize(
    ("again", "published"), [(b"1", 0), (b"1.0", 0), (b"true", 1), (b"1.5", 1), (b'"1"', 1)]
)
def test_a_label_of_another_number_type_is_no_correction(again: bytes, published: int) -> None:
    joins = Joins(EMIT)
    joins.read(event(1, 1))
    joins.read(label(1, 2))
    assert len(joins.joiner.label(Label(b"1", 3, again))) == published


def test_rows_beyond_those_kept_in_memory_are_found_in_the_local_store() -> None:
    joins = Joins(Rules(wait=1_000_000, implied=b"0"))
    out = []
    for id in range(25_000):
        out += joins.read(event(id, 999_999 - (id * 7919) % 25_000))
        if id % 6_000 == 0:
            joins.commit()
    joins.commit()
    assert out == []
    for step in range(7):
        out += joins.read(event(10**6 + step, 1_988_000 + step * 4_000))
        joins.commit()
    assert [output[1] for output in out] == sorted(output[1] for output in out)
    assert len(out) == 25_000 == joins.counts().expired
    assert sum(map(len, joins.local.index.values())) < 60_000


@pytest.mark.parametrize(
    "value", [b"", b"{}", msgspec.msgpack.encode([3, 1, 1]), msgspec.msgpack.encode([0, "1", 1])]
)
def test_what_is_no_entry_on_the_changelog_is_named_by_its_id(value: bytes) -> None:
    joins = Joins(IMPLY)
    joins.read(event(1, 5))
    joins.commit()
    joins.changelog[b"other"] = value
    with pytest.raises(RecoveryError, match="the entry of the id b'other' on the changelog cannot be read"):
        joins.restore()
