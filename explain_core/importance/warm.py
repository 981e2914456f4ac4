"""Compile what learning and explaining take, before the first record."""

from __future__ import annotations

import numpy as np

from explain_core import losses
from explain_core.artefacts.ensemble import Ensemble, Tree, TreeEnsemble
from explain_core.artefacts.shallow import MAX_LEAVES
from explain_core.compiling import AVAILABLE
from explain_core.importance.group import EstimatorGroup
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners.base import Learner
from explain_core.losses import Task
from explain_core.models import Model
from explain_core.models.empty import Performance
from explain_core.smoothing import Smoother


def warm(model: Model) -> None:
    """Compile what learning and explaining take, or load it from numba's cache, so that no record waits for it.

    A learner is taught three records: give one of its own. Where the cache is empty it takes some 10 s of computing for a linear
    model and 25 s for a forest, else one or two; nothing without numba.
    """
    warm_means(model.task)
    warm_model(model)


def warm_means(task: Task) -> None:
    """The part of ``warm`` that is the same for every model of a task."""
    if not AVAILABLE:
        return
    performance = Performance([losses.get(losses.DEFAULT[task])], None)
    for y in (0, 1, 0):
        performance.update(y, {0: 0.5, 1: 0.5} if task == "classification" else 0.5)
    smoother = Smoother((1, 1))
    smoother.update(np.zeros((1, 1)))
    smoother.end_block()
    smoother.band(0.95)


def warm_model(model: Model) -> None:
    """The part of ``warm`` that is the model's own."""
    if not AVAILABLE or not isinstance(model, Learner | TreeEnsemble):
        return
    task = model.task
    pfi = IncrementalPFI(model, task=task, size=1)
    sage = IncrementalSAGE(model, task=task, reservoir=pfi.reservoir, evaluator=pfi.evaluator)
    both = EstimatorGroup([pfi, sage])
    if isinstance(model, TreeEnsemble):
        numeric = [name for name in model.features if name not in model.columns.codes]
        for y in (0, 1, 0):
            both.explain_one(dict.fromkeys(numeric, float(y)), model.classes[y % len(model.classes)])
        return
    for y in (0, 1, 0):
        model.predict({"a": float(y), "b": 1.0 - y})
        both.explain_one({"a": float(y), "b": 1.0 - y}, y)
        model.learn({"a": float(y), "b": 1.0 - y}, y)
    model.restore(model.state())


def warm_ensembles(task: Task) -> None:
    """``warm`` for the trained ensembles of trees that are still to come, shallow ones and others."""
    classes, link = (0, "identity") if task == "regression" else (2, "sigmoid")
    for inner in (1, MAX_LEAVES):
        nodes = np.arange(inner)  # each has a leaf on its left, and the last one another on its right
        leaves = np.full(inner + 1, -1)
        left = np.concatenate([inner + nodes, leaves])
        right = np.concatenate([nodes[1:], [2 * inner], leaves])
        nothing = np.zeros(len(left), np.int64)
        tree = Tree(nothing, np.full(len(left), 0.5), nothing, left, right, np.zeros((len(left), 1)))
        warm(TreeEnsemble(Ensemble("none", task, [tree], [0.0], link, ["a"], classes)))
