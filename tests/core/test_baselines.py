"""The baselines of the papers: interval PFI, SAGE of a data set and of a window, impurity of Hoeffding trees."""

import itertools
import math

import numpy as np
import pytest
from river import tree
from river.datasets import synth

from explain_core.importance.batch.intervals import IntervalPFI
from explain_core.importance.batch.mdi import mean_decrease_impurity
from explain_core.importance.batch.permutation import PermutationImportance
from explain_core.importance.batch.sage import SAGE, SlidingWindowSAGE

RNG = np.random.Generator(np.random.PCG64(4))
X = RNG.normal(size=(12, 3))
ROWS = [dict(zip("abc", row, strict=True)) for row in X.tolist()]
Y = [x["a"] * x["b"] + 0.5 for x in ROWS]


def product(x):
    return x["a"] * x["b"]


def stump(x):
    return {"up": 0.9, "down": 0.1} if x["a"] > 0 else {"up": 0.2, "down": 0.8}


LABELS = ["up" if x["a"] + 0.2 * x["c"] > 0 else "down" for x in ROWS]
STREAMING = [IntervalPFI, SlidingWindowSAGE]


def squared(i, columns, background):
    """Squared error of row i when it knows the columns alone, with the mean prediction over the background rows."""
    copies = X[background].copy()
    copies[:, columns] = X[i, columns]
    return (Y[i] - np.mean(copies[:, 0] * copies[:, 1])) ** 2


def shapley_by_hand(background_of):
    """Shapley values of the mean squared error over all orders; no feature at all is the mean over every row."""
    values = np.zeros(3)
    everything = list(range(len(X)))
    for i in range(len(X)):
        for order in itertools.permutations(range(3)):
            before = squared(i, [], everything)
            for step, j in enumerate(order):
                after = squared(i, list(order[: step + 1]), background_of(i))
                values[j] += (before - after) / 6 / len(X)
                before = after
    return values


def test_sage_converges_to_the_shapley_values_and_leaves_a_record_out_of_its_own_background():
    truth = shapley_by_hand(lambda i: [j for j in range(len(X)) if j != i])
    sage = SAGE(product, task="regression", n_samples=None, seed=1)
    result = sage.explain(ROWS, Y, tolerance=None, n_outer=4800)
    assert result.n == 4800
    assert (np.abs(result.values[0] - truth) < 4 * result.std[0]).all()
    with_itself = shapley_by_hand(lambda i: range(len(X)))
    assert abs(with_itself[2] - truth[2]) > 10 * result.std[0, 2]


def test_with_a_background_of_its_own_a_feature_that_the_model_ignores_gets_exactly_nothing():
    sage = SAGE(stump, losses=["cross_entropy", "brier"], n_samples=None, groups={"rest": ["b", "c"]})
    result = sage.explain(ROWS, LABELS, background=ROWS[:5], tolerance=None)
    assert result.features == ("a", "rest")
    assert result.values[:, 1] == pytest.approx([0.0, 0.0], abs=1e-15)
    assert (result.values[:, 0] > 0.1).all()


def test_sage_stops_when_its_standard_error_is_small_beside_the_range_of_the_values(capsys):
    sage = SAGE(product, task="regression", n_samples=2)
    result = sage.explain(ROWS, Y, tolerance=0.1, progress=True)
    assert result.metadata["converged"]
    assert result.std.max() <= 0.1 * np.ptp(result.values)
    assert result.n % 50 == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "SAGE" in err
    with pytest.warns(RuntimeWarning, match="SAGE has not converged to 0.01 after 60 records"):
        short = sage.explain(ROWS, Y, tolerance=0.01, n_outer=60)
    assert not short.metadata["converged"]


