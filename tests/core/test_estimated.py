"""The loss of records without a label is estimated, its error is known when labels come, and what it cannot see is said."""

import functools
import math
import random

import msgspec
import numpy as np
import pytest

from explain_core import LossEstimator
from explain_core.estimated import BLIND, NEWEST, SOLVE
from explain_core.losses import get
from explain_core.state import Block, StateError, block

LOSSES = [get("zero_one"), get("brier")]


def truth(x):
    """The probability of class 1, of which the model knows nothing."""
    return 1.0 / (1.0 + math.exp(-2.0 * x["a"] - (1.5 if x["c"] == "u" else 0.0)))


def predicted(x):
    p = 1.0 / (1.0 + math.exp(-x["a"]))
    return {1: p, 0: 1.0 - p}


def records(n, seed, shift=0.0, rare=0.3, turned=False):
    rng = random.Random(seed)
    for _ in range(n):
        x = {"a": rng.gauss(shift, 1.0), "c": "u" if rng.random() < rare else "v", "noise": rng.random()}
        p = truth(x)
        y = int(rng.random() < (1.0 - p if turned else p))
        prediction = predicted(x)
        yield x, prediction, [loss(y, prediction) for loss in LOSSES]


@functools.cache
def learnt(n, seed, **settings):
    estimator = LossEstimator(LOSSES, **settings)
    for given in records(n, seed):
        estimator.learn(*given)
    return estimator.state()


def taught(n=5_000, seed=1, **settings):
    estimator = LossEstimator(LOSSES, **settings)
    estimator.restore(learnt(n, seed, **settings))
    return estimator


def asked(estimator, n=2_000, seed=2, **how):
    """True mean losses of records that the estimator has not been told the labels of."""
    losses = []
    for x, prediction, found in records(n, seed, **how):
        estimator.estimate(x, prediction)
        losses.append(found)
    return np.mean(losses, axis=0)


@pytest.mark.parametrize("shift", [{"shift": 0.8}, {"shift": -0.8}, {"rare": 0.9}, {}])
def test_a_covariate_shift_is_estimated_within_its_interval(shift):
    estimator = taught()
    before = np.mean([found for _, _, found in records(4_000, 1)], axis=0)
    true = asked(estimator, n=4_000, **shift)
    for loss, own, other in zip(LOSSES, true, before, strict=True):
        found = estimator.estimates()[loss.name]
        assert found.low < own < found.high and found.high - found.low < 0.1
        assert abs(found.value - own) < 0.025
        if shift:
            assert abs(found.value - own) < 0.3 * abs(other - own) + 0.01
        assert (
            found.unfamiliar < 0.05
            and found.correction == 0.0
            and found.notes == [BLIND]
            and found.records == 4_000
        )


def test_a_regression_s_loss_is_estimated_from_its_features():
    rng = random.Random(3)
    estimator = LossEstimator(["squared", "absolute"])
    for i in range(6_000):
        x = {"a": rng.uniform(0.0 if i < 4_500 else 2.0, 3.0)}
        error = rng.gauss(0.0, 1.0 + x["a"])
        if i < 4_500:
            estimator.learn(x, 5.0 * x["a"], [error * error, abs(error)])
        else:
            estimator.estimate(x, 5.0 * x["a"])
    squared, absolute = estimator.estimates().values()
    assert squared.low < 37.0 / 3.0 < squared.high and squared.high - squared.low < 4.0
    assert absolute.low < 3.5 * math.sqrt(2.0 / math.pi) < absolute.high


def test_intervals_have_the_truth_as_often_as_they_say():
    inside = 0
    for seed in range(16):
        estimator = taught(n=1_500, seed=f"{seed}/1")
        true = asked(estimator, n=500, seed=f"{seed}/2", shift=(-0.8, 0.8)[seed % 2])
        for loss, own in zip(LOSSES, true, strict=True):
            found = estimator.estimates()[loss.name]
            inside += found.low <= own <= found.high
    assert inside >= 26  # of 32, which come in pairs


