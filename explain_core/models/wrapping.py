"""Which ``Model`` suits an object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explain_core.losses import AnyTask, Prediction, kind_of
from explain_core.models.arrays import ArrayModel
from explain_core.models.base import Labels, Model, Row
from explain_core.models.onnx import OnnxModel
from explain_core.models.river import wrap_river


class CallableModel(Model):
    """A function from a record to a prediction.

    >>> CallableModel(lambda x: {"up": x["a"], "down": 1.0 - x["a"]}, "classification").predict({"a": 0.75})
    {'up': 0.75, 'down': 0.25}
    """

    def predict(self, x: Row) -> Prediction:
        return self.wrapped(x)  # type: ignore[no-any-return]


def wrap(
    model: Any, task: AnyTask, features: Sequence[str] | None = None, classes: Labels | None = None
) -> Model:
    """The ``Model`` around a river model, a model on arrays, an ONNX model, a callable, or a ``Model`` itself.

    ``features`` and ``classes`` are the order of the columns and of the probabilities of a model on arrays that does
    not name them itself. Raises ``ValueError`` where the object is none of these or does not fit ``task``.

    >>> wrap(lambda x: 2.0 * x["a"], "regression").predict({"a": 3.0})
    6.0
    """
    task = kind_of(task)
    if isinstance(model, Model):
        if model.task != task:
            raise ValueError(f"task: {task}, and the model was wrapped for {model.task}; wrap it for {task}")
        return model
    if isinstance(model, bytes) or (hasattr(model, "get_inputs") and hasattr(model, "run")):
        return OnnxModel(model, task, features, classes)
    if hasattr(model, "predict_one") or (task == "classification" and hasattr(model, "predict_proba_one")):
        return wrap_river(model, task)
    if hasattr(model, "predict") or hasattr(model, "predict_proba"):
        return ArrayModel(model, task, features, classes)
    if callable(model):
        return CallableModel(model, task)
    raise ValueError(
        f"model: {type(model).__name__} has neither predict_one, predict nor predict_proba and cannot be called"
    )
