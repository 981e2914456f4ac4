"""When the past does not fit, at every point of it: recovered exactly, or refused with nothing published and its remedy in words."""

import hashlib
import json
import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from explain_sidecar.kafka.checkpoints import Pointer
from explain_sidecar.settings import Settings
from tests.driver import faults
from tests.driver.driver import AWAY_SECONDS, OUTPUTS, TINY, Driver, values
from tests.driver.log import Entry
from tests.driver.process import Client

RECORDS = 20


@cache
def killed() -> tuple[Driver, list[tuple[int, str]]]:
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


def killed_with_something_to_replay() -> tuple[Driver, list[tuple[int, str]]]:
    """A partition whose worker was killed, and each offset that was committed, with its metadata."""
    return deepcopy(killed())


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
    driver.finish_in_order()


def test_an_offset_that_is_not_ours_or_was_moved_back_behind_its_snapshot_is_refused() -> None:
    driver, history = killed_with_something_to_replay()
    committed = driver.cluster.groups["app"].committed
    for offset in range(RECORDS + 16):
        committed["records", 0] = offset, ""
        assert "is not ours" in refused(driver), offset
    for offset in range(RECORDS):
        committed["records", 0] = offset, history[-1][1]
        assert "moved back" in refused(driver), offset


@pytest.mark.parametrize("seed", range(6))
def test_an_expired_group_goes_on_after_the_last_message(seed: int) -> None:
    driver, _ = killed_with_something_to_replay()
    driver.feed(0, [*values(seed, seed), b"{"])  # the last record has caused a message
    driver.lose_after(driver.ends()[0])
    driver.cluster.groups["app"].committed.clear()
    driver.feed(0, values(8, seed + 10))
    driver.finish_in_order()


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


def damage(driver: Driver, which: int) -> None:
    """Damage the newest snapshot: without its chunk, an empty one, torn, altered, or without its manifest."""
    log = driver.cluster.log("checkpoints", 0)
    end = b"/manifest" if which == 4 else b"/0"
    place = max(offset for offset, entry in enumerate(log.entries) if (entry.key or b"").endswith(end))
    value = log.entries[place].value or b""
    changed = [None, b"", value[:-1], bytes([value[0] ^ 1]) + value[1:], None][which]
    log.entries[place] = log.entries[place]._replace(value=changed)


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("older", [False, True])
def test_a_damaged_snapshot_costs_a_longer_replay_and_no_byte(which: int, older: bool) -> None:
    """From the snapshot before it, or where there is none from the first record."""
    driver, _ = killed_with_something_to_replay()
    if older:
        driver.feed(0, values(4, 8))
        driver.finish()  # with a second snapshot
        driver.cluster.log("records", 0).low = RECORDS
    damage(driver, which)
    driver.feed(0, values(8, 9))
    driver.finish_in_order()


@pytest.mark.parametrize("which", range(5))
def test_a_damaged_snapshot_is_refused_where_nothing_proves_an_older_state(which: int) -> None:
    driver, _ = killed_with_something_to_replay()
    damage(driver, which)
    driver.cluster.log("records", 0).low = 1
    reason = refused(driver)
    assert ["torn", "torn", "differ in number or size", "sha256", "no manifest"][which] in reason
    assert (
        "records 0 to 0, which a replay needs, were deleted" in reason
        and "reset --partition 0 --keep all --yes" in reason
    )


def test_a_damaged_snapshot_of_a_group_that_expired_is_passed_over_or_refused() -> None:
    for deleted in (False, True):
        driver, _ = killed_with_something_to_replay()
        driver.feed(0, values(4, 8))
        driver.finish()
        damage(driver, 3)
        driver.cluster.groups["app"].committed.clear()
        if deleted:
            log = driver.cluster.log("checkpoints", 0)
            places = [
                offset for offset, entry in enumerate(log.entries) if (entry.key or b"").endswith(b"/0")
            ]
            log.low = max(places)
            assert "no older snapshot is left" in refused(driver)
        else:
            driver.finish_in_order()


@pytest.mark.parametrize("low", [0, 1])
def test_emptied_checkpoints_are_made_again_from_a_log_that_is_whole(low: int) -> None:
    driver, _ = killed_with_something_to_replay()
    log = driver.cluster.log("checkpoints", 0)
    log.entries.clear()
    driver.cluster.log("records", 0).low = low
    if low:
        assert "that topic was emptied or created again" in refused(driver)
    else:
        driver.feed(0, values(8, 9))
        driver.finish_in_order()


