"""A rolling upgrade: instances of an earlier version leave partitions alone whose newest snapshot is of a later one."""

import random

import pytest

from tests.changes import later
from tests.driver.driver import Driver, values


def turns(driver: Driver, slot: int, count: int = 1) -> None:
    """Of the instance of the later version, which is slot 1, or of the earlier one."""
    for _ in range(count):
        if slot == 1:
            with later():
                driver.turn(slot)
        else:
            driver.turn(slot)
        driver.cluster.clock.sleep(0.02)


def began() -> Driver:
    driver = Driver()
    for partition in range(2):
        driver.feed(partition, values(30, partition))
    return driver


def up_to(driver: Driver, partitions: list[int]) -> None:
    """Both instances work until all of these partitions is committed, or one has ended."""
    ended = len(driver.ended)
    for _ in range(2_000):
        for slot in list(driver.workers):
            turns(driver, slot)
        if len(driver.ended) > ended or all(
            driver.committed()[partition] == driver.ends()[partition] for partition in partitions
        ):
            return
    raise AssertionError(f"{driver.committed()} of {driver.ends()}")


def test_an_earlier_version_leaves_what_the_later_one_has_stored_and_the_later_one_goes_on() -> None:
    driver = began()
    driver.start(0)
    up_to(driver, [0, 1])
    with later():
        driver.start(1)
    for seed in range(1, 30):
        driver.feed(1, values(2, seed))
        for slot in (0, 1):
            turns(driver, slot)
    running = driver.workers[1].worker
    assert running is not None and list(running._owned) == [1]
    up_to(driver, [0, 1])
    with later():
        driver.stop(1)
    assert 1 not in driver.workers
    driver.feed(1, values(8, 99))
    before = driver.published(1)
    up_to(driver, [0, 1])
    (reason,) = driver.ended
    assert (
        "was written by a later version" in reason
        and "leaves the partition to instances that have it" in reason
    )
    assert "reset" not in reason
    assert driver.published(1) == before
    with later():
        driver.start(1)
        driver.finish()
    assert driver.differences() == [] and len(driver.ended) == 1


@pytest.mark.parametrize("seed", range(4))
def test_whatever_order_instances_are_upgraded_in_no_byte_differs(seed: int) -> None:
    """Both die and come back; the earlier one ends each time that it is given what the later one has stored."""
    rng = random.Random(seed)
    driver = began()
    for _ in range(400):
        slot = rng.randrange(2)
        if slot not in driver.workers:
            if slot == 1:
                with later():
                    driver.start(1)
            elif len(driver.ended) < 10:
                driver.start(0)
        turns(driver, slot, rng.randrange(1, 4))
        if rng.random() < 0.03:
            driver.lose(slot)
        if rng.random() < 0.2:
            driver.feed(rng.randrange(2), values(2, rng.randrange(1_000)))
    driver.kill(0)
    driver.cluster.clock.sleep(11)
    with later():
        driver.finish()
    assert driver.differences() == []
    assert all("was written by a later version" in reason for reason in driver.ended)
