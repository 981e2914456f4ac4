"""What checks the join's campaign: it takes what the join may do, and nothing else."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from tests.crash.joined import Joined
from tests.crash.late import BEGIN, WAIT

Headers = Sequence[tuple[str, bytes]]


class Kept(NamedTuple):
    """A record as a topic gives it back."""

    at: int
    id: bytes | None
    data: Any
    pairs: Headers = ()

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.id

    def value(self) -> bytes | None:
        return (
            self.data if self.data is None or isinstance(self.data, bytes) else json.dumps(self.data).encode()
        )

    def headers(self) -> Headers:
        return self.pairs


def record(at: int, id: str, outcome: str, label: int | None, delay: int | None) -> Kept:
    came = (
        []
        if delay is None
        else [("label_timestamp", b"%d" % (BEGIN + delay)), ("label_delay_ms", b"%d" % delay)]
    )
    pairs = [("own", b"1"), ("outcome", outcome.encode()), *came]
    return Kept(at, id.encode(), {"a": 1, "at": BEGIN, "label": label}, pairs)


Topics = dict[str, list[Kept]]


def topics() -> Topics:
    """An event each that is matched and corrected, expired, doubled, withdrawn; and a bad one."""
    ids = ("corrected", "expired", "doubled", "doubled", "withdrawn")
    events = [Kept(n, id.encode(), {"a": 1, "at": BEGIN}) for n, id in enumerate(ids)]
    events += [Kept(5, b"withdrawn", None), Kept(6, b"bad", b"{")]
    known = [("corrected", 1, 5_000), ("corrected", 2, 9_000), ("doubled", 1, 7_000)]
    letter = [("__explain.errors.topic", b"events"), ("__explain.errors.offset", b"6")]
    return {
        "events": events,
        "labels": [Kept(n, id.encode(), {"at": BEGIN + delay, "label": label}) for n, (id, label, delay) in enumerate(known)],
        "records": [
            record(0, "corrected", "matched", 1, 5_000),
            record(1, "doubled", "matched", 1, 7_000),
            record(2, "corrected", "corrected", 2, 9_000),
            record(3, "expired", "expired", 0, None),
        ],
        "letters": [Kept(0, b"bad", b"{", letter)],
    }  # fmt: skip


def differences(given: Topics) -> list[str]:
    return Joined(("events", "labels"), *given.values()).differences()  # type: ignore[arg-type]


def test_what_the_join_may_do_is_no_difference() -> None:
    given = topics()
    checked = Joined(("events", "labels"), *given.values())  # type: ignore[arg-type]
    assert checked.differences() == []
    assert checked.events == 6
    found = {
        name: checked.outcomes[name] for name in ("matched", "expired", "corrected", "duplicate", "withdrawn")
    }
    assert found == {"matched": 2, "expired": 1, "corrected": 1, "duplicate": 1, "withdrawn": 1}


def _without(topic: str, index: int) -> Callable[[Topics], None]:
    return lambda given: given[topic].pop(index) and None


def _put(topic: str, entry: Kept) -> Callable[[Topics], None]:
    return lambda given: given[topic].append(entry)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (_without("records", 3), "no outcome"),
        (_without("records", 0), "begins with corrected"),
        (_put("records", record(4, "doubled", "matched", 1, 7_000)), "more than one outcome"),
        (_put("records", record(4, "expired", "corrected", 1, 7_000)), "a label that is not its event's"),
        (_put("records", record(4, "bad", "expired", 0, None)), "no event that was fed"),
        (_put("records", record(4, "corrected", "corrected", 1, 5_000)), "labels out of order"),
        (_put("labels", Kept(3, b"expired", {"at": BEGIN + 1_000, "label": 1})), "its label came in time"),
        (lambda given: given["labels"].__setitem__(2, Kept(2, b"doubled", {"at": BEGIN + 2 * WAIT, "label": 1})), "not its event's"),
        (_without("letters", 0), "dead letters lost"),
        (lambda given: given["letters"].append(given["letters"][0]), "too many"),
    ],
)  # fmt: skip
def test_whatever_else_it_does_is_seen(damage: Callable[[Topics], None], expected: str) -> None:
    given = topics()
    damage(given)
    assert any(expected in difference for difference in differences(given)), differences(given)


def test_an_event_that_is_published_at_once_is_so_once_and_first_and_without_a_label() -> None:
    def found(*outcomes: str) -> list[str]:
        given = topics()
        labels = {"event": None, "matched": 1}
        known = [record(n, "doubled", one, labels[one], 7_000 if labels[one] else None) for n, one in enumerate(outcomes)]  # fmt: skip
        given["records"] = known
        joined = Joined(("events", "labels"), *given.values())  # type: ignore[arg-type]
        return [text for text in joined.differences(at_once=True) if text.startswith("doubled")]

    assert found("event", "matched") == found("matched") == []
    for wrong in (("matched", "event"), ("event", "event", "matched"), ("event",)):
        assert found(*wrong), wrong
