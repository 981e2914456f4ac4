"""What the proofs of this folder feed the workers: records, with the settings and the faults that go with them."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from river import datasets

from service.csv_rows import converters_of, read_rows
from tests.broker.harness import mixed_records
from tests.crash.faults import KINDS, SUPERVISED_KINDS

SLICE = 25

Headers = list[tuple[str, bytes | None]]


class Fed(NamedTuple):
    """A record of the input."""

    partition: int
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class Stream:
    """``records`` takes the number of partitions and a seed; ``environment`` the number of the slice.

    ``supervised``: what is started and killed is ``explain-sidecar run`` with its workers, else workers alone. ``slice`` is the number
    of faults between two verdicts.
    """

    records: Callable[[int, int], Iterator[Fed]]
    environment: Callable[[int], dict[str, str]] = lambda number: {}
    kinds: Sequence[str] = tuple(KINDS)
    slice: int = SLICE
    supervised: bool = False


def _mixed(partitions: int, seed: int) -> Iterator[Fed]:
    for partition, value in mixed_records(partitions, 10**6, seed, bad_every=50):
        yield Fed(partition, value, [])


MIXED = Stream(_mixed)


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
    }
    return Stream(
        records, lambda number: environment, SUPERVISED_KINDS, slice=len(SUPERVISED_KINDS), supervised=True
    )


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
