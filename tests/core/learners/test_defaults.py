"""The models that go by a name are river's, with its defaults."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from explain_core.learners.defaults import PLANS, Default
from explain_core.learners.linear_river import plan_of
from explain_core.learners.named import linear_model_of, river_of
from explain_core.learners.tree import tree_learner
from explain_core.losses import Task

TASKS: tuple[Literal["binary", "multiclass", "regression"], ...] = ("binary", "multiclass", "regression")


@pytest.mark.parametrize("task", TASKS)
def test_the_linear_member_is_the_linear_model(task: Any) -> None:
    assert PLANS[task] == plan_of(linear_model_of(task))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["tree", "forest"])
def test_trees_and_forests_are_rivers(name: Any, task: Any) -> None:
    ours = Default(name, task, 7)
    of: Task = "regression" if task == "regression" else "classification"
    theirs, made = tree_learner(river_of(ours), of), tree_learner(ours, of)
    assert made is not None and theirs is not None and made.kind == theirs.kind
    mine, others = made.arrays.items(), theirs.arrays.items()
    assert mine.keys() == others.keys()
    assert [key for key in mine if not np.array_equal(mine[key], others[key])] == []
    assert made.follows(theirs) and theirs.follows(made) and made.title == theirs.title
