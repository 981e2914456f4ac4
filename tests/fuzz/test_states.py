"""The campaign of damaged states notices accesses beyond arrays; the full run is `make fuzz-states`."""

import signal
import subprocess
import sys

import pytest

from tests.fuzz import states

CAMPAIGN = """
import sys
from tests.fuzz import states
{}
sys.argv[1:] = ["--inputs", "300", "--family", "trained model", "--family", "HoeffdingTreeClassifier", "--fence", "{}"]
sys.exit(states.main())
"""

WITHOUT_CHECK = """
from explain_core.learners import check
class Check:
    def __init__(self, table, classes, sizes, nominal, met):
        for pool in met:
            pool[:] = 1
    def fault(self):
        return 0
check.Check = Check
"""


def campaign(side: str, change: str = "") -> subprocess.CompletedProcess[str]:
    """Run some of it, with pages that nobody may touch beside all arrays of models."""
    command = [sys.executable, "-c", CAMPAIGN.format(change, side)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("side", ["after", "before"])
def test_damaged_states_of_trees_and_of_trained_models_stay_within_their_arrays(side: str) -> None:
    ended = campaign(side)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "300 states, 0 at fault" in ended.stdout


def test_a_check_of_trees_that_is_missing_is_noticed() -> None:
    ended = campaign("after", WITHOUT_CHECK)
    # What it writes into may also be what malloc keeps beside its scratch, which malloc notices.
    found = {signal.SIGSEGV: "Segmentation fault", signal.SIGBUS: "Bus error", signal.SIGABRT: "Aborted"}
    assert found[signal.Signals(-ended.returncode)] in ended.stderr


def test_what_compiled_code_notices_and_cannot_raise_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_unraisable", ["IndexError"])
    assert states.tried("trained model", 0) == "unraisable: IndexError"
    assert states.tried("trained model", 0) in states.GOOD


def test_a_campaign_that_asks_for_bounds_that_are_checked_needs_an_engine_that_checks_them() -> None:
    command = [sys.executable, "-m", "tests.fuzz.states", "--checked", "--inputs", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "make fuzz-checked" in ended.stderr
