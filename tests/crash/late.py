"""Events and labels for the join under faults."""

import heapq
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from tests.crash.faults import KINDS
from tests.crash.streams import Fed, Stream, features

WAIT = 60_000
"""Milliseconds of event time, about as many of the clock: longer than a fault lasts."""

SURE = 20_000
"""A label that comes so much before the wait is over is in time, and one so much after it is not, however the topics were read."""

STEP = 50
BEGIN, FAR = 1_700_000_000_000, 1_900_000_000_000
LEAP = 10 * 365 * 86_400_000

NOT_HERE = ("crash point reset.before", "crash point dead_letters.read")
"""Of commands, which a worker does not come to."""

IMPLIED = 0


def late_labels() -> Stream:
    """Events of all features, their labels later by an exponential delay: late, twice, corrected, taken back, early, or never.

    1 % of the records cannot be joined, and as many can but not be folded.
    """
    environment = {
        "EXPLAIN_RECORD__TIMESTAMP": "at",
        "EXPLAIN_RECORD__ID": "id",
        "EXPLAIN_JOIN__EVENTS__TIMESTAMP": "at",
        "EXPLAIN_JOIN__LABELS__TIMESTAMP": "at",
        "EXPLAIN_JOIN__WAIT": str(WAIT / 1_000),
        "EXPLAIN_JOIN__UNLABELLED": str(IMPLIED),
        "EXPLAIN_JOIN__CORRECTIONS": "emit",
        "EXPLAIN_JOIN__REMEMBER": "1000000",
    }
    return Stream(
        _records,
        lambda number: environment,
        kinds=tuple(kind for kind in KINDS if kind not in NOT_HERE),
        rate=45,
        stages=("join", "fold"),
        checks=("tests.crash.joined",),
        inputs=("events", "labels"),
        last=lambda partitions: [
            _event(partition, f"end-{partition}-{n}", FAR + n, {"a": 1.0})
            for partition in range(partitions)
            for n in range(3)
        ],
    )


def predictions() -> Stream:
    """The events and labels of ``late_labels``, each event published at once too: it is predicted without its label, and settled when that comes.

    Of one record in two the prediction is told with its reasons, and of each whose event was told.
    """
    late = late_labels()
    told = {"enabled": True, "every": 2, "most": 1, "remember": 50}
    environment = late.environment(0) | {
        "EXPLAIN_JOIN__AT_ONCE": "true",
        "EXPLAIN_RECORD__UNLABELLED": "predict",
        "EXPLAIN_PREDICTIONS": json.dumps(told),
    }
    return replace(late, environment=lambda number: environment, rate=20)


def _records(partitions: int, seed: int) -> Iterator[Fed]:
    """In the order of their times, all of a partition's on it."""
    rng, order = random.Random(seed), count()
    due: list[tuple[int, int, Fed]] = []
    for index in count():
        now, partition = BEGIN + STEP * index, index % partitions
        for at, fed in _about_one(rng, partition, f"{partition}-{index}", index // partitions, now):
            heapq.heappush(due, (at, next(order), fed))
        while due and due[0][0] <= now:
            yield heapq.heappop(due)[2]


def _about_one(rng: random.Random, partition: int, id: str, past: int, at: int) -> Iterator[tuple[int, Fed]]:
    """What comes of one event, and when: here ``at`` or later."""
    x = features(rng, past)
    label = x.pop("label")
    if rng.random() < 0.01:
        x["a"] = rng.choice(["one", 1e31, {"b": 1}, []])
    kind = rng.choices(
        (
            "once",
            "never",
            "twice",
            "corrected",
            "late",
            "early",
            "retracted",
            "withdrawn",
            "doubled",
            "leaping",
        ),
        (50, 10, 6, 9, 6, 5, 4, 4, 5, 1),
    )[0]
    early = rng.randrange(1_000, 9_000) if kind in ("early", "retracted") else 0
    happened = at + early
    yield happened, _event(partition, id, happened, x)
    delay = min(WAIT - SURE - 10_000, int(rng.expovariate(1 / 5_000)))
    if kind == "late":
        delay = WAIT + SURE + rng.randrange(1, 40_000)
    came = at if early else at + delay
    if kind != "never":
        time = came - LEAP if kind == "leaping" else came
        yield came, _label(partition, id, time, label)
    if kind in ("twice", "corrected"):
        again = came + rng.randrange(1, 20_000)
        yield again, _label(partition, id, again, label + (kind == "corrected"))
    if kind == "retracted":
        yield at + 500, Fed(partition, None, [], topic="labels", key=id.encode(), timestamp=at + 500)
    if kind == "withdrawn":
        taken = at + rng.randrange(1, 5_000)
        yield taken, Fed(partition, None, [], topic="events", key=id.encode(), timestamp=taken)
    if kind == "doubled":
        again = at + rng.randrange(1, 30_000)
        yield again, _event(partition, id, at, x)
    if rng.random() < 0.02:
        yield at, _bad(rng, partition, id, at)


def _event(partition: int, id: str, at: int, x: dict[str, Any]) -> Fed:
    return Fed(
        partition,
        json.dumps({**x, "at": at, "id": id}).encode(),
        [("own", b"1")],
        topic="events",
        key=id.encode(),
    )


def _label(partition: int, id: str, at: int, label: int) -> Fed:
    return Fed(
        partition, json.dumps({"at": at, "label": label}).encode(), [], topic="labels", key=id.encode()
    )


def _bad(rng: random.Random, partition: int, id: str, at: int) -> Fed:
    key: bytes | None
    key, value, topic = rng.choice(
        [
            (b"b", b"{", "events"), (b"b", b"", "events"), (b"b", b"[1]", "events"), (b"b", b'{"at": "soon"}', "events"),
            (None, b'{"at": 1}', "events"), (None, None, "events"), (b"b" * 1_001, b'{"at": 1}', "events"),
            (b"b", b"null", "labels"), (b"b", b"\xff\xfe", "labels"), (None, b'{"at": 1, "label": 1}', "labels"), (None, None, "labels"),
            (id.encode(), b'{"at": %d}' % at, "labels"), (id.encode(), b'{"at": %d, "label": [1]}' % at, "labels"),
            (id.encode(), b'{"at": %d, "label": null}' % at, "labels"), (id.encode(), b'{"at": null, "label": 1}', "labels"),
        ]
    )  # fmt: skip
    return Fed(partition, value, [], topic=topic, key=key)
