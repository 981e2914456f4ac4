"""Settings that change while faults go on: whatever happens, what is published in the end are the bytes of the same changes without faults."""

import random
from contextlib import ExitStack
from copy import deepcopy
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


def history(driver: Driver, known: list[Settings]) -> History:
    def checkpoints(partition: int) -> list[Pair]:
        log = driver.cluster.log("checkpoints", partition)
        found = [log.entries[offset] for offset in log.visible(0, committed=True)]
        return [(entry.key, entry.value) for entry in found]

    return History(known, checkpoints, driver.inputs)


@pytest.mark.parametrize(("kind", "when"), faults.AT_CALLS.values(), ids=faults.AT_CALLS)
@pytest.mark.parametrize("replay", [False, True], ids=["after a clean stop", "after a crash"])
def test_at_every_call_of_a_worker_that_changes_the_settings(kind: Kind, when: When, replay: bool) -> None:
    before, after = (
        settings_of(TOPICS),
        settings_of(merged(TOPICS, {"explain": {"every": 2}, "drift": DRIFT["drift"]})),
    )

    def began() -> Driver:
        driver = Driver(before, partitions=1)
        driver.feed(0, records(30, 1))
        if replay:
            driver.start(0)
            while driver.committed()[0] < 20:
                driver.turn(0)
            driver.kill(0)
            driver.cluster.clock.sleep(11)
            driver.cluster.pass_time()
        else:
            assert driver.run_to_end() == []
        driver.feed(0, records(12, 2))
        driver.settings = after
        return driver

    def end(driver: Driver) -> None:
        for turns, fed in ((12, 12), (8, 4)):
            driver.turn(0, turns)
            driver.feed(0, records(fed, turns))
        driver.finish()

    begun = began()
    driver = deepcopy(begun)
    note, moments = faults.noted(driver)
    driver.start(faults=note)
    end(driver)
    happened = 0
    for number, name, *_ in filter(when, moments):
        driver = deepcopy(begun)
        process = driver.start(faults={number: kind(driver)}).process
        end(driver)
        assert process.calls[number] == name and number not in process.faults
        happened += 1
        found = history(driver, [before, after]).epochs(0)
        assert [settings for _, settings in found] == [before, after]
        assert differences(driver, before, found[1:]) == [], (number, name)
    assert happened >= 5


@pytest.mark.parametrize("base", BASES)
def test_a_model_of_any_family_goes_on_with_a_renamed_field(base: str) -> None:
    before, after = (
        settings_of(BASES[base]), settings_of(merged(BASES[base], {"record": {"renamed": {"b": "c"}}})),
    )  # fmt: skip
    driver, offset = changed(before, after)
    first = first_messages(driver)[1]["carried"]
    assert "model" in first["carried"] and first["begun"] == []
    assert differences(driver, before, [(offset, after)]) == []


FAULTS = 40
"""Of a family, in a campaign."""


@pytest.mark.parametrize("base", BASES)
def test_a_campaign_of_changes_and_faults(base: str) -> None:
    """Forty faults for each family: workers die at random calls, and each that follows may have other settings.

    Meanwhile the topic gains partitions, and the workers are upgraded to a version in which a part has another shape."""
    campaign(base)


def campaign(base: str, seed: int = 0) -> None:
    rng = random.Random(f"{base}/{seed}")
    here = merged(TOPICS, BASES[base])
    known = [settings_of(here)]
    left = rng.sample(CHANGES, len(CHANGES))
    driver = Driver(known[0], partitions=2)
    for partition in range(2):
        driver.feed(partition, records(30, partition))
    happened, grown, upgraded = 0, rng.randrange(8, 20), rng.randrange(8, 30)
    with ExitStack() as version:
        while happened < FAULTS:
            process = driver.start().process
            if rng.random() < 0.7:
                kind = rng.choice([faults.kill, faults.both(faults.late_end, faults.kill)])
                process.faults[len(process.calls) + rng.randrange(60)] = kind(driver)
            for _ in range(rng.randrange(5, 40)):
                driver.turn(0)
                driver.cluster.clock.sleep(0.02)
            driver.kill(0)
            happened += 1
            driver.cluster.clock.sleep(11)
            driver.cluster.pass_time()
            for partition in range(driver.partitions):
                driver.feed(partition, records(rng.randrange(12), happened))
            if happened % 4 == 0 and left:
                here = merged(here, left.pop())
                known.append(settings_of(here))
                driver.settings = known[-1]
            if happened == grown:
                driver.cluster.grow(driver.settings.topics.records, 4)
                driver.partitions = 4
            if happened == upgraded:
                version.enter_context(later())
        driver.finish()
        changed, past = 0, history(driver, known)
        for partition in range(4):
            (_, first), *changes = past.epochs(partition)
            changed += len(changes)
            assert differences(driver, first, changes, partition, past.oracle(partition)) == []
            begun = [next(past.stored(of)) for of in (partition, partition % 2)]
            copied = begun[0][1].carried is not None and begun[0][1].carried.from_partition == partition % 2
            # Workers may have died so early that no partition had a state before there were four.
            assert copied == (partition >= 2 and begun[1][0].partitions == 2)
        assert changed >= 8
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
