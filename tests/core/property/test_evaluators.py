"""Every evaluator draws the same copies and finds the same contributions as asking the model copy by copy.

EXPLAIN_EQUALITY_RECORDS sets how many records each model is followed for.
"""

import contextlib
import math
import os

import numpy as np
import pytest
from river import forest, linear_model, preprocessing, tree
from sklearn.tree import DecisionTreeClassifier

from explain_core.evaluation.choice import choose
from explain_core.importance.group import EstimatorGroup, grouped
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners.choice import learner_of
from explain_core.learners.mixture import Mixture
from explain_core.learners.named import linear_model_of
from explain_core.losses import NAMED
from explain_core.models import wrap
from explain_core.random import Generator
from explain_core.reservoirs import make_reservoir
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


def pipeline(model):
    return preprocessing.StandardScaler() | model


def mixture(task):
    """The default model of a task, in small, and an adaptive tree."""
    if task == "regression":
        trees = tree.HoeffdingAdaptiveTreeRegressor(leaf_prediction="mean", **ADAPTIVE)
        many = forest.ARFRegressor(n_models=3, seed=1, leaf_prediction="mean", grace_period=20)
    else:
        trees = tree.HoeffdingAdaptiveTreeClassifier(**ADAPTIVE)
        many = forest.ARFClassifier(n_models=3, seed=1, grace_period=20)
    return Mixture({"linear": linear_model_of(task), "tree": trees, "forest": many})


ADAPTIVE = {"seed": 1, "drift_window_threshold": 30, **GROWING}
LEARNERS = {
    "Hoeffding tree": ("classification", lambda: tree.HoeffdingTreeClassifier(**GROWING)),
    "Hoeffding tree, naive Bayes": ("classification", lambda: tree.HoeffdingTreeClassifier(leaf_prediction="nb", nb_threshold=5, **GROWING)),
    "Hoeffding tree, majority": ("classification", lambda: tree.HoeffdingTreeClassifier(leaf_prediction="mc", max_depth=3, **GROWING)),
    "adaptive": ("classification", lambda: tree.HoeffdingAdaptiveTreeClassifier(**ADAPTIVE)),
    "adaptive, majority": ("classification", lambda: tree.HoeffdingAdaptiveTreeClassifier(leaf_prediction="mc", bootstrap_sampling=False, **ADAPTIVE)),
    "forest": ("classification", lambda: forest.ARFClassifier(n_models=4, seed=1, grace_period=20)),
    "forest, majority": ("classification", lambda: forest.ARFClassifier(n_models=4, seed=1, leaf_prediction="mc")),
    "regression tree": ("regression", lambda: tree.HoeffdingTreeRegressor(leaf_prediction="mean", **GROWING)),
    "regression tree, lines": ("regression", lambda: tree.HoeffdingTreeRegressor(**GROWING)),
    "adaptive regression tree": ("regression", lambda: tree.HoeffdingAdaptiveTreeRegressor(leaf_prediction="mean", **ADAPTIVE)),
    "regression forest": ("regression", lambda: forest.ARFRegressor(n_models=4, seed=1, leaf_prediction="mean", grace_period=20)),
    "regression forest, lines": ("regression", lambda: forest.ARFRegressor(n_models=3, seed=1)),
    "logistic": ("classification", lambda: pipeline(linear_model.LogisticRegression())),
    "softmax": ("classification", lambda: pipeline(linear_model.SoftmaxRegression())),
    "regression": ("regression", lambda: pipeline(linear_model.LinearRegression())),
    "linear, binary": ("classification", lambda: linear_model_of("binary")),
    "linear, multiclass": ("classification", lambda: linear_model_of("multiclass")),
    "linear, regression": ("regression", lambda: linear_model_of("regression")),
    "mixture, binary": ("classification", lambda: mixture("binary")),
    "mixture, multiclass": ("classification", lambda: mixture("multiclass")),
    "mixture, regression": ("regression", lambda: mixture("regression")),
}  # fmt: skip
NUMERIC = ("logistic", "softmax", "regression", "regression tree, lines", "regression forest, lines")