def test_a_snapshot_that_stays_missing_is_not_asked_for_without_a_pause() -> None:
    """For the seconds after which it is lost the brokers, and other partitions, have other things to do."""
    driver, _ = killed_with_something_to_replay()
    driver.cluster.log("checkpoints", 0).entries.clear()
    driver.cluster.log("records", 0).low = 1
    clock = driver.cluster.clock
    clock.sleep(11)  # until the group knows that the worker is dead
    running, until = driver.start(), clock.now + 2
    while clock.now < until:
        driver.turn(0)
    assert driver.workers and len(running.process.calls) < 2_000


def test_without_a_snapshot_an_output_that_is_off_by_now_is_named() -> None:
    """Nothing is left that says under which settings the first records were folded."""
    driver = Driver(Settings(**TINY, predictions={"enabled": True}), partitions=1)
    driver.feed(0, values(40, 1))
    assert driver.run_to_end() == []
    driver.cluster.log("checkpoints", 0).entries.clear()
    (reason,) = driver.run_to_end(Settings(**TINY))
    assert "chain of predictions is off here" in reason and "reset --partition 0" in reason


def test_a_manifest_that_was_altered_is_refused() -> None:
    """As one that is signed with another key is: an older snapshot is no answer to somebody who writes to the topic."""
    driver, _ = killed_with_something_to_replay()
    log = driver.cluster.log("checkpoints", 0)
    place = max(
        offset for offset, entry in enumerate(log.entries) if (entry.key or b"").endswith(b"/manifest")
    )
    value = re.sub(rb'"records":\d+', b'"records":"x"', log.entries[place].value or b"")
    log.entries[place] = log.entries[place]._replace(value=value)
    reason = refused(driver)
    assert "its signature fits none of the keys" in reason
    assert "reset --partition 0 --keep all --yes" in reason


def test_what_retention_has_deleted_of_an_output_is_not_published_again() -> None:
    driver, _ = killed_with_something_to_replay()
    for name in driver.settings.outputs:
        log = driver.cluster.log(getattr(driver.settings.topics, name), 0)
        log.low = log.high
    driver.feed(0, values(8, 9))
    driver.finish_in_order()


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


def test_a_partition_that_waits_behind_an_open_transaction_says_so_at_once() -> None:
    driver = deepcopy(killed()[0])
    driver.lose()
    driver.cluster.log("explanations", 0).append(Entry(b"", b"", (), 0), "of another program")
    running = driver.start()
    driver.turn(0, 20)
    assert running.worker is not None
    (waits,) = running.worker.report(0.0).partitions  # type: ignore[attr-defined]
    assert waits.phase == "waiting" and "explanations partition 0: another program" in waits.reason
    driver.cluster.log("explanations", 0).end("of another program", False, 0)
    driver.finish()
    assert driver.ended == [] == driver.differences()


RARE = {"checkpoint": {**TINY["checkpoint"], "max_replay_seconds": 1e6, "max_age": 1e6}}


def test_a_worker_that_retention_overtakes_stores_what_it_has_learnt() -> None:
    driver = Driver(Settings(**TINY | RARE))
    for partition in range(2):
        driver.feed(partition, values(RECORDS))
    driver.start()
    while driver.committed() != driver.ends():
        driver.turn(0)
    driver.feed(0, values(10, 1))
    driver.cluster.log("records", 0).low = RECORDS + 5
    driver.turn(0, 20)
    (reason,) = driver.ended
    assert "retention deleted records" in reason
    pointers = [Pointer.decode(metadata) for _, metadata in driver.positions().values()]
    assert [pointer and pointer.next_offset for pointer in pointers] == [RECORDS, RECORDS]


def behind_its_snapshot(**settings: Any) -> Driver:
    """A partition with a snapshot at its first 30 records, whose worker was killed when it had folded 20 more."""
    driver = Driver(Settings(**{**TINY, **RARE, **settings}), partitions=1)
    driver.feed(0, values(30))
    assert driver.run_to_end() == []
    driver.feed(0, values(20, 1))
    driver.lose_after(driver.ends()[0])
    return driver


def explanations(driver: Driver) -> list[Any]:
    return [json.loads(value or b"") for _, value, _ in driver.published(0)["explanations"]]


