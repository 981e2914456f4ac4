"""One view of any model: a record in, a prediction out.

river works on dictionaries one at a time, scikit-learn and ONNX on arrays, a plain callable on a record; estimators
and the fold see ``Model`` alone.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explain_core.losses import Prediction, Task

Row = Mapping[str, Any]
Labels = Sequence[Any]


class Model:
    """A model that predicts records and, where it can, learns from them.

    ``task`` says what a prediction is: a mapping from label to probability, or a float. ``features`` is the order of
    the columns where the model has columns.

    >>> class Half(Model):
    ...     def predict(self, x):
    ...         return {"up": 0.5, "down": 0.5}
    >>> Half(None, "classification").predict_many([{"a": 1.0}, {"a": 2.0}])[1]
    {'up': 0.5, 'down': 0.5}
    """

    features: Sequence[str] | None = None

    def __init__(self, model: Any, task: Task) -> None:
        self.wrapped = model
        self.task = task

    def predict(self, x: Row) -> Prediction:
        raise NotImplementedError

    def hold(self, x: Row) -> None:
        """Be told of a record that is then predicted, explained and learnt, and does not change meanwhile."""

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        """Predictions of several records; one call where the model has a batch method."""
        predict = self.predict
        return [predict(x) for x in rows]

    def checked_predictions(self, rows: Sequence[Row]) -> list[Prediction]:
        """``predict_many``, each prediction checked by ``check_prediction``."""
        predictions = self.predict_many(rows)
        for prediction in predictions:
            check_prediction(prediction, self.task)
        return predictions

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        raise TypeError(
            f"model: {type(self.wrapped).__name__} cannot learn one record at a time; use it as a static model"
        )

    @property
    def takes_weight(self) -> bool:
        return False


class RiverModel(Model):
    """What river's models share: how they learn."""

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        if weight == 1.0:
            self.wrapped.learn_one(x, y)
        else:
            self.wrapped.learn_one(x, y, w=weight)

    @property
    def takes_weight(self) -> bool:
        return "w" in inspect.signature(_last_step(self.wrapped).learn_one).parameters


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
        return self.wrapped.predict_proba_one(x)  # type: ignore[no-any-return]

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


class ArrayModel(Model):
    """scikit-learn and its like: ``predict_proba`` or ``predict`` on a matrix with one column a feature.

    ``features`` is the order of the columns (by default the model's ``feature_names_in_``) and ``classes`` that of the
    probabilities (by default its ``classes_``). A model that was fitted with names gets a data frame. A feature that
    a record lacks is NaN.

    >>> class Sign:
    ...     classes_ = np.array(["down", "up"])
    ...     def predict_proba(self, X):
    ...         return np.column_stack([X[:, 0] < 0, X[:, 0] >= 0]).astype(float)
    >>> ArrayModel(Sign(), "classification", features=["a"]).predict_many([{"a": 3.0}, {"a": -1.0}])
    [{'down': 0.0, 'up': 1.0}, {'down': 1.0, 'up': 0.0}]
    """

    features: Sequence[str]

    def __init__(
        self, model: Any, task: Task, features: Sequence[str] | None = None, classes: Labels | None = None
    ) -> None:
        super().__init__(model, task)
        tags = getattr(model, "__sklearn_tags__", None)
        kind = tags().estimator_type if tags else None
        if kind in ("classifier", "regressor") and kind != {"regression": "regressor"}.get(
            task, "classifier"
        ):
            raise ValueError(f"model: {type(model).__name__} is a {kind} and the task is {task}")
        self.features = _columns(model, features)
        self.classes = _classes(model, task, classes)

    def predict(self, x: Row) -> Prediction:
        return self.predict_many([x])[0]

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        if not rows:
            return []
        columns = [[row.get(name, math.nan) for row in rows] for name in self.features]
        table: Any
        if hasattr(self.wrapped, "feature_names_in_"):
            import pandas as pd

            table = pd.DataFrame(dict(zip(self.features, columns, strict=True)))
        else:
            numeric = all(isinstance(cell, int | float) for column in columns for cell in column)
            table = np.array(columns, dtype=float if numeric else object).T
        if self.task == "regression":
            return _numbers(self.wrapped.predict(table))
        if self.classes is not None:
            return _probabilities(self.wrapped.predict_proba(table), self.classes)
        return [{label: 1.0} for label in np.ravel(self.wrapped.predict(table)).tolist()]


