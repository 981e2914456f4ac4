"""Batch permutation importance: the two estimators of Fisher, Rudin & Dominici as alibi's documents specify them."""

import math

import numpy as np
import pytest

from explain_core.importance.batch.permutation import Metric, PermutationImportance
from explain_core.losses import Loss, squared
from explain_core.random import Generator, derive_seed

RNG = np.random.Generator(np.random.PCG64(3))
X = RNG.normal(size=(9, 3))
Y = X @ [1.0, 2.0, 0.0] + RNG.normal(size=9)
WEIGHTS = np.array([1.0, 2.0, 0.0, 1.0, 0.5, 3.0, 1.0, 1.0, 2.0])
NAMES = ["a", "b", "c"]


def linear(x):
    return x["a"] + 2.0 * x["b"]


def sign(x):
    return {"up": 0.9, "down": 0.1} if x["a"] > 0 else {"up": 0.2, "down": 0.8}


LABELS = np.where(X[:, 0] + 0.3 * X[:, 2] > 0, "up", "down")


def by_hand(columns, pairs, weights=None):
    """Weighted mean of the squared error over (owner, donor) pairs, on plain arrays."""
    total = mass = 0.0
    for i, j in pairs:
        row = X[i].copy()
        row[columns] = X[j, columns]
        weight = 1.0 if weights is None else weights[i]
        total += weight * (Y[i] - row[0] - 2.0 * row[1]) ** 2
        mass += weight
    return total / mass


EVERY_PAIR = [(i, j) for i in range(9) for j in range(9) if i != j]
ITSELF = [(i, i) for i in range(9)]


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_exact_is_the_mean_over_all_pairs_of_different_rows(weights):
    pfi = PermutationImportance(linear, task="regression", loss="squared", features=NAMES)
    asked = ["a", "c", ("a", "b")]
    result = pfi.explain(X, Y, features=asked, method="exact", kind="difference", sample_weight=weights)
    original = by_hand([0], ITSELF, weights)
    expected = [by_hand(columns, EVERY_PAIR, weights) - original for columns in ([0], [2], [0, 1])]
    assert result.values[0] == pytest.approx(expected)
    assert result.features == ("a", "c", "(a, b)")
    assert result.metadata["groups"] == {"(a, b)": ["a", "b"]}
    assert result.samples is None
    assert np.isnan(result.std).all()


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_estimate_switches_random_halves_and_leaves_the_odd_row_out_of_the_switch_alone(weights):
    pfi = PermutationImportance(linear, task="regression", loss="squared", features=NAMES, seed=5)
    result = pfi.explain(X, Y, kind="difference", n_repeats=6, sample_weight=weights)
    rng = Generator(derive_seed(5, "permutation importance"))
    samples = []
    for _ in range(6):
        order = rng.permutation(9)
        pairs = list(zip(order[:4], order[4:8], strict=True))
        pairs += [(j, i) for i, j in pairs]
        samples.append([by_hand([k], pairs, weights) - by_hand([k], ITSELF, weights) for k in range(3)])
    assert pytest.approx(np.array(samples)) == result.samples[0].T
    assert result.values[0] == pytest.approx(np.mean(samples, axis=0))
    assert result.std[0] == pytest.approx(np.std(samples, axis=0, ddof=0))
    assert result.n == 9


def test_the_ratio_of_a_loss_and_of_a_score_both_grow_with_importance():
    pfi = PermutationImportance(sign, loss="zero_one", score="accuracy", features=NAMES)
    ratio = pfi.explain(X, LABELS, method="exact", kind="ratio")
    difference = pfi.explain(X, LABELS, method="exact", kind="difference")
    wrong = np.mean([sign({"a": a})["up"] > 0.5 for a in X[:, 0]] != (LABELS == "up"))
    assert wrong > 0
    error, accuracy = difference.values[:, 0]
    assert error == pytest.approx(accuracy)
    assert ratio.values[0, 0] == pytest.approx((wrong + error) / wrong)
    assert ratio.values[1, 0] == pytest.approx((1 - wrong) / (1 - wrong - accuracy))
    assert ratio.importance("accuracy")["b"].value == 1.0
    assert ratio.metadata["scores"] == ["accuracy"]


def test_a_zero_denominator_is_null_with_a_warning():
    pfi = PermutationImportance(linear, task="regression", loss="absolute", features=NAMES)
    perfect = X @ [1.0, 2.0, 0.0]
    with pytest.warns(RuntimeWarning, match="absolute: the ratio for 'a' has a zero denominator and is null"):
        result = pfi.explain(X, perfect, n_repeats=3)
    assert result.to_dict()["values"] == [[None, None, None]]
    assert result.to_dict()["samples"][0][0] == [None, None, None]


def test_a_score_that_is_no_mean_over_rows_is_computed_once_over_all_pairs():
    from sklearn.metrics import f1_score, r2_score, roc_auc_score

    owners, donors = np.array(EVERY_PAIR).T
    pfi = PermutationImportance(sign, score=["f1", "roc_auc"], features=NAMES)
    result = pfi.explain(X, LABELS, features=["a"], method="exact", kind="difference", sample_weight=WEIGHTS)
    up = LABELS == "up"
    told = X[:, 0] > 0
    expected = f1_score(up, told, sample_weight=WEIGHTS) - f1_score(
        up[owners], told[donors], sample_weight=WEIGHTS[owners]
    )
    assert result.importance("f1")["a"].value == pytest.approx(expected)
    expected = roc_auc_score(up, told, sample_weight=WEIGHTS) - roc_auc_score(
        up[owners], told[donors], sample_weight=WEIGHTS[owners]
    )
    assert result.importance("roc_auc")["a"].value == pytest.approx(expected)
    pfi = PermutationImportance(linear, task="regression", score="r2", features=NAMES)
    result = pfi.explain(X, Y, features=["a"], method="exact", kind="difference")
    switched = X[donors, 0] + 2.0 * X[owners, 1]
    assert result.values[0, 0] == pytest.approx(r2_score(Y, X @ [1, 2, 0]) - r2_score(Y[owners], switched))


