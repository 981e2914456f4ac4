"""Which evaluator suits a model."""

from __future__ import annotations

from typing import Literal, get_args

from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.evaluation.generic import BatchEvaluator, GenericEvaluator
from explain_core.learners.base import Learner
from explain_core.models import Model

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
    if name in ("auto", "arrays") and isinstance(model, (TreeEnsemble, Learner)) and model.family is not None:
        from explain_core.evaluation.learned import LearnedEvaluator

        return LearnedEvaluator(model)
    if name == "arrays":
        raise ValueError(
            f"evaluator: arrays, and {model.title} does not learn in arrays; use auto or generic"
        )
    if name == "batch" or (name == "auto" and model.in_batches):
        return BatchEvaluator(model)
    return GenericEvaluator(model)
