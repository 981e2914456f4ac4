"""Versions of a model that come and go in mid-stream, while workers come, go and die: no record is explained under another's model."""

import json
import logging
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explain_sidecar.fold.models import forget_artefacts
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.fold.versions import ModelVersions, Version
from explain_sidecar.kafka.lifecycle import OwnedPartition
from explain_sidecar.settings import Settings
from tests import versions
from tests.driver.driver import TINY, Driver
from tests.driver.test_schedules import STEPS, happen
from tests.versions import EXPLAINERS, records, write

VERSIONS = ("v1", "v2", "v3", "v4")


def values(partition: int, first: int, count: int) -> list[bytes]:
    """Records of a partition from a place on: versions follow each other and overlap, one in eight is bad."""
    made = []
    for place in range(first, first + count):
        rng = random.Random(f"{partition}/{place}")
        version = VERSIONS[(place // 12 + (rng.random() < 0.3)) % len(VERSIONS)]
        (x,) = records([version], seed=rng.randrange(10**6))
        bad = [b"{", json.dumps({**x, "served_by": None}).encode(), json.dumps({**x, "label": None}).encode()]
        made.append(rng.choice(bad) if rng.random() < 1 / 8 else json.dumps(x).encode())
    return made


def driver_of(folder: Path, partitions: int = 2, tick: float = 1e-4, **how: Any) -> Driver:
    pattern = str(folder / "{version}.json")
    known = Settings(
        **{
            **TINY,
            "model": {},
            "models": {"pattern": pattern, "close_after": 20, "max_open": 2, **how},
            "record": {"model_version": "served_by"},
            "explainers": EXPLAINERS[:1],
            "drift": {"enabled": True, "window": 30, "bootstrap": 2},
        }
    )
    return Driver(known, partitions, tick, models=VersionSource(known).find)


def misattributed(driver: Driver) -> list[str]:
    return [
        found
        for partition in range(driver.partitions)
        for found in versions.misattributed(
            driver.settings,
            partition,
            [record.value for record in driver.inputs(partition)],
            [value for _, value, _ in driver.published(partition)["explanations"]],
        )
    ]


def run_to_the_end(driver: Driver) -> None:
    driver.start()
    for _ in range(400):
        driver.turn(0)
        driver.cluster.clock.sleep(0.02)
        if driver.committed() == driver.ends():
            return


APPEAR = st.tuples(st.just("appear"), st.integers(1, 3), st.just(0))


@settings(
    max_examples=20, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(schedule=st.lists(st.one_of(STEPS, STEPS, APPEAR), min_size=15, max_size=60))
def test_whatever_happens_no_record_is_explained_under_another_version(
    schedule: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), "v1")
        driver = driver_of(Path(folder), 3, 1e-3, unknown="wait")
        for partition in range(3):
            driver.feed(partition, values(partition, 0, 30))
        driver.start(0)
        for step, which, count in schedule:
            if step == "appear":
                write(Path(folder), VERSIONS[which])
            elif step == "feed":
                driver.feed(which, values(which, driver.ends()[which], 2 * count))
            else:
                happen(driver, step, which, count)
        write(Path(folder), *VERSIONS)
        driver.finish()
        assert driver.differences() == [] == misattributed(driver)
        assert driver.committed() == driver.ends()
        assert all("duplicate instance id" in reason for reason in driver.ended), driver.ended


def test_a_record_that_is_explained_under_another_version_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, *VERSIONS)
    driver = driver_of(tmp_path)
    driver.feed(0, values(0, 0, 60))
    run_to_the_end(driver)
    assert driver.differences() == [] == misattributed(driver)
    find = ModelVersions.find

    def wrong(self: ModelVersions, name: str) -> Version:
        """Under the version of the record before, once, as where a version is noticed one record late."""
        right = find(self, name)
        before = next(reversed(self.open.values()), right)
        return before if before is not right and before.seen == 20 else right

    monkeypatch.setattr(ModelVersions, "find", wrong)
    driver = driver_of(tmp_path)
    driver.feed(0, values(0, 0, 60))
    run_to_the_end(driver)
    assert misattributed(driver) != []


def test_a_partition_waits_for_its_version_while_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("explain_sidecar").setLevel(logging.WARNING)
    write(tmp_path, "v1", "v2")
    driver = driver_of(tmp_path, unknown="wait")
    for partition, order in enumerate((["v1"] * 5 + ["v3"] * 3, ["v1"] * 5 + ["v2"] * 20)):
        driver.feed(partition, [json.dumps(x).encode() for x in records(order)])
    running = driver.start()
    for _ in range(100):
        driver.turn(0)
        driver.cluster.clock.sleep(0.02)
    assert driver.committed() == [5, 25]
    assert "held until the model's version 'v3' can be loaded" in caplog.text
    report = running.worker.report(0.0)  # type: ignore[union-attr]
    assert [(partition.phase, partition.reason) for partition in report.partitions] == [
        ("held", "until the model's version 'v3' can be loaded"),
        ("running", ""),
    ]
    driver.stop(0)  # in order, with a snapshot
    write(tmp_path, "v3")
    forget_artefacts()
    driver.finish()
    assert driver.committed() == [8, 25]
    assert driver.ended == [] == driver.differences() == misattributed(driver)


@pytest.mark.parametrize("protected", [True, False])
def test_a_killed_worker_has_its_versions_from_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """A replay asks nobody: each version is in the snapshot of the transaction that first used it."""
    if not protected:
        monkeypatch.setattr(OwnedPartition, "learnt", False)
    write(tmp_path, *VERSIONS)
    driver = driver_of(tmp_path)
    rare = driver.settings.checkpoint.model_copy(update={"max_replay_seconds": 1e6, "max_age": 1e6})
    driver.settings = driver.settings.model_copy(update={"checkpoint": rare})
    for _ in range(4):
        for partition in range(2):
            driver.feed(partition, values(partition, driver.ends()[partition], 20))
        run_to_the_end(driver)
        driver.kill(0)
        forget_artefacts()
    driver.run_to_end()
    if protected:
        assert driver.ended == [] == driver.differences() == misattributed(driver)
    else:
        assert any("digest" in reason or "chain" in reason for reason in driver.ended), driver.ended


def test_another_file_under_a_version_s_name_is_refused_by_the_next_worker(tmp_path: Path) -> None:
    write(tmp_path, *VERSIONS)
    driver = driver_of(tmp_path)
    driver.feed(0, values(0, 0, 10))
    run_to_the_end(driver)
    driver.kill(0)
    write(tmp_path, "v1", feature="b")
    forget_artefacts()
    driver.feed(0, values(0, 10, 10))
    (reason,) = driver.run_to_end()
    assert "models: version 'v1': its content is another" in reason
    write(tmp_path, "v1")
    forget_artefacts()
    driver.finish()
    assert driver.differences() == [] == misattributed(driver)