def test_metrics_go_by_name_as_callables_as_losses_and_in_a_dict():
    from sklearn.metrics import accuracy_score, log_loss, mean_squared_error

    pfi = PermutationImportance(
        sign,
        loss={"log": Metric(log_loss, "probabilities"), "ours": "cross_entropy"},
        score=[accuracy_score],
        features=NAMES,
    )
    result = pfi.explain(X, LABELS, method="exact", kind="difference", sample_weight=WEIGHTS)
    assert result.losses == ("log", "ours", "accuracy_score")
    assert result.values[0] == pytest.approx(result.values[1])
    pfi = PermutationImportance(
        linear, task="regression", loss=[mean_squared_error, Loss("mine", "number", squared)], features=NAMES
    )
    result = pfi.explain(X, Y, n_repeats=3)
    assert result.samples[0] == pytest.approx(result.samples[1])


def test_features_go_by_position_too_and_do_not_change_with_what_else_is_asked_for():
    pfi = PermutationImportance(linear, task="regression", features=NAMES)
    everything = pfi.explain(X, Y, n_repeats=4)
    some = pfi.explain(X, Y, features=[2, (0, 1), "b"], n_repeats=4)
    assert some.features == ("c", "(a, b)", "b")
    assert some.importance()["b"] == everything.importance()["b"]


def test_frames_matrices_and_records_give_the_same_result():
    import pandas as pd

    frame = pd.DataFrame(X, columns=NAMES)
    pfi = PermutationImportance(linear, task="regression")
    from_frame = pfi.explain(frame, pd.Series(Y), n_repeats=3)
    from_records = pfi.explain(frame.to_dict("records"), Y.tolist(), n_repeats=3)
    from_matrix = PermutationImportance(linear, task="regression", features=NAMES).explain(X, Y, n_repeats=3)
    assert from_frame.to_json() == from_records.to_json() == from_matrix.to_json()


def test_a_missing_feature_stays_missing_in_the_copy():
    rows = [{"a": 1.0}, {}]
    seen = []

    def absent(x):
        seen.append(dict(x))
        return 0.0

    PermutationImportance(absent, task="regression").explain(
        rows, [0.0, 0.0], method="exact", kind="difference"
    )
    assert seen == [{"a": 1.0}, {}, {}, {"a": 1.0}]


def test_the_progress_bar_goes_to_stderr_and_changes_nothing(capsys):
    pfi = PermutationImportance(linear, task="regression", features=NAMES)
    shown = pfi.explain(X, Y, n_repeats=3, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "permutation importance" in err
    assert shown.to_json() == pfi.explain(X, Y, n_repeats=3).to_json()


def explain(model=linear, task="regression", y=Y, rows=X, loss=None, score=None, **arguments):
    pfi = PermutationImportance(model, task=task, loss=loss, score=score, features=NAMES)
    return pfi.explain(rows, y, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_repeats": 0}, "n_repeats: 0 repeats are none; use at least 1"),
        ({"method": "both"}, "method: 'both' is not one of estimate, exact"),
        ({"kind": "sum"}, "kind: 'sum' is not one of ratio, difference"),
        ({"features": ["z"]}, "features: 'z' is unknown; known are a, b, c"),
        ({"features": [3]}, "features: 3 is unknown"),
        ({"features": [()]}, "features: an empty group; name at least one feature"),
        ({"features": ["a", "a"]}, "each once"),
        ({"sample_weight": -WEIGHTS}, "sample_weight: -1.0 is not a weight"),
        ({"sample_weight": WEIGHTS[:3]}, r"sample_weight: shape \(3,\); pass one weight for each of the 9 rows"),
        ({"sample_weight": 0 * WEIGHTS}, "sample_weight: every weight is 0"),
        ({"rows": X[:1], "y": Y[:1]}, "X: 1 row is no pair to switch"),
        ({"y": Y[:3]}, "y: 3 values for 9 rows"),
        ({"loss": "zero_one"}, "loss: 'zero_one' is a classification loss and the task is regression"),
        ({"loss": "mse"}, "loss: 'mse' is squared here; name that"),
        ({"score": "f1"}, "score: 'f1' is not a score for regression by name; use r2"),
        ({"loss": 3}, "loss: 3 is neither a name nor a callable"),
        ({"loss": ["squared", "squared"]}, "each with a name of its own"),
        ({"loss": "squared", "score": {"squared": "r2"}}, "score: 'squared' is also the name of a loss"),
        ({"loss": Metric(max, "label")}, "loss: a metric that reads the label does not fit the task regression"),
        ({"loss": lambda y, p: 0.0, "sample_weight": WEIGHTS}, "sample_weight: the metric '<lambda>' does not take it"),
        ({"model": lambda x: math.nan}, "model: predicted nan; a regression model returns a finite number"),
        ({"model": sign}, "model: predicted .*; a regression model returns a finite number"),
        ({"model": sign, "task": "classification"}, r"y: the label .* is in no prediction; .*use the model's own"),
        ({"model": linear, "task": "classification", "y": LABELS}, "a classifier returns a mapping"),
        ({"model": sign, "task": "classification", "y": ["up", "down", "up"], "rows": X[:3], "score": "r2"}, "score: 'r2' is not a score for classification by name; use accuracy"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_the_argument_the_value_and_the_remedy(arguments, message):
    with pytest.raises(ValueError, match=message):
        explain(**arguments)
