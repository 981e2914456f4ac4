"""The compiled explanation of an ensemble finds, to the last bit, what its predictions copy by copy give."""

import numpy as np
import pytest

from explain_core.artefacts.load import load_model
from explain_core.importance.group import grouped
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from tests.core.artefacts import trained

CASES = {
    "xgboost": lambda folder: trained.xgboost(folder),
    "lightgbm, three classes": lambda folder: trained.lightgbm(
        folder, trained.THREE, objective="multiclass", num_class=3
    ),
    "deep": lambda folder: trained.lightgbm(
        folder, trained.SCORE, objective="regression", num_leaves=100, min_data_in_leaf=1
    ),
    "forest": lambda folder: trained.sklearn(folder, _forest(), trained.NUMBERS),
    "numbers": lambda folder: trained.lightgbm(folder, trained.SCORE, objective="regression"),
}


def _forest():
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(7, max_depth=5, random_state=0)


@pytest.mark.parametrize(("n_samples", "groups"), [(1, {}), (3, {"both": ["age", "debt"]})])
@pytest.mark.parametrize("name", CASES)
def test_contributions_are_those_of_single_predictions(name, groups, n_samples, tmp_path):
    path, _ = CASES[name](tmp_path)
    labels = {
        "forest": trained.NAMED,
        "numbers": trained.SCORE,
        "deep": trained.SCORE,
        "lightgbm, three classes": trained.THREE,
    }
    target = np.asarray(labels.get(name, trained.TWO)).tolist()
    found = {}
    for evaluator in ("arrays", "generic"):
        model = load_model(path)
        assert model.shallow == (name != "deep")
        options = {
            "task": model.task,
            "groups": groups,
            "n_samples": n_samples,
            "seed": 5,
            "evaluator": evaluator,
        }
        pfi = IncrementalPFI(model, size=20, **options)
        sage = IncrementalSAGE(model, reservoir=pfi.reservoir, **{**options, "evaluator": pfi.evaluator})
        rows = trained.records(trained.TABLE if name != "forest" else trained.NUMBERS)
        for x, y in zip(rows[:120], target, strict=False):
            for group in grouped([pfi, sage]):
                group.explain_one(x, y)
            pfi.reservoir.add(x)
        assert pfi.evaluator.name == evaluator
        assert pfi.evaluator.fallbacks <= 1
        found[evaluator] = [
            (estimator.explanation.features, estimator.explanation.values.tolist())
            for estimator in (pfi, sage)
        ]
        assert np.abs(found[evaluator][0][1]).max() > 0
    assert found["arrays"] == found["generic"]
