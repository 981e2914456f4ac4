"""Reasons of single predictions against their definition, and against shap."""

import itertools
import math
import numbers

import numpy as np
import pandas as pd
import pytest
from river import compose, forest, linear_model, preprocessing, tree

from explain_core import Mixture, PredictionExplainer, learner_of, load_model, wrap
from explain_core.artefacts.ensemble import Ensemble, Tree, TreeEnsemble
from explain_core.reasons import explainer as module
from explain_core.reasons import trees
from tests.core.artefacts import trained
from tests.core.artefacts.test_predictions import sklearn_models

RECORDS = trained.records(trained.TABLE)
BACKGROUND, SOME = RECORDS[:70], RECORDS[100:140]


def outputs(prediction):
    return np.array(list(prediction.values()) if isinstance(prediction, dict) else [prediction], float)


def defined(worth, x, background, names):
    """Shapley values from the definition: features × outputs of ``worth(record)``."""

    def value(known):
        rows = []
        for z in background:
            row = {name: (x if name in known else z).get(name) for name in names}
            rows.append(worth({name: own for name, own in row.items() if own is not None}))
        return np.mean(rows, axis=0)

    values = {
        known: value(known) for k in range(len(names) + 1) for known in itertools.combinations(names, k)
    }
    found = []
    for name in names:
        total = 0.0
        for known, before in values.items():
            if name not in known:
                joined = tuple(one for one in names if one in known or one == name)
                share = math.factorial(len(known)) * math.factorial(len(names) - len(known) - 1)
                total = total + (values[joined] - before) * share / math.factorial(len(names))
        found.append(total)
    return np.array(found)


def log_odds(prediction):
    return np.log(outputs(prediction)[1:] / outputs(prediction)[:1])


def assert_add_up(reasons):
    assert np.abs(reasons.baseline + reasons.values.sum(axis=1) - reasons.prediction).max() <= 1e-9


def assert_defined(
    model, space="prediction", worth=outputs, records=SOME[:4], background=BACKGROUND[:12], within=1e-9
):
    reasons = PredictionExplainer(model, background, space=space).explain(records)
    assert reasons.method == "exact"
    assert not reasons.std.any()
    assert_add_up(reasons)
    for i, x in enumerate(records):
        truth = defined(lambda row: worth(model.predict(row)), x, background, reasons.features)
        assert reasons.values[i] == pytest.approx(truth, abs=within)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_categories_and_missing_values_count_as_the_trees_take_them(kind, tmp_path):
    assert_defined(
        load_model(getattr(trained, kind)(tmp_path)[0]),
        "margin",
        log_odds,
        within=1e-5 if kind == "xgboost" else 1e-9,
    )


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_several_margins_are_explained_each(kind, tmp_path):
    objective = {"objective": "multi:softprob" if kind == "xgboost" else "multiclass", "num_class": 3}
    model = load_model(getattr(trained, kind)(tmp_path, target=trained.THREE, **objective)[0])
    reasons = PredictionExplainer(model, BACKGROUND, space="margin").explain(SOME)
    assert reasons.values.shape == (40, 3, 3)
    assert_add_up(reasons)
    odds = np.exp(reasons.prediction)
    expected = [outputs(model.predict(x)) for x in SOME]
    assert odds / odds.sum(axis=1, keepdims=True) == pytest.approx(np.array(expected), abs=1e-6)
    assert_defined(model)  # the probabilities, by coalitions


def tables(n=900, columns=8, missing=0.0, seed=0):
    """Numbers no two of which are equal, so that no value lies on a threshold: there shap decides otherwise than scikit-learn."""
    rng = np.random.Generator(np.random.PCG64(seed))
    x = rng.normal(size=(n, columns))
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.3 * rng.normal(size=n)
    x[rng.random(x.shape) < missing] = np.nan
    return x, score


def named(rows):
    return [{f"x{i}": value for i, value in enumerate(row)} for row in rows.tolist()]


@pytest.mark.parametrize(
    "name", ["tree", "forest", "extra trees", "forest of numbers", "boosting of numbers"]
)
def test_forests_and_trees_of_sklearn_equal_shap(name, tmp_path):
    import pandas as pd
    import shap

    x, score = tables()
    model, *_ = sklearn_models()[name]
    target = score if "numbers" in name else np.digitize(score, [-0.5, 0.5])
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(8)])
    own = load_model(trained.sklearn(tmp_path, model, table, target)[0])
    reasons = PredictionExplainer(own, named(x[:70])).explain(named(x[100:140]))
    theirs = shap.TreeExplainer(model, table.iloc[:70], feature_perturbation="interventional")
    expected = theirs.shap_values(table.iloc[100:140])
    assert reasons.method == "exact"
    assert reasons.values == pytest.approx(np.reshape(expected, reasons.values.shape), abs=1e-6)
    assert_add_up(reasons)


