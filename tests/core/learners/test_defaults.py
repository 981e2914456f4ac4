"""The members of the default mixture are river's models with its defaults."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from river import forest

from explain_core.learners.columns import Columns
from explain_core.learners.defaults import PLANS, TREES, Default
from explain_core.learners.linear_river import plan_of
from explain_core.learners.named import linear_model_of
from explain_core.learners.tree import TreeLearner, tree_learner
from explain_core.losses import Task

TASKS: tuple[Literal["binary", "multiclass", "regression"], ...] = ("binary", "multiclass", "regression")


@pytest.mark.parametrize("task", TASKS)
def test_the_linear_member_is_the_linear_model(task: Any) -> None:
    assert PLANS[task] == plan_of(linear_model_of(task))


@pytest.mark.parametrize("task", TASKS)
def test_the_forest_is_rivers(task: Any) -> None:
    of: Task = "regression" if task == "regression" else "classification"
    rivers: Any = (
        forest.ARFRegressor(n_models=TREES, leaf_prediction="mean", seed=7)
        if of == "regression"
        else forest.ARFClassifier(n_models=TREES, seed=7)
    )
    theirs = tree_learner(rivers, of)
    ours = Default("forest", task, 7).learner(Columns())
    assert isinstance(ours, TreeLearner) and theirs is not None and ours.kind == theirs.kind
    mine, others = ours.arrays.items(), theirs.arrays.items()
    assert mine.keys() == others.keys()
    assert [name for name in mine if not np.array_equal(mine[name], others[name])] == []
    assert ours.follows(theirs) and theirs.follows(ours)
