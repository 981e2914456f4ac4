"""A user's model through the real fold without a broker."""

import importlib
import subprocess
import sys

import pytest

from explain_client import to_pandas
from explain_client.errors import ClientError
from explain_client.testing import FoldDriver
from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.fold.partition import FoldError, PartitionState
from explain_sidecar.fold.records import InputRecord
from tests.documentation import blocks
from tests.driver.model import Unpredictable
from tests.versions import predicted, write
from tests.versions import records as versioned_records

SMALL = {"explainers": [{"kind": "ipfi", "n_samples": 1, "reservoir": {"size": 5}}], "emit.every": 4}
COUNTING = {**SMALL, "model.factory": "tests.driver.model:Counting"}


def records(count):
    return [{"a": i % 3, "b": i % 5, "label": int(i % 3 == 1)} for i in range(count)]


def test_what_comes_out_is_what_the_fold_publishes():
    driver = FoldDriver({**COUNTING, "record.deletes": "dead_letter"})
    driver.send(records(10))
    driver.send([b"{", None])
    driver.send(records(6))
    assert [(explanation.offset, explanation.records, explanation.rejected) for explanation in driver.explanations] == [
        (3, 4, 0), (7, 8, 0), (13, 12, 2), (17, 16, 2),
    ]  # fmt: skip
    assert [
        (dead_letter.offset, dead_letter.error_class, dead_letter.value)
        for dead_letter in driver.dead_letters
    ] == [
        (10, "not_json", b"{"),
        (11, "null_value", None),
    ]
    state = PartitionState(driver.settings, 0)
    for record in driver._inputs:
        state.step(record)
    assert driver.explanations[-1].digest == state.chains["explanations"].digest.hex()
    assert driver.explanations[-1].importance("ipfi", "cross_entropy").top(1)[0][0] == "a"


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"a": 2**70, "label": 1}, "'a' is 1180591620717411303424: Integer exceeds 64-bit range; .* at most 64 bits"),
        ({"a": 1, "label": {1}}, r"'label' is \{1\}: Type is not JSON serializable: set"),
        ({"a": 1, 2: "b"}, "2 is 'b': Dict key must be str"),
    ],
)  # fmt: skip
def test_a_value_that_json_cannot_hold_is_named_and_changes_nothing(record, says):
    driver = FoldDriver(COUNTING)
    driver.send(records(4))
    with pytest.raises(ClientError, match=f"record 4: {says}"):
        driver.send([record])
    driver.send(records(4))
    assert driver.explanations[-1].records == 8


def test_a_drift_message_comes_with_the_record_that_ends_its_window():
    driver = FoldDriver({**COUNTING, "drift.enabled": True, "drift.window": 20, "drift.bootstrap": 2})
    driver.send(records(59))
    assert driver.drifts == []
    driver.send(records(1))
    assert [(drift.offset, drift.baseline.number, drift.target.number) for drift in driver.drifts] == [
        (59, 1, 2)
    ]


def test_a_restart_changes_nothing():
    driver, other = FoldDriver(COUNTING), FoldDriver(COUNTING)
    for _ in range(4):
        driver.send(records(7))
        driver.restart()
        other.send(records(7))
    assert driver.explanations == other.explanations
    driver.verify()


class Forgetful:
    """A model whose pickle lacks half of its state."""

    def __init__(self):
        self.n = 0

    def predict_proba_one(self, x):
        return {0: 1 / (2 + self.n), 1: (1 + self.n) / (2 + self.n)}

    def learn_one(self, x, y):
        self.n += 1

    def __getstate__(self):
        return {"n": 0}


class Failing(Forgetful):
    def learn_one(self, x, y):
        raise ZeroDivisionError("at once")


@pytest.mark.parametrize("model", ["tests.driver.model:Unpredictable", f"{__name__}:Forgetful"])
def test_a_model_that_could_not_be_recovered_is_found(model):
    Unpredictable.made = 0
    driver = FoldDriver({**SMALL, "model.factory": model})
    driver.send(records(12))
    with pytest.raises(AssertionError, match="differs when the records are folded again"):
        driver.verify()


def test_a_forgetful_model_is_not_deterministic_by_its_restarts_alone():
    driver = FoldDriver({**SMALL, "model.factory": f"{__name__}:Forgetful"})
    driver.send(records(12))
    driver.verify(every=100)


def test_mistakes_are_the_sidecars_own_errors():
    with pytest.raises(SettingsError, match=r"emit\.every"):
        FoldDriver({"emit.every": 0})
    with pytest.raises(UserError, match="no_such"):
        FoldDriver({"model.factory": "no_such:Model"})
    with pytest.raises(FoldError, match="ZeroDivisionError: at once"):
        FoldDriver({**SMALL, "model.factory": f"{__name__}:Failing"}).send(records(1))


def test_a_record_has_a_time_and_a_place():
    driver = FoldDriver(COUNTING, partition=3)
    driver.send(records(4))
    assert driver._inputs[1] == InputRecord(1, 1_700_000_001_000, None, driver._inputs[1].value)
    assert (driver.explanations[0].partition, driver.explanations[0].timestamp) == (3, 1_700_000_003_000)


def test_the_test_in_the_documentation_passes(tmp_path, monkeypatch):
    named = {block.name: block.text for block in blocks("docs/how-to/model.md") if block.name}
    for name in ("majority.py", "test_majority.py"):
        (tmp_path / name).write_text(named[name])
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("test_majority").test_majority()


def test_versions_of_a_model_and_what_they_served_come_out_as_messages(tmp_path):
    settings = {
        "models.pattern": write(tmp_path, "v1", "v2"),
        "record.model_version": "served_by",
        "record.prediction": "p",
        "emit.every": 5,
        "drift.enabled": True,
        "drift.window": 20,
        "drift.bootstrap": 2,
    }
    driver = FoldDriver(settings)
    made = versioned_records(["v1"] * 20 + ["v2"] * 20)
    for x in made:
        x["p"] = predicted(x["served_by"], x)
    made[30]["p"] = 1.0 - made[30]["p"]
    driver.send(made)
    assert [explanation.version.name for explanation in driver.explanations] == ["v1"] * 4 + ["v2"] * 4
    first, last = driver.explanations[0], driver.explanations[-1]
    assert (last.version.records, last.skew.checked, last.skew.differing) == (20, 20, 1)
    assert (first.skew.differing, first.skew.largest < 1e-6, first.skew.tolerance) == (0, True, 0.001)
    assert first.performance["cross_entropy"].served == pytest.approx(
        first.performance["cross_entropy"].model
    )
    (drift,) = driver.drifts
    assert (drift.baseline.version, drift.target.version, drift.target.of_other_versions) == ("v1", "v2", 0)
    assert set(to_pandas(driver.explanations)["version"]) == {"v1", "v2"}
    driver.restart()
    driver.send(versioned_records(["v3"]))
    assert driver.dead_letters[0].error_class == "unknown_version"
    driver.verify(every=7)


def test_without_pytest_the_tests_plugin_says_what_brings_it():
    code = "import sys; sys.modules['pytest'] = None; import explain_client.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "explain_client.testing needs pytest: pip install 'explain-client[testing]'" in done.stderr
