"""iSAGE against Shapley values that are known by hand."""

import numpy as np
import pytest

from explain_core.importance.isage import IncrementalSAGE
from tests.core.test_ipfi import FEATURES, follow, granted, linear, linear_stream, loans

GAIN = {name: coefficient**2 * sd**2 for name, (coefficient, sd) in FEATURES.items()}
"""β² s² of each feature: its SAGE value under squared loss, as the features are independent."""


def of_linear(n=4_000, seed=0, **settings):
    settings = {"alpha": None, "seed": seed} | settings
    return follow(IncrementalSAGE(linear, task="regression", **settings), linear_stream(n, seed)).explanation


def assert_near(explanation, truth, precision):
    if explanation.metadata["reservoir"] == "uniform":
        precision = 0.25  # its rows stay, and the band says so
    found = explanation.importance()
    scale = sum(GAIN.values())
    for name, value in truth.items():
        assert found[name].value == pytest.approx(value, abs=4 * found[name].std)
        assert found[name].std < precision * scale


@pytest.mark.parametrize("reservoir", ["geometric", "uniform"])
@pytest.mark.parametrize("empty", ["ema", "reservoir"])
def test_pairs_of_draws_give_the_values_of_infinitely_many(empty, reservoir):
    explanation = of_linear(empty=empty, reservoir=reservoir)
    assert explanation.metadata["pairs"] == ["squared"]
    assert explanation.metadata["n_samples"] == 2
    assert_near(explanation, GAIN, 0.05)


@pytest.mark.parametrize("m", [1, 4])
def test_at_stated_m_the_values_are_those_of_the_formula_for_m(m):
    """The mean of m draws adds β² s²/m for each feature outside; y₀ has none of that.

    With B = Σ β² s² and d features, E Δ_j = (1 + 1/m) β_j² s_j² − B/(d m): the feature that joins first pays for it.
    """
    total = sum(GAIN.values())
    truth = {name: (1 + 1 / m) * gain - total / (3 * m) for name, gain in GAIN.items()}
    assert_near(of_linear(n_samples=m, empty="ema"), truth, 0.06)
    assert truth["ignored"] < -0.05


@pytest.mark.parametrize("m", [1, 4])
def test_against_the_reservoir_no_feature_pays_for_the_draws(m):
    """y₀ from the same m rows has the same spread: E Δ_j = (1 + 1/m) β_j² s_j²."""
    truth = {name: (1 + 1 / m) * gain for name, gain in GAIN.items()}
    explanation = of_linear(n_samples=m, empty="reservoir")
    assert_near(explanation, truth, 0.06)
    assert explanation.importance()["ignored"][:2] == (0.0, 0.0)


def test_pairs_are_unbiased_for_ignored_features_and_vary_less_than_one_draw():
    """Issue 4: two-draw iSAGE (brier, squared) against m = 1 on streams of 500 records."""
    pairs, single = (
        np.array([of_linear(500, seed, n_samples=m, empty="ema").values[0] for seed in range(12)])
        for m in (None, 1)
    )
    assert abs(pairs[:, 2].mean()) < 4 * pairs[:, 2].std() / np.sqrt(12)
    assert (pairs.std(axis=0) < single.std(axis=0)).all()


def test_brier_pairs_are_unbiased_for_ignored_features_on_agrawal():
    stream = loans(1_500)

    def model(x):
        p = 0.9 if granted(x) else 0.2
        return {0: 1 - p, 1: p}

    made = [
        follow(IncrementalSAGE(model, losses="brier", alpha=None, n_samples=m, empty="ema"), stream)
        for m in (None, 1)
    ]
    assert (made[0]._smoother.variance < made[1]._smoother.variance).all()
    pairs, single = (sage.explanation for sage in made)
    assert {name for name, _ in pairs.top(2)} == {"age", "salary"}
    for name, found in pairs.importance().items():
        if name not in ("age", "salary"):
            assert abs(found.value) <= 1.96 * found.std
            assert single.importance()[name].value < -1.96 * single.importance()[name].std


def test_a_group_gets_the_sum_of_its_members_where_they_do_not_interact():
    explanation = of_linear(groups={"both": ["a", "b"]})
    assert_near(explanation, {"both": GAIN["a"] + GAIN["b"], "ignored": 0.0}, 0.05)
    assert explanation.features == ("both", "ignored")


def test_mixed_losses_share_ten_draws_and_each_quadratic_one_uses_their_pairs():
    sage = IncrementalSAGE(linear, task="regression", losses=["squared", "absolute"], alpha=None)
    explanation = follow(sage, linear_stream(1_500)).explanation
    assert explanation.metadata["n_samples"] == 10
    assert explanation.metadata["pairs"] == ["squared"]
    assert_near(explanation, GAIN, 0.08)


class Drifting:
    """A model that does not look at x but changes with every record."""

    def __init__(self):
        self.calls = 0.0

    def __call__(self, x):
        return {"up": 1 / (2 + self.calls), "down": 1 - 1 / (2 + self.calls)}


@pytest.mark.parametrize("m", [None, 1, 3])
def test_against_the_reservoir_a_model_that_ignores_x_has_no_importance_while_it_learns(m):
    values = {}
    for empty in ("reservoir", "ema"):
        model = Drifting()
        sage = IncrementalSAGE(model, losses=["cross_entropy", "brier"], n_samples=m, size=5, empty=empty)
        for i in range(200):
            sage.explain_one({"a": i, "b": -i}, "down")
            model.calls += 1
        values[empty] = np.abs(sage.explanation.values)
    assert values["reservoir"].max() <= 1e-12
    assert values["ema"].max() > 1e-3  # the prior that the model learns is worth something


def test_features_outside_those_given_keep_the_value_of_x_in_every_coalition():
    asked = []

    def model(x):
        asked.append(dict(x))
        return 0.0

    sage = IncrementalSAGE(model, task="regression", features=["a"], size=1, empty="reservoir")
    sage.explain_one({"a": 1, "b": 2, "gone": 0}, 0.0)
    sage.explain_one({"a": 3, "b": 4}, 0.0)
    assert asked == [{"a": 3, "b": 4}, {"a": 1, "b": 4}, {"a": 1, "b": 4}]


def test_a_draw_is_shared_along_the_permutation():
    asked = []

    def model(x):
        asked.append(dict(x))
        return 0.0

    sage = IncrementalSAGE(model, task="regression", n_samples=1, size=2, empty="reservoir", seed=5)
    rows = [dict.fromkeys("abcd", i) for i in range(3)]
    for x in rows:
        sage.explain_one(x, 0.0)
    own, *copies = asked
    assert own == rows[2]
    drawn = copies[0]["a"]
    for step, copy in enumerate(copies):
        assert sorted(copy.values()) == [drawn] * (4 - step) + [2] * step
    assert len(copies) == 4  # the empty coalition and three more: the full one is the model's own prediction


def test_bad_arguments_of_isage_are_refused():
    with pytest.raises(ValueError, match="empty: 'zero' is not one of ema, reservoir"):
        IncrementalSAGE(linear, empty="zero")  # type: ignore[arg-type]
