"""Reasons of any model's predictions, by its predictions for coalitions of features."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.engine import stream
from explain_core.learners.base import Learner
from explain_core.models import Model, Row
from explain_core.random import Generator, derive_seed
from explain_core.reasons.result import Array, Method, Reasons

_MASKS = NDArray[np.bool_]
_ABSENT: Any = object()


class CoalitionReasons:
    """Exact where all coalitions of the features in which a record and the rows of the background differ take at most ``most`` predictions.

    Otherwise features join in random orders (Štrumbelj and Kononenko 2014), equally many for each row of the background, at least two. A row
    whose coalitions are not more than these orders ask for is exact. The standard error is that of the means over the orders; the values add up in any case.
    """

    def __init__(self, model: Model, background: Sequence[Row], most: int, seed: int) -> None:
        self.model, self.background, self.most = model, list(background), most
        self.seed = derive_seed(seed, "reasons")

    def replace(self, slot: int, x: Row) -> None:
        self.background[slot] = x

    def explain(self, records: Sequence[Row]) -> Reasons:
        view = _view(self.model, [*self.background, *records])
        n, names = len(self.background), view.names
        predicted, background = view.own(range(n, n + len(records))), view.own(range(n))
        predicted, background = (
            np.pad(found, ((0, 0), (0, len(view.outputs) - found.shape[1])))
            for found in (predicted, background)
        )
        values = np.zeros((len(records), len(names), len(view.outputs)))
        std, sampled = np.zeros_like(values), False
        for i in range(len(records)):
            found = self._one(view, n + i, predicted[i], background)
            values[i], std[i], sampled = found[0], found[1], sampled or found[2]
        method: Method = "sampled" if sampled else "exact"
        return Reasons(
            tuple(names),
            tuple(view.outputs),
            values,
            std,
            predicted,
            background.mean(axis=0),
            "prediction",
            method,
        )

    def _one(self, view: _View, record: int, own: Array, background: Array) -> tuple[Array, Array, bool]:
        """Values and their standard errors, features × outputs, and whether they are sampled."""
        n = len(background)
        differing = [view.differing(record, slot) for slot in range(n)]
        sizes = [len(of) for of in differing]
        exact = sum(1 << min(size, 62) for size in sizes) <= self.most
        orders = max(2, self.most // max(sum(sizes), 1))
        rng = Generator(self.seed)
        values = np.zeros((len(view.names), len(own)))
        variance, sampled = np.zeros_like(values), False
        for slot, features in enumerate(differing):
            size = len(features)
            if size == 0:
                continue
            if exact or (size < 31 and 1 << size <= orders * (size - 1) + 2):
                masks = (np.arange(1 << size)[:, np.newaxis] >> np.arange(size)) & 1 == 1
                values[features] += _shapley(view.between(record, slot, features, masks), size)
                continue
            sampled = True
            steps = np.empty((orders, size, len(own)))
            for k in range(orders):
                order = np.array(rng.permutation(size))
                masks = np.zeros((size - 1, size), np.bool_)
                for place in range(size - 1):
                    masks[place:, order[place]] = True
                between = view.between(record, slot, features, masks)
                steps[k, order] = np.diff(
                    np.concatenate([background[slot : slot + 1], between, own[np.newaxis]]), axis=0
                )
            values[features] += steps.mean(axis=0)
            variance[features] += steps.var(axis=0, ddof=1) / orders
        return values / n, np.sqrt(variance) / n, sampled


def _shapley(worth: Array, size: int) -> Array:
    """Shapley values of a game from the worth of each coalition, whose players are the bits of its number."""
    coalitions = np.arange(1 << size)
    members = np.array([int(one).bit_count() for one in coalitions])
    weights = np.array([1.0 / (size * comb(size - 1, k)) for k in range(size)])
    found = np.empty((size, worth.shape[1]))
    for player in range(size):
        without = coalitions[coalitions >> player & 1 == 0]
        found[player] = weights[members[without]] @ (worth[without | 1 << player] - worth[without])
    return found


class _View:
    """Records, and the predictions of their mixtures: of some features from one record and all others from another."""

    names: list[str]
    outputs: list[Any]

    def own(self, records: Sequence[int]) -> Array:
        raise NotImplementedError

    def differing(self, record: int, other: int) -> NDArray[np.int64]:
        """The places of the features in which they differ; what both lack is equal."""
        raise NotImplementedError

    def between(self, record: int, other: int, features: NDArray[np.int64], masks: _MASKS) -> Array:
        """Predictions, masks × outputs: where a mask is true the feature is the record's."""
        raise NotImplementedError


