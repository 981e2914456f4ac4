"""Bins, cells and trees: what the distributions of a change of risk are estimated with."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from explain_core.drift import dbshap, joint
from explain_core.drift.binned import make_bins
from explain_core.drift.conditional import CellIndex
from explain_core.drift.tree import DEPTH, MIN_ROWS, fit, rank_by_score
from explain_core.drift.windows import Column


def test_numbers_have_at_most_ten_bins_of_equal_mass_with_a_value_that_occurs():
    values = np.random.default_rng(0).normal(size=1_000).tolist()
    bins = make_bins("x", Column.of(values))
    assert bins.size == 10
    assert np.bincount(bins.codes(Column.of(values))).tolist() == [100] * 10
    assert all(value in values for value in bins.representatives)
    assert bins.codes(Column.of(bins.representatives)).tolist() == list(range(10))


def test_few_distinct_numbers_are_bins_of_their_own_and_keep_their_type():
    bins = make_bins("x", Column.of([3, 1, 2, 1, None]))
    assert bins.representatives == (1, 2, 3, None)
    assert all(type(representative) is int for representative in bins.representatives[:3])
    assert bins.codes(Column.of([3, 1, None, 2.5, 99])).tolist() == [2, 0, 3, 2, 2]


def test_a_number_that_fills_several_quantiles_is_one_bin():
    values = [0.0] * 900 + list(range(1, 101))
    bins = make_bins("x", Column.of(values))
    codes = bins.codes(Column.of(values))
    assert set(codes[:900].tolist()) == {0}
    assert 0 not in codes[900:]


def test_rare_categories_are_pooled_and_new_ones_go_with_them():
    values = ["often"] * 150 + ["also"] * 149 + ["rare"] + [None] * 10
    bins = make_bins("x", Column.of(values))
    assert bins.categories == ("often", "also")
    assert bins.representatives == ("often", "also", "rare", None)
    assert bins.codes(Column.of(["rare", "new", "also", None])).tolist() == [2, 2, 1, 3]
    assert bins.to_dict() == {"categories": ["often", "also"]}


def test_truth_values_are_categories():
    bins = make_bins("x", Column.of([True, False, True]))
    assert bins.categories == (True, False)
    assert bins.edges is None


def test_cells_are_found_again_also_where_there_are_more_than_integers():
    codes = np.random.default_rng(1).integers(0, 10, size=(500, 60))
    index = CellIndex(codes, [10] * 60)
    assert index.size == 500
    assert (index.codes[index.find(codes)] == codes).all()
    other = codes.copy()
    other[:, 17] = (other[:, 17] + 1) % 10
    assert (index.find(other) == index.size).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_tree_is_as_pure_as_that_of_scikit_learn(weighted):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 10, size=(4_000, 6))
    score = np.sin(codes[:, 0]) + 0.3 * codes[:, 1] * (codes[:, 2] > 4) + rng.normal(size=4_000)
    y = np.digitize(score, [0.0, 1.0])
    weights = rng.integers(0, 4, size=4_000).astype(float) if weighted else np.ones(4_000)
    tree, counts = fit(codes, y, 3, [np.arange(10)] * 6, weights)
    assert counts.sum() == weights.sum()
    assert counts.sum(axis=1).min() >= MIN_ROWS
    assert tree.depth == DEPTH

    repeated = np.repeat(np.arange(4_000), weights.astype(int))
    theirs = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=MIN_ROWS, random_state=0)
    theirs.fit(codes[repeated], y[repeated])
    leaf = theirs.apply(codes[repeated])
    of_leaf = [np.bincount(y[repeated][leaf == index], minlength=3) for index in np.unique(leaf)]
    assert purity(counts) == pytest.approx(purity(np.array(of_leaf)), rel=1e-9)
    assert (np.bincount(tree.leaves(codes), weights=weights) == counts.sum(axis=1)).all()


def purity(counts):
    return ((counts**2).sum(axis=1) / counts.sum(axis=1)).sum()


def test_categories_are_split_in_the_order_of_their_rate():
    codes = np.repeat([0, 1, 2], 200)[:, None]
    y = np.concatenate([np.zeros(200), np.ones(200), np.zeros(200)]).astype(np.int64)
    rank = rank_by_score(codes[:, 0], y.astype(float), 3)
    assert rank.tolist() == [0, 2, 1]
    tree, counts = fit(codes, y, 2, [rank], np.ones(600))
    assert counts.tolist() == [[400.0, 0.0], [0.0, 200.0]]
    assert tree.leaves(np.array([[0], [1], [2]])).tolist() == [0, 1, 0]


def test_the_shorter_window_is_evaluated_whole():
    short, long = ([({"a": float(i % 7)}, i % 2) for i in range(n)] for n in (500, 8_000))
    for windows, evaluated in (((short, long), (500, 4_500)), ((long, short), (4_500, 500))):
        change = dbshap(
            *windows, hypothesis=lambda x: {0: 1.0}, factorisation="joint", max_samples=5_000, bootstrap=0
        )
        assert (change.baseline.evaluated, change.target.evaluated) == evaluated


def test_intervals_allow_for_the_skewness_of_the_shorter_window():
    """The mean of n exponential values has a skewness of 2/√n; that of two alike, of opposite signs, none."""
    values = np.random.default_rng(1).exponential(size=(1, 20_000))
    assert joint.skewness(values, 0.0 * values)[0] == pytest.approx(2.0 / np.sqrt(20_000), rel=0.1)
    assert joint.skewness(values, -values)[0] == pytest.approx(0.0, abs=1e-12)
    assert joint.skewness(np.ones((1, 9)), np.ones((1, 5)))[0] == 0.0
    rare, none = ([({}, int(i % 50 < hits)) for i in range(n)] for n, hits in ((100, 1), (5_000, 0)))
    change = dbshap(rare, none, hypothesis=lambda x: {0: 1.0}, factorisation="joint", bootstrap=0)
    cause = change.joint.concept
    assert (cause.high - cause.value) / cause.std > 2.276 * 1.5  # Student's with 99 degrees of freedom


@pytest.mark.parametrize("lengths", [(100, 2_000), (2_000, 100)])
def test_a_short_window_that_has_not_seen_the_tails_does_not_show_that_the_risk_moved(lengths):
    """The mean of 100 squared errors is mostly far below that of 2,000 where errors are lognormal, and so is its variance."""
    said = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        errors = [np.exp(1.5 * rng.normal(size=n)) for n in lengths]
        windows = [[({"a": i % 7}, y) for i, y in enumerate(of.tolist())] for of in errors]
        change = dbshap(*windows, hypothesis=lambda x: 0.0, loss="squared", factorisation="joint")
        if change.causes or "did not change noticeably" not in change.sentence():
            said.append(change.sentence())
    assert len(said) <= 1, said
