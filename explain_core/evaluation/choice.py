"""Which evaluator suits a model."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from explain_core import losses
from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.compiling import AVAILABLE
from explain_core.evaluation.batch import BatchEvaluator
from explain_core.evaluation.generic import GenericEvaluator
from explain_core.learners.base import Learner
from explain_core.models import Model
from explain_core.models.empty import Performance
from explain_core.smoothing import Smoother

Name = Literal["auto", "generic", "batch", "arrays"]


def choose(model: Model, name: Name | GenericEvaluator = "auto") -> GenericEvaluator:
    """The evaluator of that name for the model; ``auto`` is the fastest that knows it. An evaluator is itself.

    Raises ``ValueError`` for an unknown name, and where the evaluator does not know the model or is that of another one.

    >>> from explain_core.learners.choice import learner_of
    >>> from explain_core.models import wrap
    >>> from river.tree import HoeffdingTreeClassifier
    >>> choose(wrap(HoeffdingTreeClassifier(), "classification")).name
    'generic'
    >>> choose(learner_of(HoeffdingTreeClassifier(), "classification")).name
    'arrays'
    """
    if isinstance(name, GenericEvaluator):
        if name.model is not model:
            raise ValueError("evaluator: it is that of another model; make one with choose(model)")
        return name
    if name not in get_args(Name):
        raise ValueError(f"evaluator: {name!r} is not one of {', '.join(get_args(Name))}")
    if isinstance(model, Learner | TreeEnsemble) and name in ("auto", "arrays"):
        from explain_core.evaluation.learned import LearnedEvaluator

        return LearnedEvaluator(model)
    if name == "arrays":
        raise ValueError(
            f"evaluator: arrays, and {type(model.wrapped).__name__} does not learn in arrays; use auto or generic"
        )
    if name == "batch" or (name == "auto" and model.in_batches):
        return BatchEvaluator(model)
    return GenericEvaluator(model)


def warm(model: Model) -> None:
    """Compile what learning and explaining take, or load it from numba's cache, so that no record waits for it.

    A learner is taught three records: give one of its own. Where the cache is empty it takes some 10 s of computing for a linear
    model and 25 s for a forest, else one or two; nothing without numba.
    """
    if not AVAILABLE:
        return
    performance = Performance([losses.get(losses.DEFAULT[model.task])], None)
    for y in (0, 1, 0):
        performance.update(y, {0: 0.5, 1: 0.5} if model.task == "classification" else 0.5)
    if not isinstance(model, Learner | TreeEnsemble):
        Smoother((1, 1)).update(np.zeros((1, 1)))
        return
    from explain_core.importance.base import Together
    from explain_core.importance.ipfi import IncrementalPFI
    from explain_core.importance.isage import IncrementalSAGE

    task = model.task
    pfi = IncrementalPFI(model, task=task, size=1)
    sage = IncrementalSAGE(model, task=task, reservoir=pfi.reservoir, evaluator=pfi.evaluator)
    both = Together([pfi, sage])
    if isinstance(model, TreeEnsemble):
        numeric = [name for name in model.features if name not in model.columns.codes]
        for y in (0, 1, 0):
            both.explain_one(dict.fromkeys(numeric, float(y)), model.classes[y % len(model.classes)])
        return
    for y in (0, 1, 0):
        both.explain_one({"a": float(y), "b": 1.0 - y}, y)
        model.learn({"a": float(y), "b": 1.0 - y}, y)
    model.restore(model.state())
