"""Every evaluator draws the same copies and finds the same contributions as asking the model copy by copy.

EXPLAIN_EQUALITY_RECORDS sets how many records each model is followed for.
"""

import math
import os

import numpy as np
import pytest
from river import ensemble, forest, linear_model, preprocessing, tree
from sklearn.tree import DecisionTreeClassifier

from explain_core.evaluation import kernels
from explain_core.evaluation.choice import choose
from explain_core.importance.base import Together, teams
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.losses import NAMED
from explain_core.models import wrap
from explain_core.random import Generator
from explain_core.reservoirs import make_reservoir
from explain_core.smoothing import Smoother
from service.default_models import default_model
from service.pickles import dumps, loads
from tests.streams import nominal_stream

RECORDS = int(os.environ.get("EXPLAIN_EQUALITY_RECORDS", 150))
GROWING = {"grace_period": 20, "delta": 0.1}
LOSSES = {
    task: [name for name, loss in NAMED.items() if loss.task == task]
    for task in ("classification", "regression")
}


def drifting(n, d, seed, task, classes=2, nominal=False, missing=False):
    """n records whose concept changes five times; every third feature is a small integer."""
    rng = Generator(seed)
    for i in range(n):
        x = {f"x{j}": float(rng.below(8)) if j % 3 == 0 else 4 * rng.uniform() - 2 for j in range(d)}
        if nominal:
            x["colour"] = ("red", "green", "blue")[rng.below(3)]
        phase = 6 * i // n % 3
        score = x[f"x{1 + phase}"] + (0.5 if phase else -0.5) * x[f"x{2 + phase}"] + 0.4 * rng.uniform()
        score += x.get("colour") == "red"
        if missing:
            for name in list(x):
                if rng.below(20) == 0:
                    del x[name]
        yield x, score if task == "regression" else min(classes - 1, max(0, int(score + classes / 2)))


def hoeffding(**settings):
    return tree.HoeffdingTreeClassifier(**GROWING, **settings)


def adaptive(**settings):
    return tree.HoeffdingAdaptiveTreeClassifier(seed=1, drift_window_threshold=30, **GROWING, **settings)


CLASSIFIERS = {
    "Hoeffding tree": hoeffding,
    "Hoeffding tree, naive Bayes": lambda: hoeffding(leaf_prediction="nb", nb_threshold=5),
    "Hoeffding tree, majority": lambda: hoeffding(leaf_prediction="mc", max_depth=3),
    "Hoeffding tree, of limited size": lambda: hoeffding(max_size=0.02, memory_estimate_period=30),
    "Hoeffding tree, without poor features": lambda: hoeffding(remove_poor_attrs=True),
    "adaptive": adaptive,
    "adaptive, naive Bayes": lambda: adaptive(leaf_prediction="nb"),
    "adaptive, majority": lambda: adaptive(leaf_prediction="mc", bootstrap_sampling=False),
    "extremely fast": lambda: tree.ExtremelyFastDecisionTreeClassifier(min_samples_reevaluate=20, **GROWING),
    "forest": lambda: forest.ARFClassifier(n_models=4, seed=1, grace_period=20),
    "forest, majority": lambda: forest.ARFClassifier(n_models=4, seed=1, leaf_prediction="mc"),
    "bagging": lambda: ensemble.BaggingClassifier(hoeffding(), n_models=3, seed=1),
    "adaptive bagging": lambda: ensemble.ADWINBaggingClassifier(adaptive(), n_models=3, seed=1),
    "leveraging bagging": lambda: ensemble.LeveragingBaggingClassifier(hoeffding(), n_models=3, seed=1),
    "boosting": lambda: ensemble.AdaBoostClassifier(hoeffding(), n_models=3, seed=1),
    "adaptive boosting": lambda: ensemble.ADWINBoostingClassifier(hoeffding(), n_models=3, seed=1),
    "random patches": lambda: ensemble.SRPClassifier(hoeffding(), n_models=3, seed=1),
}
REGRESSORS = {
    "Hoeffding tree": lambda: tree.HoeffdingTreeRegressor(**GROWING),
    "Hoeffding tree, mean": lambda: tree.HoeffdingTreeRegressor(leaf_prediction="mean", **GROWING),
    "Hoeffding tree, model": lambda: tree.HoeffdingTreeRegressor(leaf_prediction="model", **GROWING),
    "adaptive": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=1, drift_window_threshold=30, **GROWING),
    "forest": lambda: forest.ARFRegressor(n_models=9, seed=1),
    "forest, median": lambda: forest.ARFRegressor(n_models=4, seed=1, aggregation_method="median"),
    "bagging": lambda: ensemble.BaggingRegressor(tree.HoeffdingTreeRegressor(**GROWING), n_models=3, seed=1),
    "random patches": lambda: ensemble.SRPRegressor(
        tree.HoeffdingTreeRegressor(**GROWING), n_models=3, seed=1
    ),
}
MODELS = [("classification", name) for name in CLASSIFIERS] + [("regression", name) for name in REGRESSORS]


