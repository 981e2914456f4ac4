"""One fault at each client call of a worker, one after the other: whatever happens, what is published in the end are the same bytes."""

from collections.abc import Sequence

import pytest

from tests.driver import faults
from tests.driver.driver import Driver, values
from tests.driver.faults import PRODUCER, Kind, Moment, at

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
            driver.feed(partition, values(18, partition + 2))
    return driver


def end(driver: Driver) -> None:
    for part, count in enumerate((6, 3, 2)):
        for _ in range(count):
            for slot in list(driver.workers):
                driver.turn(slot)
        for partition in range(2):
            driver.feed(partition, values(4, 2 * part + partition + 4))
    driver.finish()


def moments(two: bool) -> list[Moment]:
    """The client calls of a worker to which nothing happens, in their order."""
    driver = began(two)
    note, found = faults.noted(driver)
    driver.start(faults=note)
    end(driver)
    assert driver.differences() == [] and driver.ended == []
    return found


@pytest.mark.parametrize(
    ("kind", "when", "two", "allowed"),
    [
        pytest.param(faults.kill, faults.new, False, (), id="killed"),
        pytest.param(faults.kill, faults.new, True, (), id="killed beside another"),
        pytest.param(faults.lose_answer, at(*PRODUCER), False, (), id="the answer is lost"),
        pytest.param(faults.refuse_message, at("produce"), False, (), id="a message is not delivered"),
        pytest.param(faults.forget_offset, at("produce"), False, (), id="an offset is not known"),
        pytest.param(faults.another_joins, faults.seldom_read, False, (), id="another joins"),
        *(
            pytest.param(
                faults.both(faults.late_end, kind),
                faults.in_transaction,
                two,
                (),
                id=f"a late end, and {what}",
            )
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
        pytest.param(faults.another_leaves, faults.seldom_read, True, (), id="another leaves"),
        pytest.param(
            faults.transaction_expires, faults.seldom_read, False, (FENCED,), id="the transaction expires"
        ),
        pytest.param(faults.another_takes_over, faults.seldom_read, True, (FENCED,), id="another takes over"),
        pytest.param(
            faults.group_is_forgotten, faults.seldom_read, False, (GAVE_UP,), id="the group is forgotten"
        ),
        pytest.param(
            faults.group_is_forgotten,
            faults.seldom_read,
            True,
            (GAVE_UP,),
            id="the group of two is forgotten",
        ),
        pytest.param(
            faults.same_name_begins, faults.seldom_read, False, (FENCED,), id="another under the same name"
        ),
    ],
)
def test_at_every_call(kind: Kind, when: faults.When, two: bool, allowed: Sequence[str]) -> None:
    happened = 0
    for number, name, *_ in filter(when, moments(two)):
        driver = began(two)
        process = driver.start(faults={number: kind(driver)}).process
        end(driver)
        assert len(process.calls) > number and process.calls[number] == name
        assert driver.differences() == [], f"at call {number}, {name}"
        assert all(any(text in reason for text in allowed) for reason in driver.ended), driver.ended
        assert driver.committed() == driver.ends()
        happened += 1
    assert happened >= 10


@pytest.mark.parametrize("later", range(1, 25))
def test_an_end_that_comes_after_its_repetition_ends_nothing_else(later: int) -> None:
    """The connection breaks in each commit in turn; librdkafka asks again, and the EndTxn from before arrives so many calls later."""
    for number, *_ in filter(at("commit_transaction"), moments(two=False)):
        driver = began()
        driver.start(faults={number: faults.delayed_end(later)(driver)})
        end(driver)
        assert driver.cluster.late_ends == 0
        assert driver.differences() == [] and driver.ended == [], f"at call {number}"
