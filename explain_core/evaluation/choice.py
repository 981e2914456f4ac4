"""Which evaluator suits a model."""

from __future__ import annotations

from typing import Any, Literal

from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.kernels import AVAILABLE
from explain_core.models import Model

Name = Literal["auto", "generic", "trees"]


def choose(model: Model, name: Name | GenericEvaluator = "auto") -> GenericEvaluator:
    """The evaluator of that name for the model; ``auto`` is the fastest that knows it. An evaluator is itself.

    Raises ``ValueError`` where the evaluator does not know the model, or is that of another model.
    """
    if isinstance(name, GenericEvaluator):
        if name.model is not model:
            raise ValueError("evaluator: it is that of another model; make one with choose(model)")
        return name
    from explain_core.evaluation.trees import TreesEvaluator
    from explain_core.evaluation.votes import voting

    if name == "trees" or (name == "auto" and voting(model.wrapped) is not None):
        return TreesEvaluator(model)
    return GenericEvaluator(model)


def warm(model: Model) -> None:
    """Compile what explaining the model takes, or load it from numba's cache, so that no record waits for it.

    Some 20 s of computing where the cache is empty, else about one second; nothing without numba.
    """
    from river import tree

    from explain_core.importance.ipfi import IncrementalPFI
    from explain_core.importance.isage import IncrementalSAGE

    if not AVAILABLE or choose(model).name == "generic":
        return
    small: Any = (
        tree.HoeffdingTreeRegressor() if model.task == "regression" else tree.HoeffdingTreeClassifier()
    )
    for estimator in (IncrementalPFI, IncrementalSAGE):
        one = estimator(small, task=model.task, size=1)
        for y in (0, 1, 0):
            one.explain_one({"a": float(y), "b": 1.0}, y)
            small.learn_one({"a": float(y), "b": 1.0}, y)