def estimators(model, evaluator, **settings):
    settings = {"size": 20, "seed": 3, "losses": LOSSES[model.task], **settings}
    return [
        one(model, task=model.task, evaluator=evaluator, **settings)
        for one in (IncrementalPFI, IncrementalSAGE)
    ]


def follow(model, pairs, stream, tolerance=0.0):
    """Explain and learn; the two estimators of each pair must agree after each record."""
    for i, (x, y) in enumerate(stream):
        prediction = model.predict(x)
        for generic, fast in pairs:
            generic.explain_one(x, y, prediction)
            fast.explain_one(x, y, prediction)
            assert generic._rng.state == fast._rng.state, f"record {i}: other draws"
            np.testing.assert_allclose(
                fast._smoother.value,
                generic._smoother.value,
                rtol=tolerance,
                atol=tolerance,
                err_msg=f"record {i}",
            )
        model.learn(x, y)


def assert_compiled(evaluator):
    """Python explained only the odd record where a new tree has classes in another order than the old one."""
    assert evaluator.fallbacks <= RECORDS // 300 if kernels.AVAILABLE else evaluator.fallbacks > 0


@pytest.mark.parametrize(("task", "name"), MODELS, ids=[" ".join(model) for model in MODELS])
def test_trees_give_the_bits_of_the_model_while_they_split_and_drift(task, name):
    model = wrap((CLASSIFIERS if task == "classification" else REGRESSORS)[name](), task)
    fast = choose(model)
    pairs = list(
        zip(estimators(model, "generic", n_samples=1), estimators(model, fast, n_samples=1), strict=True)
    )
    follow(model, pairs, drifting(RECORDS, 5, 7, task))
    assert fast.name == "trees"
    assert_compiled(fast)


@pytest.mark.parametrize(("task", "name"), MODELS, ids=[" ".join(model) for model in MODELS])
def test_trees_predict_many_records_as_one_by_one(task, name):
    model = wrap({"classification": CLASSIFIERS, "regression": REGRESSORS}[task][name](), task)
    mixed = task == "classification"  # linear models in leaves take numbers alone
    stream = list(drifting(400, 6, 3, task, nominal=mixed, missing=True))
    evaluator = choose(model)
    for i, (x, y) in enumerate(stream):
        model.learn(x, y)
        if i % 100 == 99:
            rows = [x for x, _ in stream]
            assert evaluator.predict_many(rows) == [model.predict(x) for x in rows]


def eager(task, name):
    """One of the models, with trees that split soon and have no linear models in their leaves, which take numbers alone."""
    model = {"classification": CLASSIFIERS, "regression": REGRESSORS}[task][name]()
    settings = {"grace_period": 20, "delta": 0.1, "tau": 0.25}
    if task == "regression":
        settings["leaf_prediction"] = "mean"
    return model.clone({"model": model.model.clone(settings)} if hasattr(model, "model") else settings)


