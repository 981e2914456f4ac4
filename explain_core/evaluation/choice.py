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

    if isinstance(model, Learner) and name in ("auto", "arrays"):
        return LearnedEvaluator(model)
    if isinstance(model, Learner) != (name == "arrays") and name not in ("auto", "generic"):
        kind = (
            "learns in arrays: use auto, arrays"
            if isinstance(model, Learner)
            else "does not learn in arrays: use auto"
        )
        raise ValueError(f"evaluator: {name}, and {type(model.wrapped).__name__} {kind} or generic")
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
    """Compile what learning and explaining take, or load it from numba's cache, so that no record waits for it.

    A learner is taught three records: give one of its own. Some 20 s of computing where the cache is empty, else one or two;
    nothing without numba.
    """
    from river import linear_model, tree

    from explain_core.importance.base import Together
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
    if isinstance(model, Learner):
        pfi = IncrementalPFI(model, task=task, size=1)
        both = Together(
            [pfi, IncrementalSAGE(model, task=task, reservoir=pfi.reservoir, evaluator=pfi.evaluator)]
        )
        for y in (0, 1, 0):
            both.explain_one({"a": float(y), "b": 1.0 - y}, y)
            model.learn({"a": float(y), "b": 1.0 - y}, y)
        model.restore(model.state())
        return
    small = kinds.get((name, task), kinds["trees", task])()
    for estimator in (IncrementalPFI, IncrementalSAGE):
        one = estimator(small, task=task, size=1, evaluator="auto" if (name, task) in kinds else "generic")
        for y in (0, 1, 0):
            one.explain_one({"a": float(y), "b": 1.0}, y)
            small.learn_one({"a": float(y), "b": 1.0}, y)
            one.evaluator.predict_many([{"a": float(y), "b": 1.0}])
