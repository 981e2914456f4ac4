"""iPFI against importances that are known by hand."""

import functools
import itertools
import math
import re

import msgspec
import numpy as np
import pytest
from river import linear_model
from river.datasets import synth

from explain_core import Alarming, Explainer, Options, StreamExplainer
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.learners.choice import learner_of
from explain_core.reservoirs import GeometricReservoir
from explain_core.state import StateError, decoded, versions_of
from explain_core.stream.explainer import StreamData

RNG = np.random.Generator(np.random.PCG64(0))
FEATURES = {"a": (2.0, 1.0), "b": (-1.0, 0.5), "ignored": (0.0, 1.0)}
"""Coefficient and standard deviation of each feature of the linear model."""


def linear(x):
    return sum(coefficient * x[name] for name, (coefficient, _) in FEATURES.items())


def linear_stream(n, seed=0, noise=0.3):
    rng = np.random.Generator(np.random.PCG64(seed))
    for z, e in zip(rng.normal(size=(n, len(FEATURES))).tolist(), rng.normal(size=n).tolist(), strict=True):
        x = {name: sd * value for (name, (_, sd)), value in zip(FEATURES.items(), z, strict=True)}
        yield x, linear(x) + noise * e


def follow(estimator, stream):
    for x, y in stream:
        estimator.explain_one(x, y)
    return estimator


def granted(x):
    """river's Agrawal function 1: who gets the loan."""
    lows = (50_000, 75_000, 25_000)
    low = lows[0 if x["age"] < 40 else 1 if x["age"] < 60 else 2]
    return int(low <= x["salary"] <= low + 50_000)


@functools.cache
def loans(n):
    stream = list(itertools.islice(synth.Agrawal(classification_function=1, seed=1), n))
    assert all(granted(x) == y for x, y in stream)
    return stream


@pytest.mark.parametrize("reservoir", ["geometric", "uniform"])
def test_on_agrawal_age_and_salary_carry_the_importance_of_the_paper(reservoir):
    """Three ages of equal weight, a salary band of 5/13 each: age 2/3 · 20/39 ≈ 0.3419, salary 2 · 5/13 · 8/13 ≈ 0.4734."""
    stream = loans(3_000)
    pfi = IncrementalPFI(lambda x: {granted(x): 1.0}, losses="zero_one", alpha=None, reservoir=reservoir)
    found = follow(pfi, stream).explanation.importance()
    for name, truth in (("age", 2 / 3 * 20 / 39), ("salary", 80 / 169)):
        assert found[name].value == pytest.approx(truth, abs=4 * found.pop(name).std)
    assert len(found) == 7
    assert all(importance == (0.0, 0.0, 0.0, 0.0, True) for importance in found.values())


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("reservoir", ["geometric", "uniform"])
def test_of_a_linear_model_under_squared_loss_it_is_twice_the_explained_variance(reservoir, m):
    """E(f(x with z_j) − y)² − E(f(x) − y)² = β² E(z − x)² = 2 β² s², for every number of draws.

    The rows of a uniform reservoir hardly change, so that their own sampling error, √2 β² s² / √L, stays.
    """
    pfi = IncrementalPFI(linear, task="regression", alpha=None, n_samples=m, reservoir=reservoir)
    found = follow(pfi, linear_stream(4_000)).explanation.importance()
    for name, (coefficient, sd) in FEATURES.items():
        truth = 2.0 * coefficient**2 * sd**2
        assert found[name].value == pytest.approx(truth, abs=3 * found[name].std)
        assert found[name].std <= 0.2 * truth


def test_a_group_is_permuted_jointly():
    """f = a·b with a = b: from the same row the product is z², from two rows it would have mean 0."""
    pfi = IncrementalPFI(
        lambda x: x["a"] * x["b"], task="regression", losses=signed, alpha=None, groups={"both": ["a", "b"]}
    )
    stream = [({"a": z, "b": z}, 0.0) for z in RNG.choice([-1.0, 1.0], size=400).tolist()]
    assert follow(pfi, stream).explanation.importance() == {
        "both": (0.0, 0.0, *[pytest.approx(math.nan, nan_ok=True)] * 2, None)
    }


def signed(y, prediction):
    return prediction - y


