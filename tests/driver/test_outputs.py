"""Every output, and models that are compared, on the in-memory cluster: whatever happens to the workers, each message is published once."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explain_sidecar.fold.selection import Choice
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.settings import Settings
from tests import versions
from tests.crash.streams import ALARMS
from tests.driver import faults, test_versions
from tests.driver.driver import TINY, Driver, values
from tests.driver.test_versions import VERSIONS

COUNT, TURN = 420, 250


def turning(partition: int) -> list[bytes]:
    """The label follows a, from the 250th record on the opposite of it; one in ten is no record, and then six in ten."""
    rng = random.Random(partition)
    made = []
    for i in range(COUNT):
        a = rng.randrange(2)
        y = int((a == 1) != (i >= TURN)) if rng.random() < 0.9 else rng.randrange(2)
        bad = rng.random() < (0.1 if i < TURN else 0.6)
        made.append(b"{" if bad else json.dumps({"a": a, "b": rng.random(), "label": y}).encode())
    return made


def told(driver: Driver, partition: int, name: str) -> list[Any]:
    return [json.loads(value or b"") for _, value, _ in driver.published(partition)[name]]


def alarms_and_their_attributions(driver: Driver, partition: int) -> None:
    found = told(driver, partition, "alarms")
    assert {alarm["subject"] for alarm in found} >= {"loss", "rejected"}
    assert any(alarm["segment"] for alarm in found)
    assert [alarm["seq"] for alarm in found] == list(range(len(found)))
    changes = told(driver, partition, "drift")
    assert changes and [change["seq"] for change in changes] == list(range(len(changes)))
    for change in changes:
        asked = found[change["alarm"]["seq"]]
        assert asked["subject"] != "rejected"
        assert change["alarm"] == {name: asked[name] for name in ("seq", "offset", "cause")}


def rows_of_a_period(driver: Driver, partition: int) -> None:
    found = told(driver, partition, "rows")
    assert found and [row["seq"] for row in found] == list(range(len(found)))
    assert {row["period"] for row in found} == {"100"}
    assert {row["feature"] for row in found} >= {"a", "b", "loss", "gain"}


def a_prediction_of_each_record(driver: Driver, partition: int) -> None:
    records = {record.offset: record.value or b"" for record in driver.inputs(partition)}
    found = {one["offset"]: one for one in told(driver, partition, "predictions")}
    assert list(found) == [offset for offset, value in records.items() if value != b"{"]
    assert all((one["label"] is None) == (b"label" not in records[offset]) for offset, one in found.items())


def a_comparison(driver: Driver, partition: int) -> None:
    newest = told(driver, partition, "explanations")[-1]["challenger"]
    assert newest["difference"]["cross_entropy"]["records"] > 50
    assert newest["importance_difference"]["isage"]["cross_entropy"]["a"]["value"] is not None


def a_comparison_of_each_version(driver: Driver, partition: int) -> None:
    found = told(driver, partition, "explanations")
    assert {message["version"]["name"] for message in found} == set(VERSIONS)
    assert any(message["challenger"]["difference"]["cross_entropy"]["records"] for message in found)


def chosen_predictions_of_versions(driver: Driver, partition: int) -> None:
    read = [json.loads(record.value or b"") for record in driver.inputs(partition)]
    found = told(driver, partition, "predictions")
    choice = Choice(driver.settings.predictions)
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


def served(partition: int) -> list[bytes]:
    """Records of versions that overlap; every third has no label."""
    rng = random.Random(partition)
    order = [VERSIONS[(i // 12 + (rng.random() < 0.3)) % len(VERSIONS)] for i in range(60)]
    made = versions.records(order, partition)
    return [
        json.dumps({**x, "id": f"{partition}-{i}", "label": None if i % 3 else x["label"]}).encode()
        for i, x in enumerate(made)
    ]


TREE = {"factory": "river.tree:HoeffdingTreeClassifier", "params": {"grace_period": 20}}
BOTH = {
    "explainers": [{"kind": kind, "n_samples": 1, "reservoir": {"size": 5}} for kind in ("ipfi", "isage")]
}
BY_VERSION = {"model": {}, "models": {"close_after": 20, "max_open": 2}}

PREDICTED = {"predictions": {"enabled": True, "most": 1}, "record": {"unlabelled": "predict"}}

Case = tuple[dict[str, Any], Callable[[int], list[bytes]], Callable[[Driver, int], None]]

CASES: dict[str, Case] = {
    "alarms, and what they ask for": (
        {
            "explainers": [{**TINY["explainers"][0], "by": "b", "segments": 1}],
            "alarms": {**ALARMS, "subjects": [*ALARMS["subjects"], "segments"]},
            "drift": {"enabled": True, "on_alarm": True, "window": 60},
        },
        turning,
        alarms_and_their_attributions,
    ),
    "rows": (
        {"emit": {"every": 3, "periods": [100, "all"]}, "rows": {"enabled": True}},
        turning,
        rows_of_a_period,
    ),
    "predictions": (
        PREDICTED,
        lambda partition: values(120, partition),
        a_prediction_of_each_record,
    ),
    "a challenger": (
        {"challenger": TREE, **BOTH},
        lambda partition: values(260, partition),
        a_comparison,
    ),
    "versions with a challenger": (
        {
            **BY_VERSION,
            **BOTH,
            "record": {"model_version": "served_by"},
            "challenger": {**TREE, "every": 1, "limits": {"cross_entropy": 5.0}},
        },
        lambda partition: test_versions.values(partition, 0, 260),
        a_comparison_of_each_version,
    ),
    "predictions of versions, as CloudEvents": (
        {
            **BY_VERSION,
            "challenger": {**TREE, "every": 1},
            "record": {"model_version": "served_by", "unlabelled": "predict", "id": "id"},
            "predictions": {"enabled": True, "every": 2},
            "cloudevents": {"enabled": True},
        },
        served,
        chosen_predictions_of_versions,
    ),
}


@pytest.mark.parametrize(("sections", "records", "holds"), CASES.values(), ids=CASES)
def test_with_faults_at_any_call_each_output_is_the_same(
    sections: dict[str, Any],
    records: Callable[[int], list[bytes]],
    holds: Callable[[Driver, int], None],
    tmp_path: Path,
) -> None:
    if "models" in sections:
        pattern = versions.write(tmp_path, *VERSIONS)
        sections = {**sections, "models": {**sections["models"], "pattern": pattern}}
    known = Settings(**{**TINY, **sections})
    find = {"models": VersionSource(known).find} if "models" in sections else {}
    driver = faults.run_under_faults(
        known, {partition: records(partition) for partition in range(2)}, 0, **find
    )
    assert driver.differences() == []
    for partition in range(2):
        holds(driver, partition)


def test_at_every_call_at_which_a_worker_is_killed_each_prediction_is_told_once() -> None:
    def began() -> Driver:
        driver = Driver(Settings(**TINY, **PREDICTED), partitions=1)
        driver.feed(0, values(14, 3))
        return driver

    def end(driver: Driver) -> None:
        for seed, turns in ((4, 8), (5, 4)):
            driver.turn(0, turns)
            driver.feed(0, values(4, seed))
        driver.finish()

    for driver, call in faults.at_each(faults.kill, faults.new, began, end):
        assert driver.differences() == [], call
        assert any(one["label"] is None for one in told(driver, 0, "predictions"))
