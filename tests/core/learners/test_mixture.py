"""A mixture is hardly worse than its best member, leaves its members their bits, and survives any target."""

import copy
import math
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from river import forest, linear_model, preprocessing, tree

from explain_core.engine import mixture as engine
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.learners.base import LearnerState
from explain_core.learners.choice import learner_of
from explain_core.learners.implicit import ImplicitRegression
from explain_core.learners.mixture import NO_MODEL, Mixture, MixtureLearner
from explain_core.learners.named import linear_model_of
from explain_core.losses import Task, get
from explain_core.state import NewerState, StateError, block
from tests.core.learners.lockstep import mixed

Record = tuple[dict[str, float], Any]


def members(task: str) -> dict[str, Callable[[], Any]]:
    if task == "regression":
        return {
            "linear": lambda: preprocessing.StandardScaler() | ImplicitRegression(clip_gradient=1e300),
            "forest": lambda: forest.ARFRegressor(n_models=3, seed=1, leaf_prediction="mean"),
        }
    return {
        "linear": lambda: linear_model_of("binary" if task == "binary" else "multiclass"),
        "tree": tree.HoeffdingTreeClassifier,
        "forest": lambda: forest.ARFClassifier(n_models=3, seed=1),
    }


def made(task: str, **options: Any) -> MixtureLearner:
    mixture = Mixture({name: make() for name, make in members(task).items()}, **options)
    learner = learner_of(mixture, kind_of(task))
    assert isinstance(learner, MixtureLearner)
    return learner


def kind_of(task: str) -> Task:
    return "regression" if task == "regression" else "classification"


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_members_have_the_bits_that_they_have_alone(task: str) -> None:
    mixture = made(task)
    alone = {name: learner_of(make(), kind_of(task)) for name, make in members(task).items()}
    for x, y, _ in mixed(1200, 3, task=task):
        mixture.predict(x)
        for row, (name, learner) in enumerate(alone.items(), 1):
            assert learner is not None
            own: Any = learner.predict(x)
            whole = sum(own.get(label, 0.0) for label in mixture.labels)
            if whole > 0.0:
                found = mixture.arrays["parts"][row].tolist()
                assert found == pytest.approx([own.get(label, 0.0) / whole for label in mixture.labels]), name
            learner.learn(x, y)
        mixture.learn(x, y)
    for name, learner in alone.items():
        assert learner is not None
        assert all(
            np.array_equal(array, mixture.members[name]._stored()[part], equal_nan=array.dtype == np.float64)
            for part, array in learner._stored().items()
        )


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))])
def test_a_copy_learns_in_members_of_its_own(copied: Callable[[MixtureLearner], MixtureLearner]) -> None:
    mixture, other = made("binary"), made("binary")
    records = [(x, y) for x, y, _ in mixed(400, 3, task="binary")]
    for x, y in records[:200]:
        mixture.learn(x, y)
    twin, state = copied(mixture), mixture.state()
    other.restore(state)
    for x, y in records[200:]:
        assert twin.predict(x) == other.predict(x)
        twin.learn(x, y)
        other.learn(x, y)
    assert twin.state() == other.state() and mixture.state() == state


def test_what_was_explained_or_predicted_before_is_not_taken_for_the_record_that_is_learnt() -> None:
    plain, busy = made("binary"), made("binary")
    pfi = IncrementalPFI(busy, size=10)
    before: dict[str, Any] = {"n1": 0.5, "two": "a"}
    for i, (x, y, _) in enumerate(mixed(900, 8)):
        plain.learn(x, y)
        if i % 2:
            pfi.explain_one(x, y)
        if i % 3:
            busy.predict(before)
        busy.learn(x, y)
        before = x
    assert msgspec.msgpack.encode(plain.state()) == msgspec.msgpack.encode(busy.state())


def losses_of(learner: MixtureLearner, stream: Iterator[Record]) -> dict[str, list[float]]:
    """The log loss of the mixture and of each member, record by record, or the squared error."""
    found: dict[str, list[float]] = {"mixture": [], **{name: [] for name in learner.weights}}
    loss = get("cross_entropy" if learner.task == "classification" else "squared")
    for x, y in stream:
        predictions = [learner.predict(x)]
        for part in learner.arrays["parts"].tolist():
            predictions.append(
                part[0] if learner.task == "regression" else dict(zip(learner.labels, part, strict=True))
            )
        for of, prediction in zip(found.values(), predictions, strict=True):
            of.append(loss(y, prediction))
        learner.learn(x, y)
    return found


def xor(n: int, seed: int = 1) -> Iterator[Record]:
    """No line tells these classes apart."""
    rng = random.Random(seed)
    for _ in range(n):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
        yield x, int((x["a"] > 0.3) != (x["b"] > -0.2))


