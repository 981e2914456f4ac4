"""The experiments and the benchmark of DBShap measure what they say."""

import numpy as np
import pytest

from benchmarks.drift import brute_force
from experiments.dbshap import SYNTHETIC, found, pairs, scenario
from explain_core.drift.shapley import solve_terms


def test_the_benchmark_s_brute_force_solves_the_game_that_the_library_solves():
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(30, 2)), *rng.random((2, 5, 30))
    exact = solve_terms(*terms).values
    assert brute_force(terms) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("number", [1, 2])
def test_a_scenario_of_the_paper_s_table_is_found(number):
    change = scenario(SYNTHETIC["Sine"], number, seed=3, n=2_000)
    assert found(change, number)
    assert found(change, 1) == (number == 1)


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
