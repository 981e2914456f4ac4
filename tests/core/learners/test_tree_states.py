"""A tree learner's stored state goes on as the learner does, is refused where it is damaged, and predicts rows as records."""

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from river import drift, forest, tree

from explain_core.evaluation.choice import choose
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners import check, layout
from explain_core.learners.base import LearnerState
from explain_core.learners.tree import TreeLearner, tree_learner
from explain_core.state import StateError, block
from tests.core.learners.lockstep import mixed
from tests.core.learners.test_trees import EAGER

QUICK = drift.ADWIN(0.3, clock=4)
MODELS: dict[str, Any] = {
    "tree": lambda: tree.HoeffdingTreeClassifier(**EAGER),
    "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(
        seed=1, drift_window_threshold=30, drift_detector=QUICK, **EAGER
    ),
    "forest": lambda: forest.ARFClassifier(n_models=3, seed=1, drift_detector=QUICK, warning_detector=QUICK),
}
NUMBERS: dict[str, Any] = {
    "regression tree": lambda: tree.HoeffdingTreeRegressor(**EAGER),
    "regression tree, means": lambda: tree.HoeffdingTreeRegressor(leaf_prediction="mean", **EAGER),
    "regression tree, slots": lambda: tree.HoeffdingTreeRegressor(splitter=tree.splitter.QOSplitter(), **EAGER),
    "adaptive regression tree": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=1, drift_window_threshold=30, drift_detector=QUICK, **EAGER),
    "regression forest, means": lambda: forest.ARFRegressor(n_models=3, seed=1, leaf_prediction="mean", drift_detector=QUICK, warning_detector=QUICK),
}  # fmt: skip
"""The models of a regression; those with means get strings."""
STREAMS = {name: list(mixed(600, 9, task="multiclass")) for name in MODELS} | {
    name: list(mixed(600, 9, task="regression", nominal="means" in name)) for name in NUMBERS
}
MODELS |= NUMBERS


def made(name: str) -> TreeLearner:
    learner = tree_learner(MODELS[name](), "regression" if name in NUMBERS else "classification")
    assert learner is not None
    return learner


def damaged(state: LearnerState, arrays: dict[str, Any]) -> LearnerState:
    return msgspec.structs.replace(state, arrays={key: block(array) for key, array in arrays.items()})


def taught(name: str, n: int) -> TreeLearner:
    learner = made(name)
    for x, y, w in STREAMS[name][:n]:
        learner.learn(x, y, w)
    return learner


def test_a_threshold_may_be_as_large_as_the_numbers_that_it_is_taken_from() -> None:
    learner, restored = taught("regression tree", 400), made("regression tree")
    arrays = learner._stored()
    arrays["splits"][0, layout.THRESHOLD] = arrays["cells"][0, layout.POINT] = np.inf
    restored.restore(damaged(learner.state(), arrays))
    again = made("regression tree")
    again.restore(restored.state())
    assert again.state() == restored.state()


@pytest.mark.parametrize("name", MODELS)
def test_a_damaged_state_is_refused_or_learns_on(name: str) -> None:
    learner, rng = taught(name, 400), random.Random(1)
    state, stored = learner.state(), learner._stored()
    refused = 0
    for _ in range(150):
        arrays = {key: array.copy() for key, array in stored.items()}
        key = rng.choice([key for key, array in arrays.items() if array.size])
        flat = arrays[key].reshape(-1)
        large = 127 if flat.itemsize == 1 else 2**31 - 1
        flat[rng.randrange(len(flat))] = rng.choice([0, 1, 2, 3, 7, 100, large, large])
        restored = made(name)
        try:
            restored.restore(damaged(state, arrays))
        except ValueError as error:
            assert str(error)
            refused += 1
            continue
        for x, y, w in STREAMS[name][400:410]:
            restored.predict(x)
            restored.learn(x, y, w)
    assert refused > 15


def test_rows_that_are_free_are_not_stored_and_taken_in_the_same_order() -> None:
    learner, restored = taught("forest", 400), made("forest")
    state = learner.state()
    restored.restore(state)
    head = learner.arrays["head"][0]
    assert all(head[pool + 1] > 0 for pool in learner.pools)
    for pool, (first, *names) in learner.pools.items():
        rows, n = head[pool : pool + 2].tolist()
        assert np.array_equal(restored.arrays[first][:n], learner.arrays[first][:n])
        for name in names:
            if learner.arrays[name].shape[1]:
                assert state.arrays[name].shape[0] == rows - n
                assert np.array_equal(restored.arrays[name], learner.arrays[name][:rows])


@pytest.mark.parametrize(
    "rows", [[0, 0], [0, 10**6], [0, -1], []], ids=["twice", "beyond the pool", "below 0", "too few"]
)
def test_free_rows_that_a_pool_does_not_have_are_refused(rows: list[int]) -> None:
    learner = taught("forest", 400)
    stored = learner._stored()
    given = np.vstack([stored["free_cells"][:-2], np.array(rows, np.int64).reshape(-1, 1)])
    with pytest.raises(StateError, match="cells"):
        made("forest").restore(damaged(learner.state(), stored | {"free_cells": given}))


def test_a_state_whose_free_rows_would_take_too_much_memory_is_neither_stored_nor_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = taught("forest", 400)
    state = learner.state()
    monkeypatch.setattr(check, "MOST_BYTES", 20_000)
    for refused in (learner.state, lambda: made("forest").restore(state)):
        with pytest.raises(StateError, match="bytes"):
            refused()


def test_rows_without_cells_are_not_taken_on() -> None:
    """Kernels took such nodes for those of an adaptive tree, and read what was not there."""
    learner, restored = taught("tree", 400), made("tree")
    restored.restore(damaged(learner.state(), learner._stored() | {"alternates": np.zeros((10**6, 0))}))
    assert len(restored.arrays["alternates"]) == 0


@pytest.mark.parametrize("name", MODELS)
def test_a_state_of_other_shapes_or_kinds_of_numbers_is_refused(name: str) -> None:
    learner = taught(name, 100)
    for key, array in learner._stored().items():
        for kind in (array.dtype, np.float64):
            arrays = learner._stored() | {key: np.zeros((5, 17), kind)}
            with pytest.raises(StateError, match=f"{key}|another model"):
                made(name).restore(damaged(learner.state(), arrays))


@pytest.mark.parametrize("name", MODELS)
def test_a_grown_tree_is_explained_as_its_predictions_say(name: str) -> None:
    """What walks share gives the bits of predicting each copy by itself, along deep ways with values that are missing."""
    learner = taught(name, 500)
    settings: dict[str, Any] = {"task": learner.task, "n_samples": 3, "size": 30, "seed": 5}
    pairs = [
        [kind(learner, evaluator=how, **settings) for how in ("generic", choose(learner))]
        for kind in (IncrementalPFI, IncrementalSAGE)
    ]
    for x, y, _ in STREAMS[name][400:480]:
        for slow, fast in pairs:
            slow.explain_one(x, y)
            fast.explain_one(x, y)
            if slow.increments is not None:
                np.testing.assert_array_equal(slow.increments, fast.increments)
            assert slow._rng.state == fast._rng.state
    assert all(slow.explanation.n == 50 and not fast.evaluator.fallbacks for slow, fast in pairs)
