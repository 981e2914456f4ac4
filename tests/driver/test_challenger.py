"""Two models on the in-memory cluster: whatever happens to the workers, the same comparison is published, each message once."""

import json
import random

import pytest

from service.settings import Settings
from tests.driver.driver import TINY, Driver, values
from tests.driver.test_schedules import FAULTS


@pytest.mark.parametrize("seed", range(3))
def test_with_faults_at_any_call_the_comparison_is_the_same(seed):
    rng = random.Random(seed)
    challenger = {"factory": "river.tree:HoeffdingTreeClassifier", "params": {"grace_period": 20}}
    explainers = [{"kind": kind, "n_samples": 1, "reservoir": {"size": 5}} for kind in ("ipfi", "isage")]
    given = {**TINY, "challenger": challenger, "explainers": explainers}
    driver = Driver(Settings(**given), partitions=2, tick=1e-3)
    left = {partition: values(260, 10 * seed + partition) for partition in range(2)}
    while any(left.values()):
        for partition, rows in left.items():
            driver.feed(partition, rows[:35])
            left[partition] = rows[35:]
        slot = rng.randrange(2)
        if slot not in driver.workers:
            driver.start(slot)
        else:
            process = driver.workers[slot].process
            process.faults[len(process.calls) + rng.randrange(60)] = rng.choice(list(FAULTS.values()))(driver)
        for slot in range(2):
            driver.turn(slot, rng.randrange(1, 8))
    driver.finish()
    assert driver.differences() == []
    for partition in range(2):
        newest = json.loads(driver.published(partition)["explanations"][-1][1])["challenger"]
        assert newest["difference"]["cross_entropy"]["records"] > 50
        assert newest["importance_difference"]["isage"]["cross_entropy"]["a"]["value"] is not None
