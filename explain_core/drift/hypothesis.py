"""The hypothesis whose risk changes: a model, or a tree on the bin codes; and its loss for every class of truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from explain_core.drift import tree
from explain_core.drift.arrays import Codes, Values
from explain_core.drift.binning import FeatureBins
from explain_core.drift.conditional import normalised
from explain_core.drift.windows import Window
from explain_core.evaluation.choice import choose
from explain_core.losses import Loss, Prediction, argmax
from explain_core.models import Model, check_prediction

PSEUDO_CLASSES = 20
"""Quantile bins of the truth in a regression, at the most."""


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


class Hypothesis(Protocol):
    """The interface of q for the games. ``tree`` is q itself where it is a tree on codes, ``leaf_losses`` its leaves × classes."""

    tree: tree.CodeTree | None
    leaf_losses: Values

    def on_rows(self, window: Window) -> Sequence[Prediction]:
        """Predictions at the window's rows."""

    def on_cells(self, codes: Codes) -> Values:
        """Losses of cells with each class as the truth, n × classes; a cell stands for its representative."""

    def warnings(self) -> list[str]:
        """Properties of its predictions that bear on the result."""


class ModelHypothesis:
    """A model; on a cell it predicts the record of the bins' representatives."""

    def __init__(self, model: Model, loss: Loss, classes: Classes, bins: Sequence[FeatureBins]) -> None:
        self.tree: tree.CodeTree | None = None
        self.leaf_losses: Values = np.zeros((0, len(classes.truths)))
        self._labels: dict[Any, None] = {}
        self._model, self._loss, self._classes, self._bins = model, loss, classes, bins
        self._evaluator = choose(model)

    def on_rows(self, window: Window) -> Sequence[Prediction]:
        return self._predict(window.rows())

    def on_cells(self, codes: Codes) -> Values:
        columns = [
            [bin_.representatives[code] for code in codes[:, j].tolist()] for j, bin_ in enumerate(self._bins)
        ]
        cells = Window(
            "cells",
            dict(zip([bin_.feature for bin_ in self._bins], columns, strict=True)),
            [None] * len(codes),
        )
        return losses_by_class(self._loss, self._predict(cells.rows()), self._classes)

    def warnings(self) -> list[str]:
        if not self._labels or any(label in self._labels for label in self._classes.truths):
            return []
        predicted, true = (
            ", ".join(map(repr, list(some)[:10])) for some in (self._labels, self._classes.truths)
        )
        return [f"hypothesis: it predicts {predicted}, and the labels are {true}; are they the same?"]

    def _predict(self, rows: Sequence[Mapping[str, Any]]) -> list[Prediction]:
        predictions = self._evaluator.predict_many(rows)
        known = self._labels.keys()
        for prediction in predictions:
            check_prediction(prediction, self._model.task)
            if isinstance(prediction, Mapping) and prediction.keys() != known:
                self._labels.update(dict.fromkeys(prediction))
        return predictions


class TreeHypothesis:
    """A tree on the bin codes, fitted on rows that are not explained: the hypothesis must be out of sample."""

    def __init__(
        self,
        codes: Codes,
        y: Codes,
        ranks: Sequence[Codes],
        loss: Loss,
        classes: Classes,
        bins: Sequence[FeatureBins],
    ) -> None:
        self._bins = bins
        self._tree, counts = tree.fit(codes, y, len(classes.truths), ranks, np.ones(len(y)))
        self.tree: tree.CodeTree | None = self._tree
        shares = normalised(counts)
        if loss.task == "regression":
            means = np.sum(shares * np.array(classes.truths), axis=1)
            self._predictions: list[Prediction] = means.tolist()
        else:
            self._predictions = [dict(zip(classes.truths, row, strict=True)) for row in shares.tolist()]
        self._loss = loss
        self.leaf_losses = losses_by_class(loss, self._predictions, classes)

    def on_rows(self, window: Window) -> Sequence[Prediction]:
        codes = (
            np.column_stack([bin_.codes(window.columns[bin_.feature]) for bin_ in self._bins])
            if self._bins
            else np.zeros((len(window), 0), dtype=np.int64)
        )
        return [self._predictions[leaf] for leaf in self._tree.leaves(codes).tolist()]

    def on_cells(self, codes: Codes) -> Values:
        return self.leaf_losses[self._tree.leaves(codes)]

    def warnings(self) -> list[str]:
        return []


def losses_by_class(loss: Loss, predictions: Sequence[Prediction], classes: Classes) -> Values:
    """n × classes: the loss of each prediction with each class as the truth. Raises ``ValueError`` unless finite."""
    truths = classes.truths
    if loss.reads == "label":
        label_of = [argmax(prediction) for prediction in predictions]  # type: ignore[arg-type]
        rows = {label: [loss.function(y, label) for y in truths] for label in dict.fromkeys(label_of)}
        table = [rows[label] for label in label_of]
    else:
        table = [
            [sum(loss(y, prediction) for y in points) / len(points) for points in classes.points]
            for prediction in predictions
        ]
    found = np.array(table, dtype=float).reshape(len(predictions), len(truths)) + classes.spread
    if not np.isfinite(found).all():
        i, c = np.argwhere(~np.isfinite(found))[0].tolist()
        raise _not_finite(loss, predictions[i], truths[c], float(found[i, c]))
    return found


def own_losses(loss: Loss, predictions: Sequence[Prediction], y: Sequence[Any]) -> Values:
    """The loss of each prediction for its own truth. Raises ``ValueError`` unless finite."""
    found = np.array(
        [loss(truth, prediction) for truth, prediction in zip(y, predictions, strict=True)], dtype=float
    )
    if not np.isfinite(found).all():
        i = int(np.flatnonzero(~np.isfinite(found))[0])
        raise _not_finite(loss, predictions[i], y[i], float(found[i]))
    return found


def outputs(predictions: Sequence[Sequence[Prediction]]) -> list[list[list[Any]]]:
    """What one model predicts for the rows of each window, as columns: numbers; the chance of one of two classes; the most
    probable of several and its chance.
    """
    chances = [[prediction for prediction in part if isinstance(prediction, Mapping)] for part in predictions]
    if not chances[0]:
        return [[list(part) for part in predictions]]
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


def _not_finite(loss: Loss, prediction: Prediction, truth: Any, value: float) -> ValueError:
    return ValueError(
        f"loss: {loss.name!r} is {value} for the truth {truth!r} and the prediction {prediction!r}; use a finite loss"
    )
