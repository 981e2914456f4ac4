"""Data sets for the batch estimators: tables as records, truths checked against predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from explain_core.losses import Prediction
from explain_core.models import Model, Row, check_prediction


def records(X: Any, features: Sequence[str] | None = None) -> list[Row]:
    """The rows of a table as records: of a data frame, of a matrix whose columns are ``features``, or of mappings.

    >>> records([[1.0, 2.0]], ["a", "b"])
    [{'a': 1.0, 'b': 2.0}]
    """
    if hasattr(X, "itertuples"):
        names = [str(name) for name in X.columns]
        return [dict(zip(names, row, strict=True)) for row in X.itertuples(index=False, name=None)]
    rows = X.tolist() if isinstance(X, np.ndarray) else list(X)
    if not rows:
        raise ValueError("X: there are no rows")
    if all(isinstance(row, Mapping) for row in rows):
        return rows
    if features is None:
        raise ValueError("features: the columns of X have no names; pass features=[…] in their order")
    if any(
        not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(features) for row in rows
    ):
        raise ValueError(f"X: not every row has a value for each of the {len(features)} features")
    return [dict(zip(features, row, strict=True)) for row in rows]


def labels(y: Any, rows: Sequence[Row], model: Model, predictions: Sequence[Prediction]) -> list[Any]:
    """The truth of each row as a list, checked against what the model predicted for them.

    Raises ``ValueError`` if a length differs, if a prediction is not finite or not of the task's shape, or if no prediction gives a label
    a probability: the labels of model and data are then not the same. (A model that returns a single label need not name
    them all.)

    >>> from explain_core.models import wrap
    >>> model = wrap(lambda x: {"up": 0.5, "down": 0.5}, "classification")
    >>> rows = [{"a": 1.0}]
    >>> labels(["sideways"], rows, model, model.predict_many(rows))
    Traceback (most recent call last):
    ValueError: y: the label 'sideways' is in no prediction; the model's classes are 'up', 'down': use the model's own labels, or fit it with all classes
    """
    ys = y.tolist() if hasattr(y, "tolist") else list(y)
    if len(ys) != len(rows):
        raise ValueError(f"y: {len(ys)} values for {len(rows)} rows of X")
    for prediction in predictions:
        check_prediction(prediction, model.task)
    if model.task == "classification":
        known = {label: None for prediction in predictions for label in prediction}  # type: ignore[union-attr]
        unknown = [label for label in dict.fromkeys(ys) if label not in known]
        named_alone = all(len(prediction) == 1 for prediction in predictions)  # type: ignore[arg-type]
        if unknown and not (named_alone and len(unknown) < len(set(ys))):
            raise ValueError(
                f"y: the label {unknown[0]!r} is in no prediction; the model's classes are "
                f"{', '.join(map(repr, known))}: use the model's own labels, or fit it with all classes"
            )
    return ys


def transfer(names: Iterable[str], source: Row, target: dict[str, Any]) -> None:
    """Give ``target`` the values that ``source`` has under ``names``; what the source lacks goes: absence is a value.

    >>> target = {"a": 1, "b": 2, "c": 3}
    >>> transfer(["a", "b"], {"a": 10}, target)
    >>> target
    {'a': 10, 'c': 3}
    """
    for name in names:
        if name in source:
            target[name] = source[name]
        else:
            target.pop(name, None)