@pytest.mark.parametrize("space", ["margin", "prediction"])
@pytest.mark.parametrize("depth", [2, 6, 12])
def test_boosting_equals_shap_in_log_odds_and_probabilities(space, depth, tmp_path):
    import shap
    import xgboost

    x, score = tables(missing=0.1, seed=depth)
    y, records = (score > 0).astype(int), named(x[:200])
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=depth, min_child_weight=0.1, n_jobs=1).fit(x, y)
    model.save_model(path := tmp_path / "model.json")
    names = [*records[0]]
    own = PredictionExplainer(load_model(path, features=names), records[:100], space=space)
    output = "raw" if space == "margin" else "probability"
    theirs = shap.TreeExplainer(model, x[:100], feature_perturbation="interventional", model_output=output)
    reasons = own.explain(records[100:150])
    assert reasons.outputs[-1] == 1
    assert reasons.values[:, :, -1] == pytest.approx(theirs.shap_values(x[100:150]), abs=1e-6)
    assert reasons.baseline[-1] == pytest.approx(theirs.expected_value, abs=1e-6)
    assert reasons.method == ("exact" if space == "margin" else "rescaled")
    assert_add_up(reasons)


def test_a_record_has_the_same_reasons_alone_and_among_others(tmp_path):
    explainer = PredictionExplainer(load_model(trained.xgboost(tmp_path)[0]), BACKGROUND, space="margin")
    together = explainer.explain(SOME).values
    alone = np.concatenate([explainer.explain([x]).values for x in SOME])
    assert together == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize("kind", ["trees", "linear", "any"])
def test_a_replaced_row_leaves_a_new_background(kind, tmp_path):
    model = {
        "trees": lambda: load_model(trained.xgboost(tmp_path)[0]),
        "linear": lambda: learnt(pipeline(linear_model.LinearRegression()), "regression"),
        "any": lambda: wrap(lambda x: x["debt"] * x.get("age", 2.0), "regression"),
    }[kind]()
    changed = PredictionExplainer(model, BACKGROUND)
    for slot in (3, 66, 69, 3):
        changed.replace(slot, RECORDS[200 + slot])
    rows = [RECORDS[200 + slot] if slot in (3, 66, 69) else row for slot, row in enumerate(BACKGROUND)]
    found, expected = changed.explain(SOME[:3]), PredictionExplainer(model, rows).explain(SOME[:3])
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.baseline, expected.baseline)


def chain(length, columns):
    """A tree that is one long way, each node with a leaf to its right."""
    nodes = np.arange(length)
    left, right = np.full(2 * length + 1, -1), np.full(2 * length + 1, -1)
    left[0 : 2 * length : 2], right[0 : 2 * length : 2] = 2 * nodes + 2, 2 * nodes + 1
    feature = np.zeros(2 * length + 1, np.int64)
    feature[0 : 2 * length : 2] = nodes % columns
    values = np.zeros((2 * length + 1, 1))
    values[-1], values[1::2, 0] = 1.0, nodes / length
    threshold = np.full(2 * length + 1, 0.5)
    return Tree(feature, threshold, np.zeros(2 * length + 1, np.int64), left, right, values)


@pytest.mark.parametrize(("columns", "alone"), [(3, False), (90, True)])
def test_a_way_of_any_length_is_exact(columns, alone):
    """90 features on one way: more than a table has, and than factorials of 64 bits."""
    names = [f"x{i}" for i in range(columns)]
    model = TreeEnsemble(
        Ensemble("a test", "regression", [chain(90 * 40, columns)], [0.0], "identity", names)
    )
    rng = np.random.Generator(np.random.PCG64(1))
    records = [dict(zip(names, row, strict=True)) for row in rng.uniform(0, 0.7, (66, columns)).tolist()]
    records[0] = dict.fromkeys(names, 0.0)  # goes to the end
    ones = dict.fromkeys(names, 1.0)
    explainer = PredictionExplainer(model, [ones, *records[:63]])
    reasons = explainer.explain(records[:1] if alone else records[:40])
    assert_add_up(reasons)
    only = PredictionExplainer(model, [ones]).explain(records[:1]).values[0, :, 0]
    # Against ones a leaf is reached by what is known of the features before its own, and not of that.
    for i in (0, 1, 2, columns - 1):
        gained = 1.0 / columns
        for k in range(columns):
            if k == i:
                gained -= k / 3600 * (1.0 / (k + 1)) * 1.0
            elif k > i:
                gained += k / 3600 / (k * (k + 1))
        assert only[i] == pytest.approx(gained, abs=1e-12)


