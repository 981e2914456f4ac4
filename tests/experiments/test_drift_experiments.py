"""The experiments and the benchmark of DBShap measure what they say."""

import numpy as np
import pytest

from experiments.data import Table
from experiments.dbshap import SYNTHETIC, found, pairs, scenario
from experiments.drift_naming import CONCEPT, DRIFTS, Fitted, explain
from explain_core.models import wrap


@pytest.mark.parametrize("number", [1, 2])
def test_a_scenario_of_the_paper_s_table_is_found(number):
    change = scenario(SYNTHETIC["Sine"], number, seed=3, n=2_000)
    assert found(change, number)
    assert found(change, 1) == (number == 1)
    assert ("concept" in [cause.name for cause in change.causes]) == (number == 1)


def test_windows_are_judged_by_models_that_have_not_seen_them():
    class Counter:
        """Predicts how many records it has learnt."""

        learnt = 0

        def predict_one(self, x):
            return self.learnt

        def learn_one(self, x, y):
            self.learnt += 1

    rows = [{"a": float(i % 3)} for i in range(40)]
    results = list(pairs(rows, [0] * 10 + [10] * 10 + [20] * 20, Counter(), 10, seed=0))
    # Frozen before windows 0, 1, 2 and 3 it says 0, 10, 20 and 30.
    assert [change.target.empirical for change, _ in results] == [0.0, 0.0, 1.0]
    assert [change.target.empirical for _, change in results] == [1.0, 1.0, 0.0]
    assert [change.target.prequential for change, _ in results] == pytest.approx([0.9, 0.9, 1.0])


@pytest.fixture(scope="module")
def fitted():
    """A model that errs where the first of three features is large, and where it is unsure."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 3))
    y = (
        (X[:, 0] + X[:, 1] > 0.0)
        ^ (rng.random(6_000) < 0.3 * ((X[:, 0] > 0.5) | (abs(X[:, 0] + X[:, 1]) < 0.7)))
    ).astype(int)
    chance = 1.0 / (1.0 + np.exp(-3.0 * (X[:, 0] + X[:, 1])))

    def model(x):
        up = 1.0 / (1.0 + np.exp(-3.0 * (x.get("a", 0.0) + x["b"])))
        return {1: up, 0: 1.0 - up}

    rest = Table("elec2", X, y, ["a", "b", "c"])
    doubts = np.minimum(chance, 1.0 - chance)
    return Fitted(wrap(model, "classification"), rest, ((chance > 0.5) != y).astype(float), doubts, [0, 1, 2])


@pytest.mark.parametrize("kind", DRIFTS)
def test_an_injected_drift_changes_what_it_says_and_is_named(fitted, kind):
    truth, drift = DRIFTS[kind]
    X, y = drift(fitted, np.arange(6_000), 2_000, np.random.default_rng(1))
    known = {tuple(row): label for row, label in zip(fitted.rest.X, fitted.rest.y, strict=True)}
    found = [known.get(tuple(row)) for row in X]
    assert (None in found) == (kind in ("40 % missing", "30 % a new value", "offset of a sensor"))
    assert any(a not in (None, b) for a, b in zip(found, y, strict=True)) == (truth == CONCEPT)
    changes = [explain(fitted, drift, seed, (2_000, 2_000)) for seed in range(3)]
    assert sum({cause.name for cause in change.causes} == truth for change in changes) >= 2
