"""Schemas are state: once records of one are committed, no recovery asks a registry for it."""

from typing import Any

import pytest

from explain_sidecar.kafka import loop
from explain_sidecar.kafka.lifecycle import OwnedPartition
from explain_sidecar.settings import Settings
from explain_sidecar.settings.records import Format
from tests.driver import faults
from tests.driver.driver import TINY, Driver
from tests.evolving import FORMATS, Registry, values

VERSIONS = [0, 0, 0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 0, 2]
"""Those of the records of a partition: producers go over to the next one by one."""

UNKNOWN = b"\0\0\0\1\7" + b"\2" * 9


def cluster_of(format: Format, monkeypatch: pytest.MonkeyPatch, **sections: Any) -> tuple[Driver, Registry]:
    registry = Registry(format)
    monkeypatch.setattr(loop, "schema_source", lambda settings: registry.fetch)
    known = {
        **TINY,
        "record": {"format": format},
        "registry": {"url": "http://127.0.0.1:1", "format": "none"},
    }
    return Driver(Settings(**{**known, **sections}), fetch=Registry(format).fetch), registry


def feed(driver: Driver, format: Format, versions: list[int], seed: int) -> None:
    """Records to both partitions, with a bad one of each kind among them."""
    for partition in range(driver.partitions):
        good = values(format, versions, seed + partition)
        driver.feed(partition, [*good[:3], UNKNOWN, good[0][:7], b"", *good[3:]])


@pytest.mark.parametrize("format", FORMATS)
def test_without_a_registry_a_killed_worker_recovers_and_folds_what_it_knows(
    format: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Snapshots only where they have to be: the replays are as long as they can be.
    rare = {**TINY["checkpoint"], "max_replay_seconds": 1e6, "max_age": 1e6}
    driver, registry = cluster_of(format, monkeypatch, checkpoint=rare)
    for seed in range(4):
        feed(driver, format, VERSIONS, seed)
        driver.start()
        while driver.committed() != driver.ends():
            assert driver.workers, driver.ended
            driver.turn(0)
            driver.cluster.clock.sleep(0.02)
        driver.kill(0)
        if seed == 0:
            asked = [key for key in registry.asked if key != "263"]
            assert sorted(asked) == ["0", "0", "1", "1", "2", "2"]  # once for each partition and id
    registry.gone = True
    for partition in range(driver.partitions):
        driver.feed(partition, values(format, VERSIONS, 9))
    driver.finish()
    assert driver.ended == [] and driver.differences() == []
    letters = [driver.published(partition)["dead_letters"] for partition in range(2)]
    assert [len(letter) for letter in letters] == [4 * 3] * 2  # the bad ones, and none of the others


def test_a_new_schema_while_the_registry_is_away_ends_the_worker_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, registry = cluster_of("avro", monkeypatch)
    feed(driver, "avro", [0, 0, 0, 0], 0)
    driver.run_to_end()
    registry.gone = True
    feed(driver, "avro", [0, 0, 0, 1, 1], 1)
    assert driver.run_to_end() == ["registry.url: no answer"]
    registry.gone = False
    driver.finish()
    assert driver.differences() == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_fault_at_any_call_around_a_new_schema_changes_no_byte(
    format: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call in range(0, 48, 6):
        driver, _ = cluster_of(format, monkeypatch)
        feed(driver, format, VERSIONS, call)
        fault = faults.kill if call % 4 else faults.transaction_expires
        running = driver.start()
        running.process.faults[len(running.process.calls) + call] = fault(driver)
        driver.turn(0, 12)
        driver.kill(0)
        driver.finish()
        assert driver.differences() == [], call


def test_without_the_snapshot_of_a_new_schema_the_replay_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnedPartition, "learnt", False)
    with pytest.raises(AssertionError):
        test_without_a_registry_a_killed_worker_recovers_and_folds_what_it_knows("avro", monkeypatch)