def test_absence_is_a_value():
    """What a copy lacks or has follows the row that is drawn."""
    asked = []

    def model(x):
        asked.append(x)
        return 0.0

    pfi = IncrementalPFI(model, task="regression", size=1, n_samples=1)
    pfi.explain_one({"a": 1, "b": 2}, 0.0)
    pfi.explain_one({"b": 3, "c": 4}, 0.0)
    assert asked == [{"b": 3, "c": 4}, {"b": 3, "c": 4, "a": 1}, {"b": 2, "c": 4}, {"b": 3}]


def test_more_draws_leave_the_value_and_narrow_the_band():
    single, ten = (
        follow(
            IncrementalPFI(linear, task="regression", alpha=None, n_samples=m, seed=m),
            linear_stream(4_000),
        ).explanation
        for m in (1, 10)
    )
    assert ten.values[0, 0] == pytest.approx(single.values[0, 0], abs=4 * single.std[0, 0])
    assert ten.std[0, 0] < 0.98 * single.std[0, 0]


def deviations(kind):
    """Median stated standard error over 60 streams, and what it is: ten draws a record of ten shared rows."""
    stated, values = [], []
    for seed in range(60):
        reservoir = GeometricReservoir(10, seed)
        reservoir.kind = kind
        pfi = IncrementalPFI(
            lambda x: x["a"], task="regression", alpha=0.005, n_samples=10, reservoir=reservoir, seed=seed
        )
        for a in np.random.Generator(np.random.PCG64(seed)).normal(size=500).tolist():
            pfi.explain_one({"a": a}, a)
            reservoir.add({"a": a})
        stated.append(pfi.explanation.std[0, 0])
        values.append(pfi.explanation.values[0, 0])
    return float(np.median(stated)), float(np.std(values))


def test_the_standard_error_knows_of_the_rows_that_records_share():
    stated, actual = deviations("geometric")
    assert 0.9 * actual < stated < 1.6 * actual


def test_the_chebyshev_band_is_wider_by_its_factor_alone():
    normal, chebyshev = (
        follow(
            IncrementalPFI(linear, task="regression", size=10, band=band), linear_stream(2_000)
        ).explanation
        for band in ("normal", "chebyshev")
    )
    np.testing.assert_array_equal(normal.std, chebyshev.std)
    ratio = (chebyshev.high - chebyshev.low)[:, :2] / (normal.high - normal.low)[:, :2]
    np.testing.assert_allclose(ratio, math.sqrt(20) / 1.959963984540054, rtol=0.15)


class Recorder:
    """A model that is f = x["a"] and counts the squared errors of what it is asked for."""

    def __init__(self):
        self.answers = []

    def __call__(self, x):
        self.answers.append(x["a"])
        return x["a"]


@pytest.mark.parametrize("alpha", [None, 0.03])
def test_the_ratio_is_that_of_the_smoothed_losses_with_the_band_of_the_delta_method(alpha):
    """Recomputed from every loss: R = Σ w N / Σ w D, variance F Σ w² · V[N − R D] / D̄²."""
    model, totals, bases = Recorder(), [], []
    pfi = IncrementalPFI(
        model, task="regression", alpha=alpha, kind="ratio", reservoir="uniform", size=5, n_samples=1
    )
    for i, a in enumerate(RNG.normal(size=85).tolist()):
        y = a + 0.4 * RNG.normal()
        pfi.explain_one({"a": a}, y)
        if i >= 5:
            bases.append((a - y) ** 2)
            totals.append((model.answers[-1] - y) ** 2)
    base, total = np.array(bases), np.array(totals)
    w = np.ones(80) if alpha is None else (1 - alpha) ** np.arange(80)[::-1]
    w /= w.sum()
    ratio, mean = w @ total / (w @ base), w @ base
    factor = pfi._smoother.dependence
    variance = factor[0, 0] * (w @ w) * (total - ratio * base).var(ddof=1) / mean**2
    explanation = pfi.explanation
    assert explanation.values[0, 0] == pytest.approx(ratio)
    # The rows of a uniform reservoir of 5 stay: of m = 1 draws half of the variance is theirs, of a plain mean half of that.
    rows = 1 + (0.25 if alpha is None else 0.5) / (5 * (w @ w))
    assert explanation.std[0, 0] == pytest.approx(math.sqrt(variance * rows))
    assert explanation.metadata["kind"] == "ratio"