class _Rows(_View):
    """Of a model in arrays."""

    def __init__(self, model: Learner | TreeEnsemble, records: Sequence[Row]) -> None:
        self.model = model
        if isinstance(model, Learner):
            model.columns.add(name for x in records for name in x)
            self.names, labels = list(model.columns.names), model.labels
        else:
            self.names, labels = list(model.features), model.classes
        self.outputs = list(labels) if model.task == "classification" else [None]
        self.rows = np.empty((len(records), len(self.names)))
        for i, x in enumerate(records):
            self.rows[i] = model.encoded(x)[: len(self.names)]

    def own(self, records: Sequence[int]) -> Array:
        return self._predict(self.rows[records])

    def differing(self, record: int, other: int) -> NDArray[np.int64]:
        a, b = self.rows[record], self.rows[other]
        return np.flatnonzero((a != b) & ~(np.isnan(a) & np.isnan(b)))

    def between(self, record: int, other: int, features: NDArray[np.int64], masks: _MASKS) -> Array:
        rows = np.repeat(self.rows[other : other + 1], len(masks), axis=0)
        rows[:, features] = np.where(masks, self.rows[record, features], rows[:, features])
        return self._predict(rows)

    def _predict(self, rows: Array) -> Array:
        if isinstance(self.model, Learner):
            return self.model.predict_codes(np.ascontiguousarray(rows))
        out = np.empty((len(rows), len(self.outputs)))
        stream.predict(self.model.family, self.model.arrays.table, np.ascontiguousarray(rows), out)
        return out


class _Records(_View):
    """Of any model. A label that a prediction lacks has the probability 0."""

    def __init__(self, model: Model, records: Sequence[Row]) -> None:
        self.model, self.records = model, records
        self.names = list(dict.fromkeys(name for x in records for name in x))
        if model.features is not None:
            self.names = [name for name in model.features if name in set(self.names)]
        self.outputs = [None] if model.task == "regression" else []

    def own(self, records: Sequence[int]) -> Array:
        return self._predict([self.records[i] for i in records], grows=True)

    def differing(self, record: int, other: int) -> NDArray[np.int64]:
        a, b = self.records[record], self.records[other]
        return np.array(
            [i for i, name in enumerate(self.names) if not _same(a.get(name, _ABSENT), b.get(name, _ABSENT))],
            np.int64,
        )

    def between(self, record: int, other: int, features: NDArray[np.int64], masks: _MASKS) -> Array:
        x, names = self.records[record], [self.names[i] for i in features]
        copies = []
        for mask in masks.tolist():
            copy = dict(self.records[other])
            for name, taken in zip(names, mask, strict=True):
                if taken and name in x:
                    copy[name] = x[name]
                elif taken:
                    copy.pop(name, None)
            copies.append(copy)
        return self._predict(copies)

    def _predict(self, records: Sequence[Row], grows: bool = False) -> Array:
        found: list[Any] = self.model.checked_predictions(records)
        if self.model.task == "regression":
            return np.array(found, np.float64).reshape(-1, 1)
        if grows:
            self.outputs = list(dict.fromkeys([*self.outputs, *(label for one in found for label in one)]))
        cells = [[one.get(label, 0.0) for label in self.outputs] for one in found]
        return np.array(cells, np.float64).reshape(len(found), -1)


def _same(a: Any, b: Any) -> bool:
    return bool(a is b or a == b or (a != a and b != b))


def _view(model: Model, records: Sequence[Row]) -> _View:
    if isinstance(model, Learner | TreeEnsemble) and model.family is not None:
        return _Rows(model, records)
    return _Records(model, records)
