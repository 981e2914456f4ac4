"""A learner that has learnt, behind river's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from river import base

from explain_core.learners.base import Learner, LearnerState
from explain_core.learners.choice import learner_of
from explain_core.losses import Task


class _InArrays:
    """What both have: ``learner`` learns, ``labels`` are those of its codes in their order; new ones come after them."""

    def __init__(self, learner: Learner, labels: Sequence[Any] = ()) -> None:
        self.learner, self.labels = learner, list(labels)

    def __reduce__(self) -> Any:
        """As data, and the model of river that it was made from."""
        return _restored, (self.learner.wrapped, self.learner.task, self.learner.state(), self.labels)

    def clone(self, new_params: Any = None, include_attributes: bool = False) -> Any:
        """One of the same parameters that has learnt nothing."""
        return as_river(_fresh(self.learner.wrapped, self.learner.task))


class ArrayClassifier(_InArrays, base.Classifier):
    """A classifier of river's interface that learns in arrays."""

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        found = self.learner.predict(x)
        assert isinstance(found, dict)
        known = len(self.labels)
        return {self.labels[code]: probability for code, probability in found.items() if code < known}

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        if y not in self.labels:
            self.labels.append(y)
        self.learner.learn(x, self.labels.index(y), w)


class ArrayRegressor(_InArrays, base.Regressor):
    """A regressor of river's interface that learns in arrays."""

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> float:
        found = self.learner.predict(x)
        assert isinstance(found, float)
        return found

    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0) -> None:
        self.learner.learn(x, y, w)


def as_river(learner: Learner, labels: Sequence[Any] = ()) -> ArrayClassifier | ArrayRegressor:
    """The learner behind river's ``learn_one``, ``predict_one`` and ``predict_proba_one``, with the same bits; ``labels`` are those of its codes.

    It goes where river's own models go: into metrics, evaluations, pipelines and pickles, where it takes features in the order of the learner's columns.
    It is none of these: a ``Mixture`` is no model of river, and the ADWIN of its adaptive trees and forests is compiled code that takes its buckets in
    bytes of an undocumented layout alone.

    >>> from river import linear_model
    >>> learner = learner_of(linear_model.LogisticRegression(), "classification")
    >>> model = as_river(learner, ["no", "yes"])
    >>> for i in range(100):
    ...     model.learn_one({"a": i % 7}, "yes" if i % 7 > 3 else "no")
    >>> model.predict_one({"a": 6})
    'yes'
    """
    return (ArrayRegressor if learner.task == "regression" else ArrayClassifier)(learner, labels)


def _fresh(model: Any, task: Task) -> Learner:
    found = learner_of(model, task)
    assert found is not None
    return found


def _restored(
    model: Any, task: Task, state: LearnerState, labels: list[Any]
) -> ArrayClassifier | ArrayRegressor:
    learner = _fresh(model, task)
    learner.restore(state)
    return as_river(learner, labels)