def test_each_refusal_says_what_was_lost_and_what_to_do() -> None:
    driver = behind_its_snapshot()
    log, metadata = driver.cluster.log("records", 0), driver.positions()[0][1]
    log.low = 40
    said = refused(driver)
    assert "records 30 to 39, which a replay needs," in said
    assert "the log starts at 40, the snapshot is at 30, the committed offset is 50" in said
    assert "explain-sidecar reset --partition 0 --keep all --yes" in said
    committed = driver.cluster.groups["app"].committed
    committed["records", 0] = 10, metadata
    assert "beyond the committed offset 10; the offset was moved back" in refused(driver)
    committed["records", 0] = 10, ""
    assert "is not ours: it has no pointer to a snapshot" in refused(driver)
    log.low = 0
    committed["records", 0] = 51, metadata
    assert "committed offset 51 is beyond the end of the log 50; records were lost" in refused(driver)
    committed["records", 0] = 50, metadata
    assert driver.run_to_end() == []
    driver.feed(0, values(10, 2))
    log.low = 55
    assert "records 50 to 54, which were never folded," in refused(driver)


NO_EXPLANATION = {"emit": {"every": 1000}}
NEIGHBOUR = ("of", b"another sidecar")


@pytest.mark.parametrize(
    ("settings", "bad"),
    [
        pytest.param({}, True, id="explanations"),
        pytest.param(NO_EXPLANATION, True, id="dead letters alone"),
        pytest.param({**NO_EXPLANATION, "drift": {"enabled": True, "window": 15, "bootstrap": 2}}, False, id="drift alone"),
        pytest.param(NO_EXPLANATION, False, id="a snapshot alone"),
    ],
)  # fmt: skip
def test_what_was_published_after_an_offset_of_the_past_is_found_among_that_of_neighbours(
    settings: dict[str, Any], bad: bool
) -> None:
    driver = Driver(Settings(**{**TINY, **settings}), partitions=1)
    given = [value for value in values(120) if bad or b"label" in value]
    driver.feed(0, given[:30])
    assert driver.run_to_end() == []
    before = dict(driver.cluster.groups["app"].committed)
    driver.feed(0, given[30:60])
    assert driver.run_to_end() == []
    logs = [driver.cluster.log(getattr(driver.settings.topics, name), 0) for name in driver.settings.outputs]
    for log in logs:
        own = next(
            (entry for entry in log.entries if not entry.control), Entry(b"k", b'{"app_id":"app"}', (), 0)
        )
        headers = tuple((name, b"another" if value == b"app" else value) for name, value in own.headers)
        value = (own.value or b"").replace(b'"app_id":"app"', b'"app_id":"another"')
        for _ in range(100):
            log.append(own._replace(value=value, headers=(*headers, NEIGHBOUR)))
    driver.cluster.groups["app"].committed.update(before)
    driver.feed(0, given[60:])
    driver.finish()
    for log in logs:  # from here on nobody reads those of the neighbour
        log.entries = [
            entry._replace(control=NEIGHBOUR in entry.headers) if not entry.control else entry
            for entry in log.entries
        ]
    assert driver.differences() == [] and driver.ended == []


@pytest.mark.parametrize("deleted", [0, 4])
def test_explanations_without_offset_and_snapshot_are_reproduced_or_refused(deleted: int) -> None:
    """As after the first transaction of a partition, if it is committed in part."""
    driver = behind_its_snapshot()
    driver.cluster.groups["app"].committed.clear()
    driver.cluster.create("checkpoints", 1, cleanup_policy="compact")
    driver.feed(0, values(10, 2))
    driver.cluster.log("records", 0).low = deleted
    if deleted:
        assert "gives another state than the one that published" in refused(driver)
    else:
        driver.finish_in_order()


@pytest.mark.parametrize(("name", "fold"), [("Unpredictable", True), ("Wavering", False)])
def test_a_replay_that_diverges_is_refused_and_names_both_sides_and_is_accepted_by_name_alone(
    name: str, fold: bool
) -> None:
    """Also where the explanations alone differ, to which the fold digest is blind."""
    model = {"model": {"factory": f"tests.driver.model:{name}"}}
    driver = behind_its_snapshot(**model)

    def accepting(**other: Any) -> Settings:
        recovery = {"on_divergence": "continue", "partition": 0, "offset": 50} | other
        return Settings(**{**TINY, **RARE, **model, "recovery": recovery})

    said = refused(driver)
    assert "the replay up to offset 50 gives another state than the one that published" in said
    assert ("fold digest" in said) == fold
    assert re.search(
        r"chain of explanations (\w+) of (\d+) messages here, (?!\1)\w+ of \2 messages there \(epoch", said
    )
    assert "recovery.on_divergence=continue, recovery.partition=0, recovery.offset=50" in said
    for other in ({"offset": 49}, {"partition": 1}, {"on_divergence": "fail"}):
        assert driver.run_to_end(accepting(**other)) != [], other
    before = len(explanations(driver))
    driver.start(0, accepting())
    driver.turn(0, 50)
    driver.lose()  # once it has stored what was accepted, before anything else
    driver.feed(0, values(20, 5))
    assert driver.run_to_end() == []
    found = explanations(driver)
    assert found[before]["notices"] == ["an operator accepted that the replay up to offset 50 diverged"]
    assert [message["seq"] for message in found] == list(range(len(found)))
    the_chain_holds(driver)
    driver.feed(0, values(20, 6))
    assert driver.run_to_end() == []


