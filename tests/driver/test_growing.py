"""The records topic gains partitions: each begins with the model of the one that had its keys, and the bytes are the same whatever happens."""

import json
import random
from copy import deepcopy
from typing import Any

import pytest

from explain_sidecar.settings import Settings
from tests.changes import merged
from tests.driver import faults
from tests.driver.driver import TINY, Driver, values
from tests.driver.faults import Kind, When

LINEAR = {"model": {"factory": "river.linear_model:LogisticRegression"}}


def grown(driver: Driver, partitions: int, records: int = 30) -> None:
    """More partitions, with records in all of them."""
    driver.cluster.grow(driver.settings.topics.records, partitions)
    driver.partitions = partitions
    for partition in range(partitions):
        driver.feed(partition, values(records, 10 * partitions + partition))


def began(partitions: int = 2, **settings: Any) -> Driver:
    """A sidecar that has learnt from its partitions, and has stopped."""
    driver = Driver(Settings(**merged(merged(TINY, LINEAR), settings)), partitions)
    for partition in range(partitions):
        driver.feed(partition, values(15, partition))
    driver.finish()
    return driver


def firsts(driver: Driver) -> list[Any]:
    """Where each partition's model is from: partition and offset, or None."""
    found = []
    for partition in range(driver.partitions):
        (_, value, _), *_ = driver.published(partition)["explanations"]
        said = json.loads(value or b"")["carried"]
        found.append(said and (said["from_partition"], said["from_offset"]))
    return found


def test_a_new_partition_begins_with_the_model_of_the_one_that_had_its_keys() -> None:
    driver = began()
    grown(driver, 4)
    driver.finish_in_order()
    assert [found and found[0] for found in firsts(driver)] == [None, None, 0, 1]
    (_, value, _), *_ = driver.published(3)["explanations"]
    first = json.loads(value or b"")
    assert first["carried"]["carried"] == ["labels", "model"] and "records partition 1" in first["notices"][0]


def test_a_topic_that_grows_twice_goes_by_the_partitions_it_had_last() -> None:
    driver = began(1)
    for partitions in (2, 6):
        grown(driver, partitions)
        driver.finish()
    assert driver.differences() == [] and driver.ended == []
    assert [found and found[0] for found in firsts(driver)] == [None, 0, 0, 1, 0, 1]


def test_it_begins_anew_where_that_is_wished_or_where_no_partition_is_older() -> None:
    driver = began(model={"on_new_partition": "fresh"})
    grown(driver, 4)
    driver.finish()
    assert driver.differences() == [] and firsts(driver) == [None] * 4
    assert firsts(began(4)) == [None] * 4


def test_it_begins_anew_with_a_model_that_somebody_accepted() -> None:
    driver = began()
    driver.settings = Settings(**merged(TINY, {"checkpoint": {"on_mismatch": "new_model"}}))
    grown(driver, 4)
    driver.finish()
    assert driver.ended == [] and firsts(driver)[2:] == [None, None]


def shared(begun: Driver) -> Driver:
    """Two workers, of which the second gets the new partition, and the first has its donor; ``begun`` has three partitions."""
    driver = deepcopy(begun)
    for slot in (0, 1):
        driver.start(slot)
    while any(not running.worker or not running.worker._owned for running in driver.workers.values()):
        turns(driver, 1)
    grown(driver, 4, 2)
    return driver


def turns(driver: Driver, count: int) -> None:
    """Of both workers, with a record for each partition before."""
    for turn in range(count):
        for partition in range(driver.partitions):
            driver.feed(partition, values(1, 5 * turn + partition))
        for slot in (0, 1):
            driver.turn(slot)


def test_a_copy_is_stored_before_its_first_record_is_folded() -> None:
    """Or what that record gave could be visible when the copy is made again, of a donor that went on."""
    driver = shared(began(3, commit={"interval_ms": 5_000, "max_records": 10_000}))
    worker = driver.workers[1].worker
    assert worker is not None
    seen = 0
    while seen < 20:
        turns(driver, 1)
        if 3 in worker._owned and worker._owned[3].state is not None and worker._owned[3].state.records:
            assert worker._owned[3].location is not None
            seen += 1


@pytest.mark.parametrize(("kind", "when"), faults.AT_CALLS.values(), ids=faults.AT_CALLS)
def test_at_calls_of_a_worker_whose_topic_grows(kind: Kind, when: When) -> None:
    """Another worker has the donor, which goes on meanwhile: a second copy would be of another model."""

    begun = began(3)

    def end(driver: Driver) -> None:
        turns(driver, 12)
        driver.finish()

    for driver, call in faults.at_each(kind, when, lambda: shared(begun), end, slot=1):
        assert driver.differences() == [], call
        assert driver.ended == [] and [found and found[0] for found in firsts(driver)] == [None] * 3 + [0]


@pytest.mark.parametrize("seed", range(6))
def test_a_topic_that_grows_while_workers_die(seed: int) -> None:
    rng = random.Random(seed)
    driver = began(rng.choice((1, 2)))
    for slot in (0, 1):
        driver.start(slot)
    for _ in range(rng.randrange(60)):
        driver.turn(rng.randrange(2))
        driver.cluster.clock.sleep(0.02)
    for _ in range(2):
        grown(driver, 2 * driver.partitions, 12)
        for _ in range(rng.randrange(200)):
            slot = rng.randrange(2)
            if slot not in driver.workers:
                driver.start(slot)
            elif rng.random() < 0.03:
                driver.lose(slot)
            driver.turn(slot)
            driver.cluster.clock.sleep(0.02)
    for partition in range(driver.partitions):
        driver.feed(partition, values(12, partition))
    driver.finish_in_order()
