"""Predictions and records without a label on the in-memory cluster: whatever happens to the workers, each is told once, in the same bytes."""

import json

import pytest

from explain_sidecar.settings import Settings
from tests.driver import faults
from tests.driver.driver import TINY, Driver, values
from tests.driver.faults import PRODUCER, run_under_faults

ASKED = {**TINY, "predictions": {"enabled": True, "most": 1}, "record": {"unlabelled": "predict"}}


def told(driver, partition):
    return [json.loads(value) for _, value, _ in driver.published(partition)["predictions"]]


@pytest.mark.parametrize("seed", range(3))
def test_with_faults_at_any_call_every_prediction_is_published_once(seed):
    given = {partition: values(60, 10 * seed + partition) for partition in range(2)}
    driver = run_under_faults(Settings(**ASKED), given, seed)
    assert driver.differences() == []
    for partition, records in given.items():
        expected = [offset for offset, value in enumerate(records) if value != b"{"]
        found = told(driver, partition)
        assert [one["offset"] for one in found] == expected
        assert [one["label"] is None for one in found] == [
            b"label" not in records[offset] for offset in expected
        ]


@pytest.mark.parametrize(
    ("kind", "names"),
    [(faults.kill, ()), (faults.lose_answer, PRODUCER), (faults.refuse_message, ("produce",))],
    ids=["killed", "the answer is lost", "a message is not delivered"],
)
def test_at_every_call(kind, names):
    def run(number=None):
        driver = Driver(Settings(**ASKED), partitions=1)
        driver.feed(0, values(14, 3))
        process = driver.start(faults={} if number is None else {number: kind(driver)}).process
        for _ in range(6):
            driver.turn(0)
        driver.finish()
        return driver, process.calls

    expected = told(run()[0], 0)
    assert len(expected) > 10 and any(one["label"] is None for one in expected)
    for number, name in enumerate(run()[1]):
        if not names or name in names:
            driver, _ = run(number)
            assert driver.differences() == [] and told(driver, 0) == expected, (number, name)


def test_predictions_that_are_switched_on_begin_a_new_epoch_with_all_that_was_learnt():
    driver = Driver(Settings(**TINY), partitions=1)
    driver.feed(0, values(50, 1))
    assert driver.run_to_end() == []
    driver.feed(0, values(20, 2))
    driver.settings = Settings(**ASKED)
    assert driver.run_to_end() == []
    found = told(driver, 0)
    assert {one["epoch"] for one in found} == {1} and found[0]["background_rows"] == 5
    explained = [json.loads(value) for _, value, _ in driver.published(0)["explanations"]]
    first = next(message for message in explained if message["epoch"] == 1)
    assert "model" in first["carried"]["carried"] and first["carried"]["begun"] == []