def learnt(model, task, records=RECORDS):
    learner = learner_of(model, task)
    for i, x in enumerate(records[:300]):
        learner.learn(x, bool(trained.TWO[i]) if task == "classification" else float(trained.SCORE[i]))
    return learner


def pipeline(last):
    scaled = compose.SelectType(numbers.Number) | preprocessing.StandardScaler()
    return (scaled + (compose.SelectType(str) | preprocessing.OneHotEncoder())) | last


def test_a_linear_model_equals_shap():
    import shap

    rows = trained.records(trained.WHOLE)
    learner = learnt(linear_model.LinearRegression(), "regression", records=rows)
    weights = PredictionExplainer(learner, [{"age": 0.0, "debt": 0.0}]).explain([{"age": 1.0, "debt": 1.0}])
    coefficients = weights.values[0, :, 0]
    masker = shap.maskers.Independent(trained.WHOLE.iloc[:70].to_numpy(), max_samples=100)
    theirs = shap.LinearExplainer((coefficients, float(weights.baseline[0])), masker)
    found = PredictionExplainer(learner, rows[:70]).explain(rows[100:140])
    assert found.values[:, :, 0] == pytest.approx(
        theirs.shap_values(trained.WHOLE.iloc[100:140].to_numpy()), abs=1e-6
    )


LEARNERS = {
    "tree": (tree.HoeffdingTreeClassifier(grace_period=30), "classification"),
    "adaptive tree": (tree.HoeffdingAdaptiveTreeClassifier(grace_period=30, seed=1), "classification"),
    "forest": (forest.ARFClassifier(3, grace_period=30, seed=1), "classification"),
    "tree of numbers": (tree.HoeffdingTreeRegressor(grace_period=30, leaf_prediction="mean"), "regression"),
    "forest of numbers": (forest.ARFRegressor(3, grace_period=30, leaf_prediction="mean", seed=1), "regression"),
    "logistic": (pipeline(linear_model.LogisticRegression()), "classification"),
    "linear": (pipeline(linear_model.LinearRegression()), "regression"),
    "linear, of a scaled target": (pipeline(preprocessing.TargetStandardScaler(regressor=linear_model.LinearRegression())), "regression"),
    "softmax": (pipeline(linear_model.SoftmaxRegression()), "classification"),
    "mixture": (Mixture({"line": pipeline(linear_model.LogisticRegression()), "forest": forest.ARFClassifier(3, grace_period=30, seed=1)}), "classification"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_are_exact_where_all_coalitions_can_be_asked_for(name):
    model, task = LEARNERS[name]
    assert_defined(learnt(model, task), *(("margin", log_odds) if name == "logistic" else ()))


def test_any_model_is_exact_where_all_coalitions_can_be_asked_for():
    assert_defined(
        wrap(
            lambda x: {
                "up": 0.25 + 0.5 * (x["colour"] == "red"),
                "down": 0.75 - 0.5 * (x["colour"] == "red"),
            },
            "classification",
        )
    )
    assert_defined(wrap(lambda x: x["debt"] * x.get("age", 7.0) + (x["colour"] == "red"), "regression"))


def test_a_label_that_only_some_predictions_have_is_explained():
    def model(x):
        return {"a": 1.0} if x["n"] > 1 else {"b": 0.75, "a": 0.25}

    reasons = PredictionExplainer(model, [{"n": 0}, {"n": 2}], task="classification").explain([{"n": 3}])
    assert reasons.outputs == ("a", "b")
    assert reasons.values.tolist() == [[[0.375, -0.375]]]
    assert_add_up(reasons)


def product(x):
    """Of eight numbers, in pairs, so that orders matter."""
    return 1.0 + sum(x[f"x{i}"] * x[f"x{i + 1}"] * x[f"x{(i + 2) % 8}"] for i in range(0, 8, 2))


def test_sampled_values_add_up_and_err_as_their_standard_error_says():
    rng = np.random.Generator(np.random.PCG64(3))
    names = [f"x{i}" for i in range(8)]
    records = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(40, 8)).tolist()]
    exact = PredictionExplainer(product, records[:20], task="regression").explain(records[20:26])
    assert exact.method == "exact"
    errors, variances = [], []
    for seed in range(16):
        sampled = PredictionExplainer(
            product, records[:20], task="regression", most=1_500, seed=seed
        ).explain(records[20:26])
        assert sampled.method == "sampled"
        assert_add_up(sampled)
        errors.append((sampled.values - exact.values).ravel())
        variances.append(sampled.std.ravel() ** 2)
    # Of six records that share a background and orders, in each of 16 seeds.
    assert 0.6 < np.mean(np.square(errors)) / np.mean(variances) < 1.5
    assert abs(np.mean(errors)) < 0.3 * np.sqrt(np.mean(variances))