def test_a_concept_shift_is_invisible_until_labels_come_and_then_corrected_in_words():
    estimator = taught()
    true = asked(estimator, turned=True)
    blind = estimator.estimates()["zero_one"]
    assert blind.value < true[0] - 0.3 and blind.correction == 0.0
    assert blind.notes == [
        "A change of what the features mean for the label cannot be seen before labels come."
    ]
    for given in records(400, 5, turned=True):
        estimator.learn(*given)
    seen = estimator.estimates()["zero_one"]
    assert math.isclose(seen.value, blind.value + seen.correction)
    assert seen.correction > 0.02 and math.isclose(seen.settled.low, seen.correction)
    assert seen.settled.error > 0.0 and seen.settled.true > seen.settled.estimated
    assert len(seen.notes) == 2 and seen.notes[1].startswith(
        "By the newest labels the estimates were too low: what the features mean for the label has changed. It is corrected by +0."
    )


def test_without_a_change_the_settled_error_is_about_none():
    estimator = taught()
    settled = estimator.estimates()["brier"].settled
    assert settled.low < 0.0 < settled.high and abs(settled.error) < 0.02
    assert estimator.estimates()["brier"].value is None  # there was no record without a label


def test_values_that_no_label_has_come_for_are_counted_and_said():
    estimator = taught()
    for x, prediction, _ in records(1_000, 9):
        estimator.estimate({**x, "a": 50.0} if x["noise"] < 0.25 else x, prediction)
    found = estimator.estimates()["zero_one"]
    assert 0.2 < found.unfamiliar < 0.3 and found.feature == "a"
    assert found.notes[1].endswith(
        "% of the records have values of a that few labelled records had: of these it knows little."
    )


def test_too_few_labels_are_no_estimate():
    estimator = taught(n=NEWEST - 1)
    x, prediction, losses = next(records(1, 2))
    assert estimator.estimate(x, prediction) is None
    assert estimator.estimates()["brier"] == (None, None, None, 1, 0.0, None, 0.0, None)
    estimator.learn(x, prediction, losses)
    assert len(estimator.estimate(x, prediction)) == 2
    assert estimator.estimates()["brier"].settled is None


def test_what_was_long_ago_is_forgotten():
    """The concept turned; two generations later nothing has to be corrected, and a shift is estimated by what holds now."""
    estimator = taught(n=1_500, memory=2_000, alpha=0.01)
    for given in records(4_600, 6, turned=True):
        estimator.learn(*given)
    true = asked(estimator, turned=True, shift=1.0)
    found = estimator.estimates()["zero_one"]
    assert abs(found.value - true[0]) < 0.06 and abs(found.correction) < 0.03


def mixed(n, seed):
    """Labelled and unlabelled, with late features, missing values, new categories and another class."""
    rng = random.Random(seed)
    for i, (x, prediction, losses) in enumerate(records(n, seed)):
        if i > 1_300:
            x["late"] = rng.randrange(4)
        if rng.random() < 0.05:
            del x["a"]
        if i == 2_000:
            x["c"], prediction = "new", {2: 0.8, 1: 0.1, 0: 0.1}
        yield x, prediction, losses if rng.random() < 0.7 else None


def fed(estimator, given):
    for x, prediction, losses in given:
        if losses is None:
            estimator.estimate(x, prediction)
        else:
            estimator.learn(x, prediction, losses)


def raw(estimator):
    return msgspec.msgpack.encode(estimator.state())


def made():
    return LossEstimator(LOSSES, memory=2_000, alpha=0.01)


STREAM = list(mixed(5_200, 7))


def test_weights_that_have_grown_are_made_small_again_and_are_those_of_alpha():
    estimator = taught(alpha=0.5, n=NEWEST)
    mean = total = 0.0
    for x, prediction, _ in records(250, 2):
        mean = 0.5 * mean + estimator.estimate(x, prediction)[0]
        total = 0.5 * total + 1.0
    assert estimator.state().weight < 2.0**60
    assert math.isclose(estimator.estimates()["zero_one"].value, mean / total)


