"""One fault at each client call of a worker, one after the other: whatever happens, what is published in the end are the same bytes."""

from collections.abc import Sequence
from functools import partial

import pytest

from explain_sidecar.kafka.checkpoints import Pointer
from tests.driver import faults
from tests.driver.driver import Driver, values
from tests.driver.faults import PRODUCER, Kind, at

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
            driver.feed(partition, values(9, partition + 2))
    return driver


def end(driver: Driver) -> None:
    for part, count in enumerate((6, 3, 2)):
        for _ in range(count):
            for slot in list(driver.workers):
                driver.turn(slot)
        for partition in range(2):
            driver.feed(partition, values(4, 2 * part + partition + 4))
    driver.finish()


@pytest.mark.parametrize(
    ("kind", "when", "two", "allowed"),
    [
        pytest.param(faults.kill, faults.new, False, (), id="killed"),
        pytest.param(faults.kill, faults.new, True, (), id="killed beside another"),
        pytest.param(faults.lose_answer, at(*PRODUCER), False, (), id="the answer is lost"),
        pytest.param(faults.refuse_message, at("produce"), False, (), id="a message is not delivered"),
        pytest.param(faults.forget_offset, at("produce"), False, (), id="an offset is not known"),
        pytest.param(faults.another_joins, faults.some(0), False, (), id="another joins"),
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
        pytest.param(faults.another_leaves, faults.some(1), True, (), id="another leaves"),
        pytest.param(
            faults.transaction_expires, faults.some(2), False, (FENCED,), id="the transaction expires"
        ),
        pytest.param(faults.another_takes_over, faults.some(3), True, (FENCED,), id="another takes over"),
        pytest.param(faults.group_is_forgotten, faults.new, False, (GAVE_UP,), id="the group is forgotten"),
        pytest.param(
            faults.group_is_forgotten, faults.some(4), True, (GAVE_UP,), id="the group of two is forgotten"
        ),
        pytest.param(
            faults.same_name_begins, faults.some(0), False, (FENCED,), id="another under the same name"
        ),
    ],
)
def test_at_every_call(kind: Kind, when: faults.When, two: bool, allowed: Sequence[str]) -> None:
    for driver, call in faults.at_each(kind, when, partial(began, two), end):
        assert driver.differences() == [], call
        assert all(any(text in reason for text in allowed) for reason in driver.ended), driver.ended
        assert driver.committed() == driver.ends()


def test_no_offset_is_committed_with_a_snapshot_whose_place_is_not_known() -> None:
    def stand(driver: Driver) -> None:
        while driver.committed() != driver.ends():
            driver.turn(0)
            for _, metadata in driver.positions().values():
                pointer = Pointer.decode(metadata)
                assert pointer is not None and 0 <= pointer.first_chunk <= pointer.manifest
        driver.finish()

    for driver, call in faults.at_each(faults.forget_offset, at("produce"), began, stand):
        assert driver.differences() == [], call