def noise(n: int, seed: int = 1) -> Iterator[Record]:
    """Nothing tells these classes apart."""
    rng = random.Random(seed)
    for _ in range(n):
        yield {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}, int(rng.random() < 0.1)


@pytest.mark.parametrize("stream", [xor, noise])
def test_the_loss_is_above_that_of_each_member_by_a_bound_at_most(stream: Any) -> None:
    """Fixed share: ln K for the first choice, and −ln(1 − share) for each record; the floor may cost as much again."""
    n, learner = 3000, made("binary")
    found = losses_of(learner, stream(n))
    limit = math.log(4) / n - math.log(1 - learner.wrapped.share) - math.log(1 - learner.wrapped.floor)
    for name in learner.weights:
        assert np.mean(found["mixture"]) <= np.mean(found[name]) + limit, name


def test_weights_follow_the_member_that_is_best_now() -> None:
    def stream() -> Iterator[Record]:
        rng = random.Random(4)
        for i in range(6000):
            x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
            score = x["a"] * x["b"] if i < 3000 else 0.0
            yield x, int(score + 0.1 * rng.gauss(0, 1) > 0)

    learner, weights = made("binary"), []
    for x, y in stream():
        learner.predict(x)
        learner.learn(x, y)
        weights.append(learner.weights)
    assert weights[2999]["linear"] + weights[2999][NO_MODEL] < 0.1
    assert max(weights[5999], key=weights[5999].__getitem__) == NO_MODEL
    assert all(sum(of.values()) == pytest.approx(1.0) and min(of.values()) >= 0.00007 for of in weights)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_probabilities_sum_to_one_and_numbers_are_finite(task: str) -> None:
    learner = made(task)
    for x, y, _ in mixed(800, 9, task=task, nominal=task != "regression"):
        prediction = learner.predict(x)
        values = list(prediction.values()) if isinstance(prediction, dict) else [prediction]
        assert all(map(math.isfinite, values))
        if isinstance(prediction, dict) and prediction:
            assert sum(values) == pytest.approx(1.0)
        learner.learn(x, y)


def line(n: int, seed: int = 2) -> Iterator[Record]:
    """A line, a step and noise."""
    rng = random.Random(seed)
    for _ in range(n):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1), "c": float(rng.randrange(3))}
        yield x, 3.0 * x["a"] - 2.0 * x["b"] + 2.0 * (x["c"] == 1.0) + rng.gauss(0, 0.5)


