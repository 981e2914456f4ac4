"""Parameters that change while a model learns: what it knows goes on, with the bits of a river model whose parameters change likewise."""

import numbers
from collections.abc import Callable
from typing import Any

import pytest
from river import compose, drift, forest, linear_model, optim, preprocessing, stats, tree

from explain_core.learners.base import Learner
from explain_core.learners.choice import learner_of
from explain_core.learners.mixture import Mixture
from explain_core.losses import Task
from explain_core.models import wrap
from explain_core.state import StateError
from tests.core.learners.lockstep import in_order, mixed, step, stored

QUICK = {"drift_detector": drift.ADWIN(0.3, clock=4), "warning_detector": drift.ADWIN(0.3, clock=4)}
FORESTS: dict[str, Callable[..., Any]] = {
    "classes": lambda **params: forest.ARFClassifier(seed=1, grace_period=20, **QUICK, **params),
    "numbers": lambda **params: forest.ARFRegressor(seed=1, grace_period=20, leaf_prediction="mean", **QUICK, **params),
    "unwatched": lambda **params: forest.ARFClassifier(
        seed=1, drift_detector=drift.NoDrift(), warning_detector=drift.NoDrift(), **params
    ),
}  # fmt: skip


def made(model: Any, task: Task = "classification") -> Learner:
    learner = learner_of(model, task)
    assert learner is not None
    return learner


def grow(model: Any, members: int) -> None:
    """A forest of river with more members, as they are in one that is new."""
    for _ in range(members - model.n_models):
        model.data.append(model._new_base_model())
        model._metrics.append(model.metric.clone())
        if not model._warning_detection_disabled:
            model._background.append(None)
            model._warning_detectors.append(model.warning_detector.clone())
        if not model._drift_detection_disabled:
            model._drift_detectors.append(model.drift_detector.clone())
        if hasattr(model, "_drift_norm"):
            model._drift_norm.append(stats.Var())
        for tracker in (model._warning_tracker, model._drift_tracker):
            if tracker is not None:
                tracker[len(model.data) - 1] = 0
    model.n_models = members


@pytest.mark.parametrize("name", FORESTS)
def test_a_forest_that_gets_more_trees_is_that_of_river(name: str) -> None:
    make, number = FORESTS[name], name == "numbers"
    task: Task = "regression" if number else "classification"
    stream = list(mixed(540, 3, task="regression" if number else "multiclass"))
    learner, river = made(make(n_models=2), task), wrap(make(n_models=2), task)
    for at, record in enumerate(stream):
        if at in (180, 360):
            members = {180: 3, 360: 7}[at]
            after = made(make(n_models=members), task)
            assert after.follows(learner_of(make(n_models=members - 1), task))
            after.restore(after.taken_on(learner.state()))
            learner = stored(after, made(make(n_models=members), task))
            grow(river.wrapped, members)
        step(learner, river, record, at)
    assert len(learner.arrays["members"]) == 7


def test_fewer_trees_are_no_state_of_a_forest() -> None:
    learner, fewer = made(FORESTS["classes"](n_models=3)), made(FORESTS["classes"](n_models=2))
    for x, y, _ in mixed(50, 3):
        learner.learn(x, y)
    assert not fewer.follows(made(FORESTS["classes"](n_models=3)))
    with pytest.raises(StateError):
        fewer.restore(fewer.taken_on(learner.state()))


def pipeline(rate: float = 0.01, **params: Any) -> Any:
    encoders = compose.SelectType(str) | preprocessing.OneHotEncoder()
    scaled = compose.SelectType(numbers.Number) | preprocessing.StandardScaler()
    return (encoders + scaled) | linear_model.LogisticRegression(optimizer=optim.SGD(rate), **params)


def test_a_linear_model_learns_on_at_another_rate() -> None:
    learner, river = (
        made(linear_model.LogisticRegression()),
        wrap(linear_model.LogisticRegression(), "classification"),
    )
    for at, record in enumerate(mixed(200, 4, nominal=False)):
        if at == 100:
            after = made(linear_model.LogisticRegression(optim.SGD(0.3), l2=0.1, intercept_lr=0.2))
            assert after.follows(made(linear_model.LogisticRegression()))
            after.restore(after.taken_on(learner.state()))
            learner, of = after, river.wrapped
            of.optimizer.lr, of.l2 = optim.schedulers.Constant(0.3), 0.1
            of.intercept_lr = optim.schedulers.Constant(0.2)
        step(learner, river, record, at)


