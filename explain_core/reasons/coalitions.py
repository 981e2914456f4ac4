"""Reasons of any model's predictions, by its predictions for coalitions of features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.learners.base import Learner
from explain_core.models import Model, Row
from explain_core.random import Generator, derive_seed
from explain_core.reasons.result import Array, Method, Reasons
from explain_core.tables import transfer

_MASKS = NDArray[np.bool_]
_ABSENT: Any = object()


AT_ONCE = 2**16
"""Mixtures that are predicted at a time."""


class CoalitionReasons:
    """Exact where all coalitions of the features in which a record and the rows of the background differ take at most ``most`` predictions.

    Otherwise features join in random orders (Štrumbelj and Kononenko 2014), each of which is followed by its reverse (Mitchell et al. 2022), equally many for each row of
    the background, at least two pairs. A row whose coalitions are not more than these orders ask for is exact. The standard error is that of the means over the pairs;
    the values add up in any case.
    """

    def __init__(self, model: Model, background: Sequence[Row], most: int, seed: int) -> None:
        self.model, self.background, self.most = model, list(background), most
        self.seed = derive_seed(seed, "reasons")
        self._orders = _Orders(self.seed, len(background), 0)

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

    def _one(
        self, view: _Rows | _Records, record: int, own: Array, background: Array
    ) -> tuple[Array, Array, bool]:
        """Values and their standard errors, features × outputs, and whether they are sampled."""
        n = len(background)
        differing = view.differing(record, n)
        sizes = differing.sum(axis=1)
        exact = sum(1 << min(size, 62) for size in sizes.tolist()) <= self.most
        pairs = max(2, self.most // max(2 * int(sizes.sum()), 1))
        values = np.zeros((len(view.names), len(own)))
        left = []
        for slot, size in enumerate(sizes.tolist()):
            if not (exact or (size < 31 and 1 << size <= 2 * pairs * (size - 1) + 2)):
                left.append(slot)
            elif size > 0:
                coalitions = (np.arange(1 << size)[:, np.newaxis] >> np.arange(size)) & 1 == 1
                masks = np.zeros((1 << size, len(values)), np.bool_)
                masks[:, differing[slot]] = coalitions
                worth = view.between(record, np.full(1 << size, slot), masks)
                values[differing[slot]] += _shapley(worth, size)
        if not left:
            return values / n, np.zeros_like(values), False
        if self._orders.players != len(values):
            self._orders = _Orders(self.seed, n, len(values))
        orders = self._orders.first(pairs)[:, left].reshape(-1, len(values))
        slots, step = np.tile(left, pairs), max(AT_ONCE // (2 * len(values)), 1)
        found = np.concatenate(
            [
                _joining(view, record, own, background, differing, slots[part], orders[part])
                for part in (slice(first, first + step) for first in range(0, len(slots), step))
            ]
        ).reshape(pairs, len(left), *values.shape)
        values += found.mean(axis=0).sum(axis=0)
        variance = found.var(axis=0, ddof=1).sum(axis=0) / pairs
        return values / n, np.sqrt(variance) / n, True


class _Orders:
    """Random orders of so many players, drawn for each row of a background in turn; the first ones are always the same."""

    def __init__(self, seed: int, rows: int, players: int) -> None:
        self.players, self._rows = players, rows
        self._generator = Generator(seed)
        self._drawn = np.empty((0, rows, players), np.int64)

    def first(self, count: int) -> NDArray[np.int64]:
        """Orders × rows × players."""
        missing = count - len(self._drawn)
        if missing > 0:
            drawn = [self._generator.permutation(self.players) for _ in range(missing * self._rows)]
            self._drawn = np.concatenate(
                [self._drawn, np.array(drawn).reshape(missing, self._rows, self.players)]
            )
        return self._drawn[:count]


def _joining(
    view: _Rows | _Records,
    record: int,
    own: Array,
    background: Array,
    differing: _MASKS,
    slots: NDArray[np.int64],
    orders: NDArray[np.int64],
) -> Array:
    """What each feature adds when a record's features join those of a row of the background, the mean over an order and its reverse: orders × features × outputs."""
    orders, slots = np.concatenate([orders, orders[:, ::-1]]), np.concatenate([slots, slots])
    width = orders.shape[1]
    places, differs = np.argsort(orders, axis=1), differing[slots]
    joins = np.take_along_axis(differs, orders, axis=1)
    so_far = joins.cumsum(axis=1)
    whole = so_far == so_far[:, -1:]
    asked = joins & ~whole
    one, last = np.nonzero(asked)
    worth = np.empty((len(orders), 1 + width, len(own)))
    worth[:, 0], worth[:, 1:][whole] = background[slots], own
    worth[:, 1:][asked] = view.between(
        record, slots[one], (places[one] <= last[:, np.newaxis]) & differs[one]
    )
    known = np.concatenate([np.ones((len(orders), 1), np.bool_), asked | whole], axis=1)
    newest = np.maximum.accumulate(np.where(known, np.arange(1 + width), 0), axis=1)
    steps = np.diff(np.take_along_axis(worth, newest[:, :, np.newaxis], axis=1), axis=1)
    added = np.take_along_axis(steps, places[:, :, np.newaxis], axis=1)
    half = len(orders) // 2
    mean: Array = (added[:half] + added[half:]) / 2.0
    return mean


