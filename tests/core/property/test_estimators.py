"""What every estimator promises: those of a stream, of its windows, and of a table. A new one is tested by being listed."""

import functools
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from explain_core.explanation import Explanation
from explain_core.importance.batch.intervals import IntervalPFI
from explain_core.importance.batch.permutation import PermutationImportance
from explain_core.importance.batch.sage import SAGE, SlidingWindowSAGE
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.random import derive_seed
from explain_core.reservoirs import make_reservoir
from tests.streams import mixed_stream, model_for

ESTIMATORS = {
    "ipfi": (IncrementalPFI, {}),
    "ipfi of several draws": (IncrementalPFI, {"n_samples": 3, "reservoir": "uniform"}),
    "ipfi as a ratio": (IncrementalPFI, {"kind": "ratio", "n_samples": 2}),
    "static ipfi as a ratio": (IncrementalPFI, {"kind": "ratio", "alpha": None, "reservoir": "uniform"}),
    "static ipfi": (IncrementalPFI, {"alpha": None}),
    "isage": (IncrementalSAGE, {}),
    "isage against the reservoir": (IncrementalSAGE, {"empty": "reservoir", "reservoir": "uniform"}),
    "isage with conditional removal": (IncrementalSAGE, {"removal": "conditional"}),
    "static isage of one draw": (IncrementalSAGE, {"alpha": None, "n_samples": 1}),
}
GROUPS = {"look": ["colour", "flag"]}
LOSSES = {"classification": ["cross_entropy", "brier", "zero_one"], "regression": ["squared", "huber"]}
N = 50


class OnTable:
    """A batch estimator in the place of a streaming one: it explains the records that it was given, all at once."""

    def __init__(self, estimator, **arguments):
        self.estimator, self.arguments, self.rows, self.ys = estimator, arguments, [], []

    def explain_one(self, x, y):
        self.rows.append(dict(x))
        self.ys.append(y)

    @property
    def explanation(self):
        return self.estimator.explain(self.rows, self.ys, **self.arguments)


def sage(model, **settings):
    return OnTable(SAGE(model, n_samples=2, **settings), tolerance=None)


def permutation(method):
    def made(model, losses, groups=None, **settings):
        order = ["a", "b", *((tuple(GROUPS["look"]),) if groups else ("colour", "flag")), "late"]
        arguments = {"features": order, "kind": "difference", "n_repeats": 3, "method": method}
        prefix = settings.pop("prefix", "")
        named = [
            tuple(prefix + m for m in player) if isinstance(player, tuple) else prefix + player
            for player in order
        ]
        return OnTable(
            PermutationImportance(model, loss=losses, **settings), **arguments | {"features": named}
        )

    return made


WINDOWED = {
    "interval pfi": lambda model, **settings: IntervalPFI(
        model, window=20, stride=9, n_repeats=2, **settings
    ),
    "sw-sage": lambda model, **settings: SlidingWindowSAGE(
        model, window=20, stride=9, n_samples=2, **settings
    ),
}
BATCH = {
    "sage": sage,
    "permutation importance": permutation("estimate"),
    "exact permutation importance": permutation("exact"),
}
ONE_BY_ONE = [*ESTIMATORS, *WINDOWED]
ALL = [*ONE_BY_ONE, *BATCH]

every_estimator = pytest.mark.parametrize("name", ESTIMATORS)
every_streaming = pytest.mark.parametrize("name", ONE_BY_ONE)
every_one = pytest.mark.parametrize("name", ALL)
every_task = pytest.mark.parametrize("task", LOSSES)


def make(name, task="classification", model=None, **settings):
    model, defaults = model or model_for(task), {"losses": LOSSES[task], "seed": 3}
    if name not in ESTIMATORS:
        return (WINDOWED | BATCH)[name](model, task=task, **defaults | settings)
    cls, own = ESTIMATORS[name]
    return cls(model, task=task, **defaults | {"alpha": 0.05, "size": 10} | own | settings)


def follow(estimator, stream):
    for x, y in stream:
        estimator.explain_one(x, y)
    return estimator