@pytest.mark.parametrize("hidden", ["dead_letters", "explanations"])
def test_an_accepted_divergence_loses_no_message_of_an_output_that_did_not_diverge(hidden: str) -> None:
    """Its last transaction was committed in part: of one output nothing is visible. The model, and so the explanations, diverge."""
    model = {"model": {"factory": "tests.driver.model:Unpredictable"}}
    driver = Driver(Settings(**{**TINY, **RARE, **model}), partitions=1)
    driver.feed(0, values(30))
    assert driver.run_to_end() == []
    driver.feed(0, [b"{", *values(6, 1)])

    def torn(client: Client) -> None:
        if client.process.calls[-1] == "commit_transaction":
            client.process.faults.clear()
            faults.both(faults.torn([(OUTPUTS[hidden], 0)]), faults.kill)(driver)(client)

    driver.start(faults=dict.fromkeys(range(faults.MANY), torn))
    driver.turn(0, 50)
    assert not driver.workers
    driver.cluster.abort_torn("app-test-0")
    driver.cluster.clock.sleep(AWAY_SECONDS)
    offset = driver.positions()[0][0]
    assert f"recovery.offset={offset}" in refused(driver)
    recovery = {"on_divergence": "continue", "partition": 0, "offset": offset}
    driver.feed(0, [*values(20, 5), b"{"])
    assert driver.run_to_end(Settings(**{**TINY, **RARE, **model, "recovery": recovery})) == []
    letters = [dict(headers) for _, _, headers in driver.published(0)["dead_letters"]]
    assert [int(letter["__explain.seq"] or b"") for letter in letters] == list(range(len(letters)))
    the_chain_holds(driver)


def the_chain_holds(driver: Driver) -> None:
    """Verify the digests as a foreign reader would, from the documentation alone."""
    digest = hashlib.blake2b(b"app/records/0/0/explanations", digest_size=16).digest()
    published = driver.published(0)["explanations"]
    for _, value, _ in published:
        assert value is not None
        body = value[: value.rindex(b',"digest":"')]
        digest = hashlib.blake2b(digest + body, digest_size=16).digest()
        assert json.loads(value)["digest"] == digest.hex()
    assert len(published) > 10


def test_the_digest_chain_verifies_across_restarts() -> None:
    driver = behind_its_snapshot()
    driver.feed(0, values(20, 2))
    driver.finish()
    the_chain_holds(driver)


LINEAR = {"model": {"name": "linear"}}


def keyed(path: Path | None, **checkpoint: Any) -> Settings:
    known = {**TINY["checkpoint"], "hmac_key_file": path, **checkpoint}
    return Settings(**{**TINY, **LINEAR, "checkpoint": known})


def goes_on(driver: Driver, settings: Settings) -> None:
    driver.feed(0, values(20, driver.ends()[0]))
    assert driver.run_to_end(settings) == []


def test_a_manifest_signed_with_another_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("the-first-key-of-the-sidecar\n")
    driver = Driver(keyed(path), partitions=1)
    goes_on(driver, driver.settings)
    path.write_text("a-new-key-that-signs-from-now\nthe-first-key-of-the-sidecar\n")
    goes_on(driver, driver.settings)
    path.write_text("a-key-that-has-never-been-used\n")
    assert "fits none of the keys" in refused(driver)
    assert driver.differences() == []


def test_a_sidecar_without_a_key_gets_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its unsigned snapshot is accepted only as long as the setting says so."""
    path = tmp_path / "keys"
    path.write_text("the-first-key-of-the-sidecar\n")
    driver = Driver(keyed(None), partitions=1)
    with caplog.at_level("WARNING", "explain_sidecar"):
        goes_on(driver, driver.settings)
    assert "can falsify a model" in caplog.text
    driver.settings = keyed(path)
    assert "it has no signature" in refused(driver)
    goes_on(driver, keyed(path, allow_unsigned=True))
    goes_on(driver, driver.settings)
    assert driver.differences() == []