EAGER = {"grace_period": 20, "delta": 0.1}
FOLLOWS: list[tuple[Any, Any, bool]] = [
    (tree.HoeffdingTreeClassifier(), tree.HoeffdingTreeClassifier(grace_period=20, delta=0.1, tau=0.2), True),
    (tree.HoeffdingTreeClassifier(), tree.HoeffdingTreeClassifier(max_depth=3), False),
    (tree.HoeffdingTreeClassifier(), tree.HoeffdingTreeClassifier(nominal_attributes=["a"]), False),
    (tree.HoeffdingTreeClassifier(), tree.HoeffdingAdaptiveTreeClassifier(seed=1), False),
    (tree.HoeffdingAdaptiveTreeClassifier(seed=1), tree.HoeffdingAdaptiveTreeClassifier(seed=1, delta=0.1), True),
    (tree.HoeffdingAdaptiveTreeClassifier(seed=1), tree.HoeffdingAdaptiveTreeClassifier(seed=2), False),
    (forest.ARFClassifier(seed=1), forest.ARFClassifier(seed=1, lambda_value=3, disable_weighted_vote=True), True),
    (forest.ARFClassifier(seed=1), forest.ARFClassifier(seed=1, max_features=3), False),
    (forest.ARFClassifier(seed=1), forest.ARFClassifier(seed=1, drift_detector=drift.ADWIN(0.2)), False),
    (forest.ARFClassifier(seed=1), forest.ARFClassifier(seed=1, n_models=11), True),
    (forest.ARFClassifier(seed=1), forest.ARFClassifier(seed=1, n_models=9), False),
    (pipeline(), pipeline(0.1, clip_gradient=1.0), True),
    (pipeline(), pipeline(intercept_init=1.0), False),
    (pipeline(), linear_model.LogisticRegression(), False),
    (pipeline(), compose.Discard("a") | linear_model.LogisticRegression(), False),
    (compose.Discard("b") | linear_model.LogisticRegression(), compose.Discard("a") | linear_model.LogisticRegression(), False),
    (linear_model.LogisticRegression(), linear_model.SoftmaxRegression(), False),
    (linear_model.LogisticRegression(), tree.HoeffdingTreeClassifier(), False),
    (Mixture({"line": pipeline()}), Mixture({"line": pipeline(0.1)}), True),
    (Mixture({"line": pipeline()}), Mixture({"line": pipeline(), "tree": tree.HoeffdingTreeClassifier()}), False),
    (Mixture({"line": pipeline()}), Mixture({"line": pipeline()}, share=0.1), False),
    (Mixture({"line": pipeline()}), pipeline(), False),
]  # fmt: skip
"""Models before and after, and whether the second goes on with what the first has learnt."""


@pytest.mark.parametrize("place", range(len(FOLLOWS)))
def test_only_parameters_that_may_change_are_taken_on(place: int) -> None:
    before, after, follows = FOLLOWS[place]
    learner = made(after)
    assert learner.follows(made(before)) == follows
    assert learner.follows(made(after))
    if follows:
        known = made(before)
        for x, y, _ in mixed(100, 5):
            known.learn(x, y)
        learner.restore(learner.taken_on(known.state()))
        x = next(iter(mixed(1, 6)))[0]
        assert learner.predict(x).keys() == known.predict(in_order(known, x)).keys()  # type: ignore[union-attr]


def test_the_forest_of_a_mixture_gets_more_trees() -> None:
    def mixture(members: int) -> Learner:
        return made(Mixture({"line": pipeline(), "forest": forest.ARFClassifier(members, seed=1, **EAGER)}))

    stream = list(mixed(300, 7))
    known, alone = mixture(2), made(forest.ARFClassifier(2, seed=1, **EAGER))
    for x, y, _ in stream[:200]:
        known.learn(x, y)
        alone.learn(x, y)
    learner, forest_alone = mixture(4), made(forest.ARFClassifier(4, seed=1, **EAGER))
    learner.restore(learner.taken_on(known.state()))
    forest_alone.restore(forest_alone.taken_on(alone.state()))
    assert learner.weights == known.weights  # type: ignore[attr-defined]
    for x, y, _ in stream[200:]:
        assert learner.members["forest"].predict(x) == forest_alone.predict(x)  # type: ignore[attr-defined]
        learner.learn(x, y)
        forest_alone.learn(x, y)
