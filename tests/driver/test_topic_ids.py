"""Brokers that give topics no ids, as Apache Kafka before 2.8: what cannot be noticed then is said, and everything else holds."""

import logging

import pytest

from explain_sidecar.kafka.topics import NO_ID, WITHOUT_IDS
from tests.driver.driver import Driver, values


def without_ids() -> Driver:
    driver = Driver(partitions=2)
    for topic in driver.cluster.topics.values():
        topic.id = NO_ID
    for partition in range(2):
        driver.feed(partition, values(30, partition))
    return driver


def upgrade(driver: Driver) -> None:
    for name, topic in driver.cluster.topics.items():
        topic.id = f"id of {name}"


def report_ids(driver: Driver) -> bool:
    worker = driver.workers[0].worker
    assert worker is not None
    return bool(worker.report(0.0).topic_ids)  # type: ignore[attr-defined]


@pytest.mark.parametrize("ids", [True, False])
def test_brokers_without_topic_ids_are_named_by_a_warning_and_a_metric(
    ids: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("explain_sidecar").setLevel(logging.WARNING)
    driver = without_ids()
    if ids:
        upgrade(driver)
    driver.start()
    assert (WITHOUT_IDS in caplog.messages) is not ids
    assert report_ids(driver) is ids
    driver.turn(0, 20)
    driver.kill(0)
    for partition in range(2):
        driver.feed(partition, values(30, 2 + partition))
    driver.finish_in_order()


@pytest.mark.parametrize("killed", [True, False])
def test_topics_that_are_given_ids_stay_the_same_topics(killed: bool) -> None:
    driver = without_ids()
    driver.start()
    driver.turn(0, 20)
    if killed:
        driver.kill(0)
    upgrade(driver)
    for partition in range(2):
        driver.feed(partition, values(30, 2 + partition))
    if killed:
        driver.start()
        assert report_ids(driver)
    driver.cluster.clock.sleep(3)
    driver.turn(0, 40)
    driver.finish_in_order()
    driver.start()
    driver.turn(0, 10)
    driver.cluster.topics["records"].id = "that of another topic"
    driver.feed(0, values(5, 9))
    driver.cluster.clock.sleep(3)
    driver.turn(0, 20)
    (reason,) = driver.ended
    assert "was deleted and created again while the sidecar ran" in reason
    assert "reset --partition P --keep all --yes; without --keep all a new model begins" in reason