@pytest.mark.parametrize(("task", "name"), MODELS, ids=[" ".join(model) for model in MODELS])
@pytest.mark.parametrize("numbers", [True, False], ids=["mixed", "nominal"])
def test_trees_give_the_bits_of_the_model_while_they_split_on_categories(task, name, numbers):
    model = wrap(eager(task, name), task)
    fast, records = choose(model), max(300, RECORDS)
    pairs = list(
        zip(estimators(model, "generic", n_samples=1), estimators(model, fast, n_samples=1), strict=True)
    )
    follow(model, pairs, nominal_stream(records, 7, task, numbers))
    if kernels.AVAILABLE:
        assert fast.fallbacks < 1.5 * records  # of twice as many


@pytest.mark.parametrize(("task", "name"), MODELS, ids=[" ".join(model) for model in MODELS])
def test_a_state_that_is_restored_time_and_again_stays_that_which_went_on(task, name):
    def state():
        model = wrap(eager(task, name), task)
        return model, estimators(model, choose(model), n_samples=1)

    running, restored = state(), state()
    for i, (x, y) in enumerate(nominal_stream(240, 8, task, numbers=False)):
        if i % 17 == 16:
            restored = loads(dumps(restored))
        for model, both in (running, restored):
            prediction = model.predict(x)
            for one in both:
                one.explain_one(x, y, prediction)
            model.learn(x, y)
        for one, other in zip(running[1], restored[1], strict=True):
            assert one._rng.state == other._rng.state
            assert one._smoother.cells.tobytes() == other._smoother.cells.tobytes(), f"record {i}"


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", ["Hoeffding tree", "adaptive"])
def test_numbers_that_are_taken_for_categories_are_left_to_the_model(task, name):
    model = wrap(eager(task, name).clone({"nominal_attributes": ["x0", "x3"]}), task)
    pairs = list(zip(estimators(model, "generic"), estimators(model, "auto"), strict=True))
    follow(model, pairs, drifting(300, 5, 7, task))
    assert pairs[0][1].evaluator.fallbacks > 0


def pipeline(model):
    return preprocessing.StandardScaler() | model


