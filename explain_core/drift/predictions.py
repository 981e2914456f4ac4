"""What a hypothesis predicts for rows or cells: one by one, or as a table; and the losses of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from explain_core.drift.arrays import Codes, Values
from explain_core.drift.windows import Window
from explain_core.losses import LARGEST, Loss, Prediction, argmax
from explain_core.sums import total

MOST = LARGEST**2
"""With larger losses, whose squares and their sums overflow, nothing would be known of the risk."""
PSEUDO_CLASSES = 20
"""Quantile bins of the truth in a regression, at the most."""


class PredictionTable(NamedTuple):
    """Predictions of n rows whose classes are the same: n × classes, or numbers where ``labels`` is None."""

    labels: list[Any] | None
    values: Values

    def one_by_one(self) -> list[Prediction]:
        if self.labels is None:
            return self.values[:, 0].tolist()  # type: ignore[no-any-return]
        return [dict(zip(self.labels, row, strict=True)) for row in self.values.tolist()]

    @property
    def sound(self) -> bool:
        """Whether all are finite, and none is so large that it or a sum of a row is out of range."""
        largest = np.abs(self.values).max(initial=0.0)
        return bool(largest <= LARGEST / max(1, self.values.shape[1]))


Predictions = PredictionTable | Sequence[Prediction]


class Classes(NamedTuple):
    """The classes of the truth in both windows; in a regression the bins of y with their means.

    The loss of a class is the mean over its ``points``, plus ``spread``. Of a bin of y these are its mean and the variance
    within under squared loss, else the medians of its thirds and 0.
    """

    truths: list[Any]
    points: list[list[Any]]
    spread: Values
    codes: tuple[Codes, Codes]
    numeric: bool


def classes_of(windows: tuple[Window, Window], loss: Loss) -> Classes:
    """The classes in order of appearance, or at most 20 pooled quantile bins of a number, lowest first."""
    pooled = [*windows[0].y, *windows[1].y]
    n = len(windows[0])
    if loss.task == "classification":
        truths = list(dict.fromkeys(pooled))
        code = {label: i for i, label in enumerate(truths)}
        codes = np.array([code[y] for y in pooled], dtype=np.int64)
        return Classes(
            truths, [[truth] for truth in truths], np.zeros(len(truths)), (codes[:n], codes[n:]), False
        )
    y = np.array(pooled, dtype=float)
    quantiles = np.quantile(y, np.arange(1, PSEUDO_CLASSES) / PSEUDO_CLASSES, method="inverted_cdf")
    codes = np.unique(np.searchsorted(np.unique(quantiles), y), return_inverse=True)[1]
    counts = np.bincount(codes)
    means = np.bincount(codes, weights=y) / counts
    if loss.name == "squared":
        spread = np.bincount(codes, weights=(y - means[codes]) ** 2) / counts
        points = means[:, None].tolist()
    else:
        spread = np.zeros(len(means))
        within = (np.sort(y[codes == code]) for code in range(len(means)))
        points = [targets[(2 * np.arange(3) + 1) * len(targets) // 6].tolist() for targets in within]
    return Classes(means.tolist(), points, spread, (codes[:n], codes[n:]), True)


def losses_by_class(loss: Loss, predictions: Predictions, classes: Classes) -> Values:
    """n × classes: the loss of each prediction with each class as the truth. Raises ``ValueError`` for one beyond ``MOST``."""
    truths = classes.truths
    if loss.reads == "label":
        labels, most = _most_probable(predictions)
        by_label = np.array([[loss.function(y, label) for y in truths] for label in labels], dtype=float)
        found = by_label.reshape(len(labels), len(truths))[most] + classes.spread
    else:
        table = [
            [total(loss(y, prediction) for y in points) / len(points) for points in classes.points]
            for prediction in _one_by_one(predictions)
        ]
        found = np.array(table, dtype=float).reshape(len(table), len(truths)) + classes.spread
    beyond = ~(np.abs(found) <= MOST)  # NaN, too
    if beyond.any():
        i, c = np.argwhere(beyond)[0].tolist()
        raise _not_finite(loss, _one_by_one(predictions)[i], truths[c], float(found[i, c]))
    return found


def own_losses(loss: Loss, predictions: Predictions, y: Sequence[Any], classes: Classes, w: int) -> Values:
    """The loss of each prediction for its own truth, the rows being those of window w. Raises ``ValueError`` for one beyond ``MOST``."""
    if loss.reads == "label":
        codes = classes.codes[w]
        return losses_by_class(loss, predictions, classes)[np.arange(len(codes)), codes]
    given = _one_by_one(predictions)
    found = np.array(
        [loss(truth, prediction) for truth, prediction in zip(y, given, strict=True)], dtype=float
    )
    beyond = ~(np.abs(found) <= MOST)  # NaN, too
    if beyond.any():
        i = int(np.flatnonzero(beyond)[0])
        raise _not_finite(loss, given[i], y[i], float(found[i]))
    return found


def outputs(predictions: Sequence[Predictions]) -> list[list[Any]]:
    """What one model predicts for the rows of each window, as columns: numbers; the chance of one of two classes; the most
    probable of several and its chance.
    """
    tables = [part for part in predictions if isinstance(part, PredictionTable)]
    if len(tables) == len(predictions) and all(len(of.labels or ()) < 3 for of in tables):
        return [[of.values[:, j] for of in tables] for j in range(tables[0].values.shape[1])[:1]]
    given = [_one_by_one(part) for part in predictions]
    chances = [[prediction for prediction in part if isinstance(prediction, Mapping)] for part in given]
    if not chances[0]:
        return [[list(part) for part in given]]
    classes = list(dict.fromkeys(label for part in chances for prediction in part for label in prediction))
    if len(classes) <= 2:
        return [
            [[prediction.get(label, 0.0) for prediction in part] for part in chances] for label in classes[:1]
        ]
    labels = [[argmax(prediction) for prediction in part] for part in chances]
    return [
        [[repr(label) for label in part] for part in labels],
        [
            [prediction.get(label, 0.0) for prediction, label in zip(part, of_part, strict=True)]
            for part, of_part in zip(chances, labels, strict=True)
        ],
    ]


def _one_by_one(predictions: Predictions) -> Sequence[Prediction]:
    return predictions.one_by_one() if isinstance(predictions, PredictionTable) else predictions


def _most_probable(predictions: Predictions) -> tuple[list[Any], Codes]:
    """Labels, and the place of each row's among them."""
    if isinstance(predictions, PredictionTable):
        if not predictions.labels:
            return [None], np.zeros(len(predictions.values), dtype=np.int64)
        return predictions.labels, predictions.values.argmax(axis=1)
    found = [argmax(prediction) for prediction in predictions]  # type: ignore[arg-type]
    place = {label: i for i, label in enumerate(dict.fromkeys(found))}
    return list(place), np.array([place[label] for label in found], dtype=np.int64)


def _not_finite(loss: Loss, prediction: Prediction, truth: Any, value: float) -> ValueError:
    return ValueError(
        f"loss: {loss.name!r} is {value} for the truth {truth!r} and the prediction {prediction!r}; use a loss, or a unit, of finite numbers up to {MOST:g}"
    )