class OnnxModel(Model):
    """An ONNX graph, as the bytes of its file or an ``onnxruntime.InferenceSession`` (extra ``onnx``).

    The graph takes either one matrix, whose columns are ``features``, or one column per feature under its name. A
    classifier's last output is a map from label to probability, a matrix with one column for each of ``classes`` (by
    default 0, 1, …), or the label; one column of probabilities is that of the second class. Only a model given as
    bytes can be pickled.

    A session is anything with ``get_inputs`` and ``run``:

    >>> from types import SimpleNamespace
    >>> class Doubles:
    ...     def get_inputs(self):
    ...         return [SimpleNamespace(name="x", type="tensor(float)", shape=[None, 2])]
    ...     def run(self, names, feed):
    ...         return [2.0 * feed["x"].sum(axis=1)]
    >>> OnnxModel(Doubles(), "regression", features=["a", "b"]).predict({"a": 1.0, "b": 2.0})
    6.0
    """

    features: Sequence[str]

    def __init__(
        self, model: Any, task: Task, features: Sequence[str] | None = None, classes: Labels | None = None
    ) -> None:
        super().__init__(model, task)
        self._session = _session(model)
        self._inputs = [(one.name, _onnx_type(one.type)) for one in self._session.get_inputs()]
        self.classes = None if classes is None else list(classes)
        width = self._session.get_inputs()[0].shape[-1] if len(self._inputs) == 1 else len(self._inputs)
        if features is None and (len(self._inputs) > 1 or width == 1):
            features = [name for name, _ in self._inputs]
        if features is None:
            raise ValueError(
                "features: the ONNX model does not name its columns; pass features=[…] in their order"
            )
        if isinstance(width, int) and len(features) != width:
            raise ValueError(f"features: {len(features)} names for the {width} columns of the ONNX model")
        self.features = [str(name) for name in features]

    def predict(self, x: Row) -> Prediction:
        return self.predict_many([x])[0]

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        if not rows:
            return []
        if len(self._inputs) == 1:
            ((name, dtype),) = self._inputs
            feed = {name: _cells(rows, self.features, dtype)}
        else:
            feed = {name: _cells(rows, [name], dtype) for name, dtype in self._inputs}
        output = self._session.run(None, feed)[-1]
        if self.task == "regression":
            return _numbers(output)
        if isinstance(output, list):
            return output
        if output.dtype.kind != "f":
            return [{label: 1.0} for label in np.ravel(output).tolist()]
        if output.ndim == 1 or output.shape[1] == 1:
            output = np.column_stack([1.0 - np.ravel(output), np.ravel(output)])
        return _probabilities(output, self.classes or range(output.shape[1]))

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self.wrapped, bytes):
            raise ValueError(
                "model: an ONNX session cannot be stored; wrap the bytes of the ONNX file instead"
            )
        return {name: value for name, value in self.__dict__.items() if name != "_session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._session = _session(self.wrapped)


class CallableModel(Model):
    """A function from a record to a prediction.

    >>> CallableModel(lambda x: {"up": x["a"], "down": 1.0 - x["a"]}, "classification").predict({"a": 0.75})
    {'up': 0.75, 'down': 0.25}
    """

    def predict(self, x: Row) -> Prediction:
        return self.wrapped(x)  # type: ignore[no-any-return]


def wrap(
    model: Any, task: Task, features: Sequence[str] | None = None, classes: Labels | None = None
) -> Model:
    """The ``Model`` around a river model, a model on arrays, an ONNX model, a callable, or a ``Model`` itself.

    ``features`` and ``classes`` are the order of the columns and of the probabilities of a model on arrays that does
    not name them itself. Raises ``ValueError`` where the object is none of these or does not fit ``task``.

    >>> wrap(lambda x: 2.0 * x["a"], "regression").predict({"a": 3.0})
    6.0
    """
    if task not in ("classification", "regression"):
        raise ValueError(f"task: {task!r} is not one of classification, regression")
    if isinstance(model, Model):
        if model.task != task:
            raise ValueError(f"task: {task}, and the model was wrapped for {model.task}; wrap it for {task}")
        return model
    if isinstance(model, bytes) or (hasattr(model, "get_inputs") and hasattr(model, "run")):
        return OnnxModel(model, task, features, classes)
    if hasattr(model, "predict_one") or (task == "classification" and hasattr(model, "predict_proba_one")):
        return _wrap_river(model, task)
    if hasattr(model, "predict") or hasattr(model, "predict_proba"):
        return ArrayModel(model, task, features, classes)
    if callable(model):
        return CallableModel(model, task)
    raise ValueError(
        f"model: {type(model).__name__} has neither predict_one, predict nor predict_proba and cannot be called"
    )


def check_prediction(prediction: Prediction, task: Task) -> None:
    """Raise ``ValueError`` where a prediction is not finite or not of the task's shape.

    >>> check_prediction({"up": 0.5, "down": math.nan}, "classification")
    Traceback (most recent call last):
    ValueError: model: predicted {'up': 0.5, 'down': nan}; probabilities must be finite numbers
    """
    if task == "regression":
        if not _finite(prediction):
            raise ValueError(f"model: predicted {prediction!r}; a regression model returns a finite number")
    elif type(prediction) is not dict and not isinstance(prediction, Mapping):
        raise ValueError(
            f"model: predicted {prediction!r}; a classifier returns a mapping from label to probability"
        )
    else:
        try:
            total = sum(prediction.values())
        except TypeError:
            total = math.nan
        if not _finite(total):
            raise ValueError(f"model: predicted {dict(prediction)!r}; probabilities must be finite numbers")


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except TypeError:
        return False


def _wrap_river(model: Any, task: Task) -> Model:
    from river import base

    last = _last_step(model)
    for kind, cls in (("classification", base.Classifier), ("regression", base.Regressor)):
        if isinstance(last, cls) and kind != task:
            raise ValueError(f"model: {type(last).__name__} is for {kind} and the task is {task}")
    if task == "regression":
        return RiverRegressor(model, task)
    # The base class declares predict_proba_one and raises for classifiers that have no probabilities.
    has_none = getattr(type(last), "predict_proba_one", None) in (None, base.Classifier.predict_proba_one)
    return (RiverLabeller if has_none else RiverClassifier)(model, task)


def _last_step(model: Any) -> Any:
    """What decides in a river pipeline: its final step, at any depth."""
    steps = getattr(model, "steps", None)
    return _last_step(list(steps.values())[-1]) if isinstance(steps, dict) and steps else model


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


def _columns(model: Any, features: Sequence[str] | None) -> list[str]:
    own = getattr(model, "feature_names_in_", features)
    kind = type(model).__name__
    if own is None:
        raise ValueError(f"features: {kind} does not name its columns; pass features=[…] in their order")
    names = [str(name) for name in own]
    if features is not None and set(map(str, features)) != set(names):
        raise ValueError(
            f"features: {kind} was fitted with the columns {', '.join(names)}; pass these or none"
        )
    width = getattr(model, "n_features_in_", len(names))
    if len(names) != width:
        raise ValueError(f"features: {len(names)} names for the {width} columns that {kind} was fitted with")
    return names


def _classes(model: Any, task: Task, classes: Labels | None) -> list[Any] | None:
    """The labels of the columns of ``predict_proba``; None where the model has no probabilities."""
    if task == "regression" or not hasattr(model, "predict_proba"):
        return None
    known = getattr(model, "classes_", None) if classes is None else classes
    if known is None:
        raise ValueError(
            f"classes: {type(model).__name__} does not name the columns of predict_proba; pass classes=[…] in their order"
        )
    return known.tolist() if isinstance(known, np.ndarray) else list(known)


def _numbers(output: Any) -> list[Prediction]:
    values = np.ravel(output)
    if values.dtype.kind not in "fiu":
        raise ValueError(
            f"model: predicted {values[:1].tolist()[0]!r} and the task is regression; use classification"
        )
    return [float(value) for value in values]


def _probabilities(matrix: Any, classes: Sequence[Any]) -> list[Prediction]:
    if np.ndim(matrix) != 2 or np.shape(matrix)[1] != len(classes):
        raise ValueError(
            f"classes: {len(classes)} labels for probabilities of shape {np.shape(matrix)}; name each column's class"
        )
    return [dict(zip(classes, line, strict=True)) for line in np.asarray(matrix).tolist()]


def _session(model: Any) -> Any:
    if not isinstance(model, bytes):
        return model
    import onnxruntime  # type: ignore[import-untyped, unused-ignore]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # sums in a fixed order: the same bits on every machine
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _onnx_type(name: str) -> Any:
    types = {
        "tensor(float)": np.float32,
        "tensor(double)": np.float64,
        "tensor(int64)": np.int64,
        "tensor(string)": object,
    }
    if name not in types:
        raise ValueError(
            f"model: an ONNX input of type {name} is not supported; use one of {', '.join(types)}"
        )
    return types[name]


def _cells(rows: Sequence[Row], names: Sequence[str], dtype: Any) -> Any:
    if dtype is np.int64:
        for name in names:
            if any(name not in row for row in rows):
                raise ValueError(
                    f"X: feature {name!r} is missing in a row and the ONNX model takes whole numbers only"
                )
    return np.array([[row.get(name, math.nan) for name in names] for row in rows], dtype=dtype)
