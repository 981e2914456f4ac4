"""The experiments measure what the library computes."""

import numpy as np
import pytest

from experiments.agreement import t_tests
from experiments.approximation import raw_values, zero_one
from experiments.data import Table, agrawal
from explain_core.importance.ipfi import IncrementalPFI


class Rule:
    classes_ = np.array([0, 1])

    def predict(self, X):
        return (X[:, 0] > 70_000).astype(int)


@pytest.mark.parametrize("kind", ["uniform", "geometric"])
def test_the_batched_ipfi_of_the_approximation_experiment_is_the_library_s(kind):
    table = agrawal(400, seed=3)
    table = Table(table.name, table.X, Rule().predict(table.X), table.features)
    own = zero_one(table.y, Rule().predict(table.X))
    found = raw_values(Rule(), zero_one, table, own, kind, seed=7, alpha=0.05, size=50)
    pfi = IncrementalPFI(
        lambda x: {int(x["salary"] > 70_000): 1.0},
        losses="zero_one",
        alpha=0.05,
        reservoir=kind,
        size=50,
        n_samples=1,
        seed=7,
    )
    for x, y in zip(table.rows(), table.y.tolist(), strict=True):
        pfi.explain_one(x, y)
    assert found == pytest.approx(pfi.raw[0], abs=1e-6)
    assert found[0] > 0.1


def test_the_agreement_test_sees_a_difference_and_accepts_none():
    noise = np.random.Generator(np.random.PCG64(0)).normal(size=(20, 3))
    p, level = t_tests(noise * [1.0, 1.0, 0.0] + [0.0, 2.0, 0.0])
    assert level == pytest.approx(1 - 0.999 ** (1 / 3))
    assert p[0] > level
    assert p[1] < level
    assert p[2] == 1.0
