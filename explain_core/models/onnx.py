"""ONNX graphs, run by onnxruntime (extra ``onnx``)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.losses import Prediction, Task
from explain_core.models.arrays import numbers, probabilities
from explain_core.models.base import BatchModel, Labels, Row


class OnnxModel(BatchModel):
    """An ONNX graph, as the bytes of its file or an ``onnxruntime.InferenceSession`` (extra ``onnx``).

    The graph takes either one matrix, whose columns are ``features``, or one column per feature under its name. A
    classifier's last output is a map from label to probability, a matrix with one column for each of ``classes`` (by
    default 0, 1, …), or the label. A single column of probabilities is that of the second class. Only a model given as
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
        self._inputs = [(tensor.name, _onnx_type(tensor.type)) for tensor in self._session.get_inputs()]
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
        if len(set(self.features)) != len(self.features):
            raise ValueError(f"features: {', '.join(self.features)}; one of the columns is there twice")
        inputs = [name for name, _ in self._inputs]
        if len(inputs) > 1 and set(self.features) != set(inputs):
            raise ValueError(
                f"features: the ONNX model's columns are {', '.join(inputs)}; pass these or none"
            )
        if len(inputs) == 1:
            self.kinds = {} if self._inputs[0][1] is object else dict.fromkeys(self.features, "number")
        else:
            self.kinds = {name: "number" for name, dtype in self._inputs if dtype is not object}
        rows = self._session.get_inputs()[0].shape[0]
        if isinstance(rows, int):
            raise ValueError(
                f"model: the ONNX model takes exactly {rows} rows at once; export it with a first dimension of any size"
            )

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        if not rows:
            return []
        output = self.outputs(rows)[-1]
        if self.task == "regression":
            return numbers(output)
        if isinstance(output, list):
            return output
        if output.dtype.kind != "f":
            return [{label: 1.0} for label in np.ravel(output).tolist()]
        if output.ndim == 1 or output.shape[1] == 1:
            output = np.column_stack([1.0 - np.ravel(output), np.ravel(output)])
        return probabilities(output, self.classes or range(output.shape[1]))

    def outputs(self, rows: Sequence[Row]) -> list[Any]:
        """All that the graph returns for the records."""
        if len(self._inputs) == 1:
            ((name, dtype),) = self._inputs
            feed = {name: _cells(rows, self.features, dtype)}
        else:
            feed = {name: _cells(rows, [name], dtype) for name, dtype in self._inputs}
        return self._session.run(None, feed)  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self.wrapped, bytes):
            raise ValueError(
                "model: an ONNX session cannot be stored; wrap the bytes of the ONNX file instead"
            )
        return {name: value for name, value in self.__dict__.items() if name != "_session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._session = _session(self.wrapped)


def runtime() -> Any:
    """``onnxruntime``. From version 1.29 on it reports its use to its maker, unless this variable is set before its first import."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # type: ignore[import-untyped, unused-ignore]

    return onnxruntime


def _session(model: Any) -> Any:
    if not isinstance(model, bytes):
        return model
    onnxruntime = runtime()
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
