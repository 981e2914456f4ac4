"""A dashboard's feed, and the messages of a fold that fill it."""

import json
import random
from functools import cache
from typing import Any

from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.views import ViewSelection
from explain_sidecar.settings import Settings, load_settings

ENVIRONMENT = {
    "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "EXPLAIN_EXPLAINERS": '[{"kind": "ipfi", "alpha": 0.02, "reservoir": {"size": 20}}]',
    "EXPLAIN_EMIT__EVERY": "2",
    "EXPLAIN_DRIFT__ENABLED": "true",
    "EXPLAIN_DRIFT__WINDOW": "100",
    "EXPLAIN_DRIFT__BOOTSTRAP": "10",
    "EXPLAIN_ALARMS__ENABLED": "true",
    "EXPLAIN_ALARMS__ONE_IN": "1000",
    "EXPLAIN_ALARMS__WARM_UP": "100",
    "EXPLAIN_ALARMS__BASELINE": "100",
}


def settings(**environment: str) -> Settings:
    return load_settings(environ={**ENVIRONMENT, **environment})


@cache
def outputs(count: int = 700) -> list[tuple[str, Any]]:
    """Messages of a partition whose label follows `signal`, then from the middle on `turned`; every 50th record is bad."""
    state, rng = PartitionState(settings(), 0), random.Random(1)
    found: list[tuple[str, Any]] = []
    for offset in range(count):
        x: dict[str, Any] = {name: rng.gauss(0, 1) for name in ("signal", "turned")}
        x |= {f"noise{n}": rng.random() for n in range(9)}
        x["label"] = int(x["signal" if offset < count // 2 else "turned"] > 0)
        value = b"{" if offset % 50 == 49 else json.dumps(x).encode()
        for output in state.step(InputRecord(offset, 1_700_000_000_000 + offset * 60_000, b"k", value)):
            found.append((output.destination, output))
    return found


def fed(upto: int | None = None, **environment: str) -> Feed:
    feed = Feed(settings(**environment))
    feed.problem = None  # as when it is connected
    for destination, output in outputs()[:upto]:
        if destination == "explanations":
            feed.explanation(0, output.value)
        elif destination == "drift":
            feed.change(0, output.value)
        elif destination == "alarms":
            feed.alarm(0, output.value)
        else:
            feed.letter(0, InputRecord(0, 1_700_000_000_000, output.key, output.value, output.headers))
    return feed


def newest() -> dict[str, Any]:
    return json.loads(
        [output.value for destination, output in outputs() if destination == "explanations"][-1]
    )  # type: ignore[no-any-return]


IMPORTANCE = ViewSelection(view="importance")

PREDICTED = {
    "EXPLAIN_RECORD__ID": "id",
    "EXPLAIN_RECORD__UNLABELLED": "predict",
    "EXPLAIN_RECORD__MAX_STRING": "50",
    "EXPLAIN_PREDICTIONS__ENABLED": "true",
    "EXPLAIN_PREDICTIONS__MOST": "10",
    "EXPLAIN_PREDICTIONS__REMEMBER": "10",
}


@cache
def predicted(partition: int = 0) -> list[Any]:
    """Messages about records `r0` to `r60`, of which `r40` comes without its label, and with it once more at the end; that of offset 41 has no id."""
    state, rng = PartitionState(settings(**PREDICTED), partition), random.Random(partition)
    found: list[Any] = []
    for offset in range(62):
        x: dict[str, Any] = {name: rng.gauss(0, 1) for name in ("signal", *(f"noise{n}" for n in range(7)))}
        x |= {"id": "r40" if offset == 61 else f"r{offset}", "label": x["signal"] > 0}
        x.pop({40: "label", 41: "id"}.get(offset), None)
        value = json.dumps(x).encode()
        found += state.step(InputRecord(offset, 1_700_000_000_000 + offset * 60_000, b"k", value))
    return found
