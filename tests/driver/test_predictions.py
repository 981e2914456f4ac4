"""Predictions and records without a label on the in-memory cluster: whatever happens to the workers, each is told once, in the same bytes."""

import json
import random

import pytest

from explain_sidecar.fold.selection import Choice
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.settings import Settings
from tests import versions
from tests.driver import faults
from tests.driver.driver import TINY, Driver, values
from tests.driver.faults import PRODUCER, at, run_under_faults
from tests.driver.test_versions import VERSIONS

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
    ("kind", "when"),
    [(faults.kill, faults.new), (faults.lose_answer, at(*PRODUCER)), (faults.refuse_message, at("produce"))],
    ids=["killed", "the answer is lost", "a message is not delivered"],
)
def test_at_every_call(kind, when):
    def run(number=None):
        driver = Driver(Settings(**ASKED), partitions=1)
        driver.feed(0, values(14, 3))
        note, moments = faults.noted(driver)
        process = driver.start(faults=note if number is None else {number: kind(driver)}).process
        driver.turn(0, 8)
        driver.feed(0, values(4, 4))
        driver.turn(0, 4)
        driver.feed(0, values(4, 5))
        driver.finish()
        assert driver.differences() == [], number
        return told(driver, 0), moments, process.calls

    expected, moments, _ = run()
    assert len(expected) > 10 and any(one["label"] is None for one in expected)
    for number, name, *_ in filter(when, moments):
        found, _, called = run(number)
        assert found == expected and called[number] == name, (number, name)


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


def test_versions_a_challenger_and_cloudevents_leave_each_prediction_told_once(tmp_path):
    versions.write(tmp_path, *VERSIONS)
    known = Settings(
        **{
            **TINY,
            "model": {},
            "models": {"pattern": str(tmp_path / "{version}.json"), "close_after": 20, "max_open": 2},
            "challenger": {"factory": "river.tree:HoeffdingTreeClassifier", "every": 1},
            "record": {"model_version": "served_by", "unlabelled": "predict", "id": "id"},
            "predictions": {"enabled": True, "every": 2},
            "cloudevents": {"enabled": True},
        }
    )
    given = {partition: served(partition, 60) for partition in range(2)}
    driver = run_under_faults(known, given, 5, models=VersionSource(known).find)
    assert driver.differences() == []
    choice = Choice(known.predictions)
    for partition, records in given.items():
        read = list(map(json.loads, records))
        found = told(driver, partition)
        assert [one["offset"] for one in found] == list(filter(choice.has_offset, range(60)))
        assert {one["version"] for one in found} == set(VERSIONS)
        for one in found:
            x = read[one["offset"]]
            assert (one["id"], one["version"]) == (x["id"], x["served_by"])
            assert one["label"] == (None if x["label"] is None else str(x["label"]))
            known_label = one["probabilities"].get("1")
            # a label that has not come yet has no name
            assert known_label in (None, pytest.approx(versions.predicted(x["served_by"], x)))
        events = [dict(headers) for _, _, headers in driver.published(partition)["predictions"]]
        assert {event["ce_type"] for event in events} == {b"org.explanation-sidecar.prediction.v1"}
        assert len({event["ce_id"] for event in events}) == len(events)


def served(partition, count):
    """Records of versions that overlap; every third has no label."""
    rng = random.Random(partition)
    order = [VERSIONS[(i // 12 + (rng.random() < 0.3)) % len(VERSIONS)] for i in range(count)]
    made = versions.records(order, partition)
    return [
        json.dumps({**x, "id": f"{partition}-{i}", "label": None if i % 3 else x["label"]}).encode()
        for i, x in enumerate(made)
    ]