def made(name):
    task, make = LEARNERS[name]
    return learner_of(make(), task) or wrap(make(), task)


def classes_of(name):
    """How many classes a test gives the model; a mixture takes no more of them than its members, while a logistic regression alone learns any number."""
    return 2 if name == "mixture, binary" else 3


def estimators(model, evaluator, **settings):
    settings = {"size": 20, "seed": 3, "losses": LOSSES[model.task], **settings}
    return [
        estimator(model, task=model.task, evaluator=evaluator, **settings)
        for estimator in (IncrementalPFI, IncrementalSAGE)
    ]


def follow(model, pairs, stream):
    """Explain and learn; the two estimators of each pair must agree after each record."""
    for i, (x, y) in enumerate(stream):
        prediction = model.predict(x)
        for generic, fast in pairs:
            generic.explain_one(x, y, prediction)
            fast.explain_one(x, y, prediction)
            assert generic._rng.state == fast._rng.state, f"record {i}: other draws"
            np.testing.assert_array_equal(
                fast._smoother.cells, generic._smoother.cells, err_msg=f"record {i}"
            )
        model.learn(x, y)


def unlike(y, prediction):
    """A loss that compiled code does not know; it fails, or is not finite, for some truths."""
    if y == "fails":
        raise ZeroDivisionError
    if y == "infinite":
        return math.inf
    return math.sqrt(abs(prediction - y) if isinstance(prediction, float) else 1.0 - prediction.get(y, 0.0))


@pytest.mark.parametrize(
    ("name", "m", "own"),
    [(name, m, []) for name in LEARNERS for m in (1, 3)]
    + [(name, 3, [unlike]) for name in ("adaptive", "regression forest", "softmax", "mixture, regression")],
)
def test_compiled_code_gives_the_bits_of_the_model_while_it_learns(name, m, own):
    model = made(name)
    fast, mixed = choose(model), name not in NUMERIC
    settings = {"n_samples": m, "losses": [*own, *LOSSES[model.task]]}
    pairs = list(
        zip(estimators(model, "generic", **settings), estimators(model, fast, **settings), strict=True)
    )
    stream = drifting(RECORDS, 5, 7, model.task, classes_of(name), nominal=mixed, missing=mixed)
    follow(model, pairs, stream)
    assert fast.name == "arrays"
    assert fast.fallbacks <= 20


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in NUMERIC])
@pytest.mark.parametrize("numbers", [True, False], ids=["mixed", "nominal"])
def test_compiled_code_gives_the_bits_of_the_model_on_categories(name, numbers):
    model = made(name)
    pairs = list(
        zip(estimators(model, "generic", n_samples=1), estimators(model, "auto", n_samples=1), strict=True)
    )
    follow(model, pairs, nominal_stream(max(300, RECORDS), 7, model.task, numbers))


def test_a_feature_with_the_name_of_an_indicator_is_explained_as_the_model_predicts():
    model = made("linear, binary")
    pairs = list(zip(estimators(model, "generic"), estimators(model, "auto"), strict=True))
    rng = Generator(13)
    rows = [{"a": ("u", "v")[rng.below(2)], "a_u": rng.uniform()} for _ in range(60)]
    follow(model, pairs, [(x, int(x["a_u"] > 0.5)) for x in rows])


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
    for estimator in (*generic, *fast):
        for point in points[:50]:
            model.predict_many = predict_many if estimator in fast else ask
            estimator.explain_one(dict(zip("abc", point.tolist(), strict=True)), bool(point[0] > 0))
    for estimator, other in zip(generic, fast, strict=True):
        assert np.array_equal(estimator._smoother.value, other._smoother.value)
    assert set(sizes) == {1, 6}  # the record; 2 copies for each of 3 coalitions, or of 3 features