def test_the_band_of_the_ratio_covers_the_truth():
    """f = a, y = a + e: the copies err by 2 s² + τ², the model by τ²."""
    truth, inside = (2 * 1.0 + 0.49) / 0.49, 0
    for seed in range(40):
        rng = np.random.Generator(np.random.PCG64(seed))
        pfi = IncrementalPFI(
            lambda x: x["a"], task="regression", alpha=0.01, kind="ratio", size=50, seed=seed
        )
        for a, e in rng.normal(size=(560, 2)).tolist():
            pfi.explain_one({"a": a}, a + 0.7 * e)
        found = pfi.explanation.importance()["a"]
        inside += found.low <= truth <= found.high
    assert 35 <= inside <= 40


def test_the_ratio_is_one_where_a_feature_is_not_used_and_unknown_while_nothing_was_wrong():
    pfi = IncrementalPFI(lambda x: {int(x["a"] > 0): 1.0}, losses="zero_one", kind="ratio", size=2)
    for a in (1, -1, 1, -1):
        pfi.explain_one({"a": a}, int(a > 0))
    assert np.isnan(pfi.explanation.values).all()
    pfi.explain_one({"a": 1, "late": 7}, 0)
    found = pfi.explanation.importance()
    assert found["a"].value >= 1.0
    assert found["late"].value == 1.0  # of one observation


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind: 'quotient' is not one of difference, ratio"):
        IncrementalPFI(linear, kind="quotient")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["difference", "ratio"])
def test_what_goes_on_from_a_stored_state_is_told_as_if_nothing_had_been_stored(kind):
    options = Options(explainers=[Explainer(params={"kind": kind}, rows=10)])
    whole, first, second = (
        StreamExplainer(learner_of(linear_model.LogisticRegression(), "classification"), options, seed=3)
        for _ in range(3)
    )
    records = [({"a": a, "b": b}, a > b) for a, b in RNG.normal(size=(300, 2)).tolist()]
    whole.update_many(records)
    first.update_many(records[:170])
    second.restore(decoded(msgspec.msgpack.encode(first.state()), StreamData, versions_of(StreamData)))
    second.update_many(records[170:])
    assert second.explanation["ipfi"].metadata["kind"] == kind
    assert second.state() == whole.state()
    assert str(second.explanation) == str(whole.explanation)


BEFORE = {"kind": "ipfi", "rows": 10}


@pytest.mark.parametrize(
    ("explainer", "others", "words"),
    [
        ({}, {"every": 2}, "every: it was 1 and is 2"),
        ({"rows": 20}, {}, "ipfi.rows: it was 10 and is 20"),
        ({"alpha": 0.1}, {}, "ipfi.alpha: it was 0.001 and is 0.1"),
        ({"losses": ["brier"]}, {}, 'ipfi.losses: it was ["cross_entropy"] and is ["brier"]'),
        ({"params": {"kind": "ratio"}}, {}, 'ipfi.params: it was {} and is {"kind":"ratio"}'),
        ({}, {"alarms": Alarming(one_in=9)}, "alarms.one_in: it was 1000000 and is 9"),
        ({"confidence": 0.9}, {"warm_up": 5, "evaluator": "generic", "alarms": Alarming(subjects=["loss", "gain", "importance"])}, ""),
    ],
)  # fmt: skip
def test_a_state_outlives_options_that_leave_its_numbers_their_meaning_and_no_others(
    explainer, others, words
):
    def made(explainer, **others):
        options = Options(**{"explainers": [Explainer(**BEFORE | explainer)], **others})
        return StreamExplainer(learner_of(linear_model.LogisticRegression(), "classification"), options)

    alarms = {name: Alarming() for name in others if name == "alarms"}
    first, second = made({}, **alarms), made(explainer, **others)
    first.update_many([({"a": a, "b": b}, a > b) for a, b in RNG.normal(size=(60, 2)).tolist()])
    state = first.state()
    if words:
        with pytest.raises(StateError, match=re.escape(words)):
            second.restore(state)
    else:
        second.restore(state)
        assert second.state() == state


def test_one_string_for_losses_is_refused():
    with pytest.raises(ValueError, match="losses: 'brier' is one string; pass a list of names"):
        Explainer(losses="brier")
