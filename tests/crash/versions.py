"""Versions of a model in mid-stream, for the crash campaign: the stream, and whose model each record was explained under.

``python -m tests.crash.versions`` reads the settings of a sidecar from its environment and its topics from their first byte, and prints as
JSON the explanations that are not what the model of their version says of its own records (``tests.versions``).
"""

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from benchmarks.oracle import read_topic
from explain_sidecar.settings import load_settings
from tests.crash.streams import ALARMS, Fed, Stream
from tests.versions import EXPLAINERS, NOBODY, misattributed, predicted, records, write

EACH = 120
"""Records of a partition until the next version is rolled out."""

LATE = 30
"""Records of a partition after the first of a version until its model is there."""


def versions() -> Stream:
    """A version follows the other; the next takes over little by little, the one before comes back for some records.

    The slices take turns: in one the partitions wait for each model, which comes after the first of its records; in the next the models are
    there, and records of a version that never will be are dead letters.
    """
    folder = tempfile.TemporaryDirectory()
    slices: list[Path] = []
    served: set[str] = set()
    to_come: list[str] = []

    def environment(number: int) -> dict[str, str]:
        place = Path(folder.name, str(number))
        place.mkdir(exist_ok=True)
        slices.append(place)
        served.clear()
        to_come.clear()
        waits = number % 2 == 0
        if not waits:
            write(place, *(f"v{i}" for i in range(1_000)))
        models = {"close_after": 100, "max_open": 2, "unknown": "wait" if waits else "dead_letter"}
        return {
            "EXPLAIN_MODELS": json.dumps({**models, "pattern": str(place / "{version}.json")}),
            "EXPLAIN_RECORD__MODEL_VERSION": "served_by",
            "EXPLAIN_RECORD__PREDICTION": "p",
            "EXPLAIN_EXPLAINERS": json.dumps(EXPLAINERS),
            "EXPLAIN_EMIT__EVERY": "5",
            "EXPLAIN_ALARMS": json.dumps(ALARMS),
        }

    def fed(partitions: int, seed: int) -> Iterator[Fed]:
        rng, waits = random.Random(seed), not any(slices[-1].iterdir())
        for index in count():
            past = index // partitions
            newest, into = divmod(past, EACH)
            number = newest + (rng.random() < into / EACH) - (rng.random() < 0.05)
            version = f"v{max(number, 0)}"
            if waits and version not in served:
                served.add(version)
                to_come.append(version)
            if past % EACH > LATE:
                write(slices[-1], *to_come)
                to_come.clear()
            yield Fed(index % partitions, _value(rng, version, waits), [])

    def last(partitions: int) -> Sequence[Fed]:
        write(slices[-1], *to_come)
        return ()

    return Stream(fed, environment, rate=120, last=last, checks=("tests.crash.versions",))


def _value(rng: random.Random, version: str, waits: bool) -> bytes:
    (x,) = records([version], seed=rng.randrange(2**31))
    x["p"] = predicted(version, x) if rng.random() < 0.98 else rng.random()
    bad = [{"served_by": None}, {"label": None}, {"p": 1.5}, *([] if waits else [{"served_by": NOBODY}] * 3)]
    if rng.random() < 0.03:
        x |= rng.choice(bad)
    return b"{" if rng.random() < 0.01 else json.dumps(x).encode()


def main() -> int:
    settings = load_settings()
    differences: list[str] = []
    inputs = read_topic(settings, settings.topics.records, differences)
    outputs = read_topic(settings, settings.topics.explanations, differences)
    served: Counter[str] = Counter()
    for partition, messages in inputs.items():
        explanations = [message.value() for message in outputs.get(partition, [])]
        values = [message.value() for message in messages]
        differences += misattributed(settings, partition, values, explanations)
        served.update(json.loads(value or b"{}")["version"]["name"] for value in explanations)
    if len(served) < 2:
        differences.append(f"explanations: of the versions {list(served)} only")
    sys.stdout.write(json.dumps({"differences": differences, "versions": len(served)}) + "\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