@functools.cache
def explained(name, task, grouped=False):
    """Of the stream of most tests here."""
    given = {"groups": GROUPS} if grouped else {}
    return follow(make(name, task, **given), mixed_stream(N, 1, task)).explanation


def assert_same(first: Explanation, second: Explanation):
    assert (first.features, first.losses, first.n, first.status) == (
        second.features,
        second.losses,
        second.n,
        second.status,
    )
    assert first.values.tobytes() == second.values.tobytes()
    assert first.std.tobytes() == second.std.tobytes()
    assert first.metadata == second.metadata


@every_task
@every_one
def test_missing_and_new_features_groups_and_several_losses_are_explained_at_once(name, task):
    explanation = explained(name, task, True)
    look = "(colour, flag)" if "permutation" in name else "look"
    assert set(explanation.features) == {"a", "b", look, "late"}
    assert explanation.losses == tuple(LOSSES[task])
    assert explanation.values.shape == explanation.std.shape == (len(LOSSES[task]), 4)
    assert np.isfinite(explanation.values).all()
    assert explanation.status == "ready"
    if name in ESTIMATORS:
        assert (explanation.std >= 0).all() and explanation.n == N - 10
        assert np.isnan(explanation.steady).all() and np.isnan(explanation.low).all()  # of so few records


@every_one
def test_each_loss_has_the_result_that_it_has_alone(name):
    given = {"n_samples": 2} if name in ESTIMATORS else {}
    together = follow(make(name, **given), mixed_stream(N, 1)).explanation
    for row, loss in enumerate(LOSSES["classification"]):
        alone = follow(make(name, losses=loss, **given), mixed_stream(N, 1)).explanation
        assert alone.values[0].tobytes() == together.values[row].tobytes()


@every_task
@every_one
def test_the_same_seed_gives_the_same_bits_and_another_one_others(name, task):
    assert_same(explained(name, task), follow(make(name, task), mixed_stream(N, 1, task)).explanation)
    other = follow(make(name, task, seed=4), mixed_stream(N, 1, task)).explanation
    assert np.array_equal(explained(name, task).values, other.values) == name.startswith("exact")


@every_task
@every_one
def test_a_pickle_taken_at_any_time_continues_with_the_same_bits(name, task):
    records = list(mixed_stream(N, 1, task))
    for cut in (5,) if name in BATCH else (0, 5, 10, 11, 19, 20, 33):
        half = follow(make(name, task, groups=GROUPS), records[:cut])
        assert_same(
            follow(pickle.loads(pickle.dumps(half)), records[cut:]).explanation, explained(name, task, True)
        )


def renamed(stream):
    return (({f"x {name}": value for name, value in x.items()}, y) for x, y in stream)


def recycled(stream):
    """The records in one dictionary, whose owner fills it anew each time."""
    buffer = {}
    for x, y in stream:
        buffer.clear()
        buffer.update(x)
        yield buffer, y


def with_old_names(model):
    return lambda x: model({name.removeprefix("x "): value for name, value in x.items()})


@every_task
@every_one
def test_names_of_features_change_names_alone(name, task):
    plain = explained(name, task)
    prefix = {"prefix": "x "} if "permutation" in name else {}
    model = with_old_names(model_for(task))
    other = follow(make(name, task, model, **prefix), renamed(mixed_stream(N, 1, task))).explanation
    assert other.features == tuple(f"x {feature}" for feature in plain.features)
    np.testing.assert_array_equal(other.values, plain.values)


@every_task
@every_one
def test_the_order_within_a_record_changes_nothing_where_features_are_given(name, task):
    order = ["late", "a", "flag", "b", "colour"]
    plain = follow(make(name, task, features=order), mixed_stream(N, 1, task)).explanation
    backwards = ((dict(reversed(x.items())), y) for x, y in mixed_stream(N, 1, task))
    assert_same(follow(make(name, task, features=order), backwards).explanation, plain)
    assert "permutation" in name or plain.features == tuple(order)


