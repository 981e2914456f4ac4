"""The campaign of damaged states notices accesses beyond arrays; the full run is `make fuzz-states`."""

import os
import subprocess
import sys

CAMPAIGN = """
import sys
from tests.fuzz import states
{}
sys.argv[1:] = ["--inputs", "400", "--family", "trained model", "--family", "HoeffdingTreeClassifier"]
sys.exit(states.main())
"""

WITHOUT_CHECK = """
from explain_core.learners import check
def follow(table, *rest):
    for pool in rest[-5:]:
        pool[:] = 1
    return 0
check.follow = follow
"""


def campaign(change: str = "") -> subprocess.CompletedProcess[str]:
    """Run some of it, with compiled code that checks its bounds."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": "build/bounds"}
    command = [sys.executable, "-c", CAMPAIGN.format(change)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_damaged_states_of_trees_and_of_trained_models_stay_within_their_arrays() -> None:
    ended = campaign()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "400 states, 0 at fault" in ended.stdout


def test_a_check_of_trees_that_is_missing_is_noticed() -> None:
    ended = campaign(WITHOUT_CHECK)
    assert ended.returncode == 1 and "index is out of bounds" in ended.stdout


def test_code_that_does_not_check_bounds_is_not_taken_for_code_that_does() -> None:
    ended = campaign("states.bounds_are_checked = lambda: False")
    assert ended.returncode == 2 and "does not check bounds" in ended.stderr
