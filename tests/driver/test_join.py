"""The join under faults: at each of its client calls, and in schedules that nobody would think of. Every event has one outcome."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explain_sidecar.join.pace import Pace
from explain_sidecar.kafka.clock import Clock
from explain_sidecar.kafka.ends import PartitionEnds
from tests.driver import faults
from tests.driver.faults import PRODUCER, Moment, at
from tests.driver.join import EVENTS, LABELS, WAIT, Given, JoinDriver
from tests.driver.join import given as records
from tests.driver.log import Entry, error
from tests.driver.process import Client
from tests.driver.test_schedules import STEPS, happen

RECORDS = 12
ALLOWED = ("duplicate instance id", "another process has it open")


SKEW = 2_000
"""Milliseconds that workers may be apart."""


def keyed(partitions: int, tick: float = 1e-5) -> JoinDriver:
    """A join whose records meet in the partition of their key, each labelled at its own time."""
    settings = JoinDriver().settings
    join = settings.join.model_copy(update={"key": "x", "max_skew": SKEW / 1000})
    return JoinDriver(settings.model_copy(update={"join": join}), partitions=partitions, tick=tick)


def began(two: bool = False) -> JoinDriver:
    driver = JoinDriver()
    for partition in range(2):
        driver.give(partition, records(RECORDS, partition, 0))
    if two:
        driver.start(1)
        driver.turn(1, 3)
        for partition in range(2):
            driver.give(partition, records(RECORDS, partition, 1))
    return driver


def end(driver: JoinDriver) -> None:
    for _ in range(6):
        for slot in list(driver.workers):
            driver.turn(slot)
    for partition in range(2):
        driver.give(partition, records(4, partition, 2))
    driver.finish()
    driver.end()


def test_a_join_that_is_not_told_where_its_inputs_end_says_so() -> None:
    def silent(client: Client) -> None:
        raise error(KafkaError._TIMED_OUT, "no answer")

    driver = began()
    process = driver.start(until_caught_up=True).process
    driver.turn(0)
    asks = process.calls.index("get_watermark_offsets")
    driver = began()
    driver.start(until_caught_up=True, faults={asks: silent})
    driver.turn(0)
    assert driver.ended == [f"join.events.topic: {EVENTS!r} partition 0: no answer"]


@pytest.mark.parametrize(
    ("kind", "when", "two"),
    [
        pytest.param(faults.kill, faults.new, False, id="killed"),
        pytest.param(faults.kill, faults.new, True, id="killed beside another"),
        pytest.param(faults.lose_answer, at(*PRODUCER), False, id="the answer is lost"),
        pytest.param(faults.refuse_message, at("produce"), False, id="a message is not delivered"),
        pytest.param(faults.forget_offset, at("produce"), False, id="an offset is not known"),
        pytest.param(faults.another_joins, faults.some(0), False, id="another joins"),
        pytest.param(faults.another_takes_over, faults.some(1), True, id="another takes over"),
        pytest.param(faults.transaction_expires, faults.some(2), False, id="the transaction expires"),
        pytest.param(faults.same_name_begins, faults.some(3), False, id="another under the same name"),
    ],
)
def test_at_every_call(kind: faults.Kind, when: faults.When, two: bool) -> None:
    def rare(moment: Moment) -> bool:
        """Every such call of the kinds that are rare, and one in eleven of those that come for each message."""
        often = moment.name in ("produce", "describe_topics")
        return when(moment) and not (often and moment.number % 11)

    for driver, call in faults.at_each(kind, rare, partial(began, two), end):
        assert driver.differences() == [], call
        assert all(any(text in reason for text in ALLOWED) for reason in driver.ended), driver.ended


def test_ids_from_elsewhere_than_those_that_wait_are_named(caplog: pytest.LogCaptureFixture) -> None:
    driver = JoinDriver(partitions=1)
    driver.give(0, [Given("0-1", 0)])
    join = driver.settings.join
    events = join.events.model_copy(update={"id": "x"})
    other = driver.settings.model_copy(update={"join": join.model_copy(update={"events": events})})
    with caplog.at_level("WARNING", "explain_sidecar"):
        assert driver.run_to_end() == driver.run_to_end() == []
        assert "the ids of before" not in caplog.text
        assert driver.run_to_end(other) == []
    assert (
        'were ["id","of"] and are ["x","of"] (null is the key): what waits is known by the ids of before'
        in caplog.text
    )


@settings(
    max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    tick=st.sampled_from([1e-5, 1e-3, 0.02]),
    schedule=st.lists(STEPS, min_size=10, max_size=50),
    merged=st.booleans(),
)
def test_whatever_happens_every_event_has_one_outcome(
    tick: float, schedule: list[tuple[str, int, int]], merged: bool
) -> None:
    driver = keyed(3, tick) if merged else JoinDriver(partitions=3, tick=tick)
    driver.start(0)
    for number, step in enumerate(schedule):
        if step[0] == "feed":
            driver.give(step[1], records(step[2], step[1], number))
        else:
            happen(driver, *step)
    driver.finish()
    driver.end()
    assert driver.differences() == []
    assert all(any(text in reason for text in ALLOWED) for reason in driver.ended), driver.ended


@pytest.mark.parametrize("number", [None, *range(10, 400, 30)])
def test_topics_that_are_not_partitioned_by_id_alike_are_joined_through_copies(number: int | None) -> None:
    """Events by airport in two partitions, labels in three; killed at a call, and started again."""
    wanted = JoinDriver().settings.join.model_copy(update={"repartition": True})
    driver = JoinDriver(JoinDriver().settings.model_copy(update={"join": wanted}))
    driver.cluster.grow(LABELS, 3)
    everything = [record for partition in range(2) for record in records(RECORDS, partition, 0)]
    for record in everything:
        if record.label is None and record.id is not None:
            driver.give(int(record.id[0]), [record])
        elif record.id is not None:
            driver.cluster.log(LABELS, int(record.id.split("-")[2]) % 3).append(
                Entry(b"any", record.value(), (), 0)
            )
            driver.fed.setdefault(int(record.id[0]), []).append(record)
    driver.start(faults={} if number is None else {number: faults.kill(driver)})
    _turns(driver)
    # Ids whose partitions among the copies are not known here: enough of them to pass time in each.
    driver.give(0, [Given(f"0-end-{n}", 10**9 + n) for n in range(60)])
    _turns(driver)
    assert driver.joined_differences() == []


def test_topics_that_differ_or_grow_stop_the_join_with_what_to_do_and_lose_nothing() -> None:
    driver = began()
    driver.finish()
    driver.cluster.grow(LABELS, 4)
    (refused,) = driver.run_to_end()
    assert f"{EVENTS!r} has 2 partitions and {LABELS!r} has 4" in refused and "join.repartition" in refused
    driver.cluster.grow(EVENTS, 4)
    for topic in ("app-join-changelog", "app-join-dead-letters"):
        (refused,) = driver.run_to_end()
        assert f"kafka-topics --alter --topic {topic} --partitions 4" in refused
        driver.cluster.grow(topic, 4)
    (refused,) = driver.run_to_end()
    assert "topics.records: 'records' has 2 partitions and 'events' has 4" in refused
    driver.cluster.grow("records", 4)
    driver.partitions, before = 4, len(driver.ended)
    for partition in range(4):
        driver.give(partition, records(RECORDS, partition, 1))
    driver.end()
    assert driver.differences() == [] and len(driver.ended) == before


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_backlog_longer_than_the_wait_is_copied_in_the_order_of_its_times(workers: int) -> None:
    """An event and its label are copied by different workers, from partitions that are read at different speeds."""
    driver, moments = JoinDriver(partitions=3, tick=1e-5), range(200)
    copied = driver.settings.join.model_copy(update={"repartition": True})
    driver.settings = driver.settings.model_copy(update={"join": copied})
    for n in moments:  # a fifth of the wait apart, each labelled in another partition, and most events in one
        at, id = round(n * WAIT * 200), f"{n}"
        driver.give(n % 10 // 8, [Given(id, at)])
        driver.give(n % 3, [Given(id, at + 1_000, 1)])
        if n == 50:
            driver.give(0, [Given("a wrong clock", 10**12)])
    for n in range(60):  # ids whose partitions are not known here: enough of them to pass time in each
        driver.give(2, [Given(f"end-{n}", 10**9 + n)])
    driver.cluster.log(LABELS, 1).append(Entry(None, None, (), 0, control=True))
    for slot in range(workers):
        driver.start(slot)
    reasons = []
    for turn in range(6_000):  # the first worker is quick, and the last one slow
        driver.turn(0 if turn % 5 else turn // 5 % workers)
        driver.cluster.clock.sleep(0.02)
        if turn in (9, 5_999):
            report = driver.workers[0].worker.report(0.0)  # type: ignore[union-attr]
            reasons.append((report.joined, "copying both inputs" in report.reason))
    assert driver.ended == [] and reasons == [(False, True), (True, False)]
    published = [entry for p in range(3) for entry in driver.visible(driver.settings.topics.records, p)]
    outcomes = Counter(dict(entry.headers)["outcome"] for entry in published)
    assert outcomes == {b"matched": len(moments)}


def back_in_time(driver: JoinDriver) -> int:
    """The farthest that a record of the records topic is behind the newest one before it, in milliseconds."""
    farthest = 0
    for partition in range(driver.partitions):
        newest = 0
        for entry in driver.visible(driver.settings.topics.records, partition):
            at = int(dict(entry.headers)["event_timestamp"] or 0)
            farthest, newest = max(farthest, newest - at), max(newest, at)
    return farthest


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_backlog_is_merged_by_event_time_across_partitions_and_workers(workers: int) -> None:
    driver = keyed(3)
    for partition in range(3):
        for n in range(300):  # one partition has a gap, and one begins late
            at = 1_000 + 100 * n + 5_000 * (partition == 1 and n > 150) + 3_000 * (partition == 2)
            driver.give(partition, [Given(f"{partition}-{n}", at), Given(f"{partition}-{n}", at, 1)])
    for slot in range(workers):
        driver.start(slot)
    for turn in range(4_000):  # the first worker is quick, and the last one slow
        slot = 0 if turn % 5 else turn // 5 % workers
        driver.turn(slot)
        driver.cluster.clock.sleep(0.02)
        if driver.committed() == driver.ends():
            break
    assert driver.committed() == driver.ends() and driver.ended == []
    published = [driver.visible(driver.settings.topics.records, p) for p in range(3)]
    assert sum(map(len, published)) == 900
    assert back_in_time(driver) <= (SKEW if workers > 1 else SKEW // 100)


def test_nothing_is_taken_in_before_the_other_workers_partitions_are_known() -> None:
    nobody = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "app", "log_level": 0})
    ends = PartitionEnds(AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))
    pace = Pace(SKEW / 1000, nobody, ends, [EVENTS], 3, Clock())
    limit = pace.limit([])
    nobody.close()
    assert limit is not None and limit < -(2**62)


def test_a_partition_that_nobody_feeds_and_one_whose_worker_is_killed_do_not_hold_the_others_for_good() -> (
    None
):
    driver = keyed(3)
    for partition in range(2):
        driver.give(partition, [Given(f"{partition}-{n}", 1_000 + 1_000 * n) for n in range(50)])
        driver.give(partition, [Given(f"{partition}-{n}", 1_000 + 1_000 * n, 1) for n in range(50)])
    driver.start(0)
    driver.start(1)
    for turn in range(60):
        driver.turn(turn % 2)
        driver.cluster.clock.sleep(0.02)
    driver.kill(1)
    driver.finish()
    assert driver.committed() == driver.ends() and driver.ended == []
    assert back_in_time(driver) <= SKEW


def test_a_backlog_that_came_after_its_partition_was_drained_holds_the_others() -> None:
    def give(partition: int, moments: range) -> None:
        for n in moments:
            at = 1_000 + 500 * n
            driver.give(partition, [Given(f"{partition}-{n}", at), Given(f"{partition}-{n}", at, 1)])

    driver = keyed(2)
    for slot in range(2):
        give(slot, range(20))
        driver.start(slot)
    for turn in range(200):
        driver.turn(turn % 2)
        driver.cluster.clock.sleep(0.02)
    assert driver.committed() == driver.ends()
    driver.kill(1)
    for partition in (1, 0):
        give(partition, range(20, 300))
        for _ in range(20):  # the group has yet to notice that nobody takes in the other partition
            driver.turn(0)
            driver.cluster.clock.sleep(0.02)
    driver.finish()
    assert driver.committed() == driver.ends() and driver.ended == []
    assert back_in_time(driver) <= SKEW


@pytest.mark.parametrize("which", [EVENTS, LABELS])
@pytest.mark.parametrize("running", [False, True])
def test_retention_costs_the_records_that_are_gone_and_nothing_that_waits(
    which: str, running: bool, caplog: pytest.LogCaptureFixture
) -> None:
    driver = began()
    driver.finish()
    if running:
        driver.start()
        driver.turn(0, 10)
    log = driver.cluster.log(which, 0)
    for n in range(5):
        log.append(Entry(b"any", Given(f"0-gone-{n}", 60_000, n if which == LABELS else None).value(), (), 0))
    log.low = log.high - 1
    log.entries[log.low] = Entry(None, None, (), 0, control=True)
    for partition in range(2):
        driver.give(partition, records(RECORDS, partition, 1))
    (refused,) = driver.run_to_end() if not running else [driver.turn(0, 20) or driver.ended[-1]]
    remedy = (
        f"kafka-consumer-groups --group app-join --topic {which}:0 --reset-offsets --to-earliest --execute"
    )
    assert "retention deleted records" in refused and remedy in refused
    driver.lose()
    driver.cluster.groups["app-join"].committed[which, 0] = log.low, ""
    with caplog.at_level("WARNING", "explain_sidecar"):
        driver.finish()
    assert f"records {log.low - 4} to {log.low - 1} of {which} are passed over" in caplog.text
    driver.end()
    assert driver.differences() == []


def test_offsets_that_were_moved_are_refused_with_the_command_that_moves_them_back() -> None:
    driver = began()
    driver.finish()
    committed = driver.cluster.groups["app-join"].committed
    before = committed[EVENTS, 0]
    committed[EVENTS, 0] = 3, ""
    (refused,) = driver.run_to_end()
    command = f"--group app-join --topic {EVENTS}:0 --reset-offsets --to-offset {before[0]} --execute and"
    assert "an operator or another program moved them" in refused and command in refused
    committed[EVENTS, 0] = before[0], ""
    end(driver)
    assert driver.differences() == []


@pytest.mark.parametrize("began_before", [False, True])
def test_a_changelog_behind_an_open_transaction_is_waited_for_and_not_taken_for_another(
    began_before: bool,
) -> None:
    driver = JoinDriver(partitions=1)
    if began_before:
        driver.give(0, records(RECORDS, 0, 0))
        driver.finish()
    else:
        driver.cluster.create("app-join-changelog", 1, cleanup_policy="compact")
    changelog, other = driver.cluster.log("app-join-changelog", 0), "of another program"
    changelog.append(Entry(b"other", b"", (), 0), other)
    driver.give(0, records(RECORDS, 0, 1))
    driver.finish()
    driver.stores.clear()
    running = driver.start()
    for _ in range(200):  # longer than what was committed together may become visible one after the other
        driver.turn(0)
        driver.cluster.clock.sleep(0.1)
    assert driver.ended == [] and running.worker is not None
    (waits,) = running.worker.report(0.0).join
    assert waits.phase == "waiting" and "a transaction is open since offset" in waits.reason
    changelog.end(other, False, 0)
    driver.finish()
    driver.end()
    assert driver.differences() == []


@pytest.mark.parametrize("foreign", ["of another partition", "that cannot be read"])
def test_a_local_store_that_is_not_this_partitions_is_restored_from_the_changelog(foreign: str) -> None:
    driver = JoinDriver()
    for partition in range(2):
        # The same ids, so that the offsets of both are the same too.
        driver.give(partition, [Given(f"x-{n}", 1_000 + n) for n in range(6)])
    driver.start()
    driver.finish()
    driver.kill(0)
    if foreign == "of another partition":
        driver.stores[0, 0], driver.stores[0, 1] = driver.stores[0, 1], driver.stores[0, 0]
    else:
        for store, _ in driver.stores.values():
            store.checkpoint = b"of an older version"
            # Left over from before: it is not on the changelog, and the event of this id comes only now.
            store.entries[b"x-9"] = store.entries[b"x-1"]
    for partition in range(2):
        driver.give(partition, [Given("x-9", 1_900)])
        driver.give(partition, [Given(f"x-{n}", 2_000 + n, 1) for n in (*range(6), 9)])
    driver.start()
    driver.finish()
    driver.end()
    assert driver.differences() == []


def _turns(driver: JoinDriver) -> None:
    for _ in range(300):
        if 0 not in driver.workers:
            driver.start(0)
        driver.turn(0)
        driver.cluster.clock.sleep(0.02)


@pytest.mark.parametrize("seed", range(3))
def test_each_event_is_published_at_once_and_again_with_its_label_whatever_happens(seed: int) -> None:
    known = JoinDriver().settings
    record = known.record.model_copy(update={"unlabelled": "predict"})
    join = known.join.model_copy(update={"at_once": True})
    driver = JoinDriver(known.model_copy(update={"join": join, "record": record}))
    rng = random.Random(seed)
    for part in range(4):
        for partition in range(2):
            driver.give(partition, records(RECORDS, partition, part))
        process = driver.start().process
        process.faults[rng.randrange(40)] = rng.choice([faults.kill, faults.lose_answer])(driver)
        driver.turn(0, 6)
        driver.kill(0)
    driver.end()
    assert driver.differences() == []
    outcomes = Counter(
        dict(entry.headers)["outcome"] for p in range(2) for entry in driver.visible("records", p)
    )
    assert outcomes[b"event"] > 40 and outcomes[b"matched"] > 30


@pytest.mark.parametrize("kills", [0, 3])
def test_the_end_of_the_wait_of_many_events_fits_into_transactions(
    kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three records of another day end the wait of 3,000 events; to send all that comes of it takes longer than a transaction may be open."""
    driver = JoinDriver(partitions=1)
    driver.give(0, [Given(f"0-{n}", 1_000 + n) for n in range(3_000)])
    driver.finish()
    pass_time, clock = driver.cluster.pass_time, driver.cluster.clock

    def at_each_call() -> None:
        clock.sleep(0.002)
        pass_time()

    monkeypatch.setattr(driver.cluster, "pass_time", at_each_call)
    driver.give(0, [Given(f"0-end-{n}", 10**9 + n) for n in range(3)])
    rng, expired = random.Random(kills), []
    for _ in range(kills):
        driver.start(faults={rng.randrange(300, 3_000): faults.kill(driver)})
        driver.turn(0, 50)
        clock.sleep(11.0)
        expired.append(driver.progress(0).progress.counts.expired)
    driver.finish_in_order()
    assert driver.progress(0).progress.counts.expired == 3_000
    assert not kills or any(0 < count < 3_000 for count in expired)
