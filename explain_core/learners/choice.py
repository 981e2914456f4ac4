"""Which learner stands for a river model."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from explain_core.learners.base import Learner
from explain_core.learners.mixture import Mixture, MixtureLearner
from explain_core.losses import AnyTask, kind_of

FAMILIES = ["explain_core.learners.linear:linear_learner", "explain_core.learners.tree:tree_learner"]
"""Functions that make the learner of a model and a task, or None, in the order in which they are asked."""


def learner_of(model: Any, task: AnyTask) -> Learner | None:
    """A learner that does what the river model would do, to the last bit; None where river itself must learn.

    The model must have learnt nothing, and be of exactly the types and parameters that a learner repeats.

    >>> from river import linear_model
    >>> learner = learner_of(linear_model.LogisticRegression(), "classification")
    >>> learner.kind if learner else "river"
    'linear'
    >>> from river.dummy import NoChangeClassifier
    >>> learner_of(NoChangeClassifier(), "classification") is None
    True
    """
    task = kind_of(task)
    if type(model) is Mixture:
        return MixtureLearner(model, task)
    for place in FAMILIES:
        learner: Learner | None = resolve_name(place)(model, task)
        if learner is not None:
            return learner
    return None
