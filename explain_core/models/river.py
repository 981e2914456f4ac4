"""River's models, and pipelines of them: dictionaries, one at a time."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from explain_core.losses import Prediction, Task
from explain_core.models.base import Model, Row

_BINARY = ("river.linear_model.", "river.facto.")
"""Modules whose classifiers tell two classes apart where river does not say more; what wraps models says so too, and may have more."""


class RiverModel(Model):
    """The base of river's models: how they learn."""

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        if weight == 1.0:
            self.wrapped.learn_one(x, y)
        else:
            self.wrapped.learn_one(x, y, w=weight)

    @property
    def takes_weight(self) -> bool:
        return "w" in inspect.signature(last_step(self.wrapped).learn_one).parameters


class RiverClassifier(RiverModel):
    """A river classifier, or a pipeline that ends in one.

    >>> from river import naive_bayes
    >>> model = RiverClassifier(naive_bayes.GaussianNB(), "classification")
    >>> for i in range(10):
    ...     model.learn({"a": float(i)}, "up" if i > 4 else "down")
    >>> round(model.predict({"a": 9.0})["up"], 2)
    1.0
    """

    def predict(self, x: Row) -> Prediction:
        return {label: float(p) for label, p in self.wrapped.predict_proba_one(x).items()}

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        if not _in_batches(self.wrapped, "predict_proba_many") or not _rectangular(rows):
            return super().predict_many(rows)
        import pandas as pd

        table = self.wrapped.predict_proba_many(pd.DataFrame(list(rows)))
        labels = table.columns.tolist()
        return [dict(zip(labels, line, strict=True)) for line in table.to_numpy().tolist()]


class RiverLabeller(RiverModel):
    """A river classifier without probabilities: the label it names has probability 1.

    >>> from river import linear_model
    >>> model = RiverLabeller(linear_model.PAClassifier(), "classification")
    >>> model.learn({"a": 1.0}, True)
    >>> model.predict({"a": 2.0})
    {True: 1.0}
    """

    def predict(self, x: Row) -> Prediction:
        label = self.wrapped.predict_one(x)
        return {} if label is None else {label: 1.0}


class RiverRegressor(RiverModel):
    """A river regressor, or a pipeline that ends in one; before it has learnt anything it predicts 0.

    >>> from river import dummy, stats
    >>> model = RiverRegressor(dummy.StatisticRegressor(stats.Mean()), "regression")
    >>> model.predict({"a": 1.0})
    0.0
    >>> model.learn({"a": 1.0}, 3.0)
    >>> model.predict({"a": 1.0})
    3.0
    """

    def predict(self, x: Row) -> Prediction:
        value = self.wrapped.predict_one(x)
        return 0.0 if value is None else float(value)

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        if not _in_batches(self.wrapped, "predict_many") or not _rectangular(rows):
            return super().predict_many(rows)
        import pandas as pd

        return [float(value) for value in self.wrapped.predict_many(pd.DataFrame(list(rows)))]


def wrap_river(model: Any, task: Task) -> Model:
    from river import base

    last = last_step(model)
    for kind, cls in (("classification", base.Classifier), ("regression", base.Regressor)):
        if isinstance(last, cls) and kind != task:
            raise ValueError(f"model: {type(last).__name__} is for {kind} and the task is {task}")
    if task == "regression":
        return RiverRegressor(model, task)
    # The base class declares predict_proba_one and raises for classifiers that have no probabilities.
    has_none = getattr(type(last), "predict_proba_one", None) in (None, base.Classifier.predict_proba_one)
    found = (RiverLabeller if has_none else RiverClassifier)(model, task)
    if type(last).__module__.startswith(_BINARY) and not last._multiclass:
        found.most_classes = 2
    return found


def last_step(model: Any) -> Any:
    """The estimator of a river pipeline: its final step, at any depth."""
    steps = getattr(model, "steps", None)
    return last_step(list(steps.values())[-1]) if isinstance(steps, dict) and steps else model


def _in_batches(part: Any, method: str) -> bool:
    """Whether every step of a river model takes a data frame, and the last has a method of its own for it."""
    from river import base, naive_bayes

    steps = getattr(part, "steps", None) or getattr(part, "transformers", None)
    if isinstance(steps, dict):
        return all(_in_batches(step, method) for step in steps.values())
    if isinstance(part, naive_bayes.base.BaseNB):
        return False  # river's own fails on boolean labels
    if isinstance(part, base.Wrapper) and not _in_batches(part._wrapped_model, method):
        return False
    if isinstance(part, base.MiniBatchTransformer):
        return True
    for kind in (base.MiniBatchClassifier, base.MiniBatchRegressor):
        if isinstance(part, kind):
            return getattr(type(part), method, None) is not getattr(kind, method, None)
    return False


def _rectangular(rows: Sequence[Row]) -> bool:
    """Whether all rows have the same features: a data frame has no absent cells."""
    return len(rows) > 1 and all(row.keys() == rows[0].keys() for row in rows)