def _shapley(worth: Array, size: int) -> Array:
    """Shapley values of a game from the worth of each coalition, whose players are the bits of its number."""
    coalitions = np.arange(1 << size)
    members = np.array([int(one).bit_count() for one in coalitions])
    weights = np.array([1.0 / (size * comb(size - 1, k)) for k in range(size)])
    found = np.empty((size, worth.shape[1]))
    for player in range(size):
        without = coalitions[coalitions >> player & 1 == 0]
        gains = worth[without | 1 << player] - worth[without]
        found[player] = np.einsum("c,cn->n", weights[members[without]], gains)
    return found


# A view are records, and the predictions of their mixtures: of some features from one record and all others from another.


class _Rows:
    """The view of a model in arrays."""

    def __init__(self, model: Learner | TreeEnsemble, records: Sequence[Row]) -> None:
        self.model, self.rows = model, model.matrix(records)
        if isinstance(model, Learner):
            self.names, labels = list(model.columns.names), model.labels
        else:
            self.names, labels = list(model.features), model.classes
        self.outputs = list(labels) if model.task == "classification" else [None]

    def own(self, records: Sequence[int]) -> Array:
        return self._predict(self.rows[records])

    def differing(self, record: int, n: int) -> _MASKS:
        """In which features a record and each of the first n differ, records × features; what both lack is equal."""
        own, others = self.rows[record], self.rows[:n]
        found: _MASKS = (own != others) & ~(np.isnan(own) & np.isnan(others))
        return found

    def between(self, record: int, others: NDArray[np.int64], masks: _MASKS) -> Array:
        """Predictions, masks × outputs: where a mask is true the feature is the record's, else that of its other record."""
        return self._predict(np.where(masks, self.rows[record], self.rows[others]))

    def _predict(self, rows: Array) -> Array:
        return self.model.predict_codes(np.ascontiguousarray(rows))


class _Records:
    """The view of any model. A label that a prediction lacks has the probability 0."""

    def __init__(self, model: Model, records: Sequence[Row]) -> None:
        self.model, self.records = model, records
        self.names = list(dict.fromkeys(name for x in records for name in x))
        if model.features is not None:
            self.names = [name for name in model.features if name in set(self.names)]
        self.outputs = [None] if model.task == "regression" else []

    def own(self, records: Sequence[int]) -> Array:
        return self._predict([self.records[i] for i in records], grows=True)

    def differing(self, record: int, n: int) -> _MASKS:
        x = self.records[record]
        cells = [
            not _same(x.get(name, _ABSENT), other.get(name, _ABSENT))
            for other in self.records[:n]
            for name in self.names
        ]
        return np.array(cells, np.bool_).reshape(n, len(self.names))

    def between(self, record: int, others: NDArray[np.int64], masks: _MASKS) -> Array:
        x, names = self.records[record], self.names
        copies = []
        for other, mask in zip(others.tolist(), masks.tolist(), strict=True):
            copy = dict(self.records[other])
            transfer(compress(names, mask), x, copy)
            copies.append(copy)
        return self._predict(copies)

    def _predict(self, records: Sequence[Row], grows: bool = False) -> Array:
        found: list[Any] = self.model.checked_predictions(records)
        if self.model.task == "regression":
            return np.array(found, np.float64).reshape(-1, 1)
        if grows:
            self.outputs = list(dict.fromkeys([*self.outputs, *(label for one in found for label in one)]))
        cells = [[one.get(label, 0.0) for label in self.outputs] for one in found]
        return np.array(cells, np.float64).reshape(len(found), len(self.outputs))


def _same(a: Any, b: Any) -> bool:
    return bool(a is b or a == b or (a != a and b != b))


def _view(model: Model, records: Sequence[Row]) -> _Rows | _Records:
    if isinstance(model, Learner | TreeEnsemble) and model.family is not None:
        return _Rows(model, records)
    return _Records(model, records)
