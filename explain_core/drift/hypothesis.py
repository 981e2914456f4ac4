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

    ``spread`` is added to the loss of a class: the variance within a bin under squared loss, else 0.
    """

    truths: list[Any]
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
        return Classes(truths, np.zeros(len(truths)), (codes[:n], codes[n:]), False)
    y = np.array(pooled, dtype=float)
    quantiles = np.quantile(y, np.arange(1, PSEUDO_CLASSES) / PSEUDO_CLASSES, method="inverted_cdf")
    codes = np.unique(np.searchsorted(np.unique(quantiles), y), return_inverse=True)[1]
    counts = np.bincount(codes)
    means = np.bincount(codes, weights=y) / counts
    spread = np.zeros(len(means))
    if loss.name == "squared":
        spread = np.bincount(codes, weights=(y - means[codes]) ** 2) / counts
    return Classes(means.tolist(), spread, (codes[:n], codes[n:]), True)


class Hypothesis(Protocol):
    """What the games need of q. ``tree`` is q itself where it is a tree on codes, ``leaf_losses`` its leaves × classes."""

    tree: tree.CodeTree | None
    leaf_losses: Values

    def on_rows(self, window: Window, codes: Codes) -> tuple[Values, Values]:
        """Losses of the window's rows: with each class as the truth (n × classes), and with their own truth (n)."""

    def on_cells(self, codes: Codes) -> Values:
        """Losses of cells with each class as the truth, n × classes; a cell stands for its representative."""

    def warnings(self) -> list[str]:
        """What about its predictions bears on the result."""


class ModelHypothesis:
    """A model; on a cell it predicts the record of the bins' representatives."""

    def __init__(self, model: Model, loss: Loss, classes: Classes, bins: Sequence[FeatureBins]) -> None:
        self.tree: tree.CodeTree | None = None
        self.leaf_losses: Values = np.zeros((0, len(classes.truths)))
        self._labels: dict[Any, None] = {}
        self._model, self._loss, self._classes, self._bins = model, loss, classes, bins
        self._evaluator = choose(model)

    def on_rows(self, window: Window, codes: Codes) -> tuple[Values, Values]:
        predictions = self._predict(window.rows())
        by_class = losses_by_class(self._loss, predictions, self._classes)
        return by_class, own_losses(self._loss, predictions, window.y)

    def on_cells(self, codes: Codes) -> Values:
        columns = [
            [one.representatives[code] for code in codes[:, j].tolist()] for j, one in enumerate(self._bins)
        ]
        cells = Window(
            "cells", dict(zip([one.feature for one in self._bins], columns, strict=True)), [None] * len(codes)
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

    def __init__(self, codes: Codes, y: Codes, ranks: Sequence[Codes], loss: Loss, classes: Classes) -> None:
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

    def on_rows(self, window: Window, codes: Codes) -> tuple[Values, Values]:
        leaves = self._tree.leaves(codes)
        own = own_losses(self._loss, [self._predictions[leaf] for leaf in leaves.tolist()], window.y)
        return self.leaf_losses[leaves], own

    def on_cells(self, codes: Codes) -> Values:
        return self.leaf_losses[self._tree.leaves(codes)]

    def warnings(self) -> list[str]:
        return []


def losses_by_class(loss: Loss, predictions: Sequence[Prediction], classes: Classes) -> Values:
    """n × classes: the loss of each prediction with each class as the truth. Raises ``ValueError`` unless finite."""
    truths = classes.truths
    if loss.reads == "label":
        label_of = [argmax(one) for one in predictions]  # type: ignore[arg-type]
        rows = {label: [loss.function(y, label) for y in truths] for label in dict.fromkeys(label_of)}
        table = [rows[label] for label in label_of]
    else:
        table = [[loss(y, one) for y in truths] for one in predictions]
    found = np.array(table, dtype=float).reshape(len(predictions), len(truths)) + classes.spread
    if not np.isfinite(found).all():
        i, c = np.argwhere(~np.isfinite(found))[0].tolist()
        raise _not_finite(loss, predictions[i], truths[c], float(found[i, c]))
    return found


def own_losses(loss: Loss, predictions: Sequence[Prediction], y: Sequence[Any]) -> Values:
    """The loss of each prediction for its own truth. Raises ``ValueError`` unless finite."""
    found = np.array([loss(truth, one) for truth, one in zip(y, predictions, strict=True)], dtype=float)
    if not np.isfinite(found).all():
        i = int(np.flatnonzero(~np.isfinite(found))[0])
        raise _not_finite(loss, predictions[i], y[i], float(found[i]))
    return found


def _not_finite(loss: Loss, prediction: Prediction, truth: Any, value: float) -> ValueError:
    return ValueError(
        f"loss: {loss.name!r} is {value} for the truth {truth!r} and the prediction {prediction!r}; use a finite loss"
    )