TARGETS: dict[str, Callable[[int, float, random.Random], float]] = {
    "10¹² twice": lambda i, y, rng: 1e12 if i in (0, 2000) else y,
    "one in fifty of a Pareto distribution without a mean": lambda i, y, rng: y + (rng.paretovariate(0.8) * rng.choice([-1e3, 1e3]) if i % 50 == 7 and i < 3000 else 0.0),
    "constant": lambda i, y, rng: 7.0 if i < 3000 else y,
    "larger": lambda i, y, rng: y * (1000.0 if i >= 3000 else 1.0),
    "smaller": lambda i, y, rng: y * (1.0 if i >= 3000 else 1000.0),
    "shifted": lambda i, y, rng: y + (1e6 if i >= 3000 else 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_a_regression_recovers_within_1000_records_of_any_target(name: str) -> None:
    """Afterwards its error is hardly larger than where nothing has happened, and it is finite all the time."""
    rng, plain = random.Random(3), list(line(5000))
    turned = [(x, TARGETS[name](i, y, rng)) for i, (x, y) in enumerate(plain)]
    found, undisturbed = (losses_of(made("regression"), iter(of))["mixture"] for of in (turned, plain))
    assert all(map(math.isfinite, found))
    unit = 1000.0**2 if name == "larger" else 1.0
    assert np.mean(found[4000:]) / unit < 1.25 * np.mean(undisturbed[1000:2000])


@pytest.mark.parametrize(
    ("unit", "at_once"),
    [
        (lambda y: 1000.0 * y, [2000, 3000]),
        (lambda y: 0.001 * y, [3000]),
        (lambda y: y + 1e6, [2000, 3000]),
    ],
)
def test_members_keep_what_they_learnt_when_the_target_comes_in_another_unit(
    unit: Callable[[float], float], at_once: list[int]
) -> None:
    """From record 2,000 to 3,000. A larger unit is seen at once, and the first one when it is back; a smaller one when 256 targets are in it."""
    rng = random.Random(6)
    plain = [(x, 3.0 * y + rng.gauss(0, 0.3)) for x, y in xor(4000)]
    turned = [(x, unit(y) if 2000 <= i < 3000 else y) for i, (x, y) in enumerate(plain)]
    found = np.array(losses_of(made("regression"), iter(turned))["mixture"])
    found[2000:3000] /= (unit(1.0) - unit(0.0)) ** 2
    for begin in (2000, 3000):
        anew = losses_of(made("regression"), iter(plain[begin : begin + 1000]))["mixture"]
        assert np.mean(found[begin + 700 : begin + 1000]) < 1.3 * np.mean(anew[700:])
        if begin in at_once:
            assert np.mean(found[begin + 50 : begin + 250]) < 0.6 * np.mean(anew[50:250])


def test_wild_targets_teach_nothing() -> None:
    """While one in fifty is wild, the others are predicted as if there were none."""
    wild = {i for i in range(1500, 4000) if i % 50 == 7}
    turned = [(x, -1e6 if i in wild else y) for i, (x, y) in enumerate(line(4000))]
    found, plain = (
        np.array(losses_of(made("regression"), iter(of))["mixture"]) for of in (turned, [*line(4000)])
    )
    own = [i for i in range(1600, 4000) if i not in wild]
    assert found[own].mean() < 1.5 * plain[own].mean()


def test_a_state_without_a_unit_goes_on_in_that_of_the_target() -> None:
    """Version 1 of the state."""
    whole = made("regression")
    for x, y in line(400):
        whole.learn(x, y)
    before = whole.state()
    target = before.arrays["target"]
    first = np.frombuffer(target.data, "<f8")[:4]
    old = msgspec.structs.replace(before, version=1, arrays={**before.arrays, "target": block(first.copy())})
    again = made("regression")
    again.restore(old)
    for x, y in line(300, seed=5):
        assert again.predict(x) == whole.predict(x)
        whole.learn(x, y)
        again.learn(x, y)
    bare = {name: cells for name, cells in before.arrays.items() if name != "target"}
    with pytest.raises(StateError, match="no target"):
        made("regression").restore(msgspec.structs.replace(before, version=1, arrays=bare))
    later = msgspec.structs.replace(before, version=3)
    with pytest.raises(NewerState, match="version 3"):
        made("regression").restore(later)


def test_no_single_record_decides_the_weights() -> None:
    """A member that gives what comes no chance at all keeps a hundredth of what no model gives it."""
    learner = made("binary")
    for x, y in xor(2000):
        learner.predict(x)
        learner.learn(x, y)
    before = learner.weights
    learner.arrays["parts"][:] = [[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]
    engine.learn(learner.arrays.table, learner.encoded(x), 1.0, 1.0, True, True, learner.make_room)
    assert learner.weights["tree"] >= 0.009 * before["tree"]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "name the members"),
        ({"none": linear_model.LogisticRegression()}, "'none' is one of itself"),
        ({"knn": object()}, "member 'knn' is a object for a classification"),
        ({"line": linear_model.LinearRegression()}, "member 'line' is a LinearRegression"),
    ],
)
def test_what_is_no_member_is_refused(members: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        learner_of(Mixture(members), "classification")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("weights", [0.5, 0.5, 0.5, 0.5], "no shares of one"),
        ("weights", [1.0, 0.0, 0.0, 0.0], "no shares of one"),
        ("weights", [math.nan, 0.3, 0.3, 0.4], "not finite"),
        ("none", [-1.0, 1.0, 1.0], "negative counts"),
        ("none", [1.0, 1.0], "none"),
        ("target", [1.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0, 1.0], "no range"),
        ("target", [0.0, 1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 1.0], "no number of targets"),
        ("target", [0.0, 1.0, 1.0, 3.0, 0.0, 0.0, 0.0, 0.0], "no unit"),
        ("target", [0.0, 1.0, 1.0, 3.0, 0.0, 1.0, 5.0, 5e-324], "no unit"),
        ("target", [0.0, 1.0, 1.0, 3.0, 0.0, -1.0, 0.0, 1.0], "no unit"),
        ("others", [1.0], "arrays of another version"),
        ("oak.nodes", [1.0], "'oak.nodes' is of no member"),
    ],
)
def test_a_state_that_no_mixture_writes_is_refused(name: str, value: list[float], words: str) -> None:
    learner = made("binary")
    for x, y in xor(100):
        learner.learn(x, y)
    state = learner.state()
    with pytest.raises(StateError, match=words):
        made("binary").restore(
            msgspec.structs.replace(state, arrays={**state.arrays, name: block(np.array(value))})
        )


def test_a_state_of_other_classes_is_refused() -> None:
    learner = made("multiclass")
    learner.learn({"a": 1.0}, "red")
    with pytest.raises(StateError):
        made("binary").restore(msgspec.structs.replace(learner.state(), kind="mixture"))
    raw = msgspec.msgpack.encode(learner.state())
    again = made("multiclass")
    again.restore(msgspec.msgpack.decode(raw, type=LearnerState))
    assert again.predict({"a": 1.0}) == learner.predict({"a": 1.0})
