"""A tree learner's stored state goes on as the learner does, is refused where it is damaged, and predicts rows as records."""

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from river import drift, forest, tree

from explain_core.learners.base import LearnerState
from explain_core.learners.rows import predict_rows
from explain_core.learners.tree import TreeLearner
from explain_core.learners.trees import tree_learner
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
    "regression tree, slots": lambda: tree.HoeffdingTreeRegressor(
        splitter=tree.splitter.QOSplitter(), **EAGER
    ),
    "adaptive regression tree": lambda: tree.HoeffdingAdaptiveTreeRegressor(
        seed=1, drift_window_threshold=30, drift_detector=QUICK, **EAGER
    ),
    "regression forest, means": lambda: forest.ARFRegressor(
        n_models=3, seed=1, leaf_prediction="mean", drift_detector=QUICK, warning_detector=QUICK
    ),
}
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


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n", [0, 1, 400])
def test_a_restored_learner_goes_on_as_the_one_that_was_stored(name: str, n: int) -> None:
    learner, restored = taught(name, n), made(name)
    restored.restore(learner.state())
    for x, y, w in STREAMS[name][n : n + 150]:
        expected, found = learner.predict(x), restored.predict(x)
        assert found == expected
        assert not isinstance(found, dict) or list(found) == list(expected)
        learner.learn(x, y, w)
        restored.learn(x, y, w)
    assert restored.state() == learner.state()


@pytest.mark.parametrize("name", MODELS)
def test_a_damaged_state_is_refused_or_learns_on(name: str) -> None:
    learner, rng = taught(name, 400), random.Random(1)
    state, stored = learner.state(), learner._stored()
    refused = 0
    for _ in range(300):
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
    assert refused > 30


@pytest.mark.parametrize("name", MODELS)
def test_a_state_of_other_shapes_is_refused(name: str) -> None:
    learner = taught(name, 100)
    for key in learner._stored():
        arrays = dict(learner._stored())
        arrays[key] = np.zeros((5, 17))
        if key in ("order", "columns", "ranks") or arrays[key].dtype == learner._stored()[key].dtype:
            continue
        with pytest.raises(StateError, match=key):
            made(name).restore(damaged(learner.state(), arrays))


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_predicted_as_records_are(name: str) -> None:
    learner, rng = taught(name, 500), random.Random(2)
    base = np.array([learner.columns.row(x).copy() for x, _, _ in STREAMS[name][:40]])
    for like in (0, 1, 2):
        for x in base[:20]:
            copies, current = [x.copy()], [x.copy() for _ in range(max(like, 1))]
            for i in range(24):
                before = x if like == 0 else current[i % like]
                row = before.copy()
                for column in rng.sample(range(len(x)), 2):
                    row[column] = base[rng.randrange(len(base)), column]
                if like:
                    current[i % like] = row
                copies.append(row)
            rows = np.array(copies[1:])
            out = np.empty((len(rows), learner.n_classes))
            predict_rows(learner.arrays.table, rows, like, out)
            for row, found in zip(rows, out, strict=True):
                record = {
                    name: list(learner.columns.codes[name])[int(cell)]
                    if name in learner.columns.codes
                    else cell
                    for name, cell in zip(learner.columns.names, row.tolist(), strict=True)
                    if cell == cell
                }
                expected = learner.predict(record)
                if not isinstance(expected, dict):
                    assert [expected] == found.tolist()
                    continue
                assert [expected.get(label, 0.0) for label in learner.labels] == found[
                    : len(learner.labels)
                ].tolist()
