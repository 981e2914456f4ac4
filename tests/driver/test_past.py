"""When the past does not fit, at every point of it: recovered exactly, or refused with nothing published.

The wording of each refusal: tests/broker/test_past.py.
"""

import pytest

from tests.driver.driver import Driver, values

RECORDS = 20


def killed_with_something_to_replay() -> tuple[Driver, list[tuple[int, str]]]:
    """A partition whose worker was killed, and each offset that was committed, with its metadata."""
    driver = Driver(partitions=1)
    driver.feed(0, values(RECORDS))
    driver.run_to_end()
    history = [driver.positions()[0]]
    for seed in range(1, 5):
        driver.feed(0, values(4, seed))
        driver.start()
        while driver.committed() != driver.ends():
            driver.turn(0)
        history.append(driver.positions()[0])
        driver.kill(0)
    return driver, history


def refused(driver: Driver) -> str:
    """Why the next worker ends by itself; it publishes nothing."""
    before = driver.published(0)
    (reason,) = driver.run_to_end()
    assert driver.published(0) == before
    return reason


@pytest.mark.parametrize("back", range(4))
def test_an_offset_of_the_past_doubles_nothing(back: int) -> None:
    """As a coordinator gives one that has not loaded all: what was published since is replayed and recognised."""
    driver, history = killed_with_something_to_replay()
    driver.cluster.groups["app"].committed["records", 0] = history[back]
    driver.feed(0, values(6, 9))
    driver.finish()
    assert driver.differences() == [] and driver.ended == []


@pytest.mark.parametrize("offset", range(RECORDS + 16))
def test_an_offset_that_is_not_ours_is_refused(offset: int) -> None:
    driver, _ = killed_with_something_to_replay()
    driver.cluster.groups["app"].committed["records", 0] = offset, ""
    assert "is not ours" in refused(driver)


@pytest.mark.parametrize("offset", range(RECORDS))
def test_an_offset_that_was_moved_back_behind_its_snapshot_is_refused(offset: int) -> None:
    driver, history = killed_with_something_to_replay()
    driver.cluster.groups["app"].committed["records", 0] = offset, history[-1][1]
    assert "moved back" in refused(driver)


@pytest.mark.parametrize("seed", range(6))
def test_an_expired_group_goes_on_after_the_last_message(seed: int) -> None:
    driver, _ = killed_with_something_to_replay()
    driver.feed(0, [*values(seed, seed), b"{"])  # the last record has caused a message
    driver.start()
    while driver.committed() != driver.ends():
        driver.turn(0)
    driver.kill(0)
    driver.cluster.clock.sleep(11)
    driver.cluster.pass_time()
    driver.cluster.groups["app"].committed.clear()
    driver.feed(0, values(8, seed + 10))
    driver.finish()
    assert driver.differences() == [] and driver.ended == []


@pytest.mark.parametrize("low", range(0, RECORDS + 20, 2))
def test_deleted_records_are_refused_where_they_are_needed_and_only_there(low: int) -> None:
    driver, _ = killed_with_something_to_replay()
    driver.feed(0, values(8, 9))
    committed = driver.committed()[0]
    snapshot = int(driver.positions()[0][1].partition('"next_offset":')[2].partition(",")[0])
    assert snapshot < committed
    driver.cluster.log("records", 0).low = low
    if low > snapshot:
        assert "were deleted by retention" in refused(driver)
    else:
        driver.finish()
        assert driver.differences() == []


@pytest.mark.parametrize("which", range(4))
def test_a_torn_or_altered_snapshot_is_refused(which: int) -> None:
    driver, _ = killed_with_something_to_replay()
    log = driver.cluster.log("checkpoints", 0)
    place = max(offset for offset, entry in enumerate(log.entries) if (entry.key or b"").endswith(b"/0"))
    value = log.entries[place].value or b""
    changed = [None, b"", value[:-1], bytes([value[0] ^ 1]) + value[1:]][which]
    log.entries[place] = log.entries[place]._replace(value=changed)
    assert "torn" in refused(driver) if which < 3 else "sha256" in refused(driver)


def test_what_retention_has_deleted_of_an_output_is_not_published_again() -> None:
    driver, _ = killed_with_something_to_replay()
    for name in driver.settings.outputs:
        log = driver.cluster.log(getattr(driver.settings.topics, name), 0)
        log.low = log.high
    driver.feed(0, values(8, 9))
    driver.finish()
    assert driver.differences() == [] and driver.ended == []


def test_a_partition_whose_fetch_stalls_is_fetched_anew_without_touching_the_others() -> None:
    driver = Driver(partitions=2)
    running = driver.start()
    for partition in (0, 1):
        driver.feed(partition, values(RECORDS))
    while driver.committed() != driver.ends():
        driver.turn(0)
    assert running.worker is not None
    consumer = running.worker._consumer
    assigned: list[int] = []
    assign = consumer.incremental_assign
    consumer.incremental_assign = lambda places: (
        assigned.extend(p.partition for p in places),
        assign(places),
    )  # type: ignore[method-assign]
    began = driver.cluster.clock.now
    while driver.cluster.clock.now < began + 60:  # idle: nothing is done
        driver.turn(0)
    assert assigned == []
    consumer.stalled.add((driver.settings.topics.records, 1))
    began = driver.cluster.clock.now
    for partition in (0, 1):
        driver.feed(partition, values(4, seed=1))
    while driver.committed() != driver.ends():
        driver.turn(0)
        assert driver.cluster.clock.now < began + 30
    assert assigned == [1]
    driver.stop(0)
    assert driver.differences() == []
