"""A protection whose absence goes unseen is not tested: the driver too must see each one that is switched off.

That a broker does what they rest on: tests/broker/test_driver.py.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import explain_sidecar.snapshots.snapshot
from explain_core.packing import packed, zstd
from explain_sidecar.kafka import clients
from explain_sidecar.kafka.lifecycle import OwnedPartition
from explain_sidecar.kafka.past import Past
from explain_sidecar.kafka.recovery import Target
from explain_sidecar.kafka.transaction import Transaction
from explain_sidecar.kafka.watch import TopicWatch
from explain_sidecar.settings import Settings
from tests.crash.sabotage import SABOTAGE, no_repair_of_outputs
from tests.driver import faults
from tests.driver.driver import TINY, Driver, Stuck, values
from tests.driver.test_every_call import began, end

TOUCHED: list[tuple[Any, str]] = [
    (Transaction, "commit"),
    (Transaction, "__init__"),
    (Transaction, "abort"),
    (Transaction, "_renew"),
    (OwnedPartition, "_diverged"),
    (OwnedPartition, "_is_visible"),
    (OwnedPartition, "_after_replay"),
    (Target, "differences"),
    (Past, "visible"),
    (TopicWatch, "look"),
    (TopicWatch, "confirm"),
    (explain_sidecar.snapshots.snapshot, "verify"),
    (clients, "_made"),
]

Scenario = Callable[[], list[str]]
"""What went wrong in it, in words: how the published bytes differ from the fold."""


def at_each(kind: faults.Kind, name: str, two: bool = False) -> Scenario:
    """A fault at each call of a name; the first run that goes wrong."""

    def scenario() -> list[str]:
        try:
            runs = faults.at_each(kind, faults.at(name), partial(began, two), end)
            return next(filter(None, (driver.differences() for driver, _ in runs)), [])
        except Stuck as error:
            return [str(error)]

    return scenario


def model(name: str) -> Settings:
    return Settings(**{**TINY, "model": {"factory": f"tests.driver.model:{name}"}})


def not_deterministic(name: str) -> Scenario:
    """Killed with something to replay, under a model that is another in each process."""

    def scenario() -> list[str]:
        driver = Driver(model(name), partitions=1)
        driver.feed(0, values(30))
        driver.run_to_end()
        driver.feed(0, values(30, 1))
        driver.start()
        for _ in range(20):
            driver.turn(0)
            if driver.committed() == driver.ends():
                break
        driver.kill(0)
        driver.feed(0, values(10, 2))
        driver.run_to_end()
        return [text for text in driver.differences() if "digest chain breaks" in text]

    return scenario


def folded() -> Driver:
    """Of one partition, at its end."""
    driver = Driver(partitions=1)
    driver.feed(0, values(30))
    driver.run_to_end()
    return driver


def running() -> Driver:
    """The same with a worker that runs on."""
    driver = Driver(partitions=1)
    driver.feed(0, values(30))
    driver.start()
    driver.turn(0, 10)
    return driver


def altered() -> list[str]:
    """Another count of records in a stored state, under the manifest of before."""
    driver = folded()
    log = driver.cluster.log("checkpoints", 0)
    offset = max(offset for offset, entry in enumerate(log.entries) if (entry.key or b"").endswith(b"/0"))
    raw = zstd.decompress(log.entries[offset].value or b"")
    place = raw.index(b"records") + len(b"records")
    changed = raw[:place] + bytes([raw[place] + 1]) + raw[place + 1 :]
    value = packed(changed)
    log.entries[offset] = log.entries[offset]._replace(value=value)
    driver.feed(0, values(30, 1))
    driver.run_to_end()
    return driver.differences()


def moved_back() -> list[str]:
    """An offset of the past, with the metadata of then; only dead letters come after it."""
    driver = folded()
    group = driver.cluster.groups["app"]
    before = dict(group.committed)
    driver.feed(0, [b"{"] * 5)
    driver.run_to_end()
    now = dict(group.committed)
    group.committed.update(before)
    if driver.run_to_end():
        group.committed.update(now)
    return driver.differences()


def created_again() -> list[str]:
    """The records topic is deleted and created while the worker runs, with more records than it had folded."""
    driver = running()
    published = driver.published(0)
    del driver.cluster.topics["records"]
    driver.cluster.create("records", 1)
    driver.feed(0, values(60, 1))
    driver.cluster.clock.sleep(3)
    driver.turn(0, 20)
    return (
        [] if driver.published(0) == published else ["the new topic's records were folded by the old model"]
    )


def deleted_under_way() -> list[str]:
    """Retention overtakes a worker: it goes on after a gap, or says so."""
    driver = running()
    assert driver.committed() == [30]
    driver.feed(0, values(30, 1))
    driver.cluster.log("records", 0).low = 45
    driver.turn(0, 20)
    driver.stop(0)
    for reason in driver.ended:
        assert "retention deleted records" in reason
        assert "reset --partition 0 --keep all --yes; without --keep all a new model begins" in reason
    return driver.differences()


def ends_late() -> list[str]:
    """Connections break in commits, librdkafka asks again, and the EndTxn that was sent over each arrives so many calls later."""
    for later in range(1, 25, 3):
        runs = faults.at_each(faults.delayed_end(later), faults.at("commit_transaction"), began, end)
        for driver, call in runs:
            if driver.cluster.late_ends:
                return ["a late end ended another transaction"]
            assert driver.differences() == [] and driver.ended == [], call
    return []


HEALED = {"offsets_outside_the_transaction": no_repair_of_outputs}
"""What heals the absence of a protection, and has to be absent too."""

SCENARIOS: dict[str, Scenario] = {
    "offsets_outside_the_transaction": at_each(faults.kill, "commit_transaction"),
    "metadata_of_a_consumer_that_never_joined": at_each(
        faults.another_takes_over, "send_offsets_to_transaction", two=True
    ),
    "no_digest_check": not_deterministic("Unpredictable"),
    "no_chain_check": not_deterministic("Wavering"),
    "no_checksum": altered,
    "restore_without_replay": at_each(faults.kill, "poll"),
    "aborted_outputs_not_sent_again": at_each(faults.refuse_message, "produce"),
    "earliest_with_deleted_records": deleted_under_way,
    "no_check_of_outputs": moved_back,
    "no_repair_of_outputs": at_each(
        faults.both(faults.late_end, faults.kill), "commit_transaction", two=True
    ),
    "no_new_producer": ends_late,
    "no_watch_of_topics": created_again,
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_what_a_protection_is_for_happens_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = SCENARIOS[name]
    assert scenario() == []
    for owner, attribute in TOUCHED:
        monkeypatch.setattr(owner, attribute, getattr(owner, attribute))  # restored afterwards
    if name in HEALED:
        HEALED[name]()
        assert scenario() == []
    SABOTAGE[name]()
    assert scenario() != []
