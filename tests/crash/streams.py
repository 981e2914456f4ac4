"""What the proofs of this folder feed the workers: records, with the settings and the faults that go with them."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, get_args

from river import datasets

from benchmarks import KEY_FILE
from explain_sidecar.commands.csv_rows import converters_of, read_rows
from explain_sidecar.settings.drift import Watched
from explain_sidecar.settings.records import Format
from tests import evolving
from tests.broker import raw
from tests.broker.harness import mixed_records
from tests.crash.faults import KINDS, SUPERVISED_KINDS, Fault
from tests.crash.models import Task
from tests.crash.proxy import SESSION_SECONDS
from tests.crash.registry import SchemaServer
from tests.evolving import FORMATS

SLICE = 25

Headers = list[tuple[str, bytes | None]]


class Fed(NamedTuple):
    """A record of the input. ``odd`` are headers whose names are any bytes, in place of the others.

    ``topic`` is one of the stream's ``inputs``. An empty ``key`` is that of the partition, and without a ``timestamp`` it has the time at
    which it is fed.
    """

    partition: int
    value: bytes | None
    headers: Headers
    odd: raw.Headers = ()
    topic: str = "records"
    key: bytes | None = b""
    timestamp: int = 0


@dataclass(frozen=True)
class Stream:
    """``records`` takes the number of partitions and a seed; ``environment`` the number of the slice.

    ``supervised``: what is started and killed is ``explain-sidecar run`` with its workers, else workers alone. ``slice`` is the number
    of faults between two verdicts. ``rate`` is in records a second. ``stages`` take turns with the slots of workers; the first of them
    reads ``inputs``, each other what the one before it writes. ``last`` takes the number of partitions: what is fed at the end.
    ``oracle`` is a module that compares the topics with what they must contain; ``checks`` look at them after it, and print what they find as it does.
    ``faults`` are kinds of its own, and ``partitions`` how many there are at the beginning.
    ``broker`` has properties of its own. ``registry`` goes away once its schemas are known to every partition. With ``marked`` bad records have the header ``BAD``, and no others may
    become dead letters.
    """

    records: Callable[[int, int], Iterator[Fed]]
    environment: Callable[[int], dict[str, str]] = lambda number: {}
    kinds: Sequence[str] = tuple(KINDS)
    slice: int = SLICE
    rate: float = 160
    supervised: bool = False
    stages: Sequence[str] = ("fold",)
    inputs: Sequence[str] = ("records",)
    last: Callable[[int], Sequence[Fed]] = lambda partitions: ()
    oracle: str = "benchmarks.oracle"
    checks: Sequence[str] = ()
    faults: Mapping[str, Fault] = field(default_factory=dict)
    partitions: int = 8
    broker: Mapping[str, str] = field(default_factory=dict)
    registry: SchemaServer | None = None
    marked: bool = False


def _mixed(partitions: int, seed: int) -> Iterator[Fed]:
    for partition, value in mixed_records(partitions, 10**6, seed, bad_every=50):
        yield Fed(partition, value, [])


MIXED = Stream(_mixed)

MAX_BYTES, MAX_STRING, MAX_FEATURES = 4_000, 200, 40
"""Limits on records, so low that breaking them is cheap."""

ALARMS = {
    "enabled": True,
    "one_in": 1_000,
    "min_change": 0.0,
    "warm_up": 50,
    "baseline": 50,
    "subjects": ["loss", "gain", "importance", "missing", "rejected"],
}
"""So that alarms come within some hundred records, false ones among them."""

SEGMENTED = [{"kind": "ipfi", "by": "city", "segments": 5}, {"kind": "isage"}]
"""Five cities of thirty are kept apart, the others are one segment."""


SINGLE, SECOND, LATE = 150, 250, 400
"""Records of a partition until a feature gets its second category, another its late one, and another comes up."""


ODD = {
    "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE": str(KEY_FILE),
    "EXPLAIN_RECORD__MAX_BYTES": str(MAX_BYTES),
    "EXPLAIN_RECORD__MAX_STRING": str(MAX_STRING),
    "EXPLAIN_RECORD__MAX_FEATURES": str(MAX_FEATURES),
    "EXPLAIN_EXPLAINERS": json.dumps(SEGMENTED),
}
"""Of the records of ``_odd``."""


def all_models() -> Stream:
    """Mixed features with rare and late categories and gaps, 1 % bad records of all kinds, odd headers, models of all families.

    With alarms on everything, and segments. The slices take turns with classification and regression, and every two of them with
    attributions that alarms ask for and drift windows; in each a partition has a model that its seed draws.
    """

    def environment(number: int) -> dict[str, str]:
        task = TASKS[number % len(TASKS)]
        return ODD | {
            "EXPLAIN_MODEL__TASK": task,
            "EXPLAIN_MODEL__FACTORY": "tests.crash.models:drawn",
            "EXPLAIN_MODEL__PARAMS": json.dumps({"task": task}),
            "EXPLAIN_ALARMS": json.dumps(ALARMS | {"subjects": [*ALARMS["subjects"], "segments"]}),
            "EXPLAIN_DRIFT__ON_ALARM": json.dumps(number // len(TASKS) % 2 == 0),
        }

    return Stream(_odd, environment, rate=40)


def _odd(partitions: int, seed: int) -> Iterator[Fed]:
    rng = random.Random(seed)
    for index in count():
        partition, past = index % partitions, index // partitions
        x = features(rng, past)
        value = _bad(rng, x) if rng.random() < 0.01 else json.dumps(x).encode()
        odd = value is not None and rng.random() < 0.002
        yield Fed(partition, value, _headers(rng), UNREADABLE if odd else ())


def _supervised(
    records: Callable[[int, int], Iterator[Fed]], environment: dict[str, str], rate: float
) -> Stream:
    return Stream(
        records,
        lambda number: environment,
        SUPERVISED_KINDS,
        slice=2 * len(SUPERVISED_KINDS),
        rate=rate,
        supervised=True,
    )


def all_options() -> Stream:
    """The records of ``all_models`` under the default model, supervised, with all that can be switched on beside it; those without a label are predicted."""
    environment = ODD | {
        "EXPLAIN_MODEL__TASK": "multiclass",
        "EXPLAIN_CHALLENGER__FACTORY": "river.tree:HoeffdingTreeClassifier",
        "EXPLAIN_CHALLENGER__SHIFT_EVERY": "20",
        "EXPLAIN_ALARMS": json.dumps(ALARMS | {"subjects": get_args(Watched)}),
        "EXPLAIN_DRIFT__ON_ALARM": "true",
        "EXPLAIN_EXPLAIN__ESTIMATED_LOSS": "true",
        "EXPLAIN_PARTIAL_DEPENDENCE": json.dumps({"top": 2, "label": 1}),
        "EXPLAIN_PREDICTIONS": json.dumps({"enabled": True, "every": 10}),
        "EXPLAIN_RECORD__UNLABELLED": "predict",
        "EXPLAIN_ROWS__ENABLED": "true",
    }
    return _supervised(_odd, environment, 40)


def new_protocol() -> Stream:
    """The records of ``MIXED`` under the group protocol of KIP-848, whose session timeout and heartbeats are the broker's."""
    timeouts = {"session.timeout.ms": round(1000 * SESSION_SECONDS), "heartbeat.interval.ms": 500}
    limits = {
        f"group.consumer.{least}{name}": str(value)
        for name, value in timeouts.items()
        for least in ("", "min.")
    }
    environment = {"EXPLAIN_KAFKA__GROUP_PROTOCOL": "consumer", "EXPLAIN_KAFKA__CONFIG": "{}"}
    return replace(
        MIXED, environment=lambda number: environment, broker={"process.roles": "broker", **limits}
    )


