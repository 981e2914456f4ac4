"""Alarms, and the attributions that they ask for, on the in-memory cluster: whatever happens to the workers, each is published once."""

import json
import random

import pytest

from explain_sidecar.settings import Settings
from tests.crash.streams import ALARMS
from tests.driver.driver import TINY, Driver
from tests.driver.faults import run_under_faults

COUNT, TURN = 420, 250


def records(seed):
    """The label follows a, from the 250th record on the opposite of it; one in ten is no record, and then six in ten."""
    rng = random.Random(seed)
    made = []
    for i in range(COUNT):
        a = rng.randrange(2)
        y = int((a == 1) != (i >= TURN)) if rng.random() < 0.9 else rng.randrange(2)
        bad = rng.random() < (0.1 if i < TURN else 0.6)
        made.append(b"{" if bad else json.dumps({"a": a, "b": rng.random(), "label": y}).encode())
    return made


@pytest.mark.parametrize("seed", range(3))
def test_with_faults_at_any_call_every_alarm_is_published_once(seed):
    known = {
        **TINY,
        "explainers": [{**TINY["explainers"][0], "by": "b", "segments": 1}],
        "alarms": {**ALARMS, "subjects": [*ALARMS["subjects"], "segments"]},
        "drift": {"enabled": True, "on_alarm": True, "window": 60},
    }
    given = {partition: records(10 * seed + partition) for partition in range(2)}
    driver = run_under_faults(Settings(**known), given, seed)
    assert driver.differences() == []
    for partition in range(2):
        found = [json.loads(value) for _, value, _ in driver.published(partition)["alarms"]]
        assert {alarm["subject"] for alarm in found} >= {"loss", "rejected"}
        assert any(alarm["segment"] for alarm in found)
        assert [alarm["seq"] for alarm in found] == list(range(len(found)))
        changes = [json.loads(value) for _, value, _ in driver.published(partition)["drift"]]
        assert changes and [change["seq"] for change in changes] == list(range(len(changes)))
        for change in changes:
            asked = found[change["alarm"]["seq"]]
            assert asked["subject"] != "rejected"
            assert change["alarm"] == {name: asked[name] for name in ("seq", "offset", "cause")}


def test_changed_settings_of_alarms_are_refused_and_named_or_begin_a_new_epoch():
    known = {**TINY, "alarms": ALARMS}
    driver = Driver(Settings(**known), partitions=1)
    driver.feed(0, records(1)[:200])
    assert driver.run_to_end() == []
    before = driver.published(0)
    driver.feed(0, records(2))
    for changed, named in (
        ({**ALARMS, "one_in": 2_000}, "alarms.one_in: was 1000, is 2000"),
        ({**ALARMS, "subjects": ["loss"]}, "alarms.subjects: was"),
        ({}, "alarms.enabled: was true, is the default"),
    ):
        strict = {**TINY["checkpoint"], "on_mismatch": "fail"}
        (reason,) = driver.run_to_end(Settings(**{**TINY, "alarms": changed, "checkpoint": strict}))
        assert f"\n  {named}" in reason
        assert driver.published(0) == before
    other = {
        **known,
        "alarms": {**ALARMS, "one_in": 2_000},
        "checkpoint": {**TINY["checkpoint"], "on_mismatch": "reset"},
    }
    assert driver.run_to_end(Settings(**other)) == []
    new = [json.loads(value) for _, value, _ in driver.published(0)["alarms"][len(before["alarms"]) :]]
    assert new and {alarm["epoch"] for alarm in new} == {1} and {alarm["one_in"] for alarm in new} == {2_000}
    assert [alarm["seq"] for alarm in new] == list(range(len(new)))
