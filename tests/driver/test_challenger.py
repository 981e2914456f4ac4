"""Two models on the in-memory cluster: whatever happens to the workers, the same comparison is published, each message once."""

import json
import random

import pytest

from service.settings import Settings
from tests.driver.driver import TINY, Driver, values
from tests.driver.faults import run_under_faults


@pytest.mark.parametrize("seed", range(3))
def test_with_faults_at_any_call_the_comparison_is_the_same(seed):
    challenger = {"factory": "river.tree:HoeffdingTreeClassifier", "params": {"grace_period": 20}}
    explainers = [{"kind": kind, "n_samples": 1, "reservoir": {"size": 5}} for kind in ("ipfi", "isage")]
    known = {**TINY, "challenger": challenger, "explainers": explainers}
    driver = Driver(Settings(**known), partitions=2, tick=1e-3)
    given = {partition: values(260, 10 * seed + partition) for partition in range(2)}
    run_under_faults(driver, given, random.Random(seed))
    assert driver.differences() == []
    for partition in range(2):
        newest = json.loads(driver.published(partition)["explanations"][-1][1])["challenger"]
        assert newest["difference"]["cross_entropy"]["records"] > 50
        assert newest["importance_difference"]["isage"]["cross_entropy"]["a"]["value"] is not None