@every_estimator
def test_a_shared_reservoir_gives_what_an_owned_one_gives_and_stays_its_owners(name):
    own = make(name)
    kind = own.reservoir.kind  # type: ignore[attr-defined]
    shared = make_reservoir(kind, 10, derive_seed(3, "reservoir"))
    first, second = (make(name, reservoir=shared) for _ in range(2))
    for x, y in mixed_stream(N, 1):
        own.explain_one(x, y)
        for estimator in (first, second):
            size = len(shared.rows)
            estimator.explain_one(x, y)
            assert len(shared.rows) == size
        shared.add(x)
    for estimator in (first, second):
        np.testing.assert_array_equal(estimator.explanation.values, own.explanation.values)


@every_estimator
def test_nothing_is_estimated_before_the_reservoir_is_warm(name):
    estimator = make(name, warm_up=7)
    for n, (x, y) in enumerate(mixed_stream(20, 1), start=1):
        assert estimator.ready == (n > 7)
        explanation = estimator.explain_one(x, y).explanation
        assert explanation.n == max(0, n - 7)
        assert explanation.status == ("ready" if n > 7 else "warming")
        assert np.isnan(explanation.values).all() == (n <= 7)
    assert set(explanation.features) >= {"a", "b"}


@every_estimator
def test_a_record_that_is_not_explained_makes_its_features_known(name):
    estimator = make(name, features=None)
    estimator.observe({"new": 1})
    assert estimator.explanation.features == ("new",)
    assert estimator.explanation.status == "warming"
    assert estimator.explain_one({}, "up").explanation.features == ("new",)


@every_task
@every_estimator
def test_records_without_features_and_a_stream_without_any_are_explained(name, task):
    explanation = follow(make(name, task), (({}, y) for _, y in mixed_stream(30, 1, task))).explanation
    assert explanation.values.shape == (len(LOSSES[task]), 0)
    assert explanation.n == 20


class Flaky:
    """A model that fails at a call of its own choice."""

    def __init__(self, task):
        self.model, self.left, self.answer = model_for(task), None, None

    def __call__(self, x):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                if isinstance(self.answer, Exception):
                    raise self.answer
                return self.answer
        return self.model(x)


BAD = {
    "classification": [RuntimeError("down"), {"up": math.nan, "down": 1.0}, {"up": None}, 0.7, None],
    "regression": [RuntimeError("down"), math.nan, math.inf, {"up": 1.0}, None, "0.5"],
}


@pytest.mark.parametrize(
    ("name", "left"),
    [
        (name, left) for name in ESTIMATORS for left in (0, 1, 3)
    ]  # its own prediction, the first copy, a later one
    + [
        (name, left) for name in WINDOWED for left in (0, 19, 21)
    ],  # the first record of the window, the last, a copy
)
@every_task
def test_a_record_that_fails_changes_no_bit_of_the_state(name, task, left):
    model = Flaky(task)
    estimator = follow(make(name, task, model, groups=GROUPS), mixed_stream(28, 1, task))
    state, x = pickle.dumps(estimator), {"a": 0.77, "b": 0.123, "brand_new": 1.0, "colour": "new"}
    for model.answer in BAD[task]:
        model.left = left
        with pytest.raises((ValueError, RuntimeError), match=r"model: predicted|down"):
            estimator.explain_one(x, 0.5 if task == "regression" else "up")
        model.left, model.answer = None, None
        assert pickle.dumps(estimator) == state