def test_every_record_is_explained_once_before_any_comes_again():
    seen = []
    SAGE(lambda x: seen.append(x["a"]) or 0.0, task="regression", n_samples=1).explain(
        [{"a": float(i)} for i in range(5)], [0.0] * 5, tolerance=None, n_outer=10
    )
    assert seen == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_interval_pfi_estimates_the_exact_permutation_importance_of_its_interval():
    exact = PermutationImportance(product, task="regression").explain(
        ROWS, Y, method="exact", kind="difference"
    )
    pfi = IntervalPFI(product, task="regression", window=12, n_repeats=3000)
    for x, y in zip(ROWS, Y, strict=True):
        assert pfi.explanation.status == "warming"
        pfi.explain_one(x, y)
    found = pfi.explanation
    assert found.values == pytest.approx(exact.values, abs=0.05)
    assert found.importance()["c"].value == 0.0
    assert found.n == 12


def test_the_standard_error_of_interval_pfi_knows_that_a_record_also_gives_its_value():
    """Deviation of 300 intervals over the mean of their standard errors; that of the records' own losses is 1.6 times too small."""
    rng = np.random.Generator(np.random.PCG64(2))
    pfi = IntervalPFI(lambda x: x["a"], task="regression", window=50)
    values, errors = [], []
    for i, (a, e) in enumerate(rng.normal(size=(15_000, 2)).tolist(), start=1):
        pfi.explain_one({"a": a}, a + 0.5 * e)
        if i % 50 == 0:
            explanation = pfi.explanation
            values.append(explanation.values[0, 0])
            errors.append(explanation.std[0, 0])
    assert np.std(values) / np.mean(errors) == pytest.approx(1.0, abs=0.15)


def test_intervals_do_not_overlap_and_use_the_current_model():
    factor = {"now": 1.0}
    pfi = IntervalPFI(lambda x: factor["now"] * x["a"], task="regression", losses="absolute", window=4)
    first = None
    for i, (x, y) in enumerate(zip(ROWS, Y, strict=True)):
        factor["now"] = 1.0 if i < 7 else 0.0
        pfi.explain_one(x, y)
        if i == 3:
            first = pfi.explanation.to_json()
        if 3 <= i < 7:
            assert pfi.explanation.to_json() == first
    assert pfi.explanation.values == pytest.approx(np.zeros((1, 3)), abs=1e-15)


def test_sliding_window_sage_is_batch_sage_of_the_window_every_stride_records():
    sage = SlidingWindowSAGE(product, task="regression", window=8, stride=2, n_samples=4)
    values = []
    for x, y in zip(ROWS, Y, strict=True):
        values.append(sage.explain_one(x, y).explanation.values.tolist())
    assert [a != b for a, b in itertools.pairwise(values[7:])] == [False, True, False, True]
    window = slice(4, 12)
    mean = np.mean([product(x) for x in ROWS[window]])
    gain = np.mean(
        [(y - mean) ** 2 - (y - product(x)) ** 2 for x, y in zip(ROWS[window], Y[window], strict=True)]
    )
    assert np.sum(values[-1]) == pytest.approx(gain)


