"""Transactions that Kafka ended in part, in memory; with a broker: tests/crash/test_torn.py."""

from collections.abc import Mapping

import pytest

from tests.driver import faults
from tests.driver.driver import OUTPUTS, Driver, values
from tests.driver.log import Where
from tests.driver.test_every_call import began, end

NAME = "app-test-0"
PLACES = [
    (topic, partition)
    for partition in (0, 1)
    for topic in (OUTPUTS["explanations"], OUTPUTS["dead_letters"], "checkpoints")
]


@pytest.mark.parametrize("late", [False, True], ids=["at once", "while the worker stands still"])
@pytest.mark.parametrize("then", [faults.nothing, faults.kill], ids=["goes on", "killed"])
@pytest.mark.parametrize(
    "places",
    [*([place] for place in PLACES[:3]), PLACES[1:4], PLACES[::3], PLACES],
    ids=lambda places: ", ".join(f"{topic} {partition}" for topic, partition in places),
)
def test_what_a_torn_transaction_hides_is_published_again_once_it_is_aborted(
    places: list[Where], then: faults.Kind, late: bool
) -> None:
    def run(happens: Mapping[int, faults.Kind]) -> tuple[list[str], bool]:
        """The client calls of the first worker until the operator ends what is torn, and whether anything was."""
        driver = began()
        process = driver.start(faults={number: kind(driver) for number, kind in happens.items()}).process
        driver.turn(0, 20)
        driver.feed(0, values(4, 8))
        if not driver.workers:
            driver.start()
        if late:
            driver.turn(0, 20)
        called = process.calls.copy()
        torn = any(NAME in driver.cluster.log(*place).open for place in places)
        driver.cluster.abort_torn(NAME)
        end(driver)
        assert driver.differences() == [] and driver.ended == [], happens
        return called, torn

    commits = [number for number, name in enumerate(run({})[0]) if name == "commit_transaction"]
    torn = [run({number: faults.both(faults.torn(places), then)})[1] for number in commits]
    assert any(torn)


def test_a_snapshot_that_counts_messages_which_readers_never_see_is_not_gone_on_from() -> None:
    """The worker stops, with a snapshot in its last transaction; of each transaction in turn the explanations are aborted, and nothing else."""

    def began() -> Driver:
        driver = Driver(partitions=1)
        driver.feed(0, values(30))
        assert driver.run_to_end() == []
        driver.feed(0, values(30, 1))
        return driver

    def end(driver: Driver) -> None:
        driver.turn(0, 8)
        driver.stop(0)
        driver.cluster.abort_torn(NAME)
        driver.feed(0, values(8, 2))
        driver.finish()

    torn = faults.torn([(OUTPUTS["explanations"], 0)])
    for driver, call in faults.at_each(torn, faults.at("commit_transaction"), began, end):
        assert driver.differences() == [] and driver.ended == [], call