HOSTILE = {
    "newest": lambda s: replaced(s, newest=block(np.zeros((3, 4)))),
    "a loss that is none": lambda s: replaced(s, newest=block(np.full((NEWEST, 4), np.nan))),
    "a class twice": lambda s: replaced(s, classes=[1, 1]),
    "no total": lambda s: replaced(s, total=0.0),
    "a small total": lambda s: replaced(s, total=5e-324, squares=0.0),
    "NaN for a weight": lambda s: replaced(s, weight=math.nan),
    "too much weight": lambda s: replaced(s, weight=1e300),
    "more squares than records": lambda s: replaced(s, squares=2.0 * s.total**2),
    "three generations": lambda s: replaced(s, generations=s.generations * 3),
    "generations too early": lambda s: replaced(s, labelled=5),
    "edges out of order": lambda s: of_first(s, lambda g: {"edges": turned(g.edges)}),
    "too many edges": lambda s: of_first(s, lambda g: {"sizes": [100] * len(g.sizes)}),
    "no columns": lambda s: of_first(s, lambda g: {"sizes": [], "nominal": []}),
    "negative counts": lambda s: of_first(s, lambda g: {"pairs": scaled(g.pairs, -1)}),
    "counts of no records": lambda s: of_first(s, lambda g: {"pairs": cross(g.pairs)}),
    "sums beyond all": lambda s: of_first(s, lambda g: {"sums": scaled(g.sums, 1e260)}),
    "weights that are none": lambda s: of_first(s, lambda g: {"weights": scaled(g.weights, math.nan)}),
    "negative shares": lambda s: of_first(s, lambda g: {"shares": scaled(g.shares, -1.0)}),
    "shares of more than all": lambda s: of_first(s, lambda g: {"shares": scaled(g.shares, 1e9)}),
    "a cell of no column": lambda s: of_first(s, lambda g: {"cells": scaled(g.cells, 1_000)}),
    "a cell of another column": lambda s: of_first(s, lambda g: {"cells": turned(g.cells)}),
    "values of no record": lambda s: of_first(s, lambda g: {"values": block(np.zeros((0, 4)))}),
    "too many that wait": lambda s: of_first(
        s, lambda g: {"cells": repeated(g.cells), "values": repeated(g.values)}
    ),
}


def replaced(state, **fields):
    return msgspec.structs.replace(state, **fields)


def of_first(state, how):
    first, *others = state.generations
    return replaced(state, generations=[replaced(first, **how(first)), *others])


def array_of(stored: Block):
    return np.frombuffer(stored.data, stored.dtype).reshape(stored.shape)


def scaled(stored, by):
    cells = array_of(stored)
    return block(cells.astype("<i8" if cells.dtype.kind == "i" else "<f8") * by)


def turned(stored):
    return block(np.ascontiguousarray(array_of(stored)[..., ::-1]))


def repeated(stored):
    cells = array_of(stored)
    return block(np.tile(cells, (1 + SOLVE // len(cells), 1)))


def cross(stored):
    """More records in two cells together than in either."""
    cells = array_of(stored).astype("<i8")
    cells[1:] = cells[0]
    cells[2::3] = 0
    return block(cells)


@functools.cache
def known():
    estimator = made()
    fed(estimator, STREAM[:4_000])
    return estimator.state()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_state_that_no_records_lead_to_is_refused(name):
    state = known()
    made().restore(state)
    with pytest.raises(StateError):
        made().restore(HOSTILE[name](state))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"alpha": 0.0}, r"alpha: 0.0 is outside \(0, 1\)"),
        ({"memory": 1_999}, "memory: 1999 labelled records; give 2,000 or more"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        LossEstimator(LOSSES, **settings)


def test_features_that_are_not_named_count_for_nothing():
    one, other = (LossEstimator(LOSSES, features=["a"]) for _ in range(2))
    for x, prediction, losses in records(2_500, 1):
        one.learn(x, prediction, losses)
        other.learn({"a": x["a"]}, prediction, losses)
    assert raw(one) == raw(other)


def test_records_in_blocks_lead_to_the_bytes_of_one_after_another():
    rng = random.Random(3)
    given = [
        ({**x, "late": 1.0} if i > 2_700 else x, p, of) for i, (x, p, of) in enumerate(records(5_300, 9))
    ]
    alone, together = (LossEstimator(LOSSES, memory=2_150) for _ in range(2))
    begin = 0
    while begin < len(given):
        end = begin + rng.choice([1, 7, 70, 900])
        xs, predictions, losses = zip(*given[begin:end], strict=True)
        together.learn_many(xs, predictions, np.array(losses))
        for one in given[begin:end]:
            alone.learn(*one)
        assert msgspec.msgpack.encode(together.state()) == msgspec.msgpack.encode(alone.state())
        begin = end
    assert len(alone.state().generations) == 2
