"""Where numba cannot be installed, as on Macs with Intel's processors, the same numbers come more slowly."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from explain_client.testing import FoldDriver
from tests.core.artefacts import trained

TREE = {"model.factory": "river.tree:HoeffdingAdaptiveTreeClassifier", "model.params": {"grace_period": 20}}


def outputs(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages, but for what names the evaluator."""
    driver = FoldDriver({"emit.every": 50, "drift.enabled": True, "drift.window": 40, **settings})
    rows = trained.records(trained.TABLE)[:130]
    driver.send({**row, "label": y} for row, y in zip(rows, trained.TWO.tolist(), strict=False))
    found = [json.loads(message.raw) for message in (*driver.explanations, *driver.drifts)]
    for message in found:
        del message["digest"]
        for estimator in message.get("estimators", {}).values():
            del estimator["evaluator"]
    return found


@pytest.mark.parametrize("model", ["tree", "xgboost"])
def test_the_messages_are_the_same(model: str, tmp_path: Path) -> None:
    settings = TREE if model == "tree" else {"model.uri": str(trained.xgboost(tmp_path)[0])}
    code = (
        "import json, sys; sys.modules['numba'] = None; from tests.core.test_without_numba import outputs; "
        f"print(json.dumps(outputs({settings!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    without = json.loads(done.stdout)
    assert {message["schema"] for message in without} == {"explanation/1", "drift/1"}
    assert without == outputs(settings)
