"""One fault at each client call of a worker, one after the other: whatever happens, what is published in the end are the same bytes."""

from collections.abc import Sequence

import pytest

from tests.driver import faults
from tests.driver.driver import Driver, values
from tests.driver.faults import PRODUCER, Kind

RECORDS = 12
FENCED = "duplicate instance id"
GAVE_UP = "the consumer cannot go on"


def began(two: bool = False) -> Driver:
    """Records for two partitions, and with ``two`` a second worker that has begun."""
    driver = Driver()
    for partition in range(2):
        driver.feed(partition, values(RECORDS // 2, partition))
    if two:
        driver.start(1)
        driver.turn(1, 3)
        for partition in range(2):
            driver.feed(partition, values(RECORDS // 2, partition + 2))
    return driver


def end(driver: Driver) -> None:
    for _ in range(6):
        for slot in list(driver.workers):
            driver.turn(slot)
    for partition in range(2):
        driver.feed(partition, values(4, partition + 4))
    driver.finish()


def calls(two: bool) -> list[str]:
    """The client calls of a worker to which nothing happens, in their order."""
    driver = began(two)
    process = driver.start().process
    end(driver)
    assert driver.differences() == [] and driver.ended == []
    return process.calls


@pytest.mark.parametrize(
    ("kind", "names", "two", "allowed"),
    [
        pytest.param(faults.kill, (), False, (), id="killed"),
        pytest.param(faults.kill, (), True, (), id="killed beside another"),
        pytest.param(faults.lose_answer, PRODUCER, False, (), id="the answer is lost"),
        pytest.param(faults.refuse_message, ("produce",), False, (), id="a message is not delivered"),
        pytest.param(faults.forget_offset, ("produce",), False, (), id="an offset is not known"),
        pytest.param(faults.another_joins, (), False, (), id="another joins"),
        *(
            pytest.param(faults.both(faults.late_end, kind), (), two, (), id=f"a late end, and {what}")
            for kind, two, what in [
                (faults.nothing, False, "nothing else"),
                (faults.nothing, True, "nothing else beside another"),
                (faults.kill, False, "killed"),
                (faults.kill, True, "killed beside another"),
                (faults.refuse_message, False, "a message is not delivered"),
                (faults.lose_answer, False, "the answer is lost"),
                (faults.another_joins, False, "another joins"),
                (faults.another_leaves, True, "another leaves"),
            ]
        ),
        pytest.param(faults.another_leaves, (), True, (), id="another leaves"),
        pytest.param(faults.transaction_expires, (), False, (FENCED,), id="the transaction expires"),
        pytest.param(faults.another_takes_over, (), True, (FENCED,), id="another takes over"),
        pytest.param(faults.group_is_forgotten, (), False, (GAVE_UP,), id="the group is forgotten"),
        pytest.param(faults.group_is_forgotten, (), True, (GAVE_UP,), id="the group of two is forgotten"),
        pytest.param(faults.same_name_begins, (), False, (FENCED,), id="another under the same name"),
    ],
)
def test_at_every_call(kind: Kind, names: Sequence[str], two: bool, allowed: Sequence[str]) -> None:
    happened = 0
    for number, name in enumerate(calls(two)):
        if names and name not in names:
            continue
        driver = began(two)
        process = driver.start(faults={number: kind(driver)}).process
        end(driver)
        assert number not in process.faults or name == "close"
        assert driver.differences() == [], f"at call {number}, {name}"
        assert all(any(text in reason for text in allowed) for reason in driver.ended), driver.ended
        assert driver.committed() == driver.ends()
        happened += 1
    assert happened >= 10


@pytest.mark.parametrize("later", range(1, 25))
def test_an_end_that_comes_after_its_repetition_ends_nothing_else(later: int) -> None:
    """The connection breaks in each commit in turn; librdkafka asks again, and the EndTxn from before arrives so many calls later."""
    commits = [number for number, name in enumerate(calls(two=False)) if name == "commit_transaction"]
    for number in commits:
        driver = began()
        driver.start(faults={number: faults.delayed_end(later)(driver)})
        end(driver)
        assert driver.cluster.late_ends == 0
        assert driver.differences() == [] and driver.ended == [], f"at call {number}"
