"""A broker of three dies under load: nothing is lost, and no byte is wrong; `make cluster` kills all three in turn."""

from pathlib import Path

import pytest

from tests.crash.cluster import WORKERS, run


@pytest.mark.timeout(900)  # a machine under load takes several times as long; nothing here asserts speed
def test_after_the_death_of_the_coordinator_every_byte_is_that_of_the_oracle(
    tmp_path: Path,
) -> None:
    kills, verdict = run(7, evidence=tmp_path, partitions=WORKERS)
    assert verdict.problems == [], f"logs in {tmp_path}"
    assert [kill.coordinator for kill in kills] == [True]
    assert verdict.records > 100
    assert verdict.messages > verdict.records / 2
