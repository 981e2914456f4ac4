"""Settings that change while faults go on: whatever happens, what is published in the end are the bytes of the same changes without faults."""

import random
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from explain_core.foreign import dumps, loads
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import Before, begin, decode, encode
from tests.changes import History, Pair, later, merged
from tests.driver import faults
from tests.driver.driver import Driver
from tests.driver.faults import Kind, When
from tests.driver.test_changes import (
    ALARMS,
    DRIFT,
    IPFI,
    LOGISTIC,
    TREE,
    changed,
    differences,
    first_messages,
    records,
    settings_of,
)

TOPICS = {"alarms": {"enabled": True}}
"""So that every epoch has the same outputs."""

BASES: dict[str, dict[str, Any]] = {
    "own code": {},
    "linear": LOGISTIC,
    "tree": {"model": {"factory": "river.tree:HoeffdingTreeClassifier"}},
    "forest": {"model": {"factory": "river.forest:ARFClassifier", "params": {"n_models": 2}}},
    "mixture": {"model": {"factory": None, "name": "mixture"}},
    "bayes": {"model": {"factory": "river.naive_bayes:GaussianNB"}},
}

CHANGES: list[dict[str, Any]] = [
    {"emit": {"every": 2}},
    {"explainers": [{**IPFI, "alpha": 0.02}]},
    {"explainers": [IPFI, {**IPFI, "kind": "isage"}]},
    {"record": {"features": ["a", "b"]}},
    {"explain": {"every": 2}},
    {"record": {"on_bad": "skip"}},
    DRIFT,
    {"alarms": ALARMS["alarms"]},
    TREE,
]


@dataclass
class Changing(Driver):
    """Compares with an oracle that goes over to each of these settings where the stored snapshots say that the worker did."""

    known: list[Settings] = field(default_factory=list)

    def history(self) -> History:
        def checkpoints(partition: int) -> list[Pair]:
            log = self.cluster.log("checkpoints", partition)
            found = [log.entries[offset] for offset in log.visible(0, committed=True)]
            return [(entry.key, entry.value) for entry in found]

        return History(self.known, checkpoints, self.inputs)

    def differences(self) -> list[str]:
        found, past = [], self.history()
        for partition in range(self.partitions):
            (_, before), *changes = past.epochs(partition)
            found += differences(self, before, changes, partition, past.oracle(partition))
        return found


@pytest.mark.parametrize(
    ("kind", "when", "replay"),
    [(*how, True) for how in faults.AT_CALLS.values()] + [(faults.kill, faults.new, False)],
    ids=[*faults.AT_CALLS, "killed after a clean stop"],
)
def test_at_every_call_of_a_worker_that_changes_the_settings(kind: Kind, when: When, replay: bool) -> None:
    """After a crash with something to replay, or after a clean stop."""
    before, after = (
        settings_of(TOPICS),
        settings_of(merged(TOPICS, {"explain": {"every": 2}, "drift": DRIFT["drift"]})),
    )
    begun = Changing(before, partitions=1, known=[before, after])
    begun.feed(0, records(30, 1))
    if replay:
        begun.lose_after(20)
    else:
        assert begun.run_to_end() == []
    begun.feed(0, records(12, 2))
    begun.settings = after

    def end(driver: Changing) -> None:
        driver.turn(0, 12)
        driver.feed(0, records(8, 3))
        driver.finish()
        assert [settings for _, settings in driver.history().epochs(0)] == [before, after]

    for driver, call in faults.at_each(kind, when, lambda: deepcopy(begun), end):
        assert driver.differences() == [], call


@pytest.mark.parametrize("base", BASES)
def test_a_model_of_any_family_goes_on_with_a_renamed_field(base: str) -> None:
    before, after = (
        settings_of(BASES[base]), settings_of(merged(BASES[base], {"record": {"renamed": {"b": "c"}}})),
    )  # fmt: skip
    driver, offset = changed(before, after)
    first = first_messages(driver)[1]["carried"]
    assert "model" in first["carried"] and first["begun"] == []
    assert differences(driver, before, [(offset, after)]) == []


FAULTS = 16
"""Of a family, in a campaign."""


@pytest.mark.parametrize("base", BASES)
def test_a_campaign_of_changes_and_faults(base: str) -> None:
    """Sixteen faults for each family: workers die at random calls, and each that follows may have other settings.

    Meanwhile the topic gains partitions, and the workers are upgraded to a version in which a part has another shape."""
    campaign(base)


def campaign(base: str, seed: int = 0) -> None:
    rng = random.Random(f"{base}/{seed}")
    here = merged(TOPICS, BASES[base])
    known = [settings_of(here)]
    left = rng.sample(CHANGES, len(CHANGES))
    driver = Changing(known[0], partitions=2, known=known)
    for partition in range(2):
        driver.feed(partition, records(30, partition))
    happened, grown, upgraded = 0, rng.randrange(4, 9), rng.randrange(4, 12)
    with ExitStack() as version:
        while happened < FAULTS:
            process = driver.start().process
            if rng.random() < 0.7:
                kind = rng.choice([faults.kill, faults.both(faults.late_end, faults.kill)])
                process.faults[len(process.calls) + rng.randrange(60)] = kind(driver)
            for _ in range(rng.randrange(5, 40)):
                driver.turn(0)
                driver.cluster.clock.sleep(0.02)
            driver.lose()
            happened += 1
            for partition in range(driver.partitions):
                driver.feed(partition, records(rng.randrange(12), happened))
            if happened % 2 == 0 and left:
                here = merged(here, left.pop())
                known.append(settings_of(here))
                driver.settings = known[-1]
            if happened == grown:
                driver.cluster.grow(driver.settings.topics.records, 4)
                driver.partitions = 4
            if happened == upgraded:
                version.enter_context(later())
        driver.finish()
        assert driver.differences() == []
        changed, past = 0, driver.history()
        for partition in range(4):
            changed += len(past.epochs(partition)) - 1
            begun = [next(past.stored(of)) for of in (partition, partition % 2)]
            copied = begun[0][1].carried is not None and begun[0][1].carried.from_partition == partition % 2
            # Workers may have died so early that no partition had a state before there were four.
            assert copied == (partition >= 2 and begun[1][0].partitions == 2)
        assert changed >= 2
    assert driver.ended == []


def test_a_state_that_went_through_every_change_is_restored_exactly_after_each_record() -> None:
    rng = random.Random(1)
    here = merged(TOPICS, LOGISTIC)
    left, known = rng.sample(CHANGES, len(CHANGES)), settings_of(here)
    whole, cut = PartitionState(known, 0), PartitionState(known, 0)
    given = [value for seed in range(12) for value in records(12, seed)]
    for offset, value in enumerate(given):
        if offset % 14 == 13 and left:
            here = merged(here, left.pop())
            carry = carry_over(fold_settings(known), settings_of(here))
            known = settings_of(here)
            whole, cut = (
                begin(known, 0, state.epoch + 1, offset, Before(state.state(dumps), carry, loads))
                for state in (whole, cut)
            )
        cut = decode(encode(cut), known, 0, cut.epoch, loads)
        record = InputRecord(offset, 1_700_000_000_000 + offset, b"k", value)
        assert cut.step(record) == whole.step(record), offset
    assert not left
