"""Which evaluator suits a model."""

from __future__ import annotations

from typing import Any, Literal, get_args

from explain_core.evaluation.batch import BatchEvaluator
from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.kernels import AVAILABLE
from explain_core.learners.base import Learner
from explain_core.models import ArrayModel, Model, OnnxModel

Name = Literal["auto", "generic", "batch", "linear", "trees", "arrays"]


def choose(model: Model, name: Name | GenericEvaluator = "auto") -> GenericEvaluator:
    """The evaluator of that name for the model; ``auto`` is the fastest that knows it. An evaluator is itself.

    Raises ``ValueError`` for an unknown name, and where the evaluator does not know the model or is that of another one.

    >>> from explain_core.models import wrap
    >>> from river.tree import HoeffdingTreeClassifier
    >>> choose(wrap(HoeffdingTreeClassifier(), "classification")).name
    'trees'
    >>> choose(wrap(lambda x: 0.0, "regression")).name
    'generic'
    """
    if isinstance(name, GenericEvaluator):
        if name.model is not model:
            raise ValueError("evaluator: it is that of another model; make one with choose(model)")
        return name
    from explain_core.evaluation.learned import LearnedEvaluator
    from explain_core.evaluation.linear import LinearEvaluator, linear
    from explain_core.evaluation.trees import TreesEvaluator
    from explain_core.evaluation.votes import voting

    if name in ("auto", "arrays") and isinstance(model, Learner):
        return LearnedEvaluator(model)
    if name == "trees" or (name == "auto" and voting(model.wrapped) is not None):
        return TreesEvaluator(model)
    if name == "linear" or (name == "auto" and linear(model.wrapped) is not None):
        return LinearEvaluator(model)
    if name == "batch" or (name == "auto" and isinstance(model, ArrayModel | OnnxModel)):
        return BatchEvaluator(model)
    if name not in ("auto", "generic"):
        raise ValueError(f"evaluator: {name!r} is not one of {', '.join(get_args(Name))}")
    return GenericEvaluator(model)


def warm(model: Model) -> None:
    """Compile what explaining the model takes, or load it from numba's cache, so that no record waits for it.

    Some 20 s of computing where the cache is empty, else one or two; nothing without numba.
    """
    from river import linear_model, tree

    from explain_core.importance.ipfi import IncrementalPFI
    from explain_core.importance.isage import IncrementalSAGE

    name, task = choose(model).name, model.task
    kinds: dict[tuple[str, str], Any] = {
        ("trees", "classification"): tree.HoeffdingTreeClassifier,
        ("trees", "regression"): tree.HoeffdingTreeRegressor,
        ("linear", "classification"): linear_model.LogisticRegression,
        ("linear", "regression"): linear_model.LinearRegression,
    }
    if not AVAILABLE:
        return
    small = kinds.get((name, task), kinds["trees", task])()
    for estimator in (IncrementalPFI, IncrementalSAGE):
        one = estimator(small, task=task, size=1, evaluator="auto" if (name, task) in kinds else "generic")
        for y in (0, 1, 0):
            one.explain_one({"a": float(y), "b": 1.0}, y)
            small.learn_one({"a": float(y), "b": 1.0}, y)
            one.evaluator.predict_many([{"a": float(y), "b": 1.0}])
