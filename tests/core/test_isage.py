"""iSAGE against Shapley values that are known by hand."""

import numpy as np
import pytest

from explain_core.importance.isage import IncrementalSAGE
from tests.core.test_ipfi import FEATURES, follow, granted, linear, linear_stream, loans

GAIN = {name: coefficient**2 * sd**2 for name, (coefficient, sd) in FEATURES.items()}
"""β² s² of each feature: its SAGE value under squared loss, as the features are independent."""


def of_linear(n=2_500, seed=0, **settings):
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


MEAN = sum(GAIN.values()) / len(GAIN)
LINEAR = [
    *[({"empty": empty, "reservoir": kind}, GAIN) for empty in ("ema", "reservoir") for kind in ("geometric", "uniform")],
    *[({"empty": "ema", "n_samples": m}, {name: (1 + 1 / m) * gain - MEAN / m for name, gain in GAIN.items()}) for m in (1, 4)],
    *[({"empty": "reservoir", "n_samples": m}, {name: (1 + 1 / m) * gain for name, gain in GAIN.items()}) for m in (1, 4)],
    ({"groups": {"both": ["a", "b"]}}, {"both": GAIN["a"] + GAIN["b"], "ignored": 0.0}),
    ({"losses": ["squared", "absolute"]}, GAIN),
]  # fmt: skip
"""Settings, and the values by the formula: pairs of draws give those of infinitely many.

The mean of m draws adds β² s²/m for each feature outside. Of y₀, the mean prediction, none of that is in: with B = Σ β² s² and d features,
E Δ_j = (1 + 1/m) β_j² s_j² − B/(d m), for the feature that joins first pays for it. Of y₀ from the same m rows it is, and nobody pays.
"""


@pytest.mark.parametrize(("settings", "truth"), LINEAR, ids=str)
def test_of_a_linear_model_the_values_are_those_of_the_formula(settings, truth):
    explanation = of_linear(**settings)
    assert_near(explanation, truth, 0.08)
    assert explanation.features == tuple(truth)
    m = settings.get("n_samples")
    assert explanation.metadata["pairs"] == ([] if m else ["squared"])
    assert explanation.metadata["n_samples"] == (m or (10 if "losses" in settings else 2))
    if m and settings["empty"] == "reservoir":
        assert explanation.importance()["ignored"][:2] == (0.0, 0.0)
    elif m:
        assert truth["ignored"] < -0.05


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