def test_an_evaluator_that_does_not_fit_is_refused():
    model = wrap(LEARNERS["forest"][1](), "classification")
    with pytest.raises(ValueError, match="ARFClassifier does not learn in arrays"):
        choose(model, "arrays")
    with pytest.raises(ValueError, match="'fastest' is not one of auto, generic, batch, arrays"):
        choose(model, "fastest")
    with pytest.raises(ValueError, match="that of another model"):
        choose(model, choose(wrap(LEARNERS["forest"][1](), "classification")))


SETTINGS = {
    "m > 1": {"n_samples": 3},
    "several": {},
    "groups": {"groups": {"g": ["x1", "x2"]}},
    "uniform reservoir": {"reservoir": "uniform"},
    "fixed features": {"features": ["x1", "x3", "x4"]},
    "a loss of one's own": {
        "features": ["x1", "x2", "x4"],
        "groups": {"g": ["x2", "x4"]},
        "losses": [unlike],
    },
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", ["forest", "regression", "mixture, multiclass"])
def test_all_settings_of_the_estimators_give_the_same_bits(name, settings):
    model = made(name)
    pairs = list(
        zip(estimators(model, "generic", **settings), estimators(model, "auto", **settings), strict=True)
    )
    follow(model, pairs, drifting(100, 5, 8, model.task, classes=3))


def foreign():
    """A model that no evaluator knows and that does not learn."""
    return wrap(lambda x: 2.0 * x.get("x1", 0.3) - x.get("x2", 0.1), "regression")


def shared(model, evaluator="auto", **settings):
    """iPFI and iSAGE that draw from one reservoir, with an evaluator of their own."""
    return estimators(
        model, choose(model, evaluator), reservoir=make_reservoir("geometric", 20, 4), **settings
    )


TOGETHER = {
    "forest": (lambda: made("forest"), {}),
    "regression": (lambda: made("linear, regression"), {"n_samples": 2}),
    "logistic": (lambda: made("linear, binary"), {"n_samples": 1}),
    "mixture": (lambda: made("mixture, binary"), {"n_samples": 1}),
    "generic": (foreign, {}),
}


@pytest.mark.parametrize("case", TOGETHER.values(), ids=TOGETHER)
@pytest.mark.parametrize("own", [{}, {"empty": "reservoir"}, {"removal": "conditional"}], ids=str)
@pytest.mark.parametrize("kind", ["difference", "ratio"])
def test_estimators_find_together_what_each_finds_alone(case, own, kind):
    make, settings = case
    model = make()
    task = model.task

    def pair():
        reservoir = make_reservoir("geometric", 20, 4)
        common = {"task": task, "reservoir": reservoir, "evaluator": choose(model), "losses": LOSSES[task]}
        return IncrementalPFI(model, kind=kind, seed=1, **common, **settings), IncrementalSAGE(
            model, seed=2, **common, **settings, **own
        )

    alone, united = pair(), pair()
    groups = grouped(united)
    assert len(groups) == (2 if own.get("removal") == "conditional" else 1)
    for i, (x, y) in enumerate(drifting(100, 5, 8, task, missing=True)):
        prediction = model.predict(x)
        for way in (alone, groups):
            for estimator in way:
                estimator.observe(x) if i % 7 == 6 else estimator.explain_one(x, y, prediction)
        if make is not foreign:
            model.learn(x, y)
        for way in (alone, united):
            way[0].reservoir.add(x)
        for estimator, other in zip(alone, united, strict=True):
            assert estimator._rng.state == other._rng.state
            for name in ("cells", "sums"):
                assert np.array_equal(getattr(estimator._smoother, name), getattr(other._smoother, name)), (
                    f"record {i}"
                )
    assert alone[1]._y0.prediction == united[1]._y0.prediction


def explained(model, pair):
    """A group of the pair after 60 records that the model, where it learns, has learnt; the last record."""
    both = EstimatorGroup(pair)
    for x, y in drifting(60, 5, 8, model.task):
        both.explain_one(x, y, model.predict(x))
        with contextlib.suppress(TypeError):
            model.learn(x, y)
        pair[0].reservoir.add(x)
    return both, x, y


def state_of(pair):
    return [
        (
            one._rng.state,
            one._n,
            one._smoother.cells.tobytes(),
            one._smoother.sums.tobytes(),
            getattr(one, "_y0", None),
        )
        for one in pair
    ]


@pytest.mark.parametrize("make", [lambda: made("regression"), foreign], ids=["compiled", "in Python"])
def test_where_one_estimator_fails_none_has_explained(make):
    model = make()
    pair = shared(model)
    both, x, y = explained(model, pair)
    before = state_of(pair)
    with pytest.raises(ValueError, match="not finite for y = inf"):
        both.explain_one(x, math.inf)
    if make is foreign:  # compiled code finds the model's prediction itself
        with pytest.raises(ValueError, match="returns a finite number"):
            both.explain_one(x, y, math.nan)
    assert state_of(pair) == before


@pytest.mark.parametrize("y, error", [("fails", ZeroDivisionError), ("infinite", ValueError)])
def test_where_a_loss_of_ones_own_fails_nothing_has_changed(y, error):
    model = made("forest")
    pair = shared(model, losses=["brier", unlike])
    both, x, _ = explained(model, pair)
    before = state_of(pair)
    with pytest.raises(error):
        both.explain_one(x, y, model.predict(x))
    assert state_of(pair) == before


NO_SHAPE, NO_NUMBERS = ["UP", 0.5], [{0: "UP", 1: "DOWN"}, {0: None, 1: 1.0}, {0: math.nan, 1: 0.5}]


@pytest.mark.parametrize(
    ("evaluator", "prediction"),
    [("auto", model) for model in [None, *NO_SHAPE]]
    + [("generic", model) for model in [None, *NO_SHAPE, *NO_NUMBERS]],
)
def test_a_prediction_that_is_none_is_refused(evaluator, prediction):
    model = made("forest")
    pair = shared(model, evaluator)
    both, x, y = explained(model, pair)
    before = state_of(pair)
    if prediction is None:  # the model's own is asked for
        both.explain_one(x, y, prediction)
        assert state_of(pair) != before
    else:
        with pytest.raises(ValueError, match="model: predicted"):
            both.explain_one(x, y, prediction)
        assert state_of(pair) == before


def test_estimators_that_differ_are_no_team():
    model = foreign()
    first, second = shared(model)
    other = IncrementalSAGE(model, task="regression", reservoir=first.reservoir, evaluator=first.evaluator)
    assert [group.estimators for group in grouped([first, second, other])] == [(first, second), (other,)]


def test_a_record_that_is_learnt_unseen_is_noticed():
    model = made("forest")
    pairs = list(zip(estimators(model, "generic"), estimators(model, "auto"), strict=True))
    for x, y in drifting(40, 5, 11, "classification"):
        follow(model, pairs, [(x, y)])
        for other, label in drifting(3, 5, 12, "classification"):
            model.learn(other, label)


def test_a_reservoir_that_takes_a_state_on_is_read_anew():
    model = made("forest")
    reservoirs = [make_reservoir("geometric", 20, 4) for _ in range(2)]
    pair = [
        IncrementalPFI(model, evaluator=name, reservoir=reservoir, warm_up=20, seed=3)
        for name, reservoir in zip(("generic", "auto"), reservoirs, strict=True)
    ]
    stream = list(drifting(120, 5, 11, "classification"))
    for i, (x, y) in enumerate(stream):
        follow(model, [pair], [(x, y)])
        for reservoir in reservoirs:
            reservoir.add(x)
        if i == 70:
            other = make_reservoir("geometric", 20, 5)
            for row, _ in stream[80:]:
                other.add(row)
            for reservoir in reservoirs:
                reservoir.restore(other.state())
    assert not pair[1].evaluator.fallbacks
