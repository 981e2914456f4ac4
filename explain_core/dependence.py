"""Incremental partial dependence (iPDP; Muschalik, Fumagalli, Jagtani, Hammer & Hüllermeier, xAI 2023, arXiv 2306.07775): which way a feature moves predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from explain_core.engine.smoothing import BLOCK
from explain_core.figures import rough
from explain_core.losses import AnyTask, Prediction, kind_of
from explain_core.models import Row, wrap
from explain_core.reservoirs import GeometricReservoir, Reservoir, ReservoirState
from explain_core.smoothing import Array, Smoother, SmootherState
from explain_core.state import State, check, restore_part

ENDS = 0.05, 0.95
"""Quantiles of a feature's values between which its curve is."""
INSIDE, NARROWER = 0.7, 0.4
"""A curve begins anew where less than the first share of the values, of which it was made for nine in ten, lies between its ends, or where these quantiles are apart by
less than the second share of its width. Quantiles themselves err too much for that: those of 100 rows of a feature with heavy tails move by half of the width by chance."""
MOST = 100
"""Points of a curve."""


class CurveState(State, frozen=True):
    """The points of a feature, and the smoothed predictions at them."""

    grid: list[float]
    values: SmootherState


class DependenceState(State, frozen=True):
    """The rows that say where the features are, and the curves that have begun."""

    reservoir: ReservoirState | None
    curves: dict[str, CurveState]


class Curve(NamedTuple):
    """Mean prediction, over ``records``, with the feature at each of some points, and how the means err; NaN below two records.

    ``shares`` says where the feature's values are, of the rows of the reservoir that have a number: below the first point, from each point
    to below the next, and from the last point on.
    """

    feature: str
    points: list[float]
    values: list[float]
    std: list[float]
    records: int
    shares: Sequence[float] = ()

    @property
    def effect(self) -> float:
        """By how much the prediction is higher at the last point than at the first."""
        return self.values[-1] - self.values[0]

    def sentence(self, what: str = "the prediction") -> str:
        """Which way the feature moves it, in words.

        >>> Curve("hour", [6.0, 14.0, 22.0], [0.12, 0.2, 0.31], [0.0] * 3, 900).sentence("the predicted delay")
        'a higher hour raises the predicted delay from 0.12 to 0.31 (hour from 6 to 22)'
        >>> Curve("hour", [6.0, 14.0, 22.0], [0.1, 0.4, 0.12], [0.0] * 3, 900).sentence()
        'the prediction is highest, 0.4, where hour is 14, and lowest, 0.1, where it is 6'
        """
        low, high = min(self.values), max(self.values)
        if low == high:
            return f"{self.feature} does not move {what}"
        if abs(self.effect) >= 0.5 * (high - low):
            verb = "raises" if self.effect > 0.0 else "lowers"
            ends = f"{self.feature} from {rough(self.points[0])} to {rough(self.points[-1])}"
            return f"a higher {self.feature} {verb} {what} from {rough(self.values[0])} to {rough(self.values[-1])} ({ends})"
        top, bottom = self.points[self.values.index(high)], self.points[self.values.index(low)]
        return f"{what} is highest, {rough(high)}, where {self.feature} is {rough(top)}, and lowest, {rough(low)}, where it is {rough(bottom)}"


