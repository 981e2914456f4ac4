"""What must have become of each event, recomputed from the topics alone: the outcome of the join under faults.

``python -m tests.crash.joined`` reads the settings of a sidecar from its environment, and prints what differs as JSON; its exit status
is 1 where anything does.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from confluent_kafka import Message

from benchmarks.oracle import read_topic
from explain_sidecar.join.changelog import newest
from explain_sidecar.join.topics import account, changelog, join_settings, sources
from explain_sidecar.kafka.clients import reading_consumer
from explain_sidecar.settings import Settings, load_settings
from tests.crash.late import IMPLIED, SURE, WAIT


class Read(NamedTuple):
    """A good record of an input; of a tombstone ``data`` is None."""

    id: bytes
    data: dict[str, Any] | None


class Published(NamedTuple):
    """What a joined record says."""

    outcome: str
    label: Any


class Joined:
    """A partition of the join, from what is on its topics. It knows of the join what its page says, and no line of its code.

    How the two inputs interleave is not known, so that in a few cases more than one outcome is right; see ``_allowed``.
    """

    def __init__(
        self,
        topics: tuple[str, str],
        events: Sequence[Message],
        labels: Sequence[Message],
        records: Sequence[Message],
        letters: Sequence[Message],
    ) -> None:
        self._topics = topics
        self._inputs = (events, labels)
        self._records, self._letters = records, letters
        self.outcomes: Counter[str] = Counter()
        self.events = 0
        """Records of the events topic, tombstones left out."""

    def differences(self, at_once: bool = False) -> list[str]:
        """In words, whatever is not as it must be."""
        events, labels = (
            [_read(entries, which) for entries in read] for which, read in enumerate(self._inputs)
        )
        found = self._lost_letters((events, labels))
        self.events = sum(event is None or event.data is not None for event in events)
        first: dict[bytes, dict[str, Any]] = {}
        withdrawn = {event.id for event in events if event is not None and event.data is None}
        for event in events:
            if event is not None and event.data is not None:
                self.outcomes["duplicate"] += event.id in first
                first.setdefault(event.id, event.data)
        known: dict[bytes, list[dict[str, Any] | None]] = {}
        for late in labels:
            if late is not None:
                known.setdefault(late.id, []).append(late.data)
        published: dict[bytes, list[Published]] = {}
        for message in self._records:
            id = message.key() or b""
            found += _unlike(message, first.get(id), known.get(id, []))
            headers = dict(message.headers() or [])  # type: ignore[arg-type]
            label = json.loads(message.value() or b"{}").get("label")
            published.setdefault(id, []).append(Published(headers["outcome"].decode(), label))
        for id, data in first.items():
            ours = published.get(id, [])
            if at_once:
                ours, alone = _without_event(ours)
                found += [f"{id.decode()}: {ours}: not published at once" for _ in range(not alone)]
                self.outcomes["at once"] += len(published.get(id, [])) - len(ours)
            wrong = _wrong(id, data["at"], ours, known.get(id, []), id in withdrawn)
            found += [f"{id.decode()}: {ours} with {known.get(id)}: {text}" for text in wrong]
            self.outcomes.update(our.outcome for our in ours)
            self.outcomes["withdrawn" if id in withdrawn and not ours else "event"] += 1
        return found

    def _lost_letters(self, read: tuple[list[Read | None], ...]) -> list[str]:
        """Every record that cannot be joined is a dead letter once."""
        bad = [
            (topic, message.offset(), message.value())
            for topic, messages, good in zip(self._topics, self._inputs, read, strict=True)
            for message, kept in zip(messages, good, strict=True)
            if kept is None
        ]
        letters = []
        for letter in self._letters:
            headers = dict(letter.headers() or [])  # type: ignore[arg-type]
            topic, offset = (
                headers["__explain.errors.topic"].decode(),
                int(headers["__explain.errors.offset"]),
            )
            letters.append((topic, offset, letter.value()))
        self.outcomes["dead letter"] += len(letters)
        if Counter(bad) == Counter(letters):
            return []
        return [
            f"dead letters lost: {Counter(bad) - Counter(letters)}; too many: {Counter(letters) - Counter(bad)}"
        ]


def _read(message: Message, which: int) -> Read | None:
    """None for what cannot be joined."""
    id, value = message.key(), message.value()
    if not id or len(id) > 1_000:
        return None
    if value is None:
        return Read(id, None)
    try:
        data = json.loads(value)
    except ValueError:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("at"), int):
        return None
    return None if which and not isinstance(data.get("label"), int) else Read(id, data)


def _unlike(
    message: Message, event: dict[str, Any] | None, labels: Sequence[dict[str, Any] | None]
) -> list[str]:
    """What a record has that neither its event nor a label of it explains."""
    data = json.loads(message.value() or b"{}")
    label, headers = data.pop("label", None), dict(message.headers() or [])  # type: ignore[arg-type]
    if event is None or data != event or headers.get("own") != b"1":
        return [f"record {message.offset()} is no event that was fed"]
    if headers["outcome"] == b"event":
        fine = label is None and "label_timestamp" not in headers
    elif headers["outcome"] == b"expired":
        fine = label == IMPLIED and "label_timestamp" not in headers
    else:
        at = int(headers["label_timestamp"])
        fine = {"at": at, "label": label} in labels and int(headers["label_delay_ms"]) == at - event["at"]
    return [] if fine else [f"record {message.offset()} has a label that is not its event's: {headers}"]


def _without_event(published: list[Published]) -> tuple[list[Published], bool]:
    """What followed its publication without a label, and whether that was as it must be: once, and first; only a label that came before the event spares it."""
    rest = [one for one in published if one.outcome != "event"]
    once = published[:1] == [Published("event", None)] and len(rest) == len(published) - 1
    return rest, once or (rest == published and [one.outcome for one in rest[:1]] == ["matched"])


def _wrong(
    id: bytes, at: int, published: list[Published], labels: list[dict[str, Any] | None], withdrawn: bool
) -> list[str]:
    if id.startswith(b"end-"):
        return ["published before it is due"] if published else []
    if not published:
        return [] if withdrawn else ["no outcome"]
    if [joined.outcome for joined in published[1:]] != ["corrected"] * (len(published) - 1):
        return ["more than one outcome"]
    outcome = published[0].outcome
    times = [label["at"] for label in labels if label is not None]
    # One that is taken back, or is out of time when it is read before its event, may not find it.
    lost = None in labels or any(time < at - WAIT for time in times)
    if outcome == "expired" and not lost and any(time <= at + WAIT - SURE for time in times):
        return ["its label came in time"]
    if outcome == "matched" and all(time >= at + WAIT + SURE for time in times):
        return ["its label came late"]
    if outcome not in ("matched", "expired"):
        return [f"begins with {outcome}"]
    allowed = _allowed(outcome, [None if label is None else label["label"] for label in labels], lost)
    return [] if [joined.label for joined in published] in allowed else ["labels out of order"]


def _allowed(outcome: str, values: list[int | None], lost: bool) -> list[list[int]]:
    """The labels that may be published, one after another.

    Of labels before the event the last counts; a tombstone takes one back that still waits. Then each that differs is published.
    """
    allowed = []
    for before in range(len(values) + 1):
        if outcome == "expired":
            begin, rest = IMPLIED, values[before:]
            if before and not lost:
                continue
        elif before < len(values) and (value := values[before]) is not None:
            begin, rest = value, values[before + 1 :]
        else:
            continue
        every = [begin, *(label for label in rest if label is not None)]
        allowed.append([begin, *(after for label, after in pairwise(every) if label != after)])
    return allowed


def check(settings: Settings) -> tuple[list[str], Counter[str]]:
    """What differs, in words, and how many events had each outcome."""
    differences: list[str] = []
    outcomes: Counter[str] = Counter()
    events, labels = sources(settings)
    letters = join_settings(settings).topics.dead_letters
    topics = (events, labels, settings.topics.records, letters)
    read = [read_topic(settings, topic, differences) for topic in topics]
    reader = reading_consumer(join_settings(settings))
    for partition in read[0]:
        joined = Joined((events, labels), *(log[partition] for log in read))
        found = joined.differences(settings.join.at_once)
        saved = newest(reader, changelog(join_settings(settings)), partition)
        kept = {} if saved is None else account(saved.progress.counts)
        if not kept.pop("events", None) == joined.events == sum(kept.values()):
            found.append(f"{joined.events} events, accounted for {kept}")
        differences += [f"join {partition}: {text}" for text in found]
        outcomes += joined.outcomes
    reader.close()
    return differences, outcomes


def main() -> int:
    differences, outcomes = check(load_settings())
    sys.stdout.write(json.dumps({"differences": differences, "joined": outcomes}) + "\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
