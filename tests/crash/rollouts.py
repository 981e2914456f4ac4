"""Settings, partitions and versions that change on a real broker while faults go on: the stream, its faults and its oracle.

``python -m tests.crash.rollouts`` reads the settings of a sidecar from its environment, those that it had before from a file, and its topics from their
first byte. It compares every byte as ``benchmarks.oracle`` does, with states whose settings change where the first snapshot of each epoch says.
"""

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import NewPartitions

from benchmarks import KEY_FILE
from benchmarks.oracle import check, read_topic
from explain_sidecar.crash_points import POINTS
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import load_settings
from tests.changes import Epochs, History, later
from tests.crash.faults import KINDS
from tests.crash.streams import ALARMS, Fed, Stream, features
from tests.crash.worker import LATER_VARIABLE

if TYPE_CHECKING:
    from tests.crash.campaign import Campaign

KNOWN_VARIABLE = "TEST_KNOWN_SETTINGS"
"""Names the file with a line of environment for each settings that workers were given."""

MODELS = ["default", "patches", "hoeffding", "arf", "linear", "naive Bayes"]
"""Of the slices in turn: the mixture, a model that its own code stores, a tree, a forest, a linear model, and one of river's without arrays."""

IPFI = {"kind": "ipfi", "alpha": 0.01, "reservoir": {"size": 20}}
ISAGE = {**IPFI, "kind": "isage", "n_samples": 2}

CHANGES: list[dict[str, str]] = [
    {"EMIT__EVERY": "7"},
    {"EMIT__PERIODS": "[100]"},
    {"EXPLAINERS": json.dumps([{**IPFI, "alpha": 0.02}])},
    {"EXPLAINERS": json.dumps([IPFI, ISAGE])},
    {"EXPLAINERS": json.dumps([{**IPFI, "by": "city", "segments": 3}])},
    {"EXPLAIN__EVERY": "2"},
    {"RECORD__FEATURES": json.dumps(["a", "b", "city"])},
    {"DRIFT__WINDOW": "100"},
    {"ALARMS": json.dumps(ALARMS | {"one_in": 2_000})},
    {"CHALLENGER__FACTORY": "river.tree:HoeffdingTreeClassifier"},
]

PARTITIONS = 4
"""At the beginning; later twice as many."""

OURS = [*["settings changed"] * 8, "partitions doubled", "software upgraded"]
LEFT_OUT = ["full disk", "slow broker", "broker cut off"]
KINDS_OF_SLICE = (*OURS, *(kind for kind in KINDS if kind not in LEFT_OUT))


def rollouts() -> Stream:
    """Each slice has another family of models. What changes is rolled out worker by worker, and half of those that come die soon."""
    folder = tempfile.TemporaryDirectory()
    left: list[dict[str, str]] = []
    partitions = [PARTITIONS]

    def environment(number: int) -> dict[str, str]:
        known = Path(folder.name, f"{number}.jsonl")
        known.write_text("")
        left[:] = random.Random(number).sample(CHANGES, len(CHANGES))
        partitions[:] = [PARTITIONS]
        return {
            KNOWN_VARIABLE: str(known),
            "EXPLAIN_MODEL__TASK": "multiclass",
            "EXPLAIN_MODEL__FACTORY": "tests.crash.models:named",
            "EXPLAIN_MODEL__PARAMS": json.dumps({"name": MODELS[number % len(MODELS)], "task": "multiclass"}),
            "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE": str(KEY_FILE),
            "EXPLAIN_EXPLAINERS": json.dumps([IPFI]),
            "EXPLAIN_ALARMS": json.dumps(ALARMS),
        }

    def fed(_: int, seed: int) -> Iterator[Fed]:
        rng = random.Random(seed)
        for index in count():
            x = features(rng, index // PARTITIONS)
            value = b"{" if rng.random() < 0.01 else json.dumps(x).encode()
            yield Fed(index % partitions[0], value, [])

    def change(campaign: "Campaign", rng: random.Random) -> str:
        if not left:
            return f"no setting is left to change; {roll_out(campaign, rng, {})}"
        changes = {f"EXPLAIN_{name}": value for name, value in left.pop().items()}
        with Path(campaign.pipeline.environment[KNOWN_VARIABLE]).open("a") as known:
            known.write(json.dumps(campaign.pipeline.environment) + "\n")
        return f"{', '.join(changes)} changed; {roll_out(campaign, rng, changes)}"

    def grow(campaign: "Campaign", rng: random.Random) -> str:
        line = campaign.pipeline
        line.partitions = 2 * PARTITIONS
        new = NewPartitions(line.topics["records"], line.partitions)
        for future in line.admin.create_partitions([new], request_timeout=30).values():
            future.result()
        line.inputs = {partition: [] for partition in range(line.partitions)}
        partitions[:] = [line.partitions]
        slot = rng.choice(sorted(campaign.fleet.live))
        campaign.fleet.kill(slot)
        campaign.fleet.start(slot)
        return f"{line.partitions} partitions; SIGKILL worker {slot}"

    def upgrade(campaign: "Campaign", rng: random.Random) -> str:
        return f"the next version; {roll_out(campaign, rng, {LATER_VARIABLE: '1'})}"

    faults = {"settings changed": change, "partitions doubled": grow, "software upgraded": upgrade}
    return Stream(
        fed,
        environment,
        KINDS_OF_SLICE,
        slice=len(KINDS_OF_SLICE),
        rate=60,
        oracle="tests.crash.rollouts",
        faults=faults,
        partitions=PARTITIONS,
        # The oracle needs the first snapshot of every epoch, which compaction would take away.
        broker={"log.cleaner.min.compaction.lag.ms": str(60 * 60 * 1000)},
    )


def roll_out(campaign: "Campaign", rng: random.Random, changes: Mapping[str, str]) -> str:
    """Replace one worker after the other by one with these settings; those that wait still have the old ones. Half of the new ones die at a crash point."""
    for environment in (campaign.pipeline.environment, campaign.fleet.environment):
        environment.update(changes)
    died = []
    for slot in rng.sample(slots := sorted(campaign.fleet.live), len(slots)):
        rng.choice([campaign.fleet.stop, campaign.fleet.kill])(slot)
        point = f"{rng.choice(POINTS)}:{rng.randint(1, 3)}" if rng.random() < 0.5 else None
        campaign.fleet.start(slot, point)
        campaign.fleet.wait(rng.uniform(0, 2))
        died += [] if point is None else [point]
    return f"{len(slots)} workers replaced, with crash points at {', '.join(died) or 'none'}"


def main() -> int:
    settings = load_settings()
    lines = Path(os.environ[KNOWN_VARIABLE]).read_text().splitlines()
    known = [*(load_settings(environ=json.loads(line)) for line in lines), settings]
    differences: list[str] = []
    stored = read_topic(settings, settings.topics.checkpoints, differences)
    epochs: list[int] = []

    def begin(partition: int, inputs: Mapping[int, Sequence[InputRecord]]) -> Epochs:
        past = History(known, lambda of: [(m.key(), m.value()) for m in stored[of]], inputs.__getitem__)
        epochs.append(len(past.epochs(partition)))
        return past.oracle(partition)

    with later():
        verdict = check(settings, begin=begin)
    verdict.differences += differences
    if min(epochs, default=0) < 2:
        verdict.differences.append(f"epochs: a partition has {min(epochs, default=0)}; no settings changed")
    sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
    return 1 if verdict.differences else 0


if __name__ == "__main__":
    sys.exit(main())