def test_the_same_seed_draws_the_same_orders_for_a_record_whatever_came_before():
    names = [f"x{i}" for i in range(8)]
    rng = np.random.Generator(np.random.PCG64(3))
    records = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(40, 8)).tolist()]
    explainer = PredictionExplainer(product, records[:20], task="regression", most=500)
    first = explainer.explain(records[20:25])
    assert np.array_equal(explainer.explain(records[24:25]).values, first.values[4:])
    other = PredictionExplainer(product, records[:20], task="regression", most=500, seed=1)
    assert not np.array_equal(other.explain(records[20:25]).values, first.values)


def test_the_top_reasons_are_those_of_the_most_probable_label_unless_one_is_named(tmp_path):
    reasons = PredictionExplainer(load_model(trained.xgboost(tmp_path)[0]), BACKGROUND).explain(SOME[:1])
    best = reasons.outputs[int(np.argmax(reasons.prediction[0]))]
    assert reasons.top(2) == reasons.top(2, best)
    assert [one.value for one in reasons.top(3, 0)] == [-one.value for one in reasons.top(3, 1)]
    sizes = [abs(one.value) for one in reasons.top(3)]
    assert sizes == sorted(sizes, reverse=True)
    frame = reasons.to_frame()
    assert len(frame) == reasons.values.size
    assert frame.value.tolist() == reasons.values.ravel().tolist()
    with pytest.raises(ValueError, match="output: 'maybe' is not one of 0, 1"):
        reasons.top(1, "maybe")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"background": []}, "background: 0 rows; give 1 to 10,000"),
        (
            {"background": pd.DataFrame({"a": [1.0]})},
            "background: a DataFrame is no list of dicts; of a data frame pass",
        ),
        ({"background": [{}] * (module.MAX_BACKGROUND + 1)}, "background: 10001 rows"),
        ({"space": "odds"}, "space: 'odds' is not one of prediction, margin"),
        ({"space": "margin"}, "space: margin, and function has none that is known"),
        ({"most": 0}, "most: 0 predictions; give 1 or more"),
        ({"task": None}, "task: None is not one of classification, regression"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_the_remedy(settings, words):
    with pytest.raises(ValueError, match=words):
        PredictionExplainer(product, **{"background": [{}], "task": "regression"} | settings)


def test_one_record_is_no_list_of_records():
    with pytest.raises(ValueError, match=r"records: a dict is no list of dicts; .* of one record \[record\]"):
        PredictionExplainer(product, [{}], task="regression").explain({"a": 1.0})


def test_a_background_that_takes_too_much_memory_is_refused_with_one_that_does_not(tmp_path, monkeypatch):
    model = load_model(trained.xgboost(tmp_path)[0])
    nodes = sum(len(one.left) for one in model.wrapped.trees)
    monkeypatch.setattr(trees, "MAX_BYTES", 8 * nodes)
    PredictionExplainer(model, BACKGROUND[:64])
    with pytest.raises(ValueError, match=r"background: 70 rows at .* nodes of trees .*; give 64 or fewer"):
        PredictionExplainer(model, BACKGROUND)


@pytest.mark.parametrize("features", [["a"], []])
@pytest.mark.parametrize("n", [0, 1, 40])
def test_a_model_that_asks_for_no_feature_has_no_reasons(features, n):
    none, leaf = np.zeros(1, np.int64), np.full(1, -1)
    only = Tree(none, np.zeros(1), none, leaf, leaf, np.ones((1, 1)))
    model = TreeEnsemble(Ensemble("a test", "regression", [only], [0.5], "identity", features))
    reasons = PredictionExplainer(model, [{"a": 1}]).explain([{"a": 2}] * n)
    assert reasons.values.shape == (n, len(features), 1)
    assert not reasons.values.any()
    assert reasons.prediction.tolist() == [[1.5]] * n
    assert reasons.baseline.tolist() == [1.5]


def test_a_row_that_is_not_there_is_not_replaced():
    explainer = PredictionExplainer(product, [{}], task="regression")
    with pytest.raises(IndexError, match="slot: 1, and the background has the rows 0 to 0"):
        explainer.replace(1, {})


def test_a_prediction_that_is_not_finite_is_refused():
    explainer = PredictionExplainer(lambda x: math.inf, [{"a": 1}], task="regression")
    with pytest.raises(ValueError, match="finite number"):
        explainer.explain([{"a": 2}])