BAD = "bad"

EVOLVED = 90
"""Records of a partition until all versions of the schema have come."""


def formats() -> Stream:
    """Records in Avro, Protobuf, by a JSON Schema and in JSON, slice by slice, through three versions of their schema; 1 % are bad."""
    server, given = SchemaServer(), (*FORMATS, "json")

    def environment(number: int) -> dict[str, str]:
        server.format = given[number % len(given)]
        return {
            "EXPLAIN_RECORD__FORMAT": server.format,
            "EXPLAIN_REGISTRY__URL": server.url,
            "EXPLAIN_REGISTRY__FORMAT": "none",
        }

    def records(partitions: int, seed: int) -> Iterator[Fed]:
        rng = random.Random(seed)
        for index in count():
            versions = min(3, 1 + index // partitions // (EVOLVED // 3))
            value = _encoded(server.format, rng.randrange(versions), evolving.record(rng))
            if rng.random() < 0.01:
                broken = [None, b"", value[:-1], value[: rng.randrange(len(value))], b"\xff" + value, b"\0\0"]
                yield Fed(index % partitions, rng.choice(broken), [(BAD, b"1")])
            else:
                yield Fed(index % partitions, value, [])

    return Stream(records, environment, slice=13, registry=server, marked=True)


def _encoded(format: Format, version: int, record: dict[str, Any]) -> bytes:
    """JSON is that of a JSON Schema without its frame."""
    return (
        evolving.encoded("json_schema", version, record)[5:]
        if format == "json"
        else evolving.encoded(format, version, record)
    )


UNREADABLE = [(b"own", b"1"), (b"\xff\xfebad", b"2"), (b"\xed\xa0\x80", None), (b"", b"no name")]

TASKS: tuple[Task, ...] = ("multiclass", "regression")


def features(rng: random.Random, past: int) -> dict[str, Any]:
    """A valid record that comes after so many of its partition; the label is a class and a number."""
    x: dict[str, Any] = {
        "a": rng.gauss(0, 1),
        "b": rng.randrange(5),
        "flag": rng.random() < 0.3,
        "colour": rng.choice(["red", "green", "blue"]),
        "city": f"c{min(int(rng.expovariate(0.4)), 30)}",  # one in ten thousand is the last
        "alone": "main" if past < SINGLE or rng.random() < 0.7 else "other",
        "colour_old": rng.choice("12"),
    }
    if past >= SECOND and rng.random() < 0.2:
        x["colour"] = "teal"
    if rng.random() < 0.003:
        x["colour"] = rng.choice(["", "violet", "old_1", "größe\u2028", "\U0001f999"])
    if past >= LATE:
        x["late"] = rng.random()
        x["later"] = rng.choice("xyz")
    if rng.random() < 0.003:
        x["b"] = rng.choice([2**60, -(2**53) - 1, 1e-310, 1e29, -0.0, True])
    if rng.random() < 0.01:
        x["seldom"] = rng.choice("xyz")
    concept = past // 500 % 2
    score = (
        (1 - 2 * concept) * x["a"]
        + (x["colour"] in ("red", "teal"))
        - concept * (x["alone"] == "other")
        + 0.3 * rng.gauss(0, 1)
    )
    for name in list(x):
        if rng.random() < 0.06:
            x[name] = None
            if rng.random() < 0.5:
                del x[name]
    return {**x, "label": int(score > 0.1) + int(score > 1.0)}


def _bad(rng: random.Random, x: dict[str, Any]) -> bytes | None:
    """A record that is dead-lettered: not JSON, or broken in one place."""
    if rng.random() < 0.4:
        return rng.choice(
            [
                None, b"", b"{", b"[1]", b"null", b"\xff\xfe", b'{"a": NaN, "label": 1}', b'{"a": 1e999, "label": 1}', b'{"label": 1}',
                b'{"a": 1}', b'{"a": "\\ud800", "label": 1}', b"[" * 2_000 + b"]" * 2_000, b'{"a": 1, "label": 1} x', bytes(rng.randbytes(50)),
            ]
        )  # fmt: skip
    broken: list[tuple[str, Any]] = [
        ("label", None), ("label", [1]), ("label", {}), ("label", "x" * (MAX_STRING + 1)), ("a", "one"), ("a", 1e31), ("a", {"b": 1}), ("a", []),
        ("colour", 7), ("colour", "x" * (MAX_STRING + 1)), ("n" * (MAX_STRING + 1), 1), ("padding", "x" * MAX_BYTES),
    ]  # fmt: skip
    changed = (
        {f"x{i}": 1 for i in range(MAX_FEATURES + 1)} if rng.random() < 0.1 else dict([rng.choice(broken)])
    )
    return json.dumps({**x, **changed}).encode()


def _headers(rng: random.Random) -> Headers:
    """Mostly none; else some that are empty, doubled, binary, long, or have names of our own."""
    if rng.random() < 0.7:
        return []
    trace = b"00-" + rng.randbytes(16).hex().encode() + b"-" + rng.randbytes(8).hex().encode() + b"-01"
    known: Headers = [
        ("traceparent", trace), ("tracestate", b"a=1,b=2"), ("traceparent", b"not one"), ("traceparent", None), ("tracestate", b""),
        ("doubled", b"1"), ("doubled", b"2"), ("", b"no name"), ("binary", rng.randbytes(20)), ("none", None), ("long", b"x" * 1_500),
        ("schema", b"mine"), ("__explain.errors.class", b"mine"), ("__explain.digest", b"0"), ("größe", "größe".encode()),
    ]  # fmt: skip
    return [rng.choice(known) for _ in range(rng.randint(1, 5))]


def default_model(data: Path | None = None, label: str = "class") -> Stream:
    """A table under the default model, over and over: one feature a string, 1.2 % bad records.

    Without a CSV file the table is river's phishing data, the only one of two classes in its package that has several features.
    """
    rows = [_with_a_string(row) for row in (_phishing() if data is None else _csv(data, label))]

    def records(partitions: int, seed: int) -> Iterator[Fed]:
        rng = random.Random(seed)
        for index in count():
            x = rows[index % len(rows)]
            value = b"{" if rng.random() < 0.012 else json.dumps(x).encode()
            yield Fed(index % partitions, value, [])

    environment = {
        "EXPLAIN_EXPLAINERS": json.dumps([{"kind": "ipfi"}, {"kind": "isage"}]),
        "EXPLAIN_DRIFT__WINDOW": "500",
        "EXPLAIN_EMIT__EVERY": "100",
        "EXPLAIN_ALARMS": json.dumps(ALARMS),
    }
    return _supervised(records, environment, 80)


def _phishing() -> Iterator[dict[str, Any]]:
    for x, y in datasets.Phishing():
        yield {**x, "label": int(y)}


def _csv(data: Path, label: str) -> Iterator[dict[str, Any]]:
    converters, _ = converters_of(read_rows("--data", data))
    for row in read_rows("--data", data):
        x = {name: converters[name](cell) for name, cell in row.items() if cell != ""}
        yield {**x, "label": x.pop(label)}


def _with_a_string(x: dict[str, Any]) -> dict[str, Any]:
    """The day of the electricity data, else the first feature, as a string."""
    name = "day" if "day" in x else next(iter(x))
    return {**x, name: str(x[name])} if name in x else x