@pytest.mark.parametrize("estimator", STREAMING)
def test_new_missing_and_grouped_features_are_players(estimator):
    pfi = estimator(
        lambda x: x.get("a", 0.0) + x.get("d", 0.0), task="regression", window=4, groups={"g": ["a", "b"]}
    )
    for x, y in zip(ROWS[:4], Y, strict=False):
        pfi.explain_one(x, y)
    assert pfi.explanation.features == ("g", "c")
    pfi.explain_one({"d": 1.0}, 1.0)
    late = pfi.explanation.importance()
    assert math.isnan(late["d"].value)
    assert not math.isnan(late["g"].value)
    for x, y in zip(ROWS[:3], Y, strict=False):
        pfi.explain_one(x, y)
    assert np.isfinite(pfi.explanation.values).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: IntervalPFI(product, task="regression", window=1), "window: 1 records are too few"),
        (lambda: IntervalPFI(product, task="regression", stride=0), "stride: 0 is not a number of records"),
        (lambda: IntervalPFI(product, task="regression", n_repeats=0), "n_repeats: 0 repeats are none"),
        (lambda: IntervalPFI(product, task="regression", losses="brier"), "loss: 'brier' is a classification loss"),
        (lambda: SlidingWindowSAGE(product, task="regression", n_samples=0), "n_samples: 0 draws are none"),
        (lambda: SAGE(product, task="regression", groups={"g": []}).explain(ROWS, Y), "groups: 'g' is empty"),
        (lambda: SAGE(product, task="regression", n_samples=0), "n_samples: 0 draws are none"),
        (lambda: SAGE(product, task="regression").explain(ROWS, Y, tolerance=0.0), r"tolerance: 0.0 is outside \(0, 1"),
        (lambda: SAGE(product, task="regression").explain(ROWS, Y, n_outer=1), "n_outer: 1 records give no standard"),
        (lambda: SAGE(product, task="regression").explain(ROWS[:1], Y[:1]), "X: a single row has no background"),
        (lambda: SAGE(stump).explain(ROWS, [1] * 12), "y: the label 1 is in no prediction"),
        (lambda: SAGE(lambda x: math.nan, task="regression").explain(ROWS, Y), "model: predicted nan"),
        (lambda: mean_decrease_impurity(product), "tree: function is not a Hoeffding tree of river"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_the_argument_the_value_and_the_remedy(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def gini(stats):
    total = sum(stats.values())
    return 1.0 - sum((w / total) ** 2 for w in stats.values())


def test_the_impurity_of_one_split_is_that_of_its_two_leaves():
    model = tree.HoeffdingTreeClassifier(grace_period=50, max_depth=1)
    for x, y in itertools.islice(synth.Agrawal(classification_function=0, seed=1), 2000):
        model.learn_one({"age": x["age"], "loan": x["loan"]}, y)
    branch = model._root
    left, right = (leaf.stats for leaf in branch.children)
    assert branch.feature == "age"
    both = {label: left.get(label, 0.0) + right.get(label, 0.0) for label in {**left, **right}}
    weight = sum(both.values())
    expected = gini(both) - sum(sum(part.values()) / weight * gini(part) for part in (left, right))
    found = mean_decrease_impurity(model, ["age", "loan"])
    assert found.values[0] == pytest.approx([expected, 0.0])
    assert found.losses == ("gini",)
    with pytest.raises(ValueError, match="features: the tree also splits on 'age'"):
        mean_decrease_impurity(model, ["loan"])


def test_the_impurity_of_an_adaptive_tree_follows_a_drift_and_is_never_negative():
    model = tree.HoeffdingAdaptiveTreeClassifier(grace_period=50, seed=1)
    before = None
    for t in range(6000):
        x = {"a": float(RNG.normal()), "b": float(RNG.normal())}
        model.learn_one(x, x["a" if t < 3000 else "b"] > 0)
        if t == 2999:
            before = mean_decrease_impurity(model, ["a", "b"])
    after = mean_decrease_impurity(model, ["a", "b"])
    assert before.top(1)[0][0] == "a"
    assert after.top(1)[0][0] == "b"
    assert (after.values >= 0.0).all()
    assert mean_decrease_impurity(tree.HoeffdingTreeClassifier()).status == "warming"


def test_a_regression_tree_is_measured_by_the_variance():
    model = tree.HoeffdingTreeRegressor(grace_period=50)
    for _ in range(2000):
        x = {"a": float(RNG.normal()), "b": float(RNG.normal())}
        model.learn_one(x, 100.0 + 3.0 * (x["a"] > 0))
    found = mean_decrease_impurity(model, ["a", "b"])
    assert found.losses == ("variance",)
    assert found.values[0, 0] == pytest.approx(2.25, rel=0.05)
    assert found.values[0, 1] < 0.05


def test_features_outside_those_given_keep_the_value_of_the_record_in_every_coalition():
    asked = []

    def model(x):
        asked.append(dict(x))
        return x["a"]

    rows = [dict.fromkeys("abcd", float(i)) for i in range(4)]
    found = SAGE(model, task="regression", features=["a", "b", "c"]).explain(rows, [0.0] * 4, tolerance=None)
    assert found.features == ("a", "b", "c")
    copies = [sum(copy[name] == copy["d"] for name in "abc") for copy in asked[4:]]
    assert copies == [1] * 40 + [2] * 40  # d is the record's, as are the features that joined