class IncrementalPDP:
    """The mean prediction as a function of a feature, the others being as they come; follows the stream, and needs no label.

    Each record is predicted with the feature at each point of a grid; the predictions at a point are smoothed as importances are. The grid is equidistant
    between the 5 % and the 95 % quantile of the rows of a reservoir. Where less than 70 % of these lie on it by now, or it has become too wide, the curve begins anew.
    Records in which the feature is missing or no number are left out of its curve. As every partial dependence it asks the model for combinations of features
    that may never come.

    Parameters
    ----------
    model
        Anything ``explain_core.models.wrap`` takes. It is read, never taught.
    features
        Whose curves are drawn; ``follow`` chooses others.
    task
        "classification" or "regression".
    label
        The class whose probability is followed; for a classification alone.
    points
        Of a curve, from 2 to 100.
    alpha
        Smoothing parameter in (0, 1]; None for a plain mean.
    reservoir
        The rows that say where features are: how many, or a reservoir that others fill. Curves begin once it is full.
    seed
        Of a reservoir of its own.

    Raises ``ValueError`` for arguments that do not fit.

    >>> from random import Random
    >>> rng = Random(1)
    >>> pdp = IncrementalPDP(lambda x: 2.0 * x["a"] - x["b"], ["a", "b"], task="regression", reservoir=50)
    >>> for _ in range(500):
    ...     pdp.explain_one({"a": rng.random(), "b": rng.random()})
    >>> [curve.effect > 0.0 for curve in pdp.curves]
    [True, False]
    """

    def __init__(
        self,
        model: Any,
        features: Sequence[str],
        *,
        task: AnyTask = "classification",
        label: Any = None,
        points: int = 10,
        alpha: float | None = 0.001,
        reservoir: Reservoir | int = 100,
        seed: int = 0,
    ) -> None:
        if len(set(features)) < len(features):
            raise ValueError(f"features: {list(features)} has one twice; take it out")
        if (label is None) == (kind_of(task) == "classification"):
            raise ValueError(
                f"label: {label!r} with task {task}; a classification names the class whose probability is followed"
            )
        if not 2 <= points <= MOST:
            raise ValueError(f"points: {points} is not between 2 and {MOST}; 10 is usual")
        self.model, self.features, self.label = wrap(model, task), tuple(features), label
        self._points, self._alpha = points, alpha
        self._own: GeometricReservoir | None = None
        self.reservoir: Reservoir
        if isinstance(reservoir, int):
            self.reservoir = self._own = GeometricReservoir(reservoir, seed)
        else:
            self.reservoir = reservoir
        self._grids: dict[str, Array] = {}
        self._smoothers: dict[str, Smoother] = {}

    def follow(self, features: Sequence[str]) -> None:
        """Draw the curves of these from now on; those of others end."""
        self.features = tuple(features)
        for name in [name for name in self._grids if name not in self.features]:
            del self._grids[name], self._smoothers[name]

    def explain_one(self, x: Row) -> None:
        """Take in a record. Raises ``ValueError`` for predictions that are not finite; then nothing has changed."""
        grids = {name: self._grid(name) for name in self.features if _number(x.get(name))}
        known = {name: grid for name, grid in grids.items() if grid is not None}
        copies = [{**x, name: value} for name, grid in known.items() for value in grid.tolist()]
        found = (
            [self._value(prediction) for prediction in self.model.checked_predictions(copies)]
            if copies
            else []
        )
        for place, (name, grid) in enumerate(known.items()):
            if self._grids.get(name) is not grid:
                self._grids[name], self._smoothers[name] = grid, Smoother((1, self._points), self._alpha)
            smoother = self._smoothers[name]
            smoother.update(np.array([found[place * self._points : (place + 1) * self._points]]))
            if smoother.n % BLOCK == 0:
                smoother.end_block()
        if self._own is not None:
            self._own.add(dict(x))

    def _grid(self, name: str) -> Array | None:
        """That of the curve, a new one where the feature has moved; None while too little is known of it."""
        old = self._grids.get(name)
        if old is not None and self._smoothers[name].n % BLOCK:
            return old
        rows = self.reservoir.rows
        values = _numbers(rows, name)
        if len(rows) < self.reservoir.size or len(values) < 2:
            return old
        low, high = np.quantile(values, ENDS).tolist()
        if old is not None:
            first, last = float(old[0]), float(old[-1])
            inside = sum(first <= value <= last for value in values) / len(values)
            if not low < high or (inside >= INSIDE and high - low >= NARROWER * (last - first)):
                return old
        grid = np.linspace(low, high, self._points)
        return grid if (np.diff(grid) > 0.0).all() else old  # a few numbers lie between them, or none

    def _value(self, prediction: Prediction) -> float:
        return (
            float(prediction.get(self.label, 0.0)) if isinstance(prediction, Mapping) else float(prediction)
        )

    @property
    def curves(self) -> list[Curve]:
        """The curve of each feature that has one, in the order of ``features``."""
        found, rows = [], self.reservoir.rows
        for name in self.begun:
            smoother, grid = self._smoothers[name], self._grids[name]
            cells = smoother.value[0].tolist(), smoother.std[0].tolist()
            found.append(Curve(name, grid.tolist(), *cells, smoother.n, _shares(_numbers(rows, name), grid)))
        return found

    @property
    def begun(self) -> list[str]:
        """The features that have a curve."""
        return [name for name in self.features if name in self._smoothers]

    def state(self) -> DependenceState:
        """What a snapshot holds, but for the model."""
        curves = {
            name: CurveState(self._grids[name].tolist(), self._smoothers[name].state())
            for name in self.begun  # whose order is that of the features
        }
        return DependenceState(None if self._own is None else self._own.state(), curves)

    def restore(self, state: DependenceState) -> None:
        """Take a stored state on, before the first record. Raises ``StateError`` where it is none of such features."""
        check(set(state.curves) <= set(self.features), "partial dependence: of other features")
        restore_part(self._own, state.reservoir, "partial dependence: with rows, or without")
        for name, stored in state.curves.items():
            grid = np.array(stored.grid, np.float64)
            check(
                len(grid) == self._points
                and bool(np.isfinite(grid).all())
                and bool((np.diff(grid) > 0.0).all()),
                "partial dependence: points that are none",
            )
            self._grids[name], self._smoothers[name] = grid, Smoother((1, self._points), self._alpha)
            self._smoothers[name].restore(stored.values, self._points)


def _numbers(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if _number(row.get(name))]


def _shares(values: list[float], grid: Array) -> list[float]:
    """The shares of the values below, between and from the points on; zeros where there is no value.

    >>> _shares([0.5, 1.0, 1.5, 9.0], np.array([1.0, 2.0]))
    [0.25, 0.5, 0.25]
    """
    counts = np.bincount(np.searchsorted(grid, values, side="right"), minlength=len(grid) + 1)
    return [count / max(len(values), 1) for count in counts.tolist()]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0