@every_task
@every_streaming
def test_a_truth_or_loss_that_is_not_finite_or_a_feature_named_as_a_group_changes_no_bit(name, task, recwarn):
    given = {"losses": infinite_at_seven, "groups": GROUPS}
    estimator = follow(make(name, task, **given), mixed_stream(28, 1, task))
    state = pickle.dumps(estimator)
    for x, message in (
        ({"a": 0.77, "brand_new": 1.0}, r"a loss of \['infinite_at_seven'\] is not finite .* y = 7"),
        ({"a": 0.77, "brand_new": 1.0, "look": 2}, "groups: 'look' is also the name of a feature"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.explain_one(x, 7)
        assert pickle.dumps(estimator) == state
    warned = [str(one.message) for one in recwarn]
    assert name in WINDOWED or not warned
    assert all("invalid value" in one for one in warned)  # inf − inf, which is refused


def infinite_at_seven(y, prediction):
    return math.inf if y == 7 else 0.0


@every_task
@every_estimator
def test_reading_an_explanation_changes_no_bit(name, task):
    estimator = follow(make(name, task), mixed_stream(40, 1, task))
    estimator.observe({"fresh": 1})
    state, explanation = pickle.dumps(estimator), estimator.explanation
    explanation.values[:] = 7.0
    explanation.std[:] = 7.0
    assert estimator.raw.shape == explanation.values.shape
    estimator.raw[:] = 7.0
    assert pickle.dumps(estimator) == state


@every_task
@every_streaming
def test_a_record_may_be_changed_by_its_owner_afterwards(name, task):
    assert_same(
        follow(make(name, task), recycled(mixed_stream(N, 1, task))).explanation, explained(name, task)
    )


@every_task
@every_streaming
def test_a_label_never_predicted_and_a_value_never_seen_are_explained(name, task):
    estimator = follow(make(name, task), mixed_stream(19, 1, task))
    estimator.explain_one({"a": 1e9, "colour": "ultraviolet"}, 1e6 if task == "regression" else "unheard of")
    assert estimator.explanation.n == (10 if name in ESTIMATORS else 20)
    assert np.isfinite(estimator.explanation.values).all()


@every_task
@every_one
def test_an_explanation_survives_json(name, task):
    for n in (5, N) if name in ESTIMATORS else (N,):
        explanation = follow(make(name, task, groups=GROUPS), mixed_stream(n, 1, task)).explanation
        assert_same(Explanation.from_json(explanation.to_json()), explanation)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.0}, r"alpha: 0\.0 is outside \(0, 1\]; 0\.001 follows"),
        ({"alpha": 1.5}, r"alpha: 1\.5 is outside"),
        ({"alpha": math.nan}, "alpha: nan is outside"),
        ({"n_samples": 0}, "n_samples: 0 draws are none; use at least 1"),
        ({"size": 0}, "size: 0 is not a number of rows"),
        ({"warm_up": 11}, "warm_up: 11 is not between 1 and the reservoir's size 10"),
        ({"warm_up": 0}, "warm_up: 0 is not between"),
        ({"groups": {"g": []}}, "groups: 'g' is empty"),
        ({"features": ["a"], "groups": {"g": ["x"]}}, "groups: 'g' names the unknown feature 'x'"),
        ({"losses": "squared"}, "loss: 'squared' is a regression loss and the task is classification"),
        ({"losses": []}, "must be at least one"),
        ({"losses": ["brier", "brier"]}, "each with a name of its own"),
        ({"band": "wide"}, "band: 'wide' is not one of normal, chebyshev"),
        ({"confidence": 1.0}, r"confidence: 1\.0 is outside \(0, 1\)"),
        ({"confidence": math.nan}, "confidence: nan is outside"),
        ({"reservoir": "random"}, "reservoir: 'random' is not one of geometric, uniform"),
        ({"task": "ranking"}, "task: 'ranking' is not one of classification, regression"),
        ({"model": 7}, "model: int has neither"),
    ],
)
@every_estimator
def test_bad_arguments_are_refused_by_name(name, settings, message):
    cls, own = ESTIMATORS[name]
    arguments = {"model": model_for("classification"), "size": 10} | own | settings
    with pytest.raises(ValueError, match=message):
        cls(arguments.pop("model"), **arguments)


def told():
    each = [
        follow(make(name, task, groups=GROUPS), mixed_stream(30, 1, task)) for name in ALL for task in LOSSES
    ]
    return "\n".join(estimator.explanation.to_json() for estimator in each)


def test_the_bits_do_not_depend_on_the_hash_seed_or_the_process():
    """Every estimator here and in another interpreter, whose string hashes differ."""
    script = f"from {__name__} import told; print(told(), end='')"
    known = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    root = Path(__file__).parents[3]
    other = subprocess.run(
        [sys.executable, "-c", script], cwd=root, env=known, stdout=subprocess.PIPE, check=True
    )
    assert other.stdout.decode() == told()
