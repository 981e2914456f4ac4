"""Rows on the in-memory cluster: whatever happens to the workers, each is published once, in the same transaction as its explanation."""

import json

import pytest

from explain_sidecar.settings import Settings
from tests.driver.driver import TINY, Driver
from tests.driver.faults import run_under_faults
from tests.driver.test_alarms import records


@pytest.mark.parametrize("seed", range(3))
def test_with_faults_at_any_call_every_row_is_published_once(seed):
    known = {**TINY, "emit": {"every": 3, "periods": [100, "all"]}, "rows": {"enabled": True}}
    given = {partition: records(10 * seed + partition) for partition in range(2)}
    driver = run_under_faults(Settings(**known), given, seed)
    assert driver.differences() == []
    for partition in range(2):
        found = [json.loads(value) for _, value, _ in driver.published(partition)["rows"]]
        assert found and [row["seq"] for row in found] == list(range(len(found)))
        assert {row["period"] for row in found} == {"100"}
        assert {row["feature"] for row in found} >= {"a", "b", "loss", "gain"}


def test_rows_that_are_switched_on_begin_a_new_epoch_with_the_model_of_before():
    driver = Driver(Settings(**TINY), partitions=1)
    driver.feed(0, records(1)[:200])
    assert driver.run_to_end() == []
    driver.feed(0, records(2))
    driver.settings = Settings(**TINY, rows={"enabled": True})
    assert driver.run_to_end() == []
    found = [json.loads(value) for _, value, _ in driver.published(0)["explanations"]]
    first = next(message for message in found if message["epoch"] == 1)
    assert {"model", "explainer ipfi"} <= {*first["carried"]["carried"]} and first["carried"]["begun"] == []
