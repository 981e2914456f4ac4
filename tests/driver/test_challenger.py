"""Two models on the in-memory cluster: whatever happens to the workers, the same comparison is published, each message once."""

import json

import pytest

from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.settings import Settings
from tests.driver import test_versions
from tests.driver.driver import TINY, values
from tests.driver.faults import run_under_faults
from tests.versions import write


@pytest.mark.parametrize("seed", range(3))
def test_with_faults_at_any_call_the_comparison_is_the_same(seed):
    challenger = {"factory": "river.tree:HoeffdingTreeClassifier", "params": {"grace_period": 20}}
    explainers = [{"kind": kind, "n_samples": 1, "reservoir": {"size": 5}} for kind in ("ipfi", "isage")]
    known = {**TINY, "challenger": challenger, "explainers": explainers}
    given = {partition: values(260, 10 * seed + partition) for partition in range(2)}
    driver = run_under_faults(Settings(**known), given, seed)
    assert driver.differences() == []
    for partition in range(2):
        newest = json.loads(driver.published(partition)["explanations"][-1][1])["challenger"]
        assert newest["difference"]["cross_entropy"]["records"] > 50
        assert newest["importance_difference"]["isage"]["cross_entropy"]["a"]["value"] is not None


@pytest.mark.parametrize("seed", range(3))
def test_with_versions_that_come_and_go_the_comparison_is_the_same(tmp_path, seed):
    known = {
        **TINY,
        "model": {},
        "models": {"pattern": write(tmp_path, *test_versions.VERSIONS), "close_after": 20, "max_open": 2},
        "record": {"model_version": "served_by"},
        "challenger": {
            "factory": "river.tree:HoeffdingTreeClassifier",
            "params": {"grace_period": 20},
            "every": 1,
            "limits": {"cross_entropy": 5.0},
        },
        "explainers": [{"kind": kind, "n_samples": 1, "reservoir": {"size": 5}} for kind in ("ipfi", "isage")],
    }  # fmt: skip
    known = Settings(**known)
    given = {partition: test_versions.values(partition, 260 * seed, 260) for partition in range(2)}
    driver = run_under_faults(known, given, seed, models=VersionSource(known).find)
    assert driver.differences() == []
    for partition in range(2):
        told = [json.loads(value) for _, value, _ in driver.published(partition)["explanations"]]
        assert {message["version"]["name"] for message in told} == set(test_versions.VERSIONS)
        assert any(message["challenger"]["difference"]["cross_entropy"]["records"] for message in told)