LINEAR = {
    "logistic": ("classification", lambda: pipeline(linear_model.LogisticRegression())),
    "logistic, not scaled": ("classification", linear_model.LogisticRegression),
    "softmax": ("classification", lambda: pipeline(linear_model.SoftmaxRegression())),
    "regression": ("regression", lambda: pipeline(linear_model.LinearRegression())),
    "default, binary": ("classification", lambda: default_model("binary")),
    "default, multiclass": ("classification", lambda: default_model("multiclass")),
    "default, regression": ("regression", lambda: default_model("regression")),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("m", [1, 3])
def test_linear_models_agree_to_the_twelfth_digit(name, m):
    task, make = LINEAR[name]
    model = wrap(make(), task)
    fast = choose(model)
    # The label flips where probabilities are equal but for the last bit.
    settings = {"n_samples": m, "losses": [loss for loss in LOSSES[task] if loss != "zero_one"]}
    pairs = list(
        zip(estimators(model, "generic", **settings), estimators(model, fast, **settings), strict=True)
    )
    mixed = name.startswith("default")
    classes = 3 if "softmax" in name or "multiclass" in name else 2
    follow(model, pairs, drifting(RECORDS, 5, 7, task, classes, nominal=mixed, missing=mixed), 1e-12)
    assert fast.name == "linear"
    assert (fast.fallbacks == 0) == kernels.AVAILABLE


def test_a_feature_with_the_name_of_an_indicator_is_left_to_river():
    model = wrap(default_model("binary"), "classification")
    pairs = list(zip(estimators(model, "generic"), estimators(model, "auto"), strict=True))
    rng = Generator(13)
    rows = [{"a": ("u", "v")[rng.below(2)], "a_u": rng.uniform()} for _ in range(60)]
    follow(model, pairs, [(x, int(x["a_u"] > 0.5)) for x in rows])
    assert pairs[0][1].evaluator.fallbacks > 0 or not kernels.AVAILABLE


def test_models_on_arrays_are_asked_once_for_all_copies():
    points = np.random.default_rng(0).normal(size=(200, 3))
    tree_model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(points, points[:, 0] > 0)
    model = wrap(tree_model, "classification", features=["a", "b", "c"])
    sizes = []
    ask = model.predict_many

    def predict_many(rows):
        sizes.append(len(rows))
        return ask(rows)

    generic, fast = (estimators(model, name, n_samples=2) for name in ("generic", "auto"))
    assert fast[0].evaluator.name == "batch"
    for one in (*generic, *fast):
        for point in points[:50]:
            model.predict_many = predict_many if one in fast else ask
            one.explain_one(dict(zip("abc", point.tolist(), strict=True)), bool(point[0] > 0))
    for one, other in zip(generic, fast, strict=True):
        assert np.array_equal(one._smoother.value, other._smoother.value)
    assert set(sizes) == {1, 4, 6}  # the record; 2 copies for each of 2 coalitions; 2 for each of 3 features


def test_an_evaluator_that_does_not_fit_is_refused():
    model = wrap(CLASSIFIERS["forest"](), "classification")
    for name in ("linear", "fastest"):
        with pytest.raises(ValueError, match="evaluator: "):
            choose(model, name)
    with pytest.raises(ValueError, match="that of another model"):
        choose(model, choose(wrap(CLASSIFIERS["forest"](), "classification")))


SETTINGS = {
    "m > 1": {"n_samples": 3},
    "several": {},
    "groups": {"groups": {"g": ["x1", "x2"]}},
    "uniform reservoir": {"reservoir": "uniform"},
    "fixed features": {"features": ["x1", "x3", "x4"]},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_all_settings_of_the_estimators_give_the_same_bits(task, settings):
    make = {"classification": CLASSIFIERS["forest"], "regression": REGRESSORS["Hoeffding tree"]}[task]
    model = wrap(make(), task)
    pairs = list(
        zip(estimators(model, "generic", **settings), estimators(model, "auto", **settings), strict=True)
    )
    follow(model, pairs, drifting(100, 5, 8, task, classes=3))


def generic():
    """A model that no evaluator knows and that does not learn."""
    return lambda x: 2.0 * x.get("x1", 0.3) - x.get("x2", 0.1)


def shared(model, **settings):
    """iPFI and iSAGE that draw from one reservoir, with an evaluator of their own."""
    return estimators(model, choose(model), reservoir=make_reservoir("geometric", 20, 4), size=20, **settings)


@pytest.mark.parametrize("task, name", [("classification", "forest"), ("regression", "Hoeffding tree, mean")])
@pytest.mark.parametrize("empty", ["ema", "reservoir"])
def test_conditional_copies_are_predicted_by_the_compiled_trees(task, name, empty, monkeypatch):
    model = wrap({"classification": CLASSIFIERS, "regression": REGRESSORS}[task][name](), task)
    predict, asked = type(model).predict, []
    monkeypatch.setattr(type(model), "predict", lambda self, x: asked.append(x) or predict(self, x))
    pair = [
        IncrementalSAGE(
            model, task=task, removal="conditional", empty=empty, n_samples=2, size=20, evaluator=one
        )
        for one in ("generic", choose(model))
    ]
    follow(model, [pair], drifting(100, 5, 8, task))
    copies = 80 * 2 * (4 + (empty == "reservoir"))
    if kernels.AVAILABLE:
        assert copies + 100 <= len(asked) <= copies + 100 + 80  # a classifier is asked for its labels' order


TOGETHER = {
    "forest": (CLASSIFIERS["forest"], "classification", {}),
    "regression forest": (REGRESSORS["forest"], "regression", {"n_samples": 2}),
    "logistic": (lambda: default_model("binary"), "classification", {"n_samples": 1}),
    "generic": (generic, "regression", {}),
}


@pytest.mark.parametrize("case", TOGETHER.values(), ids=TOGETHER)
@pytest.mark.parametrize("own", [{}, {"empty": "reservoir"}, {"removal": "conditional"}], ids=str)
@pytest.mark.parametrize("kind", ["difference", "ratio"])
def test_estimators_find_together_what_each_finds_alone(case, own, kind):
    make, task, settings = case
    model = wrap(make(), task)

    def pair():
        reservoir = make_reservoir("geometric", 20, 4)
        common = {"task": task, "reservoir": reservoir, "evaluator": choose(model), "losses": LOSSES[task]}
        return IncrementalPFI(model, kind=kind, seed=1, **common, **settings), IncrementalSAGE(
            model, seed=2, **common, **settings, **own
        )

    alone, united = pair(), pair()
    grouped = teams(united)
    assert len(grouped) == (2 if own.get("removal") == "conditional" else 1)
    for i, (x, y) in enumerate(drifting(100, 5, 8, task, missing=True)):
        prediction = model.predict(x)
        for way in (alone, grouped):
            for one in way:
                one.meet(x) if i % 7 == 6 else one.explain_one(x, y, prediction)
        if make is not generic:
            model.learn(x, y)
        for way in (alone, united):
            way[0].reservoir.add(x)
        for one, other in zip(alone, united, strict=True):
            assert one._rng.state == other._rng.state
            for name in ("cells", "sums"):
                assert np.array_equal(getattr(one._smoother, name), getattr(other._smoother, name)), (
                    f"record {i}"
                )
    assert alone[1]._y0.prediction == united[1]._y0.prediction


@pytest.mark.parametrize("make", [REGRESSORS["forest"], generic], ids=["compiled", "in Python"])
def test_where_one_estimator_fails_none_has_explained(make):
    model = wrap(make(), "regression")
    pair = shared(model)
    both = Together(pair)
    for x, y in drifting(60, 5, 8, "regression"):
        both.explain_one(x, y)
        if make is not generic:
            model.learn(x, y)
        pair[0].reservoir.add(x)

    def state():
        return [(one._rng.state, one._smoother.cells.tobytes(), one._smoother.sums.tobytes()) for one in pair]

    before, y0 = state(), pair[1]._y0
    with pytest.raises(ValueError, match="not finite for y = inf"):
        both.explain_one(x, math.inf)
    with pytest.raises(ValueError, match="returns a finite number"):
        both.explain_one(x, y, math.nan)
    assert state() == before and pair[1]._y0 is y0


@pytest.mark.parametrize(
    "prediction", ["UP", 0.5, None, {0: "UP", 1: "DOWN"}, {0: None, 1: 1.0}, {0: math.nan, 1: 0.5}]
)
@pytest.mark.parametrize("make", [LINEAR["logistic"][1], CLASSIFIERS["forest"]], ids=["linear", "trees"])
def test_a_prediction_that_is_none_is_refused(make, prediction):
    model = wrap(make(), "classification")
    pair = shared(model)
    both = Together(pair)
    for x, y in drifting(60, 5, 8, "classification"):
        both.explain_one(x, y, model.predict(x))
        model.learn(x, y)
        pair[0].reservoir.add(x)
    before = [one._smoother.cells.tobytes() for one in pair]
    if prediction is None:  # the model's own is asked for
        both.explain_one(x, y, prediction)
        assert [one._smoother.cells.tobytes() for one in pair] != before
    else:
        with pytest.raises(ValueError, match="model: predicted"):
            both.explain_one(x, y, prediction)
        assert [one._smoother.cells.tobytes() for one in pair] == before


def test_estimators_that_differ_are_no_team():
    model = wrap(generic(), "regression")
    first, second = shared(model)
    other = IncrementalSAGE(model, task="regression", reservoir=first.reservoir, evaluator=first.evaluator)
    assert [team.estimators for team in teams([first, second, other])] == [(first, second), (other,)]
    for wrong in ([first, other], [first, first]):
        with pytest.raises(ValueError, match="differ in model, evaluator, reservoir"):
            Together(wrong)


@pytest.mark.parametrize("name", ["Hoeffding tree", "adaptive", "forest"])
@pytest.mark.parametrize("missing", [False, True])
def test_categories_and_missing_features_give_the_same_bits(name, missing):
    model = wrap(CLASSIFIERS[name](), "classification")
    fast = choose(model)
    pairs = list(
        zip(estimators(model, "generic", n_samples=1), estimators(model, fast, n_samples=1), strict=True)
    )
    follow(model, pairs, drifting(120, 5, 9, "classification", 3, nominal=True, missing=missing))
    if kernels.AVAILABLE:
        assert fast.fallbacks < 200 if missing else fast.fallbacks < 25


@pytest.mark.parametrize(
    "name", [name for name in CLASSIFIERS if "adaptive" not in name] + ["adaptive boosting"]
)
def test_trees_give_the_bits_of_the_model_without_numba(name, monkeypatch):
    monkeypatch.setattr("explain_core.evaluation.compiled.AVAILABLE", False)
    model = wrap(CLASSIFIERS[name](), "classification")
    fast = choose(model)
    monkeypatch.setattr(fast, "predict", lambda x: pytest.fail("a whole prediction"))
    pairs = list(zip(estimators(model, "generic"), estimators(model, fast), strict=True))
    follow(model, pairs, drifting(100, 5, 14, "classification", 3, nominal=True, missing=True))


@pytest.mark.parametrize("name", ["adaptive", "forest"])
def test_a_restored_state_goes_on_with_the_same_bits(name):
    model = wrap(CLASSIFIERS[name](), "classification")
    stream = list(drifting(160, 5, 10, "classification"))
    pairs = list(zip(estimators(model, "generic"), estimators(model, choose(model)), strict=True))
    follow(model, pairs, stream[:80])
    raw = dumps((model, pairs))
    model, pairs = loads(raw)
    assert pairs[0][1].evaluator is pairs[1][1].evaluator
    follow(model, pairs, stream[80:])
    assert b"Forest" not in raw and b"numba" not in raw


def test_a_record_that_is_learnt_unseen_is_noticed():
    model = wrap(CLASSIFIERS["forest"](), "classification")
    pairs = list(zip(estimators(model, "generic"), estimators(model, "auto"), strict=True))
    for x, y in drifting(40, 5, 11, "classification"):
        follow(model, pairs, [(x, y)])
        for other, label in drifting(3, 5, 12, "classification"):
            model.learn(other, label)


@pytest.mark.parametrize("n", [1, 2, 100, 2**31])
def test_compiled_draws_are_those_of_the_generator(n):
    rng, state = Generator(5), np.array([5], np.uint64)
    assert [rng.below(n) for _ in range(100)] == [int(kernels.below(state, n)) for _ in range(100)]
    assert rng.state == int(state[0])


def test_compiled_sums_are_those_of_python():
    rng = Generator(6)
    for _ in range(200):
        values = [(rng.uniform() - 0.5) * 10.0 ** rng.below(20) for _ in range(rng.below(12) + 1)]
        assert kernels.total(np.array(values), len(values)) == sum(values)


@pytest.mark.parametrize("memory", [None, 7])
def test_compiled_smoothing_gives_the_bits_of_numpy(memory, monkeypatch):
    compiled, plain = Smoother((2, 3), 0.1, memory), Smoother((2, 3), 0.1, memory)
    deltas = np.random.default_rng(0).normal(size=(50, 2, 3))
    for delta in deltas:
        compiled.update(delta)
    monkeypatch.setattr(kernels, "AVAILABLE", False)
    for delta in deltas:
        plain.update(delta)
    for name in ("sums", "cells", "std"):
        assert np.array_equal(getattr(compiled, name), getattr(plain, name)), name
